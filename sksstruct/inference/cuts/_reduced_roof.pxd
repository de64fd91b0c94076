from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowArc, FlowTrees


cdef struct CorePair:
    # two labels of the core, by their places, and what flipping both adds to what
    # flipping each does
    int32_t first, second
    double score


cdef struct PairLists:
    # The pairs of label j, its partners in them and their scores are at the places
    # first_partner[j] to first_partner[j + 1] - 1.
    Py_ssize_t n_labels, n_pairs
    const Py_ssize_t* first_partner
    const int32_t* partner
    const int32_t* partner_pair
    double* score
    # sums of a label's positive scores, and of the negative ones, without their sign
    double* attraction
    double* repulsion


cdef class LabelPairs:
    cdef readonly Py_ssize_t n_labels, n_pairs
    cdef readonly object pairs
    # pointers into arrays that are kept here
    cdef PairLists lists
    cdef object _owned
    # the two places of every pair
    cdef const int32_t* places

    cdef void load(self, const double* pair_scores) noexcept nogil
    cdef void add_up(self) noexcept nogil
    cdef void put(self, Py_ssize_t pair, double score) noexcept nogil
    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil


cdef class ReducedRoofDual(FlowTrees):
    cdef readonly LabelPairs graph
    # labels that were left for a minimum cut, over all calls
    cdef readonly long long n_cut
    # what labels that are on make each label gain by positive scores, and lose
    cdef double* _up
    cdef double* _down
    # what a label loses by flipping, and the most that it gains with others
    cdef double* _budget
    cdef double* _most
    # the place of each label in the core, or -1, and the labels of the core
    cdef int32_t* _place
    cdef int32_t* _core
    # states of the flips of the core, and the next free arc of each node
    cdef int32_t* _flip
    cdef int32_t* _next
    cdef Py_ssize_t _n_core, _n_core_pairs, _core_capacity
    cdef CorePair* _core_pairs
    # what `_residual` and `_arcs` point to; the other pointers point into `_arrays`
    cdef double* _own_residual
    cdef FlowArc* _own_arcs
    cdef Py_ssize_t _residual_capacity, _arc_capacity
    cdef object _arrays

    cdef int relax(self, const double* unary, int32_t* states) except -1 nogil
    cdef double value(self, const double* unary, const int32_t* states) noexcept nogil
    cdef void _climb(self, const double* unary, int32_t* states) noexcept nogil
    cdef void _spread(self, Py_ssize_t label, double sign) noexcept nogil
    cdef void _find_core(self, const double* unary,
                         const int32_t* states) noexcept nogil
    cdef int _shrink_core(self, const int32_t* states) except -1 nogil
    cdef int _list_pairs(self, const int32_t* states) except -1 nogil
    cdef int _cut_attracting(self) except -1 nogil
    cdef int _cut_core(self, int32_t* states) except -1 nogil
    cdef bint _flips_gain(self) noexcept nogil
    cdef int _form_graph(self, bint doubled) except -1 nogil
    cdef void _join(self, Py_ssize_t tail, Py_ssize_t head,
                    double capacity) noexcept nogil
    cdef int _make_room(self, Py_ssize_t n_arcs) except -1 nogil


cdef inline int32_t together(int32_t first, int32_t second,
                             double score) noexcept nogil:
    """s of a pair in halves: the most where it attracts, else the least."""
    if score > 0.0:
        return first if first < second else second
    return first + second - 2 if first + second > 2 else 0
