cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.trees._tree cimport Tree


cdef struct Sweep:
    # Messages and beliefs of the two passes; `Forest._row` finds the row of a variable.
    bint sums               # whether messages are log-sum-exp, or else maxima
    double* up              # rows: own scores plus the messages of children
    double* belief  # rows: own scores plus the parent's message; at last, all messages
    double* messages        # message of each variable to its parent
    const Py_ssize_t* first_message     # offset of each variable in `messages`
    double* scratch         # rows of one parent: see `_send_down`
    double* pair_scores  # scores of each child's pairs (states, states of its parent)
    # offset of each child in `pair_scores`, -1 for pairs that are not scored
    const Py_ssize_t* first_pair


# final: short methods are called directly, without a virtual table
@cython.final
cdef class Forest(Tree):
    # Variables are numbered in the order of messages, the root of roots first, so that
    # rows visited in sequence are adjacent in memory.
    cdef readonly Py_ssize_t table_entries
    # arrays whose memory the pointers below refer to
    cdef tuple _rows
    cdef object _starts, _packed
    cdef int32_t* _size         # number of states of each variable
    cdef int32_t* _ld           # length of each variable's row in `_theta`
    cdef Py_ssize_t* _first     # offset of each variable's row in `_theta`
    cdef double* _theta
    cdef double* _tables
    # offset in `_tables` of the table from each variable to its parent
    cdef Py_ssize_t* _up
    # offset of the transposed table, for messages from the parent
    cdef Py_ssize_t* _down

    cdef double* _row(self, double* values, Py_ssize_t variable) noexcept nogil
    cdef void _maximize_up(self, double* delta) noexcept nogil
    cdef void _read_down(self, double* delta, int32_t* by_place,
                         int32_t* labels) noexcept nogil
    cdef void _send(self, bint sums, Py_ssize_t source, Py_ssize_t target,
                    const double* values, Py_ssize_t table, double* out) noexcept nogil
    cdef void _send_up(self, Sweep* sweep) noexcept nogil
    cdef void _send_down(self, Sweep* sweep, Py_ssize_t parent) noexcept nogil
    cdef void _score_pairs(self, Sweep* sweep, Py_ssize_t child,
                           const double* cavity) noexcept nogil
