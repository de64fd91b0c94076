"""Projection onto the probability simplex.

    minimize 1/2 |u - z|^2  over  u >= 0, sum_k u_k = 1

is solved by u_k = max(z_k - rho, 0), where rho is the number for which all u_k sum to
1. If the n' entries above rho were known, rho would be (their sum - 1) / n'. The
entries above rho are the largest entries, found by sorting, or in expected linear time
by partitioning (Duchi et al., 2008, Figures 1 and 2).
"""

from sksstruct.projections._select cimport select_kth
from sksstruct.utils._pointers cimport const_doubles, doubles

# Number of entries whose median is the pivot.
cdef enum:
    SAMPLE = 5


cdef void project_sorted(Py_ssize_t n, const double* point, double scale,
                         double* out) noexcept nogil:
    """Write the projection of scale * point, where `point` is in decreasing order.

    The leading entries that stay positive determine rho (Pillutla et al., 2018,
    Proposition 3).
    """
    cdef Py_ssize_t k
    cdef double total = 0.0, rho = 0.0, candidate
    # the largest entry is subtracted from all, so that large scores lose no digits
    for k in range(n):
        total += scale * (point[k] - point[0])
        candidate = (total - 1.0) / (k + 1)
        # point[0] exceeds its candidate by 1; after an entry below its candidate, all
        # later entries are below their candidates
        if k == 0 or scale * (point[k] - point[0]) > candidate:
            rho = candidate
        else:
            break
    for k in range(n):
        candidate = scale * (point[k] - point[0]) - rho
        out[k] = candidate if candidate > 0.0 else 0.0


cdef inline double spread_median(Py_ssize_t n, const double* point) noexcept nogil:
    """Return the median of a few entries that are spread over the array."""
    # a single entry would be a bad pivot for sorted input
    cdef Py_ssize_t k, step = n // SAMPLE
    cdef double sample[SAMPLE]
    for k in range(SAMPLE):
        sample[k] = point[k * step]
    return select_kth(sample, SAMPLE, SAMPLE // 2)


cdef inline Py_ssize_t partition(Py_ssize_t n, double* point, double pivot,
                                 double* total) noexcept nogil:
    """Move entries that are at least the pivot to the front.

    Returns their number, and writes their sum to `total`.
    """
    cdef Py_ssize_t k, count = 0
    cdef double value
    total[0] = 0.0
    for k in range(n):
        if point[k] >= pivot:
            value = point[k]
            point[k] = point[count]
            point[count] = value
            total[0] += value
            count += 1
    return count


cdef inline Py_ssize_t drop_equal(Py_ssize_t n, double* point,
                                  double pivot) noexcept nogil:
    """Overwrite entries equal to the pivot by later entries; return how many stay."""
    cdef Py_ssize_t k = 0
    while k < n:
        if point[k] == pivot:
            n -= 1
            point[k] = point[n]
        else:
            k += 1
    return n


cdef double threshold_by_partition(Py_ssize_t n, double* point) noexcept nogil:
    """Return rho with sum_k max(point[k] - rho, 0) = 1; entries are reordered.

    If the entries above a pivot give a rho that is at least the pivot, entries below
    the pivot are dropped; otherwise the entries above the pivot are above rho (Duchi et
    al., 2008, Figure 2).
    """
    cdef Py_ssize_t low = 0, high = n, count = 0, above
    cdef double total = 0.0, part, pivot
    # invariant: `count` entries with the sum `total` are above rho, and entries of
    # point[low:high] may be above rho
    while low < high:
        pivot = spread_median(high - low, point + low)
        above = partition(high - low, point + low, pivot, &part)
        if total + part - (count + above) * pivot < 1.0:
            # with the threshold at the pivot the sum is below 1: rho is lower, and all
            # entries of this part are above rho
            total += part
            count += above
            low += above
        else:
            # rho is at least the pivot, so that entries equal to the pivot or lower
            # become zero; at least one entry is dropped in every iteration
            high = low + drop_equal(above, point + low, pivot)
    return (total - 1.0) / count


cdef double threshold_by_dropping(Py_ssize_t n, const double* point) noexcept nogil:
    """Return rho with sum_k max(point[k] - rho, 0) = 1; for few entries.

    Starts with all entries, and drops entries that are not above the rho of the
    remaining entries, which only grows (Michelot, 1986). The entries stay in place, but
    up to n sweeps are necessary.
    """
    cdef Py_ssize_t k, count = n, before = n + 1
    cdef double total = 0.0, rho = 0.0
    for k in range(n):
        total += point[k]
    # the count is 0 only if entries are so large that subtracting 1 changes nothing
    while 0 < count < before:
        rho = (total - 1.0) / count
        before, count, total = count, 0, 0.0
        for k in range(n):
            # the sums have no branch, which would be hard to predict
            count += point[k] > rho
            total += point[k] if point[k] > rho else 0.0
    return rho


def project_each(z, mass, scratch, out):
    """Project each row of z onto the simplex of points that sum to its mass.

    Parameters
    ----------
    z, out : ndarray of shape (n_rows, n)
        The points, and their projections.
    mass : ndarray of shape (n_rows,)
        Mass of each row.
    scratch : ndarray of shape (n,)
        Scratch.
    """
    cdef Py_ssize_t n_rows = z.shape[0], n = z.shape[1], row, k, count
    cdef const double* point = const_doubles(z)
    cdef const double* masses = const_doubles(mass)
    # entries that may be above the threshold; the partition reorders this copy
    cdef double* entries = doubles(scratch)
    cdef double* found = doubles(out)
    cdef double top, rho
    with nogil:
        for row in range(n_rows):
            # the largest entry is subtracted, so that large scores lose no digits
            top = point[0]
            for k in range(1, n):
                top = point[k] if point[k] > top else top
            top /= masses[row]
            count = 0
            for k in range(n):
                found[k] = point[k] / masses[row] - top
                if found[k] > -1.0:
                    entries[count] = found[k]
                    count += 1
            rho = threshold_by_partition(count, entries)
            for k in range(n):
                found[k] -= rho
                found[k] = masses[row] * found[k] if found[k] > 0.0 else 0.0
            point += n
            found += n


def threshold(entries, bint drop):
    """Return rho with sum_k max(entries[k] - rho, 0) = 1, by one of two methods.

    If `drop`, entries are dropped; otherwise they are partitioned, which reorders them.
    """
    cdef Py_ssize_t n = len(entries)
    if drop:
        return threshold_by_dropping(n, const_doubles(entries))
    return threshold_by_partition(n, doubles(entries))


def project_in_order(z, out):
    """Project a point with entries in decreasing order onto the probability simplex."""
    project_sorted(len(z), const_doubles(z), 1.0, doubles(out))
