from libc.stdint cimport int32_t


cdef struct Part:
    # The best score; that of the second best labeling, or a bound of it, which has the
    # state `next_state` at `next_variable`. A part is stale if its max-marginals come
    # from a larger part and are only upper bounds.
    double score, next_score
    Py_ssize_t next_variable, next_state
    bint stale


cdef class BestFirst:
    # Scratch of one thread; grows to what is needed.
    cdef Py_ssize_t n_variables, n_entries
    # (n_variables + 1,) and (n_entries,), filled in by the caller
    cdef Py_ssize_t* first
    cdef double* scores
    # (n_entries,) scores where some entries are forbidden
    cdef double* _constrained
    # Of each part: max-marginals, whether entries are allowed, the best labeling.
    cdef Py_ssize_t n_parts
    cdef Part* _parts
    cdef double* _tables
    cdef unsigned char* _allowed
    cdef int32_t* _labelings
    cdef Py_ssize_t _variable_capacity, _entry_capacity, _part_capacity
    cdef Py_ssize_t _table_capacity, _allowed_capacity, _label_capacity

    cdef int begin(self, Py_ssize_t n_variables, Py_ssize_t n_entries) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil
    cdef double score(self, Py_ssize_t rank) noexcept nogil
    cdef const int32_t* labeling(self, Py_ssize_t rank) noexcept nogil

    # what subclasses override; -inf in the scores forbids an entry
    cdef int max_marginals(self, const double* scores, double* table) except -1 nogil
    cdef double max_product(self, const double* scores,
                            int32_t* labeling) except? -1 nogil
    cdef bint start(self, Py_ssize_t part, Py_ssize_t larger) except -1 nogil

    cdef int _reserve_part(self, Py_ssize_t part) except -1 nogil
    cdef const double* _constrain(self, const unsigned char* allowed) noexcept nogil
    cdef void _narrow(self, unsigned char* allowed, Py_ssize_t variable,
                      Py_ssize_t state) noexcept nogil
    cdef void _find_next(self, Py_ssize_t part) noexcept nogil
    cdef bint _split(self, Py_ssize_t part) except -1 nogil
