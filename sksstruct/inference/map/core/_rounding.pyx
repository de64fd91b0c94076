"""Rounding of fractional solutions.

Plain rounding takes the state with the largest marginal. Conditional rounding assigns
the variables one by one, the most certain first: each gets the state with the largest
expected score, given the states of assigned variables and the marginals of all others
(the method of conditional expectations). A factor of three or more variables counts
only when its last variable is assigned.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int8_t, int32_t

from sksstruct.inference.map.core._problem cimport Problem, entry_from, other_end
from sksstruct.utils._pointers cimport const_doubles, const_intps, int8s, int32s


# Marginals, and the labeling of the variables assigned so far.
cdef struct Rounding:
    const double* marginals     # of all states
    const Py_ssize_t* support   # indices of states whose marginals are not negligible
    const Py_ssize_t* begin     # offset of each variable in `support`
    int32_t* labeling
    int8_t* assigned


def round_conditionally(Problem problem, marginals, support, begin, order, labeling,
                        assigned):
    """Assign variables in a given order; overwrites `labeling` and `assigned`."""
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
    # set before states are tried, so that `_is_assigned` counts the variable
    rounding.assigned[variable] = 1
    # a single state in the support is taken without scoring
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
    """Return a state's expected score, given assigned variables and marginals."""
    cdef Py_ssize_t i, k, edge, other, other_state
    cdef double total = problem.unary[problem.first[variable] + state]
    for i in range(problem.in_first[variable], problem.in_larger[variable]):
        edge = problem.in_factor[i]
        other = other_end(problem, edge, variable)
        if rounding.assigned[other]:
            total += entry_from(problem, edge, variable, state,
                                rounding.labeling[other])
            continue
        # The unassigned variables are independent with these marginals: without larger
        # factors, conditional rounding ends with a labeling that scores at least the
        # expectation.
        for k in range(rounding.begin[other], rounding.begin[other + 1]):
            other_state = rounding.support[k] - problem.first[other]
            total += rounding.marginals[rounding.support[k]] * entry_from(
                problem, edge, variable, state, other_state)
    # An expectation over several variables would sum over their joint states: a larger
    # factor counts when the last of its variables is assigned.
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
