"""Newton's method for the multipliers of a projection.

The dual of a projection onto a polytope is convex and piecewise quadratic: Newton's
method with a line search ends at the exact minimum, at which the gradient, by how much
the constraints are violated, is zero.
"""

from libc.math cimport fabs
from libc.string cimport memcpy, memset

from sksstruct.projections._multipliers cimport (
    TreeProblem, evaluate, first_dual, newton_step,
)

cdef enum:
    # Newton's method ends after a few steps on most problems, and more on large ones:
    # what changes at one end goes through table after table.
    MOST_STEPS = 200
    STEPS_PER_TABLE = 20
    MOST_HALVINGS = 80
    # without progress in the function or the gradient
    MOST_STALLED = 50

# Constraints are exact up to this part of the mass: rounding.
cdef double TOLERANCE = 1e-14

# What is added to the diagonal of the Hessian: at first, and where steps keep being
# too short or too long for it.
cdef double DAMPING = 1e-9
cdef double LEAST_DAMPING = 1e-12
cdef double MOST_DAMPING = 1e6
# Times the tolerance: rounding of large numbers.
cdef double ACCEPTABLE = 1e5


cdef double largest(Py_ssize_t n, const double* numbers) noexcept nogil:
    """The largest absolute value."""
    cdef Py_ssize_t k
    cdef double worst = 0.0
    for k in range(n):
        if fabs(numbers[k]) > worst:
            worst = fabs(numbers[k])
    return worst


cdef int search_line(const TreeProblem* tree, double* duals, double* out,
                     double* value, double* worst) noexcept nogil:
    """Halve the step until it improves the function, or the gradient, enough.

    value and worst are the function and the largest entry of its gradient, before and
    after. Returns the number of halvings; -1 if no length will do, duals and worst
    being what they were.
    """
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states), k
    cdef double before = value[0], slope = 0.0, length = 1.0, now, end
    cdef int halvings
    # how fast the function falls along the step
    for k in range(n):
        slope += tree.gradient[k] * tree.step[k]
    # start + length * step each time: going back by steps would pile up rounding
    memcpy(tree.start, duals, n * sizeof(double))
    for halvings in range(MOST_HALVINGS):
        for k in range(n):
            duals[k] = tree.start[k] + length * tree.step[k]
        value[0] = evaluate(tree, duals, tree.gradient, out)
        now = largest(n, tree.gradient)
        # Armijo's condition. Close to the minimum, where the function changes by less
        # than its rounding, slopes tell more: they must not lead as far across a kink
        # as the next step would lead back.
        end = 0.0
        for k in range(n):
            end += tree.gradient[k] * tree.step[k]
        if (value[0] <= before + 1e-4 * length * slope
                and before - value[0] > 1e-12 * fabs(before)) or (
                end <= -0.5 * slope and value[0] <= before + 1e-12 * fabs(before)):
            worst[0] = now
            return halvings
        length *= 0.5
    # The tables have to be those of the multipliers.
    memcpy(duals, tree.start, n * sizeof(double))
    evaluate(tree, duals, tree.gradient, out)
    return -1


cdef double descend(const TreeProblem* tree, double* duals,
                    double* out) noexcept nogil:
    """Minimize the function from given multipliers."""
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states), _
    cdef double value, worst, damping = DAMPING, tolerance = TOLERANCE * tree.mass
    cdef double before, least
    cdef int halvings, stalled = 0
    value = evaluate(tree, duals, tree.gradient, out)
    worst = least = largest(n, tree.gradient)
    for _ in range(MOST_STEPS + STEPS_PER_TABLE * tree.n_tables):
        if worst <= tolerance:
            break
        # Where no table entry moves with a multiplier the Hessian is zero, and the
        # damping sets the length of the step: it follows what halving finds.
        newton_step(tree, out, damping, tree.gradient, tree.step)
        before = value
        halvings = search_line(tree, duals, out, &value, &worst)
        stalled += 1
        if before - value > 1e-12 * fabs(before) or worst < least:
            stalled, least = 0, min(worst, least)
        # as close as rounding allows; the caller judges the violation
        if halvings < 0 or stalled == MOST_STALLED:
            break
        if halvings >= 2:
            damping = min(10.0 * damping, MOST_DAMPING)
        elif halvings == 0:
            damping = max(0.1 * damping, LEAST_DAMPING)
    return worst


cdef double minimize(const TreeProblem* tree, double* duals,
                     double* out) noexcept nogil:
    """Minimize the function; duals are where to start, and what was found.

    Returns the largest entry of the gradient.
    """
    cdef double worst = descend(tree, duals, out)
    if worst <= ACCEPTABLE * TOLERANCE * tree.mass:
        return worst
    # Multipliers of a point that was far away are so large that the function is all
    # rounding there: zero is nearer.
    memset(duals, 0,
           first_dual(tree.n_tables, tree.n_states) * sizeof(double))
    return descend(tree, duals, out)
