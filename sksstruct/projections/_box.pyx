"""Projection onto a box with one linear equality, in expected linear time.

    minimize 1/2 |x - z|^2  over  l <= x <= u,  <a, x> = c    (Saha et al., App. B)

is solved by x_i = clip(z_i + rho a_i, l_i, u_i), where rho is the root of

    f(rho) = sum_i a_i x_i(rho) - c,

which increases and is linear between kinks: an entry i has one where it leaves a bound
and one where it reaches the other. Below z, a, l, u and c are `point`, `normal`,
`lower`, `upper` and `target`, and a value of rho is `at`.

Each round of Algorithm 2 looks at f in the middle of the kinks that are left and drops
half of them. Entries that have no kink left inside the bracket of the root are summed
up in one line, offset + slope rho, so that all rounds together take as long as the
first few. With weights d_i^2 in the norm, d_i x_i is what is projected.
"""

cimport cython

import numpy as np

from libc.math cimport INFINITY, fabs

from sksstruct.projections._select cimport select_kth

cdef enum:
    # Kinks that a pivot is the median of. Where that drops too little, as on data made
    # for it, the next pivot is the median of all.
    SAMPLE = 127
    # Entries whose own root tells where that of all of them is.
    FEW = 2048
    # Steps from there until the root is bracketed.
    MOST_STEPS = 4


cdef struct Reach:
    # the least and the largest <a, x>, and the size of the numbers summed up for them
    double least
    double most
    # sums of the sizes of their terms
    double least_size
    double most_size


cdef struct Bracket:
    # f(low) < 0 <= f(high)
    double low
    double high


cdef struct Line:
    # the sum of a_i x_i(rho) over some entries, minus c
    double offset
    double slope


cdef struct Kinks:
    # where entry[k] leaves its first bound and reaches its last, for k < count
    Py_ssize_t count
    double* first
    double* last
    Py_ssize_t* entry
    # scratch for medians
    double* sample


cdef inline bint inside(double kink, const Bracket* bracket) noexcept nogil:
    """Whether a kink is strictly inside a bracket."""
    return bracket.low < kink < bracket.high


cdef double pivot(const Kinks* kinks, const Bracket* bracket,
                  bint exact) noexcept nogil:
    """About the median of the kinks inside the bracket, of which there are some."""
    cdef Py_ssize_t step = 1, k = 0, count = 0
    # A sample spread over all entries, whatever order the caller has them in.
    if not exact and kinks.count > SAMPLE:
        step = kinks.count // SAMPLE
    while k < kinks.count and (exact or count < 2 * SAMPLE):
        if inside(kinks.first[k], bracket):
            kinks.sample[count] = kinks.first[k]
            count += 1
        if inside(kinks.last[k], bracket):
            kinks.sample[count] = kinks.last[k]
            count += 1
        k += step
    return select_kth(kinks.sample, count, count // 2)


@cython.final
cdef class Problem:
    """A point, a box and a hyperplane."""

    # strided: bounds may be one number for all entries, and samples every k-th entry
    cdef const double[:] point, normal, lower, upper
    cdef Py_ssize_t size
    cdef double target

    def __init__(self, point, normal, lower, upper, double target):
        self.point, self.normal, self.target = point, normal, target
        self.lower, self.upper = lower, upper
        self.size = len(point)

    cdef bint is_finite(self) noexcept nogil:
        """Whether the point and the normal are finite."""
        cdef Py_ssize_t i
        cdef double total = 0.0
        # 0 x is 0 for numbers, NaN for what is not finite. One pass without arrays of
        # truth values, as this takes a good part of the time where vectors are short.
        for i in range(self.size):
            total += 0.0 * self.point[i] + 0.0 * self.normal[i]
        return total == 0.0

    cdef bint is_ordered(self) noexcept nogil:
        """Whether each entry has a number between its bounds."""
        cdef Py_ssize_t i
        for i in range(self.size):
            # false for NaN as well
            if not (self.lower[i] <= self.upper[i] and self.lower[i] < INFINITY
                    and self.upper[i] > -INFINITY):
                return False
        return True

    cdef Reach reach(self) noexcept nogil:
        """What <a, x> can be in the box."""
        cdef Py_ssize_t i
        cdef double normal, at_lower, at_upper, least = 0.0, most = 0.0
        cdef double least_size = 0.0, most_size = 0.0, low, high
        for i in range(self.size):
            # sums in plain numbers: fields of a struct, which compilers pack and unpack
            # in each round, cost more than the rest
            normal, at_lower, at_upper = self.normal[i], self.lower[i], self.upper[i]
            # Entries that do not move add nothing; 0 times an infinite bound would be
            # NaN.
            if normal == 0.0:
                continue
            at_lower *= normal
            at_upper *= normal
            low = at_lower if at_lower < at_upper else at_upper
            high = at_upper if at_lower < at_upper else at_lower
            least += low
            most += high
            # an end far away says nothing of the other's rounding errors
            least_size += fabs(low)
            most_size += fabs(high)
        return Reach(least, most, least_size, most_size)

    cdef inline double moved(self, Py_ssize_t i, double at) noexcept nogil:
        """Entry i at a value of rho, before it is clipped."""
        return self.point[i] + at * self.normal[i]

    cdef inline double clipped(self, Py_ssize_t i, double at) noexcept nogil:
        """Entry i of the solution at a value of rho."""
        cdef double entry = self.moved(i, at)
        entry = self.lower[i] if entry < self.lower[i] else entry
        return self.upper[i] if entry > self.upper[i] else entry

    cdef Line tangent(self, double at) noexcept nogil:
        """f at a value of rho, as the offset, and its slope there."""
        cdef Py_ssize_t i
        cdef double entry, normal, lower, upper, value = -self.target, slope = 0.0
        for i in range(self.size):
            normal, lower, upper = self.normal[i], self.lower[i], self.upper[i]
            entry = self.moved(i, at)
            # On a kink an entry counts as being at its bound.
            if entry <= lower:
                value += normal * lower
            elif entry >= upper:
                value += normal * upper
            else:
                value += normal * entry
                slope += normal * normal
        return Line(value, slope)

    cdef Bracket bracket_from(self, double at) noexcept nogil:
        """Bracket the root from a guess, by a few steps that go a bit too far.

        An end that no step has reached is infinite.
        """
        cdef Bracket bracket
        cdef Line line
        cdef int _
        bracket.low, bracket.high = -INFINITY, INFINITY
        for _ in range(MOST_STEPS):
            line = self.tangent(at)
            if line.offset >= 0.0:
                bracket.high = at
            else:
                bracket.low = at
            # Where f is flat there is no step to take: one end stays infinite.
            if line.slope <= 0.0 or (
                    bracket.low > -INFINITY and bracket.high < INFINITY):
                break
            # half as far again as Newton's step, to come out on the other side
            at -= 1.5 * line.offset / line.slope
        return bracket

    cdef inline bint same_at_both_ends(self, Py_ssize_t i, const Bracket* bracket,
                                       Line* line) noexcept nogil:
        """Add an entry to the line if both ends of a bracket agree on its piece."""
        # Between the ends x_i is monotone, so that it stays on the piece. Compared are
        # entries, as in `clipped`, and not kinks, which need divisions.
        cdef double low = self.moved(i, bracket.low)
        cdef double high = self.moved(i, bracket.high)
        cdef double lower = self.lower[i], upper = self.upper[i]
        if low <= lower and high <= lower:
            line.offset += self.normal[i] * lower
        elif low >= upper and high >= upper:
            line.offset += self.normal[i] * upper
        elif lower <= low <= upper and lower <= high <= upper:
            line.slope += self.normal[i] * self.normal[i]
            line.offset += self.normal[i] * self.point[i]
        else:
            return False
        return True

    cdef inline bint no_kink_inside(self, Py_ssize_t i, double first, double last,
                                    const Bracket* bracket, Line* line) noexcept nogil:
        """Add an entry to the line if it has no kink inside a bracket."""
        cdef double normal = self.normal[i]
        # As rho grows, x_i goes from one bound to the other, up if a_i > 0.
        if last <= bracket.low:
            line.offset += normal * (self.upper[i] if normal > 0.0 else self.lower[i])
        elif first >= bracket.high:
            line.offset += normal * (self.lower[i] if normal > 0.0 else self.upper[i])
        elif first <= bracket.low and last >= bracket.high:
            line.slope += normal * normal
            line.offset += normal * self.point[i]
        else:
            return False
        return True

    cdef void list_kinks(self, const Bracket* bracket, Line* line,
                         Kinks* kinks) noexcept nogil:
        """List entries with a kink inside a bracket, and add the others to the line."""
        cdef Py_ssize_t i, count = 0
        cdef double at_lower, at_upper, first, last
        cdef bint finite = bracket.low > -INFINITY and bracket.high < INFINITY
        for i in range(self.size):
            # does not move, and adds nothing to <a, x>
            if self.normal[i] == 0.0:
                continue
            # With a bracket from a sample that is most entries: it saves divisions.
            if finite and self.same_at_both_ends(i, bracket, line):
                continue
            at_lower = (self.lower[i] - self.point[i]) / self.normal[i]
            at_upper = (self.upper[i] - self.point[i]) / self.normal[i]
            first = at_upper if self.normal[i] < 0.0 else at_lower
            last = at_lower if self.normal[i] < 0.0 else at_upper
            if not self.no_kink_inside(i, first, last, bracket, line):
                kinks.first[count], kinks.last[count] = first, last
                kinks.entry[count] = i
                count += 1
        kinks.count = count

    cdef void drop_kinks(self, const Bracket* bracket, Line* line,
                         Kinks* kinks) noexcept nogil:
        """Keep entries with a kink inside a bracket, and add the others to the line."""
        cdef Py_ssize_t k, count = 0
        # In place: what is kept moves up into gaps that were read before.
        for k in range(kinks.count):
            if not self.no_kink_inside(
                    kinks.entry[k], kinks.first[k], kinks.last[k], bracket, line):
                kinks.first[count], kinks.last[count] = kinks.first[k], kinks.last[k]
                kinks.entry[count] = kinks.entry[k]
                count += 1
        kinks.count = count

    cdef double root_inside(self, Bracket bracket, Kinks* kinks) noexcept nogil:
        """The root of f in a bracket; the arrays of kinks are scratch."""
        cdef Line line
        cdef Py_ssize_t k, before
        cdef double at, value
        cdef bint exact = False
        line.offset, line.slope = -self.target, 0.0
        self.list_kinks(&bracket, &line, kinks)
        # The pivot becomes an end of the bracket, so that its own kink is not inside
        # any more: each round drops at least one.
        while kinks.count:
            before = kinks.count
            at = pivot(kinks, &bracket, exact)
            value = line.offset + line.slope * at
            for k in range(kinks.count):
                value += (self.normal[kinks.entry[k]]
                          * self.clipped(kinks.entry[k], at))
            if value >= 0.0:
                bracket.high = at
            else:
                bracket.low = at
            self.drop_kinks(&bracket, &line, kinks)
            # The median of all kinks drops half of them; that of a sample about half,
            # or hardly any where the sample misleads.
            exact = 10 * kinks.count > 9 * before
        if line.slope > 0.0:
            at = -line.offset / line.slope
            # rounding must not leave the bracket
            return (bracket.low if at < bracket.low
                    else (bracket.high if at > bracket.high else at))
        # f does not change between the last kinks
        return bracket.low if bracket.low > -INFINITY else (
            bracket.high if bracket.high < INFINITY else 0.0)

    cdef double root(self) except? -1:
        """The root of f, by medians."""
        cdef Py_ssize_t n = self.size, step = n // FEW
        cdef double[::1] first = np.empty(n), last = np.empty(n)
        cdef double[::1] sample = np.empty(2 * max(n, SAMPLE + 1))
        cdef Py_ssize_t[::1] entry = np.empty(n, dtype=np.intp)
        cdef Problem few
        cdef Bracket bracket
        cdef Kinks kinks
        bracket.low, bracket.high = -INFINITY, INFINITY
        # The root of every step-th entry, which costs little, is close to that of all.
        if step > 1:
            few = Problem(
                self.point[::step], self.normal[::step], self.lower[::step],
                self.upper[::step], self.target * ((n + step - 1) // step) / n)
            bracket = self.bracket_from(few.root())
        # A sample has both kinks of an entry, and stops at twice SAMPLE or one more;
        # samples of all kinks have two for each entry.
        kinks.first, kinks.last, kinks.sample = &first[0], &last[0], &sample[0]
        kinks.entry = &entry[0]
        with nogil:
            return self.root_inside(bracket, &kinks)

    cdef void solution(self, double at, double[::1] out) noexcept nogil:
        """The projection, from the root."""
        cdef Py_ssize_t i
        for i in range(self.size):
            out[i] = self.clipped(i, at)


def root_by_sorting(point, normal, lower, upper, target):
    """Find the same root by bisection over the sorted kinks, in O(n log n)."""
    # the others have no kinks, and would divide by zero
    moves = normal != 0.0
    entries = point[moves], normal[moves], lower[moves], upper[moves]
    point, normal, lower, upper = entries
    kinks = np.concatenate([(lower - point) / normal, (upper - point) / normal])
    kinks = np.sort(kinks[np.isfinite(kinks)])
    # f is formed from the entries themselves each time: running sums would keep the
    # rounding errors of kinks that are far away
    first, last = -1, len(kinks)
    while last - first > 1:
        middle = (first + last) // 2
        offset, slope = line_at(*entries, target, kinks[middle])
        if offset + slope * kinks[middle] < 0.0:
            first = middle
        else:
            last = middle
    low = kinks[first] if first >= 0 else -np.inf
    high = kinks[last] if last < len(kinks) else np.inf
    # A point inside the piece, so that no entry is on a bound by chance. Where the
    # piece has no end, the step is one that large entries feel, too.
    step = max(1.0, 2.0 * np.abs(kinks).max(initial=0.0),
               4.0 * np.abs(point / normal).max(initial=0.0))
    if first >= 0:
        inside = (low + high) / 2 if last < len(kinks) else low + step
    else:
        inside = high - step if last < len(kinks) else 0.0
    offset, slope = line_at(*entries, target, inside)
    # where no entry moves, any rho of the piece will do
    return min(max(-offset / slope, low), high) if slope > 0.0 else inside


def line_at(point, normal, lower, upper, target, at):
    """Return the offset and slope of the piece of f at a value of rho."""
    moved = point + at * normal
    between = (moved > lower) & (moved < upper)
    ends = np.where(moved >= upper, upper, lower)
    offset = float((normal * np.where(between, point, ends)).sum()) - target
    return offset, float((normal[between] ** 2).sum())


def project_box_equality(z, lower, upper, a, c, *, d=None, method="median"):
    """Compute the Euclidean projection onto a box with one linear equality.

    Minimizes ``|d * (x - z)|`` over ``lower <= x <= upper`` with ``a @ x = c`` [1]_.

    Parameters
    ----------
    z : array-like of shape (n,)
        The point to project.
    lower, upper : float or array-like of shape (n,)
        Bounds of the box; they may be infinite.
    a : float or array-like of shape (n,)
        Normal vector of the hyperplane; entries may be zero.
    c : float
        Right hand side.
    d : float or array-like of shape (n,), default=None
        Positive weights of the entries: the objective is
        ``1/2 * sum(d**2 * (x - z)**2)``. None: all are one.
    method : {"median", "sort"}, default="median"
        "median" uses medians of the kinks of a piecewise linear function and takes
        expected linear time; "sort" sorts the kinks.

    Returns
    -------
    x : ndarray of shape (n,)
        The projection.

    Raises
    ------
    ValueError
        If an argument has the wrong shape, `z`, `a`, `c` or `d` is not finite, a bound
        is NaN, a weight is not positive, `lower` exceeds `upper`, no such point exists,
        or the method is unknown.

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
    vectors = []
    d = 1.0 if d is None else d
    for name, value in (("lower", lower), ("upper", upper), ("a", a), ("d", d)):
        value = np.asarray(value, dtype=np.float64)
        if value.shape not in ((), z.shape):
            raise ValueError(f"{name} must be a number or of shape ({len(z)},), got "
                             f"shape {value.shape}")
        vectors.append(np.broadcast_to(value, z.shape))
    lower, upper, a, d = vectors
    c = float(c)
    if (d != 1.0).any():
        if not (np.isfinite(d).all() and d.min() > 0.0):
            raise ValueError("d must be positive and finite")
        # the point d x has no weights, and a / d is normal to its hyperplane
        scaled = project_box_equality(
            d * z, d * lower, d * upper, a / d, c, method=method)
        return np.clip(scaled / d, lower, upper)
    cdef Problem problem = Problem(z, a, lower, upper, c)
    cdef Reach reach
    if not problem.is_finite() or not np.isfinite(c):
        raise ValueError("z, a and c must be finite")
    if not problem.is_ordered():
        raise ValueError("lower must not exceed upper, and neither may be NaN")
    # what rounding may leave of sums of numbers of these sizes; infinite ends hold all
    reach = problem.reach()
    if (reach.least - c > 1e-12 * (reach.least_size + abs(c))
            or c - reach.most > 1e-12 * (reach.most_size + abs(c))):
        raise ValueError(
            f"there is no such point: <a, x> is between {reach.least:g} and "
            f"{reach.most:g}, not {c:g}")
    if method == "sort":
        root = root_by_sorting(z, a, lower, upper, c)
    else:
        root = problem.root()
    out = np.empty(len(z))
    problem.solution(root, out)
    return out
