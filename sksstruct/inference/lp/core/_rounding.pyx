"""Rounding of fractional solutions.

Plain: the state with the largest marginal. Conditional: variables one by one, the most
certain first, each the state with the largest expected score given the states before it
and the marginals of the others (the method of conditional expectations; factors of
three or more variables count once all others of them have states).
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport MAPProblem


def round_marginals(MAPProblem problem, const double[::1] marginals):
    """Two labelings from marginals.

    Parameters
    ----------
    problem : Problem
        The graph.
    marginals : ndarray of shape (n_states.sum(),)
        Distributions over the states of the variables.

    Returns
    -------
    rounded, conditional : ndarrays of shape (n_variables,), int32
        Labelings by plain and by conditional rounding.
    """
    cdef Py_ssize_t v, k, first, n = problem.n
    rounded = np.zeros(n, dtype=np.int32)
    cdef int32_t[::1] x = rounded
    certainty = np.zeros(n)
    cdef double[::1] top = certainty
    # the states that marginals support
    support = np.flatnonzero(np.asarray(marginals) > 1e-9)
    cdef const Py_ssize_t[::1] states = support.astype(np.intp)
    begins = np.searchsorted(support, np.asarray(problem.first)).astype(np.intp)
    for v in range(n):
        first = problem.first[v]
        for k in range(1, problem.states[v]):
            if marginals[first + k] > marginals[first + x[v]]:
                x[v] = k
        top[v] = marginals[first + x[v]]
    conditional = rounded.copy()
    order = np.argsort(-certainty, kind="stable").astype(np.intp)
    if n:
        _condition(problem, marginals, states, begins, order, conditional,
                   np.zeros(n, dtype=np.int8))
    return rounded, conditional


cdef void _condition(MAPProblem p, const double[::1] marginals,
                     const Py_ssize_t[::1] states, const Py_ssize_t[::1] begins,
                     const Py_ssize_t[::1] order, int32_t[::1] x,
                     signed char[::1] done):
    cdef Py_ssize_t i, v, s, e, other, k, c, state, f, q, at
    cdef double total, best
    cdef bint first, ready
    cdef int32_t chosen
    with nogil:
        for i in range(p.n):
            v = order[i]
            done[v] = 1
            best, chosen = -INFINITY, x[v]
            if begins[v + 1] - begins[v] == 1:
                x[v] = states[begins[v]] - p.first[v]
                continue
            for k in range(begins[v], begins[v + 1]):
                state = states[k] - p.first[v]
                total = p.unary[states[k]]
                for s in range(p.adj_first[v], p.adj_first[v + 1]):
                    e = p.adj_edge[s]
                    first = p.ends[e, 0] == v
                    other = p.ends[e, 1] if first else p.ends[e, 0]
                    if done[other]:
                        total += (p.entry(e, state, x[other]) if first
                                  else p.entry(e, x[other], state))
                        continue
                    for c in range(begins[other], begins[other + 1]):
                        at = states[c] - p.first[other]
                        total += marginals[states[c]] * (
                            p.entry(e, state, at) if first else p.entry(e, at, state))
                for s in range(p.in_first[v], p.in_first[v + 1]):
                    f = p.in_factor[s]
                    ready = True
                    for q in range(p.scope_first[f], p.scope_first[f + 1]):
                        if not done[p.scope[q]]:
                            ready = False
                            break
                    if ready:
                        x[v] = state
                        total += p.higher_entry(f, &x[0])
                if total > best:
                    best, chosen = total, state
            x[v] = chosen
