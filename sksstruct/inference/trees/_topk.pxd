cimport cython
from libc.stdint cimport int32_t


cdef struct Link

# Add to out[a - first] the score of state a, first <= a < stop, of a variable together
# with a state of its parent.
ctypedef void (*AddPairs)(const Link* link, Py_ssize_t state_of_parent,
                          Py_ssize_t first, Py_ssize_t stop,
                          double* out) noexcept nogil


cdef struct Link:
    # A variable and the edge to its parent. Variables are numbered by their place in
    # the order of `Tree`: the root of roots is at 0, and siblings are consecutive.
    int32_t variable, parent, n_states
    # for each state, the best score of the subtree below the state
    const double* best
    # for each state of the parent, its score plus the messages of the variable's later
    # siblings only
    const double* without
    AddPairs add_pairs
    # argument of add_pairs: states a and b score table[step * a + parent_step * b]
    const double* table
    Py_ssize_t step, parent_step
    # Set by `find`: `child`, the place of the first child, or 0; and `first_key`, the
    # key of this place with the parent's state 0.
    int32_t child
    Py_ssize_t first_key


cdef struct Slot:
    # For a variable, by its place, and a state of its parent: the entries of the
    # message that were found so far, and the sums. A sum is an entry of the message
    # plus an entry of the parent's list without this child. Their arrays, see `Arrays`,
    # are in the pool.
    Py_ssize_t first, first_head
    int32_t capacity, n_sums, n_messages, n_rows
    bint no_more_sums, no_more_messages


cdef struct Arrays:
    # of each sum, in descending order: its score; its entry of the parent's list (row),
    # and its entry of the message (column)
    double* total
    int32_t* row
    int32_t* column
    # of each row of sums: score and column of its next sum; and a heap of the rows
    double* row_total
    int32_t* row_column
    int32_t* rows
    # of each entry of the message: score, state, and rank in the state's list
    double* message
    int32_t* state
    int32_t* rank
    # of each state: score and rank of the next entry of its list
    double* head
    int32_t* head_rank


# final: short methods are called directly, without a virtual table
@cython.final
cdef class SubtreeLists:
    # Workspace of one thread, which grows with the largest forest.
    cdef Link* links  # (n_variables + 1,) links by place, filled in by the caller
    cdef Py_ssize_t n_variables
    cdef Py_ssize_t _link_capacity, _key_capacity, _slot_capacity, _pool_capacity
    # (n_variables + 1,) each: `_places` that need one more sum; and by place: state of
    # the parent for which a sum is needed, label, and rank in the list from which the
    # label is read
    cdef int32_t* _places
    cdef int32_t* _state
    cdef int32_t* _label
    cdef int32_t* _rank
    # slot of each key, a pair of a place and a state of its parent; without a slot -1,
    # or -2 minus the best state
    cdef int32_t* _slot_of
    cdef Slot* _slots
    cdef double* _pool
    cdef Py_ssize_t _n_slots, _n_pool

    cdef int begin(self, Py_ssize_t n_variables) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil
    cdef double score(self, Py_ssize_t rank) noexcept nogil
    cdef void read(self, Py_ssize_t rank, int32_t* labels) noexcept nogil

    cdef int _number_keys(self) except -1 nogil
    cdef Py_ssize_t _reserve_pool(self, Py_ssize_t count) except -1 nogil
    cdef Arrays _arrays(self, Py_ssize_t place, const Slot* slot) noexcept nogil
    cdef Slot* _slot(self, Py_ssize_t place, Py_ssize_t state) noexcept nogil
    cdef bint _has_sibling(self, Py_ssize_t place) noexcept nogil
    cdef int _begin_lists(self, Py_ssize_t place, Py_ssize_t state) except -1 nogil
    cdef int _grow(self, Py_ssize_t place, Slot* slot) except -1 nogil
    cdef bint _next(self) except -1 nogil
    cdef Py_ssize_t _request_operands(self, Py_ssize_t place,
                                      Py_ssize_t n_places) except -1 nogil
    cdef Py_ssize_t _request(self, Py_ssize_t place, Py_ssize_t state, Py_ssize_t rank,
                             Py_ssize_t n_places) except -1 nogil
    cdef int _extend(self, Py_ssize_t place) except -1 nogil
    cdef void _extend_message(self, Py_ssize_t place, Slot* slot,
                              Arrays* lists) noexcept nogil
    cdef Py_ssize_t _best_state(self, Py_ssize_t place,
                                Py_ssize_t state) noexcept nogil


cdef void pairs_of_table(const Link* link, Py_ssize_t state_of_parent,
                         Py_ssize_t first, Py_ssize_t stop, double* out) noexcept nogil
cdef void no_pairs(const Link* link, Py_ssize_t state_of_parent, Py_ssize_t first,
                   Py_ssize_t stop, double* out) noexcept nogil
cdef Py_ssize_t first_best(Py_ssize_t n, const double* row) noexcept nogil
