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

from libc.math cimport INFINITY, fabs

from sksstruct.projections._select cimport select_kth
from sksstruct.utils._pointers cimport const_doubles, doubles, intps

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


cdef struct Problem:
    # a point, a box and a hyperplane: vectors, and how far apart their entries are,
    # which is zero where one number stands for all
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
    # 0 x is 0 for numbers, NaN for what is not finite. One pass without arrays of
    # truth values, as this takes a good part of the time where vectors are short.
    for i in range(p.size):
        total += 0.0 * point_of(p, i) + 0.0 * normal_of(p, i)
    return total == 0.0


cdef bint is_ordered(const Problem* p) noexcept nogil:
    """Whether each entry has a number between its bounds."""
    cdef Py_ssize_t i
    for i in range(p.size):
        # false for NaN as well
        if not (lower_of(p, i) <= upper_of(p, i) and lower_of(p, i) < INFINITY
                and upper_of(p, i) > -INFINITY):
            return False
    return True


cdef Reach reach(const Problem* p) noexcept nogil:
    """What <a, x> can be in the box."""
    cdef Py_ssize_t i
    cdef double normal, at_lower, at_upper, least = 0.0, most = 0.0
    cdef double least_size = 0.0, most_size = 0.0, low, high
    for i in range(p.size):
        # sums in plain numbers: fields of a struct, which compilers pack and unpack
        # in each round, cost more than the rest
        normal, at_lower, at_upper = normal_of(p, i), lower_of(p, i), upper_of(p, i)
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


cdef inline double moved(const Problem* p, Py_ssize_t i, double at) noexcept nogil:
    """Entry i at a value of rho, before it is clipped."""
    return point_of(p, i) + at * normal_of(p, i)


cdef inline double clipped(const Problem* p, Py_ssize_t i, double at) noexcept nogil:
    """Entry i of the solution at a value of rho."""
    cdef double entry = moved(p, i, at)
    entry = lower_of(p, i) if entry < lower_of(p, i) else entry
    return upper_of(p, i) if entry > upper_of(p, i) else entry


cdef Line tangent(const Problem* p, double at) noexcept nogil:
    """f at a value of rho, as the offset, and its slope there."""
    cdef Py_ssize_t i
    cdef double entry, normal, lower, upper, value = -p.target, slope = 0.0
    for i in range(p.size):
        normal, lower, upper = normal_of(p, i), lower_of(p, i), upper_of(p, i)
        entry = moved(p, i, at)
        # On a kink an entry counts as being at its bound.
        if entry <= lower:
            value += normal * lower
        elif entry >= upper:
            value += normal * upper
        else:
            value += normal * entry
            slope += normal * normal
    return Line(value, slope)


cdef Bracket bracket_from(const Problem* p, double at) noexcept nogil:
    """Bracket the root from a guess, by a few steps that go a bit too far.

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
        # Where f is flat there is no step to take: one end stays infinite.
        if line.slope <= 0.0 or (
                bracket.low > -INFINITY and bracket.high < INFINITY):
            break
        # half as far again as Newton's step, to come out on the other side
        at -= 1.5 * line.offset / line.slope
    return bracket


cdef inline bint same_at_both_ends(
        const Problem* p, Py_ssize_t i, const Bracket* bracket,
        Line* line) noexcept nogil:
    """Add an entry to the line if both ends of a bracket agree on its piece."""
    # Between the ends x_i is monotone, so that it stays on the piece. Compared are
    # entries, as in `clipped`, and not kinks, which need divisions.
    cdef double low = moved(p, i, bracket.low)
    cdef double high = moved(p, i, bracket.high)
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


cdef inline bint no_kink_inside(
        const Problem* p, Py_ssize_t i, double first, double last,
        const Bracket* bracket, Line* line) noexcept nogil:
    """Add an entry to the line if it has no kink inside a bracket."""
    cdef double normal = normal_of(p, i)
    # As rho grows, x_i goes from one bound to the other, up if a_i > 0.
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
    """List entries with a kink inside a bracket, and add the others to the line."""
    cdef Py_ssize_t i, count = 0
    cdef double at_lower, at_upper, first, last
    cdef bint finite = bracket.low > -INFINITY and bracket.high < INFINITY
    for i in range(p.size):
        # does not move, and adds nothing to <a, x>
        if normal_of(p, i) == 0.0:
            continue
        # With a bracket from a sample that is most entries: it saves divisions.
        if finite and same_at_both_ends(p, i, bracket, line):
            continue
        at_lower = (lower_of(p, i) - point_of(p, i)) / normal_of(p, i)
        at_upper = (upper_of(p, i) - point_of(p, i)) / normal_of(p, i)
        first = at_upper if normal_of(p, i) < 0.0 else at_lower
        last = at_lower if normal_of(p, i) < 0.0 else at_upper
        if not no_kink_inside(p, i, first, last, bracket, line):
            kinks.first[count], kinks.last[count] = first, last
            kinks.entry[count] = i
            count += 1
    kinks.count = count


cdef void drop_kinks(const Problem* p, const Bracket* bracket, Line* line,
                     Kinks* kinks) noexcept nogil:
    """Keep entries with a kink inside a bracket, and add the others to the line."""
    cdef Py_ssize_t k, count = 0
    # In place: what is kept moves up into gaps that were read before.
    for k in range(kinks.count):
        if not no_kink_inside(
                p, kinks.entry[k], kinks.first[k], kinks.last[k], bracket, line):
            kinks.first[count], kinks.last[count] = kinks.first[k], kinks.last[k]
            kinks.entry[count] = kinks.entry[k]
            count += 1
    kinks.count = count


cdef double root_inside(const Problem* p, Bracket bracket, Kinks* kinks) noexcept nogil:
    """The root of f in a bracket; the arrays of kinks are scratch."""
    cdef Line line
    cdef Py_ssize_t k, before
    cdef double at, value
    cdef bint exact = False
    line.offset, line.slope = -p.target, 0.0
    list_kinks(p, &bracket, &line, kinks)
    # The pivot becomes an end of the bracket, so that its own kink is not inside
    # any more: each round drops at least one.
    while kinks.count:
        before = kinks.count
        at = pivot(kinks, &bracket, exact)
        value = line.offset + line.slope * at
        for k in range(kinks.count):
            value += normal_of(p, kinks.entry[k]) * clipped(p, kinks.entry[k], at)
        if value >= 0.0:
            bracket.high = at
        else:
            bracket.low = at
        drop_kinks(p, &bracket, &line, kinks)
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


cdef double root(const Problem* p, Kinks* kinks) noexcept nogil:
    """The root of f, by medians; the arrays of kinks are scratch."""
    cdef Py_ssize_t n = p.size, step = n // FEW
    cdef Problem few
    cdef Bracket bracket
    bracket.low, bracket.high = -INFINITY, INFINITY
    # The root of every step-th entry, which costs little, is close to that of all.
    if step > 1:
        few = p[0]
        few.size = (n + step - 1) // step
        few.target = p.target * few.size / n
        few.step, few.normal_step = step * p.step, step * p.normal_step
        few.lower_step = step * p.lower_step
        few.upper_step = step * p.upper_step
        bracket = bracket_from(p, root(&few, kinks))
    return root_inside(p, bracket, kinks)


cdef void solution(const Problem* p, double at, double* out) noexcept nogil:
    """The projection, from the root."""
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
        Normal of the hyperplane, and bounds; one number stands for all entries.
    target : float
        Right hand side of the hyperplane.
    """

    cdef Problem problem
    cdef tuple _owned

    def __cinit__(self, point, normal, lower, upper, double target):
        self._owned = point, normal, lower, upper
        self.problem = Problem(
            len(point), const_doubles(point), const_doubles(normal),
            const_doubles(lower), const_doubles(upper),
            1, normal.ndim, lower.ndim, upper.ndim, target)

    def is_finite(self):
        """Whether the point and the normal are finite."""
        return is_finite(&self.problem)

    def is_ordered(self):
        """Whether each entry has a number between its bounds."""
        return is_ordered(&self.problem)

    def reach(self):
        """Return the least and the largest <a, x>, and the sizes of their terms."""
        cdef Reach found = reach(&self.problem)
        return found.least, found.most, found.least_size, found.most_size

    def root(self, scratch, entries):
        """Find the root of f.

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
        # A sample has both kinks of an entry, and stops at twice SAMPLE or one more;
        # samples of all kinks have two for each entry.
        kinks.first, kinks.entry = doubles(scratch), intps(entries)
        kinks.last, kinks.sample = kinks.first + n, kinks.first + 2 * n
        with nogil:
            at = root(&self.problem, &kinks)
        return at

    def solution(self, double at, out):
        """Write the projection, from the root."""
        solution(&self.problem, at, doubles(out))
