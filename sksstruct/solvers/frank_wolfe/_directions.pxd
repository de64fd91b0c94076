# Direction and length of a step within a block, and its effect on the weights of the
# labelings (Osokin et al., 2016, Algorithms 1, 3 and 4). Notation of `_bcfw.pyx`: a
# step moves from a source towards a target, each MIXTURE or the number of a labeling; j
# numbers the labelings, and value[j] is value(y) of labeling j.

from sksstruct.solvers.frank_wolfe._blocks cimport Block


cdef enum Step:
    FW = 0
    PAIRWISE = 1
    AWAY = 2

cdef enum:
    # stands for the mixture, in place of the number of a labeling
    MIXTURE = -1


cdef struct Direction:
    # A step moves the mixture along (target - source), each the number of a labeling or
    # MIXTURE. `slope` is value(target) - value(source), `limit` the largest step size.
    Py_ssize_t target, source
    double slope, limit


cdef inline double line_search(double slope, double curvature,
                               double limit) noexcept nogil:
    """Return the step size up to `limit` that maximizes the dual, for slope > 0."""
    # comparing with a product avoids a division by a curvature of zero
    return slope / curvature if slope < limit * curvature else limit


cdef inline Py_ssize_t best_labeling(const Block* block,
                                     const double* value) noexcept nogil:
    """Return the number of the labeling with the largest value in a block."""
    cdef Py_ssize_t j, best = 0
    # `largest` in a variable avoids loads that wait for `best`
    cdef double largest = value[0]
    for j in range(1, block.n_labelings):
        if value[j] > largest:
            best, largest = j, value[j]
    return best


cdef inline Py_ssize_t worst_active(const Block* block,
                                    const double* value) noexcept nogil:
    """Return the number of the active labeling with the lowest value, or -1."""
    cdef Py_ssize_t j, worst = -1
    cdef double lowest = 0.0
    for j in range(block.n_labelings):
        # the first active labeling is accepted even if its value is NaN; a later check
        # raises an error
        if block.weight[j] > 0.0 and (worst < 0 or value[j] < lowest):
            worst, lowest = j, value[j]
    return worst


cdef inline Direction find_direction(
    int step, const Block* block, const double* value, Py_ssize_t best,
    double mixture_value
) noexcept nogil:
    """Return the direction of a step of kind `step` in a block.

    `best` is the number of the labeling with the largest value, and `mixture_value` the
    value of the mixture.
    """
    cdef Direction way
    cdef Py_ssize_t worst
    way.target, way.source, way.limit = best, MIXTURE, 1.0
    way.slope = value[best] - mixture_value
    if step == FW:
        return way
    worst = worst_active(block, value)
    if worst < 0:
        # all weights are NaN: the next check raises an error
        way.slope = 0.0
    elif step == PAIRWISE:
        # at the limit, the weight of the source is zero
        way.source, way.limit = worst, block.weight[worst]
        way.slope = value[best] - value[worst]
    elif not (way.slope > mixture_value - value[worst]
              or block.weight[worst] >= 1.0):
        # The slope away from the worst labeling is not smaller, and this labeling does
        # not have all the weight. The step increases all other weights in proportion.
        way.target, way.source = MIXTURE, worst
        way.slope = mixture_value - value[worst]
        way.limit = block.weight[worst] / (1.0 - block.weight[worst])
    return way


cdef inline void move_weights(Block* block, const Direction* way,
                              double step) noexcept nogil:
    """Change the weights of the labelings by a step; their sum stays one."""
    cdef Py_ssize_t j
    if way.target != MIXTURE and way.source != MIXTURE:
        block.weight[way.target] += step
        block.weight[way.source] -= step
    elif way.target != MIXTURE:
        for j in range(block.n_labelings):
            block.weight[j] *= 1.0 - step
        block.weight[way.target] += step
    else:
        # the mixture becomes mixture + step (mixture - source)
        for j in range(block.n_labelings):
            block.weight[j] *= 1.0 + step
        block.weight[way.source] -= step
    if step == way.limit:
        finish_full_step(block, way)


cdef inline void finish_full_step(Block* block, const Direction* way) noexcept nogil:
    """Set the weights that a step of the largest length makes zero to exactly zero."""
    # a rounding error would keep a labeling active forever
    cdef Py_ssize_t j
    if way.source != MIXTURE:
        block.weight[way.source] = 0.0
    else:
        for j in range(block.n_labelings):
            block.weight[j] = 1.0 if j == way.target else 0.0
