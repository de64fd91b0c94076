"""Projection onto the local polytope of a chain.

Saha et al. (2009), Appendix E.3.1, with all d_t equal to 1. The tables alpha_t of pairs
of neighbors are not negative, sum to a mass, and agree on the variables they share;
those nearest to tables m_t are sought. With a multiplier lambda for the mass and
mu_t(j) for the agreement of tables t and t + 1,

    alpha_t(i, j) = [ m_t(i, j) + lambda 1[t = 0] + mu_t(j) - mu_{t-1}(i) ]_+      (37)

which minimize 1/2 sum alpha^2 - mass lambda, convex and piecewise quadratic. The paper
alternates between blocks of multipliers; Newton's method on all of them at once needs a
banded system for each step, and ends at the exact solution. The mass of the other
tables follows from that of the first.

Multipliers (`duals`) are in the order lambda, mu_0(0), mu_0(1), ..., mu_1(0), ...:
table t depends on mu_{t-1} and mu_t only, which are at most 2 n_states - 1 apart.
"""

import numpy as np

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport sqrt
from libc.string cimport memset

from sksstruct.projections._newton cimport (
    PiecewiseQuadratic, minimize, piecewise_quadratic,
)

from sksstruct.projections._simplex import project_simplex


cdef struct Chain:
    Py_ssize_t n_edges
    Py_ssize_t n_states
    const double* m         # (n_edges, n_states, n_states)
    double mass
    # A band stores of each row its entries from the diagonal on: entry (p, q) of a
    # symmetric matrix, p <= q, is band[p * 2 * n_states + q - p].
    double* band            # (n_duals, 2 * n_states)


cdef inline Py_ssize_t count_duals(Py_ssize_t n_edges,
                                   Py_ssize_t n_states) noexcept nogil:
    """lambda, and mu_t for all tables but the last."""
    return 1 + (n_edges - 1) * n_states


cdef inline Py_ssize_t row_dual(const Chain* chain, Py_ssize_t t,
                                Py_ssize_t i) noexcept nogil:
    """The multiplier of row i of table t: mu_{t-1}(i), or lambda for the first."""
    return 0 if t == 0 else 1 + (t - 1) * chain.n_states + i


cdef inline Py_ssize_t column_dual(const Chain* chain, Py_ssize_t t,
                                   Py_ssize_t j) noexcept nogil:
    """The multiplier of column j of table t: mu_t(j). The last table has none."""
    return 1 + t * chain.n_states + j


cdef double evaluate(const void* problem, const double* duals, double* gradient,
                     double* out) noexcept nogil:
    """Tables at the multipliers, the gradient, and the function."""
    cdef const Chain* chain = <const Chain*> problem
    cdef Py_ssize_t n_states = chain.n_states, t, i, j, row, column
    cdef double total = 0.0, entry, shift, sign
    cdef bint last
    # One pass over the tables gives all three: the derivative by a multiplier is a sum
    # of the entries that it moves.
    memset(gradient, 0, count_duals(chain.n_edges, n_states) * sizeof(double))
    gradient[0] = -chain.mass
    for t in range(chain.n_edges):
        last = t == chain.n_edges - 1
        # lambda raises the entries of its table, mu_{t-1} lowers them
        sign = 1.0 if t == 0 else -1.0
        for i in range(n_states):
            row = row_dual(chain, t, i)
            shift = sign * duals[row]
            for j in range(n_states):
                column = column_dual(chain, t, j)
                entry = chain.m[(t * n_states + i) * n_states + j] + shift
                if not last:
                    entry += duals[column]
                entry = entry if entry > 0.0 else 0.0
                out[(t * n_states + i) * n_states + j] = entry
                # so are most entries, near the solution
                if entry == 0.0:
                    continue
                total += 0.5 * entry * entry
                gradient[row] += sign * entry
                if not last:
                    gradient[column] += entry
    return total - chain.mass * duals[0]


cdef void form_hessian(const Chain* chain, const double* tables,
                       double* band) noexcept nogil:
    """The second derivatives at the multipliers of tables, in a band.

    Each entry that is not zero contributes the square of its own derivative: 1 where
    its two multipliers meet themselves, 1 or -1 where they meet each other.
    """
    cdef Py_ssize_t n_states = chain.n_states, width = 2 * n_states
    cdef Py_ssize_t t, i, j, row, column
    # -inf entries, and others at zero, do not move: they contribute nothing
    memset(band, 0,
           count_duals(chain.n_edges, n_states) * width * sizeof(double))
    for t in range(chain.n_edges):
        for i in range(n_states):
            row = row_dual(chain, t, i)
            for j in range(n_states):
                if tables[(t * n_states + i) * n_states + j] <= 0.0:
                    continue
                band[row * width] += 1.0
                if t < chain.n_edges - 1:
                    column = column_dual(chain, t, j)
                    band[column * width] += 1.0
                    band[row * width + column - row] += 1.0 if t == 0 else -1.0


cdef void factorize(Py_ssize_t n, Py_ssize_t width, double damping, double* band,
                    double* step) noexcept nogil:
    """Replace the band by its Cholesky factor L', and step by L^-1 step."""
    cdef Py_ssize_t row, first, second, last
    cdef double pivot, factor
    for row in range(n):
        pivot = sqrt(band[row * width] + damping)
        last = min(n - row, width)
        for first in range(last):
            band[row * width + first] /= pivot
        band[row * width] = pivot
        step[row] /= pivot
        # Two entries of a row are two other rows: their entry in these is `second` -
        # `first` from the diagonal.
        for first in range(1, last):
            factor = band[row * width + first]
            # tables are sparse near the solution
            if factor == 0.0:
                continue
            for second in range(first, last):
                band[(row + first) * width + second - first] -= (
                    factor * band[row * width + second])
            step[row + first] -= factor * step[row]
        # The Hessian is positive semidefinite: a diagonal entry below zero is zero, and
        # rounding.
        for first in range(1, last):
            if band[(row + first) * width] < 0.0:
                band[(row + first) * width] = 0.0


cdef void newton_step(const void* problem, const double* tables, double damping,
                      const double* gradient, double* step) noexcept nogil:
    """step = -(Hessian + damping)^-1 gradient, by Cholesky's method on the band."""
    cdef const Chain* chain = <const Chain*> problem
    cdef Py_ssize_t n = count_duals(chain.n_edges, chain.n_states)
    cdef Py_ssize_t width = 2 * chain.n_states, row, other
    cdef double* band = chain.band
    form_hessian(chain, tables, band)
    for row in range(n):
        step[row] = -gradient[row]
    factorize(n, width, damping, band, step)
    # what remains is L' step = L^-1 (-gradient), from the last row up
    for row in range(n - 1, -1, -1):
        for other in range(1, min(n - row, width)):
            step[row] -= band[row * width + other] * step[row + other]
        step[row] /= band[row * width]


cdef double project_chain(Chain* chain, double* duals, double* memory,
                          double* out) noexcept nogil:
    """Tables out next to m; duals are where to start, and what was found.

    memory is for n_duals * (3 + 2 * n_states) numbers. Returns the largest violation of
    a constraint, which is the largest entry of the gradient: by how much tables miss
    the mass and disagree with each other.
    """
    cdef Py_ssize_t n = count_duals(chain.n_edges, chain.n_states)
    cdef PiecewiseQuadratic f = piecewise_quadratic(
        chain, evaluate, newton_step, n, chain.n_edges, chain.mass, memory)
    chain.band = memory + 3 * n
    return minimize(&f, duals, out)


def n_multipliers(n_edges, n_states):
    """Return the number of multipliers of a chain with so many tables."""
    return count_duals(n_edges, n_states)


def project_all(Py_ssize_t n_states, const Py_ssize_t[::1] edges,
                const double[::1] mass, const double[:, :, ::1] tables,
                double[::1] duals, double[:, :, ::1] out):
    """Project the tables of every example, and keep the multipliers for the next call.

    Example i has edges[i] tables. The tables of all examples follow each other, and so
    do their multipliers.
    """
    cdef Py_ssize_t i, first_table = 0, first_dual = 0, n_duals, most = 0
    cdef Chain chain
    cdef double worst = 0.0, violation
    for i in range(edges.shape[0]):
        n_duals = count_duals(edges[i], n_states)
        most = n_duals if n_duals > most else most
    # one for all, as large as what the longest chain needs
    cdef double[::1] memory = np.empty(most * (3 + 2 * n_states))
    chain.n_states = n_states
    with nogil:
        for i in range(edges.shape[0]):
            chain.n_edges, chain.mass = edges[i], mass[i]
            chain.m = &tables[first_table, 0, 0]
            violation = project_chain(
                &chain, &duals[first_dual], &memory[0], &out[first_table, 0, 0]
            ) / mass[i]
            # a long chain may take a second, and all of them minutes
            with gil:
                PyErr_CheckSignals()
            worst = violation if violation > worst else worst
            first_table += edges[i]
            first_dual += count_duals(edges[i], n_states)
    if worst > 1e-6:
        raise ValueError(
            "training broke down: a projection onto the local polytope is off by "
            f"{worst:.1e}; use another solver for sequences as long as these")


def project_chain_polytope(m):
    """Compute the Euclidean projection onto the local polytope of a chain.

    The result is the closest to `m` of all tables that are not negative, sum to one
    each, and agree on the variables they share. Such tables are the pair marginals of a
    distribution.

    Parameters
    ----------
    m : array-like of shape (n_edges, n_states, n_states)
        A table for each pair of neighbors, from -> to; ``-inf`` entries stay zero.

    Returns
    -------
    alpha : ndarray of shape (n_edges, n_states, n_states)
        The projection.

    Raises
    ------
    ValueError
        If m has the wrong shape, an entry is NaN or ``+inf``, or m has no labeling
        whose entries are finite.

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
    # states that a chain of finite entries leads to
    reached = np.ones(m.shape[1], dtype=bool)
    for table in m:
        reached = (np.isfinite(table) & reached[:, None]).any(axis=0)
    if not reached.any():
        raise ValueError("m must have a chain of finite entries")
    # nothing has to agree
    if len(m) == 1:
        return project_simplex(m.ravel()).reshape(m.shape)
    cdef const double[:, :, ::1] scores = m
    cdef double[:, :, ::1] out = np.empty_like(m)
    cdef Chain chain
    chain.n_edges, chain.n_states = m.shape[0], m.shape[1]
    chain.m, chain.mass = &scores[0, 0, 0], 1.0
    cdef Py_ssize_t n_duals = count_duals(chain.n_edges, chain.n_states)
    cdef double[::1] duals = np.zeros(n_duals)
    cdef double[::1] memory = np.empty(n_duals * (3 + 2 * chain.n_states))
    cdef double violation
    with nogil:
        violation = project_chain(&chain, &duals[0], &memory[0], &out[0, 0, 0])
    if violation > 1e-9:
        raise ValueError(
            f"the projection was not found: a constraint is off by {violation:.1e}")
    return np.asarray(out)
