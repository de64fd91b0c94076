# Factors by number: edges before larger ones.

from sksstruct.inference.lp.core._problem cimport MAPProblem


cdef inline Py_ssize_t arity_of(MAPProblem problem, Py_ssize_t factor) noexcept nogil:
    """Number of variables of a factor."""
    cdef Py_ssize_t higher = factor - problem.n_edges
    if higher < 0:
        return 2
    return problem.scope_first[higher + 1] - problem.scope_first[higher]


cdef inline Py_ssize_t variable_at(MAPProblem problem, Py_ssize_t factor,
                                   Py_ssize_t place) noexcept nogil:
    """The variable at a place of the scope of a factor."""
    if factor < problem.n_edges:
        return problem.ends[factor, place]
    return problem.scope[problem.scope_first[factor - problem.n_edges] + place]
