from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._factors cimport BinaryFactorModel
from sksstruct.solvers.dual_decomposition._pair_step cimport PairPoint
from sksstruct.solvers.dual_decomposition._residuals cimport Residuals


cdef enum:
    # labels in a SIMD vector: kernels write scores by whole vectors, and parts of
    # labels are multiples of a vector
    VECTOR = 8


cdef struct ActivePair:
    int32_t pair
    # a, b, s
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
    # sum over the steps of labels in the last pass of (change of q_j)^2 times the
    # number of active pairs of the label
    cdef double _square_moved

    # arrays over all examples
    cdef ActivePairs* _active_pairs
    cdef double* _probabilities
    cdef unsigned char* _have_moved
    # the NumPy arrays behind the pointers, which this reference keeps alive
    cdef tuple _arrays

    # the example that is visited: number, C_i; for each label q, whether the label has
    # moved, whether the label is observed; the active pairs
    cdef Py_ssize_t _example
    cdef double _C
    cdef double* _q
    cdef unsigned char* _moved
    cdef const unsigned char* _y_true
    cdef ActivePairs* _active

    # for each label of this example: the score; the sum of the gains that inactive
    # pairs imply; the sum over active pairs of lambda + 2 rho a; the number of pairs
    # tied to the label; the number of active pairs. `_movers` lists the labels that had
    # moved when the visit began.
    cdef double* _score
    cdef double* _inactive_gain
    cdef double* _message_sum
    cdef int32_t* _n_tied
    cdef int32_t* _n_active_pairs
    cdef int32_t* _movers
    cdef Py_ssize_t _n_movers

    # for each pair, the last example visited in which the pair was active: a mark that
    # needs no reset between examples
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
    """Whether a pair is active in the example."""
    return state._active_in[pair] == state._example


cdef inline double label_gain(BinaryBlocks state, Py_ssize_t label) noexcept nogil:
    """Return the gain of a label: the derivative along q_j, at fixed weights."""
    cdef double loss = -1.0 if state._y_true[label] else 1.0
    return (state._score[label] + loss + state._inactive_gain[label]
            + state._message_sum[label]
            - 2.0 * state.rho * state._n_active_pairs[label] * state._q[label])


cdef inline void change_weight(BinaryBlocks state, int32_t pair,
                               double change) noexcept nogil:
    """Change the weight of a pair after a change of its s (10)."""
    state.model._pair_weights[pair] -= state._C * state.model.scaling * change
