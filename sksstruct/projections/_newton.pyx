"""Newton's method for the multipliers of a projection.

The dual of a projection onto a polytope is convex and piecewise quadratic: Newton's
method with a line search ends at the exact minimum. At the minimum the gradient, which
is the violation of the constraints, is zero.
"""

from libc.math cimport fabs
from libc.string cimport memcpy, memset

from sksstruct.projections._multipliers cimport (
    TreeProblem, evaluate, first_dual, newton_step,
)

cdef enum:
    # The largest number of Newton's steps is MOST_STEPS, plus STEPS_PER_TABLE for each
    # table. Most problems need a few steps, and large trees more, as changes propagate
    # from table to table.
    MOST_STEPS = 200
    STEPS_PER_TABLE = 20
    MOST_HALVINGS = 80
    # largest number of steps without progress in the function or the gradient
    MOST_STALLED = 50

# Tolerance of the constraints as a fraction of the mass, near rounding errors.
cdef double TOLERANCE = 1e-14

# Initial damping, added to the diagonal of the Hessian; the damping is adapted if steps
# are too long or accepted at once.
cdef double DAMPING = 1e-9
cdef double LEAST_DAMPING = 1e-12
cdef double MOST_DAMPING = 1e6
# Multiple of the tolerance that is accepted, as large numbers have large rounding
# errors.
cdef double ACCEPTABLE = 1e5


cdef double largest(Py_ssize_t n, const double* numbers) noexcept nogil:
    """Return the largest absolute value of n numbers."""
    cdef Py_ssize_t k
    cdef double worst = 0.0
    for k in range(n):
        if fabs(numbers[k]) > worst:
            worst = fabs(numbers[k])
    return worst


cdef int search_line(const TreeProblem* tree, double* duals, double* out,
                     double* value, double* worst) noexcept nogil:
    """Halve the step until the dual function, or its gradient, is improved enough.

    `value` and `worst`, the function and the largest absolute entry of its gradient,
    are updated. Returns the number of halvings, or -1 if no length is accepted; `duals`
    and `worst` are then unchanged.
    """
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states), k
    cdef double before = value[0], slope = 0.0, length = 1.0, new_worst, end_slope
    cdef int halvings
    # derivative of the function along the step
    for k in range(n):
        slope += tree.gradient[k] * tree.step[k]
    # each trial is start + length * step, as subtracting parts of the step would add up
    # rounding errors
    memcpy(tree.start, duals, n * sizeof(double))
    for halvings in range(MOST_HALVINGS):
        for k in range(n):
            duals[k] = tree.start[k] + length * tree.step[k]
        value[0] = evaluate(tree, duals, tree.gradient, out)
        new_worst = largest(n, tree.gradient)
        # Armijo's condition. Close to the minimum, changes of the function are below
        # its rounding errors, and slopes decide: beyond a kink, the slope at the end
        # must not exceed half of the slope at the start, reversed.
        end_slope = 0.0
        for k in range(n):
            end_slope += tree.gradient[k] * tree.step[k]
        if (value[0] <= before + 1e-4 * length * slope
                and before - value[0] > 1e-12 * fabs(before)) or (
                end_slope <= -0.5 * slope
                and value[0] <= before + 1e-12 * fabs(before)):
            worst[0] = new_worst
            return halvings
        length *= 0.5
    # `out` must hold the tables at the restored multipliers
    memcpy(duals, tree.start, n * sizeof(double))
    evaluate(tree, duals, tree.gradient, out)
    return -1


cdef double descend(const TreeProblem* tree, double* duals,
                    double* out) noexcept nogil:
    """Minimize the dual function from given multipliers, by Newton's method.

    Returns the largest violation of a constraint of the projection.
    """
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states), _
    cdef double value, worst, damping = DAMPING, tolerance = TOLERANCE * tree.mass
    cdef double before, least
    cdef int halvings, stalled = 0
    value = evaluate(tree, duals, tree.gradient, out)
    worst = least = largest(n, tree.gradient)
    for _ in range(MOST_STEPS + STEPS_PER_TABLE * tree.n_tables):
        if worst <= tolerance:
            break
        # The Hessian is zero for a multiplier that shifts no positive entry: the
        # damping then determines the length of the step. The damping is adapted to the
        # number of halvings.
        newton_step(tree, out, damping, tree.gradient, tree.step)
        before = value
        halvings = search_line(tree, duals, out, &value, &worst)
        stalled += 1
        if before - value > 1e-12 * fabs(before) or worst < least:
            stalled, least = 0, min(worst, least)
        # The multipliers are as accurate as rounding errors allow; `minimize` decides
        # whether the violation is acceptable.
        if halvings < 0 or stalled == MOST_STALLED:
            break
        if halvings >= 2:
            damping = min(10.0 * damping, MOST_DAMPING)
        elif halvings == 0:
            damping = max(0.1 * damping, LEAST_DAMPING)
    return worst


cdef double minimize(const TreeProblem* tree, double* duals,
                     double* out) noexcept nogil:
    """Minimize the dual function from the multipliers `duals`, which are overwritten.

    Returns the largest absolute entry of the gradient, and writes the tables at the
    final multipliers to `out`.
    """
    cdef double worst = descend(tree, duals, out)
    if worst <= ACCEPTABLE * TOLERANCE * tree.mass:
        return worst
    # Multipliers of an earlier projection may be so large that rounding errors dominate
    # the function: start again from zero.
    memset(duals, 0,
           first_dual(tree.n_tables, tree.n_states) * sizeof(double))
    return descend(tree, duals, out)
