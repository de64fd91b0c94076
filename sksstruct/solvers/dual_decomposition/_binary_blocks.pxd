from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._factors cimport BinaryFactorModel
from sksstruct.solvers.dual_decomposition._pair_step cimport PairPoint
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals


cdef enum:
    # number of labels in a SIMD vector: kernels write scores by whole vectors, and the
    # number of labels in a part is a multiple of it
    VECTOR = 8


cdef struct ActivePair:
    # number of the pair in the model
    int32_t pair
    # probabilities a, b and s of the pair
    PairPoint point
    # multipliers lambda of the pair's first and second label
    double first, second


cdef struct ActivePairs:
    Py_ssize_t size, capacity
    ActivePair* items


cdef class BinaryBlocks:
    cdef readonly BinaryFactorModel model
    cdef readonly double alpha, infeasibility, primal_residual, dual_residual
    cdef public double rho, ignore
    cdef readonly double block_gap
    cdef readonly int64_t calls, n_active
    # sum of n_j (change of q_j)^2 over all steps of labels j in the last pass, where
    # n_j is the number of active pairs of the label
    cdef double _square_moved

    # (n_examples,): active pairs of each example; (n_examples, n_labels): q_j, and
    # whether label j has moved, in each example
    cdef ActivePairs* _active_pairs
    cdef double* _probabilities
    cdef unsigned char* _have_moved
    # the NumPy arrays behind the pointers, which this reference keeps alive
    cdef tuple _arrays

    # number and C_i of the visited example
    cdef Py_ssize_t _example
    cdef double _C
    # for each label of the visited example: q_j, whether the label has moved, and the
    # observed value y_j
    cdef double* _q
    cdef unsigned char* _moved
    cdef const unsigned char* _y_true
    # active pairs of the visited example
    cdef ActivePairs* _active

    # for each label of the visited example: its score, the sum of the gains that its
    # inactive pairs imply, and the sum of lambda + 2 rho a over its active pairs
    cdef double* _score
    cdef double* _inactive_gain
    cdef double* _message_sum
    # for each label of the visited example: number of pairs tied to the label, and
    # number of its active pairs
    cdef int32_t* _n_tied
    cdef int32_t* _n_active_pairs
    # list of the labels that had moved when the visit began
    cdef int32_t* _movers
    cdef Py_ssize_t _n_movers

    # for each pair, the number of the last visited example in which the pair was
    # active: a mark that needs no reset between examples
    cdef int32_t* _active_in

    cdef void _begin_example(self, Py_ssize_t i) noexcept nogil
    cdef int _step_labels_alone(self) except -1 nogil
    cdef int _gather_gains(self, Py_ssize_t low, Py_ssize_t high) except -1 nogil
    cdef void _gather_inactive(self, Py_ssize_t label) noexcept nogil
    cdef int _append_active(self, int32_t pair, double both, double first,
                            double second) except -1 nogil
    cdef int _activate(self, int32_t pair, double first, double second) except -1 nogil
    cdef int _activate_pairs_of(self, Py_ssize_t label) except -1 nogil
    cdef int _activate_both_moved(self, int32_t pair, Py_ssize_t label,
                                  Py_ssize_t neighbor) except -1 nogil
    cdef int _step_label(self, Py_ssize_t label) except -1 nogil
    cdef void _move_tied(self, Py_ssize_t label, double change) noexcept nogil
    cdef void _step_pair(self, ActivePair* item) noexcept nogil
    cdef void _move_multipliers(self, double eta, Residuals* sums) noexcept nogil
    cdef void _add_changes(self, double* changes) noexcept nogil


cdef inline bint is_active(BinaryBlocks state, int32_t pair) noexcept nogil:
    """Return whether a pair is active in the visited example."""
    return state._active_in[pair] == state._example


cdef inline double label_gain(BinaryBlocks state, Py_ssize_t label) noexcept nogil:
    """Return the gain of a label: minus the derivative of (12) along q_j, over p_i."""
    cdef double loss = -1.0 if state._y_true[label] else 1.0
    return (state._score[label] + loss + state._inactive_gain[label]
            + state._message_sum[label]
            - 2.0 * state.rho * state._n_active_pairs[label] * state._q[label])


cdef inline void change_weight(BinaryBlocks state, int32_t pair,
                               double change) noexcept nogil:
    """Change the weight of a pair after a change of its s (10)."""
    state.model._pair_weights[pair] -= state._C * state.model.scaling * change
