"""The block problem of two binary labels that score together.

Over the marginals a, b and the probability s that both are on, the augmented Lagrangian
of Yen et al. (2016), (12), is in one block, up to a constant,

    curvature/2 (s - s_0)^2 - v (s - s_0) + rho (a - c_a)^2 + rho (b - c_b)^2
    s <= a, b,  a + b <= 1 + s,  0 <= s <= 1

v being the score at s_0. The best a and b for an s are in closed form; along s the
derivative is piecewise linear and increasing, and its root is found by false position.
"""

from libc.math cimport fabs

cdef int MOST_STEPS = 60


cdef inline bint nearest(double s, double ca, double cb, double* a,
                         double* b) noexcept nogil:
    """The best a and b for an s; whether a + b <= 1 + s is in the way."""
    a[0] = s if ca < s else (1.0 if ca > 1.0 else ca)
    b[0] = s if cb < s else (1.0 if cb > 1.0 else cb)
    if a[0] + b[0] <= 1.0 + s:
        return False
    a[0] = 0.5 * (ca - cb + 1.0 + s)
    a[0] = s if a[0] < s else (1.0 if a[0] > 1.0 else a[0])
    b[0] = 1.0 + s - a[0]
    return True


cdef inline double slope(double s, double ca, double cb, double rho) noexcept nogil:
    """Derivative along s of the quadratic terms at the best a and b."""
    cdef double a, b
    if not nearest(s, ca, cb, &a, &b):
        return 2.0 * rho * ((s - ca if ca < s else 0.0) + (s - cb if cb < s else 0.0))
    if a <= s:
        return 2.0 * rho * (s - ca)
    if a >= 1.0:
        return 2.0 * rho * (s - cb)
    return rho * (a - ca + b - cb)


cdef double step_pair(double v, double curvature, double ca, double cb, double rho,
                      PairPoint* point) noexcept nogil:
    """Move a point to the minimum; what the best outcome gained over it before."""
    cdef double low = 0.0, high = 1.0, f_low, f_high, f, s = 0.0, old = point.s
    cdef double gain_a = -2.0 * rho * (point.a - ca)
    cdef double gain_b = -2.0 * rho * (point.b - cb)
    cdef double best = gain_a + gain_b + v
    cdef int side = 0
    best = best if best > gain_a else gain_a
    best = best if best > gain_b else gain_b
    best = best if best > 0.0 else 0.0
    best -= point.a * gain_a + point.b * gain_b + old * v
    f_low = -curvature * old - v + slope(low, ca, cb, rho)
    f_high = curvature * (high - old) - v + slope(high, ca, cb, rho)
    if f_low < 0.0 and f_high <= 0.0:
        s = 1.0
    elif f_low < 0.0:
        for _k in range(MOST_STEPS):
            s = low - f_low * (high - low) / (f_high - f_low)
            f = curvature * (s - old) - v + slope(s, ca, cb, rho)
            if fabs(f) <= 1e-14 * (fabs(v) + rho) or high - low < 1e-15:
                break
            # an end that stays counts half (the Illinois rule)
            if f < 0.0:
                low, f_low = s, f
                f_high *= 0.5 if side == 1 else 1.0
                side = 1
            else:
                high, f_high = s, f
                f_low *= 0.5 if side == 2 else 1.0
                side = 2
    point.s = s
    nearest(s, ca, cb, &point.a, &point.b)
    return best


def solve_pair(double v, double curvature, double ca, double cb, double rho, a, b, s):
    """`step_pair` from a, b, s; the new point, and the gain."""
    cdef PairPoint point
    point.a, point.b, point.s = a, b, s
    gain = step_pair(v, curvature, ca, cb, rho, &point)
    return (point.a, point.b, point.s), gain
