cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.trees._tree cimport Tree


cdef struct Sweep:
    # State of the two passes; rows are found by `Forest._row`.
    bint sums               # messages are log-sum-exp; otherwise maxima
    double* up              # rows: own scores and the messages of the children
    double* belief          # rows: own scores and that of the parent, in the end all
    double* messages        # of each variable to its parent
    const Py_ssize_t* first_message
    double* scratch         # rows of one parent: see `_send_down`
    double* pair_scores     # of each child (states, states of its parent)
    const Py_ssize_t* first_pair    # -1 for pairs nobody asked for


# final: its methods are called directly, which the short ones notice
@cython.final
cdef class Forest(Tree):
    # Variables are numbered by their place in the order from here on, the root of roots
    # first: what is visited one after the other lies so in memory.
    cdef readonly Py_ssize_t table_entries
    # what the pointers point into
    cdef tuple _rows
    cdef object _starts, _packed
    cdef int32_t* _size         # states of each variable
    cdef int32_t* _ld           # and the length of its row
    cdef Py_ssize_t* _first     # where its row begins in _theta
    cdef double* _theta
    cdef double* _tables
    cdef Py_ssize_t* _up        # table of each variable to its parent in _tables
    cdef Py_ssize_t* _down      # and the same turned, for messages from the parent

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
