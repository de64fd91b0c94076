from libc.stdint cimport int32_t

from sksstruct.inference.cuts._maxflow cimport FlowArc, FlowTrees


cdef struct CorePair:
    # Two labels of the core, by their places in the core, and the score v' that
    # flipping both adds to the scores of flipping each; see `_reduced_roof.pyx`.
    int32_t first, second
    double score


cdef struct PairLists:
    # The pairs of label j are at places first_partner[j] to first_partner[j + 1] - 1 of
    # the arrays of partners, numbers of pairs, and scores.
    Py_ssize_t n_labels, n_pairs
    const Py_ssize_t* first_partner
    const int32_t* partner
    const int32_t* partner_pair
    double* score
    # sums of the positive pair scores of each label, and of the absolute values of its
    # negative pair scores
    double* attraction
    double* repulsion


cdef class LabelPairs:
    cdef readonly Py_ssize_t n_labels, n_pairs
    cdef readonly object pairs
    # pointers into the arrays of `_owned`
    cdef PairLists lists
    cdef object _owned
    # (n_pairs, 2) places of each pair in the lists of its first and its second label
    cdef const int32_t* places

    cdef void load(self, const double* pair_scores) noexcept nogil
    cdef void add_up(self) noexcept nogil
    cdef void put(self, Py_ssize_t pair, double score) noexcept nogil
    cdef void enumerate(self, const double* unary, const double* pair,
                        double* fields, int32_t* states) noexcept nogil


cdef class ReducedRoofDual(FlowTrees):
    cdef readonly LabelPairs graph
    # sum of the numbers of core labels in the calls that computed a minimum cut
    cdef readonly long long n_cut
    # sums of a label's scores with labels that are on: of positive scores, and of the
    # absolute values of negative scores
    cdef double* _up
    cdef double* _down
    # cost b_j of flipping a label alone, and sum of its positive v', see `CorePair`,
    # with core labels
    cdef double* _budget
    cdef double* _gains
    # place of each label in the core, or -1, and labels of the core
    cdef int32_t* _place
    cdef int32_t* _core
    # for each core label, its flip (0, 1 for one half, 2) in `_cut_core`, and its new
    # place in the core, or -1, in `_cut_attracting`
    cdef int32_t* _flip
    # the place of the next arc that `_join` adds at each node
    cdef int32_t* _next
    cdef Py_ssize_t _n_core, _n_core_pairs, _core_capacity
    cdef CorePair* _core_pairs
    # memory of `_residual` and `_arcs`; all other pointers refer to `_arrays`
    cdef double* _own_residual
    cdef FlowArc* _own_arcs
    cdef Py_ssize_t _residual_capacity, _arc_capacity
    cdef object _arrays

    cdef int relax(self, const double* unary, int32_t* states) except -1 nogil
    cdef double value(self, const double* unary, const int32_t* states) noexcept nogil
    cdef void _flip_singly(self, const double* unary, int32_t* states) noexcept nogil
    cdef void _update_partners(self, Py_ssize_t label, double sign) noexcept nogil
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
    cdef int _reserve_arcs(self, Py_ssize_t n_arcs) except -1 nogil


cdef inline int32_t together(int32_t first, int32_t second,
                             double score) noexcept nogil:
    """Twice the best s_e of a pair e, see `_reduced_roof.pyx`, with two given states.

    The best s_e is the largest if the score is positive, otherwise the least.
    """
    if score > 0.0:
        return first if first < second else second
    return first + second - 2 if first + second > 2 else 0
