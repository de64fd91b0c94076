"""Newton's method for the multipliers of a projection.

The dual of a projection onto a polytope is convex and piecewise quadratic: Newton's
method with a line search ends at the exact minimum, at which the gradient, by how much
the constraints are violated, is zero. What the problem is, and how its Hessian is
factorized, is the caller's.
"""

from libc.math cimport fabs
from libc.string cimport memcpy, memset

cdef enum:
    # Newton's method ends after a few steps on most problems, and more on large ones:
    # what changes at one end goes through table after table.
    MOST_STEPS = 200
    STEPS_PER_TABLE = 20
    MOST_HALVINGS = 80

# Constraints are exact up to this part of the mass: rounding.
cdef double TOLERANCE = 1e-14

# What is added to the diagonal of the Hessian: at first, and where steps keep being
# too short or too long for it.
cdef double DAMPING = 1e-9
cdef double LEAST_DAMPING = 1e-12
cdef double MOST_DAMPING = 1e6
# Times the tolerance: rounding of large numbers.
cdef double ACCEPTABLE = 1e5


cdef PiecewiseQuadratic piecewise_quadratic(
    const void* problem, Evaluate evaluate, FindStep find_step, Py_ssize_t n_duals,
    Py_ssize_t n_tables, double mass, double* memory
) noexcept nogil:
    """The dual of a projection of so many tables; memory is for 3 n_duals numbers."""
    cdef PiecewiseQuadratic f
    f.problem, f.evaluate, f.find_step = problem, evaluate, find_step
    f.n_duals = n_duals
    f.most_steps = MOST_STEPS + STEPS_PER_TABLE * n_tables
    f.tolerance = TOLERANCE * mass
    f.start, f.gradient, f.step = memory, memory + n_duals, memory + 2 * n_duals
    return f


cdef double largest(Py_ssize_t n, const double* numbers) noexcept nogil:
    """The largest absolute value."""
    cdef Py_ssize_t k
    cdef double worst = 0.0
    for k in range(n):
        if fabs(numbers[k]) > worst:
            worst = fabs(numbers[k])
    return worst


cdef int search_line(const PiecewiseQuadratic* f, double* duals, double* out,
                     double* value, double* worst) noexcept nogil:
    """Halve the step until it improves the function, or the gradient, enough.

    value and worst are the function and the largest entry of its gradient, before and
    after. Returns the number of halvings; -1 if no length will do, duals and worst
    being what they were.
    """
    cdef Py_ssize_t n = f.n_duals, k
    cdef double before = value[0], slope = 0.0, length = 1.0, now
    cdef int halvings
    # how fast the function falls along the step
    for k in range(n):
        slope += f.gradient[k] * f.step[k]
    # start + length * step each time: going back by steps would pile up rounding
    memcpy(f.start, duals, n * sizeof(double))
    for halvings in range(MOST_HALVINGS):
        for k in range(n):
            duals[k] = f.start[k] + length * f.step[k]
        value[0] = f.evaluate(f.problem, duals, f.gradient, out)
        now = largest(n, f.gradient)
        # Armijo's condition. Close to the minimum, where the function changes by less
        # than its rounding, the gradient tells more.
        if value[0] <= before + 1e-4 * length * slope or (
                now < 0.5 * worst[0] and value[0] <= before + 1e-12 * fabs(before)):
            worst[0] = now
            return halvings
        length *= 0.5
    # The tables have to be those of the multipliers.
    memcpy(duals, f.start, n * sizeof(double))
    f.evaluate(f.problem, duals, f.gradient, out)
    return -1


cdef double descend(const PiecewiseQuadratic* f, double* duals,
                    double* out) noexcept nogil:
    """Minimize the function from given multipliers."""
    cdef Py_ssize_t _
    cdef double value, worst, damping = DAMPING
    cdef int halvings
    value = f.evaluate(f.problem, duals, f.gradient, out)
    worst = largest(f.n_duals, f.gradient)
    for _ in range(f.most_steps):
        if worst <= f.tolerance:
            break
        # Where no table entry moves with a multiplier the Hessian is zero, and the
        # damping sets the length of the step: it follows what halving finds.
        f.find_step(f.problem, out, damping, f.gradient, f.step)
        halvings = search_line(f, duals, out, &value, &worst)
        # as close as rounding allows; the caller judges the violation
        if halvings < 0:
            break
        if halvings >= 2:
            damping = min(10.0 * damping, MOST_DAMPING)
        elif halvings == 0:
            damping = max(0.1 * damping, LEAST_DAMPING)
    return worst


cdef double minimize(const PiecewiseQuadratic* f, double* duals,
                     double* out) noexcept nogil:
    """Minimize the function; duals are where to start, and what was found.

    Returns the largest entry of the gradient.
    """
    cdef double worst = descend(f, duals, out)
    if worst <= ACCEPTABLE * f.tolerance:
        return worst
    # Multipliers of a point that was far away are so large that the function is all
    # rounding there: zero is nearer.
    memset(duals, 0, f.n_duals * sizeof(double))
    return descend(f, duals, out)
