cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._triples cimport LabelTriples


cdef struct Prefix:
    double score
    Py_ssize_t previous     # where the prefix without its last label is
    int32_t label           # the last label


cdef struct State:
    # prefixes that end in the same two labels, the best first
    Py_ssize_t first
    Py_ssize_t count
    int32_t row             # of the triples that begin with these labels, or -1


# final: its methods are called directly
@cython.final
cdef class SecondOrder:
    # Scratch of one thread; grows to what is needed.
    cdef LabelTriples _triples
    cdef Py_ssize_t _n, _ld
    # the chain that is decoded
    cdef Py_ssize_t _size, _k
    cdef const double* _theta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    cdef const double* _weights
    # the most that a labeling scores from a label on
    cdef double* _ahead             # (size, ld)
    cdef Py_ssize_t _ahead_capacity
    cdef object _arrays
    cdef double* _gain              # (n, ld) c * ld + b: the most that a triple adds
    cdef double* _turned            # (n, ld) transposed transitions
    cdef double* _row               # (ld,)
    # labelings below the threshold may be left out; whether some were
    cdef double _threshold
    cdef bint _pruned
    # how much worse than the first labeling the last one may be, at first
    cdef double _gap
    # states of one position after the other, by label, and then by the label before
    cdef State* _states
    cdef Py_ssize_t _n_states, _state_capacity
    # where those of each label begin: at the last position, and at the one before it
    cdef int32_t* _begin            # (n + 1,)
    cdef int32_t* _before           # (n + 1,)
    # labels at the position before that have states, and their best prefix
    cdef int32_t* _alive            # (n,)
    cdef Py_ssize_t _n_alive
    cdef double* _top               # (ld,)
    cdef Prefix* _prefixes
    cdef Py_ssize_t _n_prefixes, _prefix_capacity

    cdef Py_ssize_t decode(
        self, Py_ssize_t size, const double* theta, const double* table,
        Py_ssize_t table_step, const double* weights, Py_ssize_t k, double* scores,
        int32_t* labelings) except -1 nogil
    cdef double _look_ahead(self) except? -1 nogil
    cdef double _guess(self) noexcept nogil
    cdef int _begin_states(self) except -1 nogil
    cdef int _extend(self, Py_ssize_t t) except -1 nogil
    cdef bint _is_out(self, double bound) noexcept nogil
    cdef int _add_state(self, Py_ssize_t t, Py_ssize_t b, Py_ssize_t c) except -1 nogil
    cdef Py_ssize_t _collect(self, Py_ssize_t b, Py_ssize_t c,
                             Py_ssize_t label) noexcept nogil
    cdef Py_ssize_t _finish(self, double* scores, int32_t* labelings) except -1 nogil
