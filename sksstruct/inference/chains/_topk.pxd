cimport cython
from libc.stdint cimport int32_t


cdef struct Prefix:
    double score
    int32_t previous    # last label but one
    # rank of the prefix without its last label, among the prefixes that end in
    # `previous`
    int32_t rank


# final: short methods are called directly, without a virtual table
@cython.final
cdef class TopK:
    # Workspace of one thread, which grows with the longest chain.
    #
    # The chain that is decoded; see `decode`.
    cdef Py_ssize_t _size, _n, _ld
    cdef const double* _theta
    cdef const double* _delta
    cdef const double* _table
    cdef Py_ssize_t _table_step
    # A node is a label at a position, number position * n + label. Position `size` is
    # the end of the chain, with label 0.
    cdef Py_ssize_t _node_capacity
    cdef int32_t* _slot             # slot of each node whose list was begun, or -1
    # previous label in the best prefix that ends in each node; -1: not yet computed
    cdef int32_t* _best
    cdef int32_t* _path             # (size + 1,) labels on the path of `_go_back`
    # The list of a node has the prefixes found so far that end in the node. Once the
    # list is begun, the node has a slot: an index in the arrays below. They are
    # separate arrays, as `_read` needs `_list_first` only.
    cdef Py_ssize_t _n_slots, _slot_capacity, _row_capacity
    cdef Py_ssize_t* _list_first  # (slots,) index of a list's first prefix in the pool
    cdef int32_t* _list_count       # (slots,) number of prefixes in a list
    # (slots,) number of prefixes for which a list has memory; 0: the list is complete
    cdef int32_t* _list_capacity
    # (slots, ld) score of the next prefix through each predecessor, and its rank at the
    # predecessor
    cdef double* _next_score
    cdef int32_t* _next_rank     # (slots, ld)
    # Pool: the prefixes of all lists.
    cdef Py_ssize_t _n_prefixes, _pool_capacity
    cdef Prefix* _pool

    cdef int _reserve_nodes(self) except -1 nogil
    cdef int _reserve_slots(self, Py_ssize_t n_slots) except -1 nogil
    cdef Py_ssize_t _reserve_prefixes(self, Py_ssize_t count) except -1 nogil
    cdef const double* _column(self, Py_ssize_t t, Py_ssize_t label) noexcept nogil
    cdef Py_ssize_t _first(self, Py_ssize_t t, Py_ssize_t label) noexcept nogil
    cdef Py_ssize_t _begin(self, Py_ssize_t t, Py_ssize_t label) except -1 nogil
    cdef int _append(self, Py_ssize_t slot, double score, Py_ssize_t previous,
                     int32_t rank) except -1 nogil
    cdef Py_ssize_t _go_back(self, double* score) except -1 nogil
    cdef int _advance(self, Py_ssize_t t, double* score) except -1 nogil
    cdef bint _next(self) except -1 nogil
    cdef void _read(self, Py_ssize_t rank, int32_t* labeling) noexcept nogil
    cdef Py_ssize_t decode(
        self, Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
        double* delta, const double* table, Py_ssize_t table_step, Py_ssize_t k,
        double* scores, int32_t* labelings) except -1 nogil
