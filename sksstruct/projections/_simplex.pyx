"""Projection onto the probability simplex."""

import numpy as np

from sksstruct.projections._select cimport select_kth


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


cdef double threshold_by_partition(Py_ssize_t n, double* z) noexcept nogil:
    """rho with sum_k max(z_k - rho, 0) = 1, z being put in another order.

    Entries below a pivot are dropped when those above it sum to a rho that is no lower;
    otherwise those above are in for good (Duchi et al., 2008, Figure 2).
    """
    cdef Py_ssize_t low = 0, high = n, i, j, count = 0, step
    cdef double total = 0.0, part, p, t
    cdef double sample[5]
    while low < high:
        # the median of five that are spread out
        step = (high - low) // 5
        for i in range(5):
            sample[i] = z[low + i * step]
        p = select_kth(sample, 5, 2)
        # z[low:j] >= p after this
        part, j = 0.0, low
        for i in range(low, high):
            if z[i] >= p:
                t = z[i]
                z[i] = z[j]
                z[j] = t
                part += t
                j += 1
        if total + part - (count + j - low) * p < 1.0:
            # all of them stay above rho
            total += part
            count += j - low
            low = j
        else:
            # rho is at least p: what equals p has weight zero, as has all below
            i = low
            while i < j:
                if z[i] == p:
                    j -= 1
                    z[i] = z[j]
                else:
                    i += 1
            high = j
    return (total - 1.0) / count


def project_simplex(z, *, method="partition"):
    """Euclidean projection onto the probability simplex.

    Parameters
    ----------
    z : array-like of shape (n,)
        A point; ``-inf`` entries get no weight.
    method : {"partition", "sort"}, default="partition"
        In expected linear time, by partitioning, or by sorting.

    Returns
    -------
    u : ndarray of shape (n,)
        The point of ``{u : u >= 0, sum(u) = 1}`` next to z.

    Raises
    ------
    ValueError
        If z is empty, not 1-D, has an entry that is NaN or ``+inf``, or has no finite
        entry; or if the method is another.

    References
    ----------
    J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto
    the l1-ball for learning in high dimensions", ICML 2008.

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
    if method not in ("partition", "sort"):
        raise ValueError(f"method must be 'partition' or 'sort', got {method!r}")
    cdef double[::1] entries
    cdef double rho
    if method == "partition":
        # relative to the largest entry, so that large scores lose no digits
        shifted = z - z.max()
        entries = shifted[shifted > -1.0]
        with nogil:
            rho = threshold_by_partition(entries.shape[0], &entries[0])
        return np.maximum(shifted - rho, 0.0)
    order = np.argsort(-z, kind="stable")
    cdef const double[::1] ordered = z[order]
    cdef double[::1] weights = np.empty(len(z))
    with nogil:
        project_sorted(ordered.shape[0], &ordered[0], 1.0, &weights[0])
    out = np.empty(len(z))
    out[order] = weights
    return out
