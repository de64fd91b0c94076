"""Projection onto the local polytope of a chain.

Saha et al. (2009), Appendix E.3.1, with all d_t equal to 1. The tables alpha_t of pairs
of neighbours are not negative, sum to a mass, and agree on the variables they share;
with a multiplier lambda for the mass and mu_t(j) for the agreement of tables t and
t + 1,

    alpha_t(i, j) = [ m_t(i, j) + lambda 1[t = 0] + mu_t(j) - mu_{t-1}(i) ]_+      (37)

which minimise 1/2 sum alpha^2 - mass lambda, convex and piecewise quadratic. The paper
alternates between blocks of multipliers; Newton's method on all of them at once needs a
banded system for each step, and ends at the exact solution. The mass of the other
tables follows from that of the first.
"""

import numpy as np

from libc.math cimport fabs, sqrt
from libc.string cimport memcpy, memset

from sksstruct.projections._simplex import project_simplex

cdef enum:
    MOST_STEPS = 200
    MOST_HALVINGS = 80


cdef Py_ssize_t count_duals(Py_ssize_t n_edges, Py_ssize_t n_states) noexcept nogil:
    """lambda, and mu_t for all tables but the last."""
    return 1 + (n_edges - 1) * n_states


cdef double evaluate(Py_ssize_t n_edges, Py_ssize_t k, const double* m, double mass,
                     const double* duals, double* gradient,
                     double* out) noexcept nogil:
    """Tables at the multipliers, the gradient, and the function."""
    cdef Py_ssize_t t, i, j
    cdef double total = 0.0, x, shift
    cdef const double* before       # mu_{t-1}
    cdef const double* after        # mu_t
    memset(gradient, 0, count_duals(n_edges, k) * sizeof(double))
    gradient[0] = -mass
    for t in range(n_edges):
        before = duals + 1 + (t - 1) * k
        after = duals + 1 + t * k
        for i in range(k):
            shift = duals[0] if t == 0 else -before[i]
            for j in range(k):
                x = m[(t * k + i) * k + j] + shift
                if t < n_edges - 1:
                    x += after[j]
                x = x if x > 0.0 else 0.0
                out[(t * k + i) * k + j] = x
                if x == 0.0:
                    continue
                total += 0.5 * x * x
                if t == 0:
                    gradient[0] += x
                else:
                    gradient[1 + (t - 1) * k + i] -= x
                if t < n_edges - 1:
                    gradient[1 + t * k + j] += x
    return total - mass * duals[0]


cdef void newton_step(Py_ssize_t n_edges, Py_ssize_t k, const double* tables,
                      double damping, const double* gradient, double* band,
                      double* step) noexcept nogil:
    """step = -(Hessian + damping)^-1 gradient, by Cholesky's method on the band.

    band[p, q - p] holds the entry of columns p <= q.
    """
    cdef Py_ssize_t n = count_duals(n_edges, k), width = 2 * k, t, i, j, p, q, r, last
    cdef double pivot, factor
    memset(band, 0, n * width * sizeof(double))
    for t in range(n_edges):
        for i in range(k):
            p = 0 if t == 0 else 1 + (t - 1) * k + i
            for j in range(k):
                if tables[(t * k + i) * k + j] <= 0.0:
                    continue
                band[p * width] += 1.0
                if t < n_edges - 1:
                    q = 1 + t * k + j
                    band[q * width] += 1.0
                    band[p * width + q - p] += 1.0 if t == 0 else -1.0
    for p in range(n):
        step[p] = -gradient[p]
    for p in range(n):
        pivot = sqrt(band[p * width] + damping)
        last = min(n - p, width)
        for q in range(last):
            band[p * width + q] /= pivot
        band[p * width] = pivot
        step[p] /= pivot
        for q in range(1, last):
            factor = band[p * width + q]
            if factor == 0.0:
                continue
            for r in range(q, last):
                band[(p + q) * width + r - q] -= factor * band[p * width + r]
            step[p + q] -= factor * step[p]
        # entries below what rounding leaves are zero
        for q in range(1, last):
            if band[(p + q) * width] < 0.0:
                band[(p + q) * width] = 0.0
    for p in range(n - 1, -1, -1):
        last = min(n - p, width)
        for q in range(1, last):
            step[p] -= band[p * width + q] * step[p + q]
        step[p] /= band[p * width]


cdef double largest(Py_ssize_t n, const double* x) noexcept nogil:
    cdef Py_ssize_t p
    cdef double worst = 0.0
    for p in range(n):
        if fabs(x[p]) > worst:
            worst = fabs(x[p])
    return worst


cdef double project_chain(
    Py_ssize_t n_edges, Py_ssize_t n_states, const double* m, double mass,
    double* duals, PolytopeScratch* ws, double* out
) noexcept nogil:
    """Tables out next to m; duals are where to start, and what was found.

    Returns the largest violation of a constraint.
    """
    cdef Py_ssize_t n = count_duals(n_edges, n_states), p, _halving, _step
    cdef double value, before, slope, length, worst, now, damping = 1e-9
    cdef Py_ssize_t most = MOST_STEPS + 20 * n_edges
    value = evaluate(n_edges, n_states, m, mass, duals, ws.gradient, out)
    worst = largest(n, ws.gradient)
    for _step in range(most):
        if worst <= 1e-14 * mass:
            break
        # Where no table entry moves with a multiplier the Hessian is zero, and the
        # damping sets the length of the step: it follows what halving finds.
        newton_step(n_edges, n_states, out, damping, ws.gradient, ws.band, ws.step)
        slope = 0.0
        for p in range(n):
            slope += ws.gradient[p] * ws.step[p]
        memcpy(ws.best, duals, n * sizeof(double))
        before, length = value, 1.0
        for _halving in range(MOST_HALVINGS):
            for p in range(n):
                duals[p] = ws.best[p] + length * ws.step[p]
            value = evaluate(n_edges, n_states, m, mass, duals, ws.gradient, out)
            now = largest(n, ws.gradient)
            # close to the minimum the gradient tells more than the rounded value
            if value <= before + 1e-4 * length * slope or (
                    now < 0.5 * worst and value <= before + 1e-12 * fabs(before)):
                break
            length *= 0.5
        else:
            memcpy(duals, ws.best, n * sizeof(double))
            evaluate(n_edges, n_states, m, mass, duals, ws.gradient, out)
            break
        worst = now
        if _halving >= 2:
            damping = min(10.0 * damping, 1e6)
        elif _halving == 0:
            damping = max(0.1 * damping, 1e-12)
    return worst


def n_multipliers(n_edges, n_states):
    """Multipliers of a chain with so many tables."""
    return count_duals(n_edges, n_states)


def project_all(Py_ssize_t k, const Py_ssize_t[::1] edges, const double[::1] mass,
                const double[:, :, ::1] tables, double[::1] duals,
                double[:, :, ::1] out):
    """Project the tables of every example; multipliers are kept for the next time."""
    cdef Py_ssize_t i, at = 0, first = 0, n, most = 0
    cdef PolytopeScratch ws
    cdef double worst = 0.0, violation
    for i in range(edges.shape[0]):
        n = count_duals(edges[i], k)
        most = n if n > most else most
    cdef double[::1] memory = np.empty(most * (3 + 2 * k))
    ws.best = &memory[0]
    ws.gradient = &memory[most]
    ws.step = &memory[2 * most]
    ws.band = &memory[3 * most]
    with nogil:
        for i in range(edges.shape[0]):
            violation = project_chain(edges[i], k, &tables[at, 0, 0], mass[i],
                                      &duals[first], &ws, &out[at, 0, 0]) / mass[i]
            worst = violation if violation > worst else worst
            at += edges[i]
            first += count_duals(edges[i], k)
    if worst > 1e-6:
        raise ValueError(
            f"training broke down: a projection onto the local polytope is off by "
            f"{worst:.1e}; use another solver for sequences as long as these")


def project_chain_polytope(m):
    """Euclidean projection onto the local polytope of a chain.

    The tables nearest to `m` that are not negative, sum to one each and agree on the
    variables they share, which are the pair marginals of a distribution.

    Parameters
    ----------
    m : array-like of shape (n_edges, n_states, n_states)
        A table for each pair of neighbours, from -> to; ``-inf`` entries stay zero.

    Returns
    -------
    alpha : ndarray of shape (n_edges, n_states, n_states)
        The projection.

    Raises
    ------
    ValueError
        If m has another shape, an entry that is NaN or ``+inf``, or no chain of entries
        that are finite.

    References
    ----------
    A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and faster rates
    for training SVMs", 2009, Appendix E.3.1.

    Examples
    --------
    >>> from sksstruct.projections import project_chain_polytope
    >>> m = [[[1.0, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]]]
    >>> project_chain_polytope(m).round(3).tolist()
    [[[0.75, 0.125], [0.0, 0.125]], [[0.625, 0.125], [0.0, 0.25]]]
    """
    m = np.ascontiguousarray(m, dtype=np.float64)
    if m.ndim != 3 or 0 in m.shape or m.shape[1] != m.shape[2]:
        raise ValueError(
            f"m must be of shape (n_edges, n_states, n_states), got {m.shape}")
    if np.isnan(m).any() or np.isposinf(m).any():
        raise ValueError("m must not have entries that are NaN or +inf")
    reached = np.ones(m.shape[1], dtype=bool)
    for table in m:
        reached = (np.isfinite(table) & reached[:, None]).any(axis=0)
    if not reached.any():
        raise ValueError("m must have a chain of finite entries")
    if len(m) == 1:
        return project_simplex(m.ravel()).reshape(m.shape)
    cdef Py_ssize_t n_edges = m.shape[0], k = m.shape[1]
    cdef Py_ssize_t n = count_duals(n_edges, k)
    cdef const double[:, :, ::1] scores = m
    cdef double[:, :, ::1] out = np.empty_like(m)
    cdef double[::1] memory = np.zeros(n * (4 + 2 * k))
    cdef PolytopeScratch ws
    cdef double violation
    ws.best = &memory[n]
    ws.gradient = &memory[2 * n]
    ws.step = &memory[3 * n]
    ws.band = &memory[4 * n]
    with nogil:
        violation = project_chain(n_edges, k, &scores[0, 0, 0], 1.0, &memory[0], &ws,
                                  &out[0, 0, 0])
    if violation > 1e-9:
        raise ValueError(
            f"the projection was not found: a constraint is off by {violation:.1e}")
    return np.asarray(out)
