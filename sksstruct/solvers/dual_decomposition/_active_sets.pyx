"""The active outcomes of factors: the sets A_f of Yen et al. (2016), Algorithm 4.

Only an active outcome may have probability q_f(y_f) > 0, and few are, whatever the size
of the domain. The labels of a variable that were ever active are a list; the outcomes
of its pairs point into it, so that a message is found without a search, and so do the
marginals and multipliers of the pairs. This is why labels stay where they are, even
without weight, while outcomes of pairs leave.

All lists lie in one arena: a visit touches those of a factor and its neighbors, which
are close together if they came in together.
"""

from libc.math cimport NAN
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.models.protocols._factors cimport FactorModel
from sksstruct.utils._arena cimport Arena

# Places that a list begins with: the many lists that stay this short never grow.
cdef int32_t FIRST_CAPACITY = 4


cdef int grow(Arena arena, void** array, Py_ssize_t size, Py_ssize_t capacity,
              size_t item_size) except -1 nogil:
    """Move an array of so many items to a place with a larger capacity."""
    # the arena keeps the old place: doubling wastes no more than what is in use
    array[0] = arena.grow(array[0], size * item_size, capacity * item_size)
    return 0


cdef int32_t activate_label(Arena arena, ActiveLabels* labels,
                            int32_t label) except -1 nogil:
    """Return the place of a label in a variable's list, at the end where it is new."""
    cdef int32_t place, capacity, size = labels.size
    # new to a pair, a label may be known to the variable from another pair
    for place in range(size):
        if labels.label[place] == label:
            return place
    if size == labels.capacity:
        capacity = 2 * size if size else FIRST_CAPACITY
        grow(arena, <void**> &labels.label, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &labels.q, size, capacity, sizeof(double))
        grow(arena, <void**> &labels.total, size, capacity, sizeof(double))
        grow(arena, <void**> &labels.score, size, capacity, sizeof(double))
        # last, so that an interrupted growth leaves a list that is whole
        labels.capacity = capacity
    # zeros are what it had all the time: a variable and its pairs agree on it
    labels.label[size] = label
    labels.q[size] = labels.total[size] = 0.0
    labels.score[size] = NAN
    labels.size += 1
    return size


cdef int activate_outcome(Arena arena, ActiveOutcomes* outcomes, int32_t entry,
                          int32_t first_place, int32_t second_place) except -1 nogil:
    """Put an outcome that is not active at the end of a pair's list, without weight."""
    cdef int32_t capacity, size = outcomes.size
    if size == outcomes.capacity:
        capacity = 2 * size if size else FIRST_CAPACITY
        grow(arena, <void**> &outcomes.entry, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.ends[0].place, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.ends[1].place, size, capacity, sizeof(int32_t))
        grow(arena, <void**> &outcomes.q, size, capacity, sizeof(double))
        # last here too
        outcomes.capacity = capacity
    outcomes.entry[size] = entry
    outcomes.ends[0].place[size] = first_place
    outcomes.ends[1].place[size] = second_place
    outcomes.q[size] = 0.0
    outcomes.size += 1
    return 0


cdef int grow_end(Arena arena, PairEnd* end) except -1 nogil:
    """Give one end of a pair zeros for the labels that are new to its variable."""
    cdef int32_t old = end.capacity, capacity = end.labels.capacity
    grow(arena, <void**> &end.marginal, old, capacity, sizeof(double))
    grow(arena, <void**> &end.u, old, capacity, sizeof(double))
    # the whole capacity, so that for the labels that come next nothing is to be done
    memset(end.marginal + old, 0, (capacity - old) * sizeof(double))
    memset(end.u + old, 0, (capacity - old) * sizeof(double))
    end.capacity = capacity
    return 0


cdef void deactivate_outcomes(ActiveOutcomes* outcomes,
                              const double* previous) noexcept nogil:
    """Drop what has no weight and had none before this visit.

    Whoever loses its weight stays for one more visit, in which it may get it back
    without a search. The observed outcome, the first of the list, always stays.
    """
    cdef int32_t k, kept = 1
    cdef int side
    for k in range(1, outcomes.size):
        # exactly zero is what projections give
        if outcomes.q[k] == 0.0 and previous[k] == 0.0:
            continue
        outcomes.entry[kept], outcomes.q[kept] = outcomes.entry[k], outcomes.q[k]
        for side in range(2):
            outcomes.ends[side].place[kept] = outcomes.ends[side].place[k]
        kept += 1
    # marginals are those of what is left, as what leaves has no weight
    outcomes.size = kept


cdef int largest_overlap(const ActiveOutcomes* outcomes) noexcept nogil:
    """Bound the largest eigenvalue of sum_v M_vf^T M_vf on the active outcomes.

    Entry (k, j) of the matrix is the number of ends at which outcomes k and j have the
    same label, so that this is its largest row sum: 2 for outcomes that share no label,
    where the paper's bound (Section 5.1) has twice their number.
    """
    cdef Py_ssize_t k, j
    cdef int row_sum, most = 0
    cdef const int32_t* first = outcomes.ends[0].place
    cdef const int32_t* second = outcomes.ends[1].place
    # quadratic in the number of outcomes, which is small
    for k in range(outcomes.size):
        row_sum = 0
        for j in range(outcomes.size):
            row_sum += first[j] == first[k]
            row_sum += second[j] == second[k]
        most = row_sum if row_sum > most else most
    return most


cdef int start_variable(Arena arena, ActiveLabels* labels,
                        int32_t y_true) except -1 nogil:
    """Put all weight on the observed label of a variable and of its pairs."""
    activate_label(arena, labels, y_true)
    labels.q[0] = 1.0
    # a marginal of one from each pair, and no multipliers
    labels.total[0] = labels.degree
    return 0


cdef int start_pair(Arena arena, FactorModel model, ActiveLabels* labels,
                    Py_ssize_t pair, ActiveOutcomes* outcomes) except -1 nogil:
    """Put all weight on the observed outcome of a pair, which agrees with its ends."""
    cdef const int32_t* ends = &model._pairs[pair, 0]
    cdef int side
    for side in range(2):
        # the array of all variables does not move
        outcomes.ends[side].labels = &labels[ends[side]]
    fit_ends(arena, outcomes)
    # the observed labels are the first of the variables, which have no other yet
    activate_outcome(arena, outcomes, <int32_t> model.entry(
        pair, model._y_true[ends[0]], model._y_true[ends[1]]), 0, 0)
    outcomes.q[0] = 1.0
    for side in range(2):
        outcomes.ends[side].marginal[0] = 1.0
    return 0
