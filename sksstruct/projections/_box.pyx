"""Projection onto a box with one linear equality, in expected linear time.

    minimise 1/2 |x - z|^2  over  l <= x <= u,  <a, x> = c    (Saha et al., App. B)

is solved by x_i = clip(z_i + rho a_i, l_i, u_i), where rho is the root of

    f(rho) = sum_i a_i x_i(rho) - c,

which increases and is linear between kinks, those where an entry leaves one bound and
where it reaches the other. Each round of Algorithm 2 looks at f in the middle of the
kinks that are left and drops half of them; entries that have no kink left are summed up
in a slope and an offset, so that all rounds together take as long as the first few.
"""

import numpy as np

from libc.math cimport INFINITY, fabs

from sksstruct.projections._select cimport select_kth

# Kinks that a pivot is the median of. Where that drops too little, as on data made for
# it, the next pivot is the median of all.
cdef enum:
    SAMPLE = 127
    FEW = 2048         # entries that tell about where the root is


cdef inline bint inside(double k, double low, double high) noexcept nogil:
    return low < k < high


cdef double pivot(Py_ssize_t n, const double* first, const double* last, double low,
                  double high, bint exact, double* buffer) noexcept nogil:
    """About the median of the kinks strictly inside the bracket, of which there are."""
    cdef Py_ssize_t step = 1 if exact or n <= SAMPLE else n // SAMPLE, i = 0, m = 0
    while i < n and (exact or m < 2 * SAMPLE):
        if inside(first[i], low, high):
            buffer[m] = first[i]
            m += 1
        if inside(last[i], low, high):
            buffer[m] = last[i]
            m += 1
        i += step
    return select_kth(buffer, m, m // 2)


cdef double derivative(const double[:] a, const double[:] z, const double[:] l,
                       const double[:] u, double c, double at,
                       double* slope) noexcept nogil:
    """f, and its slope, at a point."""
    cdef Py_ssize_t i
    cdef double total = -c, x
    slope[0] = 0.0
    for i in range(z.shape[0]):
        x = z[i] + at * a[i]
        if x <= l[i]:
            total += a[i] * l[i]
        elif x >= u[i]:
            total += a[i] * u[i]
        else:
            total += a[i] * x
            slope[0] += a[i] * a[i]
    return total


cdef void narrow(const double[:] a, const double[:] z, const double[:] l,
                 const double[:] u, double c, double at, double* low,
                 double* high) noexcept nogil:
    """Bracket the root from a guess, by a few steps that go a bit too far."""
    cdef double value, slope
    cdef int _step
    for _step in range(4):
        value = derivative(a, z, l, u, c, at, &slope)
        if value >= 0.0:
            high[0] = at
        else:
            low[0] = at
        if slope <= 0.0 or (low[0] > -INFINITY and high[0] < INFINITY):
            return
        at -= 1.5 * value / slope


cdef double root_by_medians(
    const double[:] a, const double[:] z, const double[:] l, const double[:] u,
    double c, double low, double high, double* first, double* last,
    Py_ssize_t* index, double* buffer
) noexcept nogil:
    """The root of f in a bracket; first, last, index (n,) and buffer are scratch."""
    cdef Py_ssize_t i, j, m = 0, left, before
    cdef double offset = -c, slope = 0.0, at, value, x, y, kink
    cdef bint exact = False, finite = low > -INFINITY and high < INFINITY
    for i in range(z.shape[0]):
        if a[i] == 0.0:
            continue
        if finite:
            # what both ends of the bracket agree on needs no kinks
            x, y = z[i] + low * a[i], z[i] + high * a[i]
            if x <= l[i] and y <= l[i]:
                offset += a[i] * l[i]
                continue
            if x >= u[i] and y >= u[i]:
                offset += a[i] * u[i]
                continue
            if l[i] <= x <= u[i] and l[i] <= y <= u[i]:
                slope += a[i] * a[i]
                offset += a[i] * z[i]
                continue
        first[m] = (l[i] - z[i]) / a[i]
        last[m] = (u[i] - z[i]) / a[i]
        if a[i] < 0.0:
            kink = first[m]
            first[m] = last[m]
            last[m] = kink
        if last[m] <= low:
            offset += a[i] * (u[i] if a[i] > 0.0 else l[i])
        elif first[m] >= high:
            offset += a[i] * (l[i] if a[i] > 0.0 else u[i])
        elif first[m] <= low and last[m] >= high:
            slope += a[i] * a[i]
            offset += a[i] * z[i]
        else:
            index[m] = i
            m += 1
    while m:
        before = m
        at = pivot(m, first, last, low, high, exact, buffer)
        value = offset + slope * at
        for j in range(m):
            i = index[j]
            x = z[i] + at * a[i]
            x = l[i] if x < l[i] else x
            x = u[i] if x > u[i] else x
            value += a[i] * x
        if value >= 0.0:
            high = at
        else:
            low = at
        left = 0
        for j in range(m):
            i = index[j]
            if last[j] <= low:
                offset += a[i] * (u[i] if a[i] > 0.0 else l[i])
            elif first[j] >= high:
                offset += a[i] * (l[i] if a[i] > 0.0 else u[i])
            elif first[j] <= low and last[j] >= high:
                slope += a[i] * a[i]
                offset += a[i] * z[i]
            else:
                first[left], last[left], index[left] = first[j], last[j], i
                left += 1
        m = left
        exact = 10 * m > 9 * before
    if slope > 0.0:
        at = -offset / slope
        # rounding must not leave the bracket
        return low if at < low else (high if at > high else at)
    # f does not change between the last kinks
    return low if low > -INFINITY else (high if high < INFINITY else 0.0)


def root_by_sorting(a, z, lower, upper, c):
    """The same root from all kinks in order, in O(n log n)."""
    moves = a != 0.0
    a, z, lower, upper = a[moves], z[moves], lower[moves], upper[moves]
    kinks = np.concatenate([(lower - z) / a, (upper - z) / a])
    starts = np.minimum(kinks[:len(a)], kinks[len(a):])
    stops = np.maximum(kinks[:len(a)], kinks[len(a):])
    free = np.isneginf(starts)
    slope = float((a[free] ** 2).sum())
    # f(rho) = offset + slope rho left of all kinks
    offset = float((a[free] * z[free]).sum()) - c
    fixed = ~free
    offset += float(np.where(a > 0, a * lower, a * upper)[fixed].sum())
    finite = np.isfinite(stops)
    at = np.concatenate([starts[fixed], stops[finite]])
    if not len(at):
        return -offset / slope if slope else 0.0
    change = np.concatenate([a[fixed] ** 2, -(a[finite] ** 2)])
    order = np.argsort(at, kind="stable")
    at, change = at[order], change[order]
    slopes = slope + np.concatenate([[0.0], np.cumsum(change)])
    values = np.empty(len(at))
    values[0] = offset + slope * at[0]
    values[1:] = values[0] + np.cumsum(slopes[1:len(at)] * np.diff(at))
    k = int(np.searchsorted(values, 0.0))
    # The running sums say between which kinks the root is, about; there f is formed
    # from the entries themselves.
    n = len(at)
    for k in (k, k - 1, k + 1):
        if not 0 <= k <= n:
            continue
        low = at[k - 1] if k > 0 else -np.inf
        high = at[k] if k < n else np.inf
        middle = (low + high) / 2 if 0 < k < n else (at[0] - 1 if k == 0 else low + 1)
        x = z + middle * a
        inside = (x > lower) & (x < upper)
        slope = float((a[inside] ** 2).sum())
        ends = np.where(x >= upper, upper, lower)
        offset = float((a * np.where(inside, z, ends)).sum()) - c
        if slope > 0.0:
            root = -offset / slope
            if low <= root <= high:
                return root
    return min(max(root, low), high) if slope > 0.0 else (low if k > 0 else high)


def project_box_equality(z, lower, upper, a, c, *, method="median"):
    """Euclidean projection onto a box with one linear equality.

    Minimises ``|x - z|`` over ``lower <= x <= upper`` with ``a @ x = c`` [1]_.

    Parameters
    ----------
    z : array-like of shape (n,)
        A point.
    lower, upper : float or array-like of shape (n,)
        The box; may be infinite.
    a : float or array-like of shape (n,)
        Normal vector of the hyperplane; entries may be zero.
    c : float
        Right hand side.
    method : {"median", "sort"}, default="median"
        In expected linear time, through medians of the kinks of a piecewise linear
        function, or by sorting them.

    Returns
    -------
    x : ndarray of shape (n,)
        The projection.

    Raises
    ------
    ValueError
        If an argument has another shape or is not a number, or there is no such point.

    References
    ----------
    .. [1] A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and
       faster rates for training SVMs", 2009, Appendix B, Algorithm 2.

    Examples
    --------
    >>> from sksstruct.projections import project_box_equality
    >>> project_box_equality([0.9, 0.4, -0.2], 0.0, 1.0, [1.0, -1.0, 1.0], 0.0).tolist()
    [0.65, 0.65, 0.0]
    """
    z = np.ascontiguousarray(z, dtype=np.float64)
    if z.ndim != 1 or not z.size:
        raise ValueError(f"z must be 1-D and not empty, got shape {z.shape}")
    if method not in ("median", "sort"):
        raise ValueError(f"method must be 'median' or 'sort', got {method!r}")
    n = len(z)
    vectors = []
    for name, value in (("lower", lower), ("upper", upper), ("a", a)):
        value = np.asarray(value, dtype=np.float64)
        if value.shape not in ((), (n,)):
            raise ValueError(f"{name} must be a number or of shape ({n},), got shape "
                             f"{value.shape}")
        vectors.append(np.broadcast_to(value, (n,)))
    lower, upper, a = vectors
    c = float(c)
    cdef double least, most, slack
    if not all_finite(z, a) or not np.isfinite(c):
        raise ValueError("z, a and c must be finite")
    if not in_order(lower, upper):
        raise ValueError("lower must not exceed upper, and neither may be NaN")
    least, most, slack = reach(a, lower, upper)
    slack = 1e-12 * (slack + abs(c))
    if not least - slack <= c <= most + slack:
        raise ValueError(
            f"there is no such point: <a, x> is between {least:g} and {most:g}, not "
            f"{c:g}")
    if method == "sort":
        rho = root_by_sorting(a, z, lower, upper, c)
    else:
        rho = by_medians(a, z, lower, upper, c)
    out = np.empty(n)
    clip_along(z, a, rho, lower, upper, out)
    return out


cdef bint all_finite(const double[:] z, const double[:] a) noexcept:
    cdef Py_ssize_t i
    cdef double total = 0.0
    # 0 x is 0 for numbers, NaN for what is not finite
    for i in range(z.shape[0]):
        total += 0.0 * z[i] + 0.0 * a[i]
    return total == 0.0


cdef bint in_order(const double[:] lower, const double[:] upper) noexcept:
    cdef Py_ssize_t i
    for i in range(lower.shape[0]):
        if not (lower[i] <= upper[i] and lower[i] < INFINITY and upper[i] > -INFINITY):
            return False
    return True


cdef reach(const double[:] a, const double[:] lower, const double[:] upper):
    """The least and the largest <a, x>, and the size of what is summed."""
    cdef Py_ssize_t i
    cdef double least = 0.0, most = 0.0, size = 0.0, x, y
    for i in range(a.shape[0]):
        if a[i] == 0.0:
            continue
        x, y = a[i] * lower[i], a[i] * upper[i]
        least += x if x < y else y
        most += y if x < y else x
        size += (fabs(x) if fabs(x) < INFINITY else 0.0)
        size += (fabs(y) if fabs(y) < INFINITY else 0.0)
    return least, most, size


cdef void clip_along(const double[::1] z, const double[:] a, double rho,
                     const double[:] lower, const double[:] upper,
                     double[::1] out) noexcept:
    cdef Py_ssize_t i
    cdef double x
    for i in range(z.shape[0]):
        x = z[i] + rho * a[i]
        x = lower[i] if x < lower[i] else x
        out[i] = upper[i] if x > upper[i] else x


cdef double by_medians(const double[:] a, const double[:] z, const double[:] lower,
                       const double[:] upper, double c) except? -1:
    cdef Py_ssize_t n = z.shape[0], step = n // FEW
    cdef double[::1] first = np.empty(n), last = np.empty(n)
    cdef double[::1] buffer = np.empty(2 * max(n, SAMPLE + 1))
    cdef Py_ssize_t[::1] index = np.empty(n, dtype=np.intp)
    cdef double low = -INFINITY, high = INFINITY, at
    if step > 1:
        # Every step-th entry tells about where the root is.
        at = by_medians(a[::step], z[::step], lower[::step], upper[::step],
                        c * ((n + step - 1) // step) / n)
        narrow(a, z, lower, upper, c, at, &low, &high)
    with nogil:
        at = root_by_medians(a, z, lower, upper, c, low, high, &first[0], &last[0],
                             &index[0], &buffer[0])
    return at
