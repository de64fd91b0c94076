"""The active outcomes of factors: the sets A_f of Yen et al. (2016), Algorithm 4.

Only an active outcome may have probability q_f(y_f) > 0, and few outcomes are active,
whatever the size of the domain. Each variable lists the labels that were ever active.
The outcomes of its pairs, and the pairs' marginals and multipliers, refer to labels by
their place in this list, so that a message is found without a search. Labels therefore
keep their places even with q = 0, while outcomes of pairs are removed.

All lists lie in one arena: a visit touches the lists of a factor and its neighbors,
which are close together in memory if they were allocated together.
"""

from libc.math cimport NAN
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.utils._arena cimport Arena

# Initial capacity of a list of active labels or outcomes: most lists never grow.
cdef int32_t FIRST_CAPACITY = 4


cdef int grow(Arena arena, void** array, Py_ssize_t size, Py_ssize_t capacity,
              size_t item_size) except -1 nogil:
    """Move an array with `size` items to memory with a larger capacity."""
    # The arena does not free the old array. As capacities at least double, all old
    # arrays of a list together are smaller than its present array.
    array[0] = arena.grow(array[0], size * item_size, capacity * item_size)
    return 0


cdef int32_t activate_label(Arena arena, ActiveLabels* labels,
                            int32_t label) except -1 nogil:
    """Return the place of a label in a variable's list, appending a new label."""
    cdef int32_t place, capacity, size = labels.size
    # a label that is new to a pair may be active already through another pair
    for place in range(size):
        if labels.label[place] == label:
            return place
    if size == labels.capacity:
        capacity = 2 * size if size else FIRST_CAPACITY
        grow(arena, <void**> &labels.label, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &labels.q, size, capacity, sizeof(double))
        grow(arena, <void**> &labels.total, size, capacity, sizeof(double))
        grow(arena, <void**> &labels.score, size, capacity, sizeof(double))
        # the capacity is set last, so that an interrupted growth leaves a valid list
        labels.capacity = capacity
    # an inactive label has q = 0, marginal 0 and u = 0, hence total 0
    labels.label[size] = label
    labels.q[size] = labels.total[size] = 0.0
    labels.score[size] = NAN
    labels.size += 1
    return size


cdef int activate_outcome(Arena arena, ActiveOutcomes* outcomes, int32_t entry,
                          int32_t first_place, int32_t second_place) except -1 nogil:
    """Put an outcome that is not active at the end of a pair's list, with q = 0."""
    cdef int32_t capacity, size = outcomes.size
    if size == outcomes.capacity:
        capacity = 2 * size if size else FIRST_CAPACITY
        grow(arena, <void**> &outcomes.entry, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.ends[0].place, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.ends[1].place, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.q, size, capacity, sizeof(double))
        # the capacity is set last, as in `activate_label`
        outcomes.capacity = capacity
    outcomes.entry[size] = entry
    outcomes.ends[0].place[size] = first_place
    outcomes.ends[1].place[size] = second_place
    outcomes.q[size] = 0.0
    outcomes.size += 1
    return 0


cdef int grow_end(Arena arena, PairEnd* end) except -1 nogil:
    """Enlarge the marginals and multipliers at one end of a pair, with zeros."""
    cdef int32_t old = end.capacity, capacity = end.labels.capacity
    grow(arena, <void**> &end.marginal, old, capacity, sizeof(double))
    grow(arena, <void**> &end.u, old, capacity, sizeof(double))
    # the whole capacity is cleared, so that labels activated later need no clearing
    memset(end.marginal + old, 0, (capacity - old) * sizeof(double))
    memset(end.u + old, 0, (capacity - old) * sizeof(double))
    end.capacity = capacity
    return 0


cdef void deactivate_outcomes(ActiveOutcomes* outcomes,
                              const double* previous) noexcept nogil:
    """Remove the outcomes of a pair that have q = 0 both now and before this visit.

    An outcome whose q has become 0 stays active for one more visit, which may raise its
    q even if the oracle returns another outcome. The observed outcome, which is first,
    always stays.
    """
    cdef int32_t k, n_kept = 1
    cdef int side
    for k in range(1, outcomes.size):
        # q is compared with exactly zero, to which projections set q
        if outcomes.q[k] == 0.0 and previous[k] == 0.0:
            continue
        outcomes.entry[n_kept], outcomes.q[n_kept] = outcomes.entry[k], outcomes.q[k]
        for side in range(2):
            outcomes.ends[side].place[n_kept] = outcomes.ends[side].place[k]
        n_kept += 1
    # removed outcomes have q = 0, so that the marginals do not change
    outcomes.size = n_kept


cdef int largest_overlap(const ActiveOutcomes* outcomes) noexcept nogil:
    """Bound the largest eigenvalue of sum_v M_vf^T M_vf on the active outcomes.

    Entry (k, j) of this matrix is the number of ends at which outcomes k and j have the
    same label. Its largest row sum is a bound: 2 for outcomes that share no label. The
    paper's bound (Section 5.1) is twice the number of outcomes.
    """
    cdef Py_ssize_t k, j
    cdef int row_sum, largest = 0
    cdef const int32_t* first = outcomes.ends[0].place
    cdef const int32_t* second = outcomes.ends[1].place
    # this loop is quadratic in the number of active outcomes, which is small
    for k in range(outcomes.size):
        row_sum = 0
        for j in range(outcomes.size):
            row_sum += first[j] == first[k]
            row_sum += second[j] == second[k]
        largest = row_sum if row_sum > largest else largest
    return largest


cdef int start_variable(Arena arena, ActiveLabels* labels,
                        int32_t y_true) except -1 nogil:
    """Set q = 1 for the observed label of a variable."""
    activate_label(arena, labels, y_true)
    labels.q[0] = 1.0
    # each pair of the variable has marginal 1 for the observed label, and u = 0
    labels.total[0] = labels.degree
    return 0


cdef int start_pair(Arena arena, FactorModel model, ActiveLabels* labels,
                    Py_ssize_t pair, ActiveOutcomes* outcomes) except -1 nogil:
    """Set q = 1 for the observed outcome of a pair, which agrees with its variables."""
    cdef const int32_t* ends = &model._pairs[pair, 0]
    cdef int side
    for side in range(2):
        # the array of all variables is allocated once, so that this pointer stays valid
        outcomes.ends[side].labels = &labels[ends[side]]
    fit_ends(arena, outcomes)
    # each variable has only its observed label yet, at place 0
    activate_outcome(arena, outcomes, <int32_t> model.entry(
        pair, model._y_true[ends[0]], model._y_true[ends[1]]), 0, 0)
    outcomes.q[0] = 1.0
    for side in range(2):
        outcomes.ends[side].marginal[0] = 1.0
    return 0
