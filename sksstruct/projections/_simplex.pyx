"""Projection onto the probability simplex."""

import numpy as np


cdef void project_sorted(Py_ssize_t n, const double* z, double scale,
                         double* u) noexcept nogil:
    """u = projection of scale * z, z being in decreasing order.

    u_k = max(scale z_k - rho, 0), where the first entries that stay positive give rho
    (Pillutla et al., 2018, Proposition 3).
    """
    cdef Py_ssize_t k
    cdef double total = 0.0, rho = 0.0, candidate
    # Relative to the largest entry, so that large scores lose no digits.
    for k in range(n):
        total += scale * (z[k] - z[0])
        candidate = (total - 1.0) / (k + 1)
        if k == 0 or scale * (z[k] - z[0]) > candidate:
            rho = candidate
        else:
            break
    for k in range(n):
        candidate = scale * (z[k] - z[0]) - rho
        u[k] = candidate if candidate > 0.0 else 0.0


def project_simplex(z):
    """Euclidean projection onto the probability simplex.

    Parameters
    ----------
    z : array-like of shape (n,)
        A point; ``-inf`` entries get no weight.

    Returns
    -------
    u : ndarray of shape (n,)
        The point of ``{u : u >= 0, sum(u) = 1}`` next to z.

    Raises
    ------
    ValueError
        If z is empty, not 1-D, has an entry that is NaN or ``+inf``, or has no finite
        entry.

    Examples
    --------
    >>> from sksstruct.projections import project_simplex
    >>> project_simplex([1.0, 0.5, -3.0]).tolist()
    [0.75, 0.25, 0.0]
    """
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 1 or not z.size:
        raise ValueError(f"z must be 1-D and not empty, got shape {z.shape}")
    if not -np.inf < z.max() < np.inf:
        raise ValueError("z must have a finite entry, and none that is NaN or +inf")
    order = np.argsort(-z, kind="stable")
    cdef const double[::1] ordered = z[order]
    cdef double[::1] weights = np.empty(len(z))
    with nogil:
        project_sorted(ordered.shape[0], &ordered[0], 1.0, &weights[0])
    out = np.empty(len(z))
    out[order] = weights
    return out
