"""The block problem of two binary labels and their pair.

Let a (`first` below) be the probability that the first label is on, b (`second`) that
the second label is on, and s (`both`) that both labels are on. As a function of
(a, b, s), the augmented Lagrangian (12) of Yen et al. (2016) is, up to a constant,

    curvature/2 (s - s_0)^2 - score (s - s_0) + rho (a - c_a)^2 + rho (b - c_b)^2
    s <= a, b,  a + b <= 1 + s,  0 <= s <= 1

with the score at the present s_0. The centers c_a and c_b are q of the label minus
lambda / (2 rho), in the notation of `_binary_blocks.pyx`. The best a and b for given s
have closed forms; the derivative along s is piecewise linear and increasing, and its
root is found by false position.
"""

from libc.math cimport fabs

# Largest number of steps of false position: with rounding errors, the search may never
# meet one of the two conditions below.
cdef int MOST_STEPS = 60
# A derivative along s counts as zero if its absolute value is below this fraction of
# |score| + rho, as rounding errors then decide its sign.
cdef double ZERO = 1e-14
# The search also ends once the interval that contains the best s is shorter than this.
cdef double SHORTEST = 1e-15


cdef inline double clip(double value, double low, double high) noexcept nogil:
    """Return the number nearest to a value in a nonempty interval."""
    return low if value < low else (high if value > high else value)


cdef inline bint best_marginals(double both, double center_first, double center_second,
                                double* first, double* second) noexcept nogil:
    """Write the best a and b for given s; return whether a + b <= 1 + s is active."""
    first[0] = clip(center_first, both, 1.0)
    second[0] = clip(center_second, both, 1.0)
    if first[0] + second[0] <= 1.0 + both:
        return False
    # nearest point to the centers on the line a + b = 1 + s
    first[0] = clip(0.5 * (center_first - center_second + 1.0 + both), both, 1.0)
    second[0] = 1.0 + both - first[0]
    return True


cdef inline double slope(double both, double center_first, double center_second,
                         double rho) noexcept nogil:
    """Return the derivative along s of the quadratic terms at the best a and b."""
    cdef double first, second
    if not best_marginals(both, center_first, center_second, &first, &second):
        # if the best a or b is above s, it does not depend on s; if equal to s, it
        # changes with s
        return 2.0 * rho * (
            (both - center_first if center_first < both else 0.0)
            + (both - center_second if center_second < both else 0.0))
    # On the line a + b = 1 + s, a = s implies b = 1, and a = 1 implies b = s. Otherwise
    # both a and b change by half of the change of s.
    if first <= both:
        return 2.0 * rho * (both - center_first)
    if first >= 1.0:
        return 2.0 * rho * (both - center_second)
    return rho * (first - center_first + second - center_second)


cdef inline double block_gain(double score, double center_first, double center_second,
                              double rho, const PairPoint* point) noexcept nogil:
    """Return the first-order gain of moving a point to the best of four outcomes."""
    cdef double gain_first = -2.0 * rho * (point.first - center_first)
    cdef double gain_second = -2.0 * rho * (point.second - center_second)
    cdef double best = gain_first + gain_second + score
    best = best if best > gain_first else gain_first
    best = best if best > gain_second else gain_second
    # the outcome with both labels off has gain zero
    best = best if best > 0.0 else 0.0
    return best - (point.first * gain_first + point.second * gain_second
                   + point.both * score)


cdef double step_pair(double score, double curvature, double center_first,
                      double center_second, double rho,
                      PairPoint* point) noexcept nogil:
    """Move (a, b, s) to the minimum of (12); return `block_gain` before the move."""
    cdef double low = 0.0, high = 1.0, both = 0.0, old = point.both
    cdef double gain = block_gain(score, center_first, center_second, rho, point)
    cdef double at_low, at_high, derivative
    cdef int side = 0
    at_low = -curvature * old - score + slope(low, center_first, center_second, rho)
    at_high = (curvature * (high - old) - score
               + slope(high, center_first, center_second, rho))
    # the minimum is at s = 0 or s = 1 if the derivative points out of [0, 1] there
    if at_low < 0.0 and at_high <= 0.0:
        both = 1.0
    elif at_low < 0.0:
        for _step in range(MOST_STEPS):
            both = low - at_low * (high - low) / (at_high - at_low)
            derivative = (curvature * (both - old) - score
                          + slope(both, center_first, center_second, rho))
            if fabs(derivative) <= ZERO * (fabs(score) + rho) or high - low < SHORTEST:
                break
            # Illinois rule: the derivative at an end that stays for a second time is
            # halved, as plain false position would move only the other end, by small
            # steps
            if derivative < 0.0:
                low, at_low = both, derivative
                at_high *= 0.5 if side == 1 else 1.0
                side = 1
            else:
                high, at_high = both, derivative
                at_low *= 0.5 if side == 2 else 1.0
                side = 2
    point.both = both
    best_marginals(both, center_first, center_second, &point.first, &point.second)
    return gain


def solve_pair(double score, double curvature, double center_first,
               double center_second, double rho, first, second, both):
    """Return the minimum (a, b, s), and the value of `step_pair`; for tests."""
    cdef PairPoint point
    point.first, point.second, point.both = first, second, both
    gain = step_pair(score, curvature, center_first, center_second, rho, &point)
    return (point.first, point.second, point.both), gain
