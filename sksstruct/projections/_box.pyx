"""Projection onto a box with one linear equality, in expected linear time.

    minimize 1/2 |x - z|^2  over  l <= x <= u,  <a, x> = c    (Saha et al., App. B)

is solved by x_i = clip(z_i + rho a_i, l_i, u_i), where rho is the root of

    f(rho) = sum_i a_i x_i(rho) - c,

which increases and is piecewise linear: an entry i has one kink where it leaves a bound
and another where it reaches the other bound. In the code, z, a, l, u and c are `point`,
`normal`, `lower`, `upper` and `target`, and a value of rho is `at`.

Each round of Algorithm 2 evaluates f at about the median of the remaining kinks and
drops half of them. Entries without a kink inside the bracket of the root are summed up
in one line, offset + slope rho, so that all rounds together take about as long as the
first few. With weights d_i^2 in the norm, the caller projects d_i x_i.
"""

from libc.math cimport INFINITY, fabs

from sksstruct.projections._select cimport select_kth
from sksstruct.utils._pointers cimport const_doubles, doubles, intps

cdef enum:
    # The pivot is the median of the kinks of about this number of entries. If this
    # pivot drops too few kinks, as on adversarial data, the next pivot is the median of
    # all kinks.
    SAMPLE = 127
    # Smallest number of entries in a sample problem, whose root is close to the root of
    # all entries.
    FEW = 2048
    # Largest number of steps from the root of the sample problem to a bracket of the
    # root of all entries.
    MOST_STEPS = 4


cdef struct Reach:
    # the least and the largest inner product of the normal a and a point x of the box
    double least
    double most
    # sums of the absolute values of the terms of `least` and `most`, for bounds of
    # rounding errors
    double least_size
    double most_size


cdef struct Bracket:
    # two values of rho around the root of f: f(low) < 0 <= f(high)
    double low
    double high


cdef struct Line:
    # offset + slope rho is the sum of a_i x_i(rho) over some entries i, minus c
    double offset
    double slope


cdef struct Kinks:
    # rho at which entry[k] leaves a bound and reaches its other bound, for k < count
    Py_ssize_t count
    double* first
    double* last
    Py_ssize_t* entry
    # scratch for medians
    double* sample


cdef inline bint is_inside(double kink, const Bracket* bracket) noexcept nogil:
    """Whether a kink is strictly inside a bracket."""
    return bracket.low < kink < bracket.high


cdef double pivot(const Kinks* kinks, const Bracket* bracket,
                  bint exact) noexcept nogil:
    """Return about the median of the kinks inside a bracket, which contains a kink."""
    cdef Py_ssize_t step = 1, k = 0, count = 0
    # the sample is spread over all entries, as callers may have sorted the entries
    if not exact and kinks.count > SAMPLE:
        step = kinks.count // SAMPLE
    while k < kinks.count and (exact or count < 2 * SAMPLE):
        if is_inside(kinks.first[k], bracket):
            kinks.sample[count] = kinks.first[k]
            count += 1
        if is_inside(kinks.last[k], bracket):
            kinks.sample[count] = kinks.last[k]
            count += 1
        k += step
    return select_kth(kinks.sample, count, count // 2)


cdef struct Problem:
    # A point, a box and a hyperplane: vectors, and the strides of their entries; a
    # stride of zero repeats a single number.
    Py_ssize_t size
    const double* point
    const double* normal
    const double* lower
    const double* upper
    Py_ssize_t step
    Py_ssize_t normal_step
    Py_ssize_t lower_step
    Py_ssize_t upper_step
    double target


cdef inline double point_of(const Problem* p, Py_ssize_t i) noexcept nogil:
    return p.point[i * p.step]


cdef inline double normal_of(const Problem* p, Py_ssize_t i) noexcept nogil:
    return p.normal[i * p.normal_step]


cdef inline double lower_of(const Problem* p, Py_ssize_t i) noexcept nogil:
    return p.lower[i * p.lower_step]


cdef inline double upper_of(const Problem* p, Py_ssize_t i) noexcept nogil:
    return p.upper[i * p.upper_step]


cdef bint is_finite(const Problem* p) noexcept nogil:
    """Whether the point and the normal are finite."""
    cdef Py_ssize_t i
    cdef double total = 0.0
    # The product 0 x is 0 for finite x and NaN otherwise. A single pass without Boolean
    # arrays matters for short vectors, for which the check takes much of the time.
    for i in range(p.size):
        total += 0.0 * point_of(p, i) + 0.0 * normal_of(p, i)
    return total == 0.0


cdef bint is_ordered(const Problem* p) noexcept nogil:
    """Whether there is a finite number between the bounds of each entry."""
    cdef Py_ssize_t i
    for i in range(p.size):
        # false for NaN as well
        if not (lower_of(p, i) <= upper_of(p, i) and lower_of(p, i) < INFINITY
                and upper_of(p, i) > -INFINITY):
            return False
    return True


cdef Reach reach(const Problem* p) noexcept nogil:
    """Return the range of the inner product <a, x> of the normal and x in the box."""
    cdef Py_ssize_t i
    cdef double normal, at_lower, at_upper, least = 0.0, most = 0.0
    cdef double least_size = 0.0, most_size = 0.0, low, high
    for i in range(p.size):
        # sums are local variables, as compilers would load and store the fields of a
        # struct in each iteration
        normal, at_lower, at_upper = normal_of(p, i), lower_of(p, i), upper_of(p, i)
        # entries with a_i = 0 add nothing; 0 times an infinite bound would be NaN
        if normal == 0.0:
            continue
        at_lower *= normal
        at_upper *= normal
        low = at_lower if at_lower < at_upper else at_upper
        high = at_upper if at_lower < at_upper else at_lower
        least += low
        most += high
        # the sizes are separate, as a large sum does not affect the rounding errors of
        # the other sum
        least_size += fabs(low)
        most_size += fabs(high)
    return Reach(least, most, least_size, most_size)


cdef inline double unclipped(const Problem* p, Py_ssize_t i, double at) noexcept nogil:
    """Return entry i at a value of rho, before clipping."""
    return point_of(p, i) + at * normal_of(p, i)


cdef inline double clipped(const Problem* p, Py_ssize_t i, double at) noexcept nogil:
    """Return entry i of the solution at a value of rho."""
    cdef double entry = unclipped(p, i, at)
    entry = lower_of(p, i) if entry < lower_of(p, i) else entry
    return upper_of(p, i) if entry > upper_of(p, i) else entry


cdef Line tangent(const Problem* p, double at) noexcept nogil:
    """Return f (in `offset`) and its slope at a value of rho.

    f is the residual of the equality, <a, x(rho)> - c.
    """
    cdef Py_ssize_t i
    cdef double entry, normal, lower, upper, value = -p.target, slope = 0.0
    for i in range(p.size):
        normal, lower, upper = normal_of(p, i), lower_of(p, i), upper_of(p, i)
        entry = unclipped(p, i, at)
        # at a kink, an entry counts as being at its bound
        if entry <= lower:
            value += normal * lower
        elif entry >= upper:
            value += normal * upper
        else:
            value += normal * entry
            slope += normal * normal
    return Line(value, slope)


cdef Bracket bracket_from(const Problem* p, double at) noexcept nogil:
    """Bracket the root of f from a guess, by a few overlong Newton steps.

    An end that no step has reached is infinite.
    """
    cdef Bracket bracket
    cdef Line line
    cdef int _
    bracket.low, bracket.high = -INFINITY, INFINITY
    for _ in range(MOST_STEPS):
        line = tangent(p, at)
        if line.offset >= 0.0:
            bracket.high = at
        else:
            bracket.low = at
        # if f is flat, no step is possible, and one end stays infinite
        if line.slope <= 0.0 or (
                bracket.low > -INFINITY and bracket.high < INFINITY):
            break
        # 1.5 times Newton's step, to reach the other side of the root
        at -= 1.5 * line.offset / line.slope
    return bracket


cdef inline bint add_if_one_piece(
        const Problem* p, Py_ssize_t i, const Bracket* bracket,
        Line* line) noexcept nogil:
    """Add an entry to the line if both ends of a bracket are in one linear piece."""
    # x_i is monotone, so that the whole bracket is in this piece. Entries are compared,
    # as in `clipped`, rather than kinks, which need divisions.
    cdef double low = unclipped(p, i, bracket.low)
    cdef double high = unclipped(p, i, bracket.high)
    cdef double lower = lower_of(p, i), upper = upper_of(p, i)
    if low <= lower and high <= lower:
        line.offset += normal_of(p, i) * lower
    elif low >= upper and high >= upper:
        line.offset += normal_of(p, i) * upper
    elif lower <= low <= upper and lower <= high <= upper:
        line.slope += normal_of(p, i) * normal_of(p, i)
        line.offset += normal_of(p, i) * point_of(p, i)
    else:
        return False
    return True


cdef inline bint add_if_no_kink(
        const Problem* p, Py_ssize_t i, double first, double last,
        const Bracket* bracket, Line* line) noexcept nogil:
    """Add an entry to the line if it has no kink inside a bracket."""
    cdef double normal = normal_of(p, i)
    # as rho grows, x_i moves from one bound to the other, upwards if a_i > 0
    if last <= bracket.low:
        line.offset += normal * (upper_of(p, i) if normal > 0.0 else lower_of(p, i))
    elif first >= bracket.high:
        line.offset += normal * (lower_of(p, i) if normal > 0.0 else upper_of(p, i))
    elif first <= bracket.low and last >= bracket.high:
        line.slope += normal * normal
        line.offset += normal * point_of(p, i)
    else:
        return False
    return True


cdef void list_kinks(const Problem* p, const Bracket* bracket, Line* line,
                     Kinks* kinks) noexcept nogil:
    """List entries with a kink inside a bracket; add all other entries to the line."""
    cdef Py_ssize_t i, count = 0
    cdef double at_lower, at_upper, first, last
    cdef bint finite = bracket.low > -INFINITY and bracket.high < INFINITY
    for i in range(p.size):
        # an entry with a_i = 0 does not move, and adds nothing to <a, x>
        if normal_of(p, i) == 0.0:
            continue
        # with a bracket from a sample, most entries are added here without divisions
        if finite and add_if_one_piece(p, i, bracket, line):
            continue
        at_lower = (lower_of(p, i) - point_of(p, i)) / normal_of(p, i)
        at_upper = (upper_of(p, i) - point_of(p, i)) / normal_of(p, i)
        first = at_upper if normal_of(p, i) < 0.0 else at_lower
        last = at_lower if normal_of(p, i) < 0.0 else at_upper
        if not add_if_no_kink(p, i, first, last, bracket, line):
            kinks.first[count], kinks.last[count] = first, last
            kinks.entry[count] = i
            count += 1
    kinks.count = count


cdef void drop_kinks(const Problem* p, const Bracket* bracket, Line* line,
                     Kinks* kinks) noexcept nogil:
    """Keep entries with a kink inside a bracket; add all other entries to the line."""
    cdef Py_ssize_t k, count = 0
    # the arrays are shortened in place: entries move to positions that have been read
    for k in range(kinks.count):
        if not add_if_no_kink(
                p, kinks.entry[k], kinks.first[k], kinks.last[k], bracket, line):
            kinks.first[count], kinks.last[count] = kinks.first[k], kinks.last[k]
            kinks.entry[count] = kinks.entry[k]
            count += 1
    kinks.count = count


cdef double root_inside(const Problem* p, Bracket bracket, Kinks* kinks) noexcept nogil:
    """Return the root of f in a bracket; the arrays of kinks are scratch."""
    cdef Line line
    cdef Py_ssize_t k, n_before
    cdef double at, value
    cdef bint exact = False
    line.offset, line.slope = -p.target, 0.0
    list_kinks(p, &bracket, &line, kinks)
    # The pivot becomes an end of the bracket, so that the kink at the pivot is no
    # longer inside: each round drops at least one kink.
    while kinks.count:
        n_before = kinks.count
        at = pivot(kinks, &bracket, exact)
        value = line.offset + line.slope * at
        for k in range(kinks.count):
            value += normal_of(p, kinks.entry[k]) * clipped(p, kinks.entry[k], at)
        if value >= 0.0:
            bracket.high = at
        else:
            bracket.low = at
        drop_kinks(p, &bracket, &line, kinks)
        # The median of all kinks drops half of them; the median of a sample drops about
        # half, but hardly any if the sample is not representative.
        exact = 10 * kinks.count > 9 * n_before
    if line.slope > 0.0:
        at = -line.offset / line.slope
        # rounding errors must not move the root out of the bracket
        return (bracket.low if at < bracket.low
                else (bracket.high if at > bracket.high else at))
    # no entry moves inside the bracket: f is constant there
    return bracket.low if bracket.low > -INFINITY else (
        bracket.high if bracket.high < INFINITY else 0.0)


cdef double root(const Problem* p, Kinks* kinks) noexcept nogil:
    """Return the root of f, by medians; the arrays of kinks are scratch."""
    cdef Py_ssize_t n = p.size, step = n // FEW
    cdef Problem sample
    cdef Bracket bracket
    bracket.low, bracket.high = -INFINITY, INFINITY
    # the root of every step-th entry is cheap, and close to the root of all entries
    if step > 1:
        sample = p[0]
        sample.size = (n + step - 1) // step
        sample.target = p.target * sample.size / n
        sample.step, sample.normal_step = step * p.step, step * p.normal_step
        sample.lower_step = step * p.lower_step
        sample.upper_step = step * p.upper_step
        bracket = bracket_from(p, root(&sample, kinks))
    return root_inside(p, bracket, kinks)


cdef void solution(const Problem* p, double at, double* out) noexcept nogil:
    """Write the projection to `out`, given the root of f."""
    cdef Py_ssize_t i
    for i in range(p.size):
        out[i] = clipped(p, i, at)


cdef class Box:
    """A point, a box and a hyperplane.

    Parameters
    ----------
    point : ndarray of shape (n,)
        The point.
    normal, lower, upper : ndarray of shape (n,) or ()
        Normal of the hyperplane, and bounds; a single number stands for all entries.
    target : float
        Right-hand side of the hyperplane.
    """

    cdef Problem problem
    cdef tuple _arrays

    def __cinit__(self, point, normal, lower, upper, double target):
        self._arrays = point, normal, lower, upper
        self.problem = Problem(
            len(point), const_doubles(point), const_doubles(normal),
            const_doubles(lower), const_doubles(upper),
            1, normal.ndim, lower.ndim, upper.ndim, target)

    def is_finite(self):
        """Whether the point and the normal are finite."""
        return is_finite(&self.problem)

    def is_ordered(self):
        """Whether there is a finite number between the bounds of each entry."""
        return is_ordered(&self.problem)

    def reach(self):
        """Return the least and the largest <a, x> in the box, and the terms' sizes.

        A size is the sum of the absolute values of the terms of an inner product.
        """
        cdef Reach result = reach(&self.problem)
        return result.least, result.most, result.least_size, result.most_size

    def root(self, scratch, entries):
        """Find the rho for which the clipped point z + rho a satisfies the equality.

        Parameters
        ----------
        scratch : ndarray of shape (4 * max(n, 128),)
            Scratch.
        entries : ndarray of shape (n,), intp
            Scratch.
        """
        cdef Py_ssize_t n = self.problem.size
        cdef double at
        cdef Kinks kinks
        # a sample has at most 2 SAMPLE + 1 kinks, or both kinks of all entries
        kinks.first, kinks.entry = doubles(scratch), intps(entries)
        kinks.last, kinks.sample = kinks.first + n, kinks.first + 2 * n
        with nogil:
            at = root(&self.problem, &kinks)
        return at

    def solution(self, double at, out):
        """Write the projection to `out`, given rho, the result of `root`."""
        solution(&self.problem, at, doubles(out))
