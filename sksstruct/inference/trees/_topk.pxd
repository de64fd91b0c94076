cimport cython
from libc.stdint cimport int32_t


cdef struct Link

# Add to out[a - first] what state a of a variable, first <= a < stop, scores together
# with a state of its parent.
ctypedef void (*AddPairs)(const Link* link, Py_ssize_t state_of_parent,
                          Py_ssize_t first, Py_ssize_t stop,
                          double* out) noexcept nogil


cdef struct Link:
    # A variable and the edge to its parent. Variables are numbered by their place in an
    # order of `Tree`: the root of roots is at 0, and siblings follow each other.
    int32_t variable, parent, n_states
    # scores of the best labelings of the subtrees below its states
    const double* best
    # and of the states of the parent, with the subtrees of the siblings after it only
    const double* without
    AddPairs add_pairs
    # what that reads: the pair of states a and b at step * a + parent_step * b
    const double* table
    Py_ssize_t step, parent_step
    # Written by `find`: the first child, or 0; and the key of the parent's first state.
    int32_t child
    Py_ssize_t first_key


cdef struct Slot:
    # Lists of a place and a state of its parent, as far as they are known: the sums,
    # and the entries of the message. Their arrays, `Arrays`, are in the pool.
    Py_ssize_t first, first_head
    int32_t capacity, n_sums, n_messages, n_rows
    bint no_more_sums, no_more_messages


cdef struct Arrays:
    # of each sum, in descending order: its score, row and column
    double* total
    int32_t* row
    int32_t* column
    # of each row that was begun: its next sum; and a heap of these rows
    double* row_total
    int32_t* row_column
    int32_t* rows
    # of each entry of the message: its score, the state and the rank in its list
    double* message
    int32_t* state
    int32_t* rank
    # of each state: score and rank of the next entry of its list
    double* head
    int32_t* head_rank


# final: its methods are called directly, which the short ones notice
@cython.final
cdef class SubtreeLists:
    # Scratch of one thread; grows to what is needed.
    cdef Link* links            # (n_variables + 1,), filled in by the caller
    cdef Py_ssize_t n_variables
    cdef Py_ssize_t _link_capacity, _key_capacity, _slot_capacity, _pool_capacity
    # (n_variables + 1,) each: the places that are asked for one more sum, and the state
    # of the parent at each; labels, and ranks of the lists they are from
    cdef int32_t* _asked
    cdef int32_t* _state
    cdef int32_t* _label
    cdef int32_t* _rank
    # of each key, a place and a state of its parent: the slot; -1, or -2 less the best
    # state if it has none
    cdef int32_t* _slot_of
    cdef Slot* _slots
    cdef double* _pool
    cdef Py_ssize_t _n_slots, _n_pool

    cdef int begin(self, Py_ssize_t n_variables) except -1 nogil
    cdef Py_ssize_t find(self, Py_ssize_t k) except -1 nogil
    cdef double score(self, Py_ssize_t rank) noexcept nogil
    cdef void read(self, Py_ssize_t rank, int32_t* labels) noexcept nogil

    cdef int _number_keys(self) except -1 nogil
    cdef Py_ssize_t _take(self, Py_ssize_t count) except -1 nogil
    cdef Arrays _arrays(self, Py_ssize_t place, const Slot* slot) noexcept nogil
    cdef Slot* _slot(self, Py_ssize_t place, Py_ssize_t state) noexcept nogil
    cdef bint _has_sibling(self, Py_ssize_t place) noexcept nogil
    cdef int _open(self, Py_ssize_t place, Py_ssize_t state) except -1 nogil
    cdef int _grow(self, Py_ssize_t place, Slot* slot) except -1 nogil
    cdef bint _next(self) except -1 nogil
    cdef Py_ssize_t _ask_operands(self, Py_ssize_t place,
                                  Py_ssize_t n_asked) except -1 nogil
    cdef Py_ssize_t _ask(self, Py_ssize_t place, Py_ssize_t state, Py_ssize_t rank,
                         Py_ssize_t n_asked) except -1 nogil
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
