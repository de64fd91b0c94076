"""Rounding of fractional solutions.

Plain: the state with the largest marginal. Conditional: variables one by one, the most
certain first, each the state with the largest expected score given the states before it
and the marginals of the others (the method of conditional expectations; factors of
three or more variables count once all others of them have states).
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t

from sksstruct.inference.map.core._problem cimport Problem, entry_from, other_end
from sksstruct.utils._pointers cimport const_doubles, const_intps, int8s, int32s


# Marginals, and the labeling as far as variables are assigned.
cdef struct Rounding:
    const double* marginals     # of all states
    const Py_ssize_t* support   # indices of those that are not negligible
    const Py_ssize_t* begin     # where those of each variable begin
    int32_t* labeling
    int8_t* assigned


def round_conditionally(Problem problem, marginals, support, begin, order, labeling,
                        assigned):
    """Assign variables in a given order; overwrites the last two arrays."""
    cdef Py_ssize_t i
    cdef const Py_ssize_t* variable = const_intps(order)
    cdef Rounding rounding
    rounding.marginals = const_doubles(marginals)
    rounding.support, rounding.begin = const_intps(support), const_intps(begin)
    rounding.labeling, rounding.assigned = int32s(labeling), int8s(assigned)
    with nogil:
        for i in range(problem.n_variables):
            _assign(problem, &rounding, variable[i])


cdef void _assign(Problem problem, Rounding* rounding,
                  Py_ssize_t variable) noexcept nogil:
    """Give a variable the state with the largest expected score."""
    cdef Py_ssize_t k, state, begin = rounding.begin[variable]
    cdef Py_ssize_t end = rounding.begin[variable + 1]
    cdef int32_t chosen = rounding.labeling[variable]
    cdef double score, best = -INFINITY
    # from here on it counts as assigned, so that factors see the state that is tried
    rounding.assigned[variable] = 1
    # nothing to choose, whatever it scores
    if end - begin == 1:
        rounding.labeling[variable] = rounding.support[begin] - problem.first[variable]
        return
    for k in range(begin, end):
        state = rounding.support[k] - problem.first[variable]
        score = _expected_score(problem, rounding, variable, state)
        if score > best:
            best, chosen = score, state
    rounding.labeling[variable] = chosen


cdef double _expected_score(Problem problem, Rounding* rounding,
                            Py_ssize_t variable, Py_ssize_t state) noexcept nogil:
    """Expected score of a state given assigned variables and marginals of others."""
    cdef Py_ssize_t i, k, edge, other, other_state
    cdef double total = problem.unary[problem.first[variable] + state]
    for i in range(problem.in_first[variable], problem.in_larger[variable]):
        edge = problem.in_factor[i]
        other = other_end(problem, edge, variable)
        if rounding.assigned[other]:
            total += entry_from(problem, edge, variable, state,
                                rounding.labeling[other])
            continue
        # variables count as independent: no labeling after it is below the expectation
        # of that distribution
        for k in range(rounding.begin[other], rounding.begin[other + 1]):
            other_state = rounding.support[k] - problem.first[other]
            total += rounding.marginals[rounding.support[k]] * entry_from(
                problem, edge, variable, state, other_state)
    # an expectation over several variables would be a sum over their joint states: a
    # larger factor waits for the last of its variables
    for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
        if _is_assigned(problem, rounding, problem.in_factor[i]):
            rounding.labeling[variable] = state
            total += problem.higher_entry(problem.in_factor[i], rounding.labeling)
    return total


cdef bint _is_assigned(Problem problem, Rounding* rounding,
                       Py_ssize_t factor) noexcept nogil:
    """Whether all variables of a larger factor are assigned."""
    cdef Py_ssize_t k
    for k in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
        if not rounding.assigned[problem.scope[k]]:
            return False
    return True
