# The active outcomes of factors, in lists that grow; `_state.pyx` states the notation.

from libc.stdint cimport int32_t

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.utils._arena cimport Arena


cdef struct ActiveLabels:
    # The active labels of a variable v, that is, the labels that may have q_v > 0. The
    # observed label is first, and no label is removed.
    int32_t size, capacity
    # number of pairs and cliques of the variable
    int32_t degree
    # each active label, and its probability q_v
    int32_t* label
    double* q
    # for each active label, the sum of M_vf q_f + u_vf over the variable's pairs and
    # cliques f
    double* total
    # for each active label, its last computed score without loss and messages; NAN
    # before the first computation
    double* score


cdef struct PairEnd:
    # the end of a pair f at one of its two variables v, with the active labels of v
    ActiveLabels* labels
    # for each active outcome of the pair, the place of its label in `labels`
    int32_t* place
    # for each place in `labels` below `capacity`, the marginal M_vf q_f and the scaled
    # multiplier u_vf of the label at this place
    int32_t capacity
    double* marginal
    double* u


cdef struct ActiveOutcomes:
    # active outcomes of a pair f: the observed one first; `deactivate_outcomes` removes
    # outcomes with q = 0
    int32_t size, capacity
    # for each active outcome, its number in the model (`FactorModel.entry`), and its
    # probability q_f
    int32_t* entry
    double* q
    PairEnd ends[2]


cdef int grow(Arena arena, void** array, Py_ssize_t size, Py_ssize_t capacity,
              size_t item_size) except -1 nogil
cdef int32_t activate_label(Arena arena, ActiveLabels* labels,
                            int32_t label) except -1 nogil
cdef int activate_outcome(Arena arena, ActiveOutcomes* outcomes, int32_t entry,
                          int32_t first_place, int32_t second_place) except -1 nogil
cdef int grow_end(Arena arena, PairEnd* end) except -1 nogil
cdef void deactivate_outcomes(ActiveOutcomes* outcomes,
                              const double* previous) noexcept nogil
cdef int largest_overlap(const ActiveOutcomes* outcomes) noexcept nogil
cdef int start_variable(Arena arena, ActiveLabels* labels,
                        int32_t y_true) except -1 nogil
cdef int start_pair(Arena arena, FactorModel model, ActiveLabels* labels,
                    Py_ssize_t pair, ActiveOutcomes* outcomes) except -1 nogil


cdef inline int fit_ends(Arena arena, ActiveOutcomes* outcomes) except -1 nogil:
    """Give a pair a marginal and a multiplier for every active label at its ends."""
    cdef int side
    for side in range(2):
        # another pair of the variable may have activated a label since the last visit
        if outcomes.ends[side].capacity < outcomes.ends[side].labels.size:
            grow_end(arena, &outcomes.ends[side])
    return 0


cdef inline bint is_active(const ActiveOutcomes* outcomes,
                           Py_ssize_t entry) noexcept nogil:
    """Return whether the list of active outcomes has the outcome number `entry`."""
    cdef Py_ssize_t k
    for k in range(outcomes.size):
        if outcomes.entry[k] == entry:
            return True
    return False
