"""The block problem of two binary labels that score together.

Let a and b be the probabilities that a label is on, `first` and `second` below, and s
the one that both are, `both`. Over these the augmented Lagrangian of Yen et al. (2016),
(12), is in one block, up to a constant,

    curvature/2 (s - s_0)^2 - score (s - s_0) + rho (a - c_a)^2 + rho (b - c_b)^2
    s <= a, b,  a + b <= 1 + s,  0 <= s <= 1

with the score at s_0, and centers c_a and c_b: what the two labels do, less their
multipliers. The best a and b for an s are in closed form; along s the derivative is
piecewise linear and increasing, and its root is found by false position.
"""

from libc.math cimport fabs

# Steps of false position: a bound, should rounding keep the rules below from being met.
cdef int MOST_STEPS = 60
# The derivative counts as zero below this part of its terms: rounding decides its sign.
cdef double ZERO = 1e-14
# And the interval as a point where it is this short.
cdef double SHORTEST = 1e-15


cdef inline double clip(double value, double low, double high) noexcept nogil:
    """The nearest number in an interval, which is not empty."""
    return low if value < low else (high if value > high else value)


cdef inline bint best_marginals(double both, double center_first, double center_second,
                                double* first, double* second) noexcept nogil:
    """Write the best a and b for an s; whether a + b <= 1 + s is in the way."""
    first[0] = clip(center_first, both, 1.0)
    second[0] = clip(center_second, both, 1.0)
    if first[0] + second[0] <= 1.0 + both:
        return False
    # the point of the line a + b = 1 + s that is nearest to the centers
    first[0] = clip(0.5 * (center_first - center_second + 1.0 + both), both, 1.0)
    second[0] = 1.0 + both - first[0]
    return True


cdef inline double slope(double both, double center_first, double center_second,
                         double rho) noexcept nogil:
    """Derivative along s of the quadratic terms at the best a and b."""
    cdef double first, second
    if not best_marginals(both, center_first, center_second, &first, &second):
        # a marginal that is free stays where it is; one at s moves with it
        return 2.0 * rho * (
            (both - center_first if center_first < both else 0.0)
            + (both - center_second if center_second < both else 0.0))
    # on the line, where one is at s the other is at one, and else both move by half
    if first <= both:
        return 2.0 * rho * (both - center_first)
    if first >= 1.0:
        return 2.0 * rho * (both - center_second)
    return rho * (first - center_first + second - center_second)


cdef inline double block_gain(double score, double center_first, double center_second,
                              double rho, const PairPoint* point) noexcept nogil:
    """What the best of the four outcomes gains over a point, to first order."""
    cdef double gain_first = -2.0 * rho * (point.first - center_first)
    cdef double gain_second = -2.0 * rho * (point.second - center_second)
    cdef double best = gain_first + gain_second + score
    best = best if best > gain_first else gain_first
    best = best if best > gain_second else gain_second
    # neither on gains nothing
    best = best if best > 0.0 else 0.0
    return best - (point.first * gain_first + point.second * gain_second
                   + point.both * score)


cdef double step_pair(double score, double curvature, double center_first,
                      double center_second, double rho,
                      PairPoint* point) noexcept nogil:
    """Move a point to the minimum; what the best outcome gained over it before."""
    cdef double low = 0.0, high = 1.0, both = 0.0, old = point.both
    cdef double gain = block_gain(score, center_first, center_second, rho, point)
    cdef double at_low, at_high, derivative
    cdef int side = 0
    at_low = -curvature * old - score + slope(low, center_first, center_second, rho)
    at_high = (curvature * (high - old) - score
               + slope(high, center_first, center_second, rho))
    # at an end the minimum may have a derivative that leads out of [0, 1]
    if at_low < 0.0 and at_high <= 0.0:
        both = 1.0
    elif at_low < 0.0:
        for _step in range(MOST_STEPS):
            both = low - at_low * (high - low) / (at_high - at_low)
            derivative = (curvature * (both - old) - score
                          + slope(both, center_first, center_second, rho))
            if fabs(derivative) <= ZERO * (fabs(score) + rho) or high - low < SHORTEST:
                break
            # an end that stays counts half (the Illinois rule): false position alone
            # would move the other end by little and little
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
    """Return the minimum (a, b, s) of the block, and its gain; for tests."""
    cdef PairPoint point
    point.first, point.second, point.both = first, second, both
    gain = step_pair(score, curvature, center_first, center_second, rho, &point)
    return (point.first, point.second, point.both), gain
