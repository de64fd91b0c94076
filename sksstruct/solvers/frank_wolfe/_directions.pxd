# Where a step within a block goes, how far, and what it does to the weights of the
# labelings (Osokin et al., 2016, Algorithms 1, 3 and 4). In the notation of
# `_bcfw.pyx`: a step goes from a source towards a target, MIXTURE or the number of a
# labeling, j numbers the labelings, and value[j] is value(y) of labeling j.

from sksstruct.solvers.frank_wolfe._blocks cimport Block


cdef enum Step:
    FW = 0
    PAIRWISE = 1
    AWAY = 2

cdef enum:
    # no number of a labeling
    MIXTURE = -1


cdef struct Direction:
    # from one labeling to another, or the mixture, as far as `limit`
    Py_ssize_t target, source
    double slope, limit


cdef inline double line_search(double slope, double curvature,
                               double limit) noexcept nogil:
    """Return the best step along a direction of positive slope."""
    # a product is compared, as the curvature may be zero
    return slope / curvature if slope < limit * curvature else limit


cdef inline Py_ssize_t best_labeling(const Block* block,
                                     const double* value) noexcept nogil:
    """Return the labeling of largest value."""
    cdef Py_ssize_t j, best = 0
    # kept beside its number, which would have to be known before it could be read
    cdef double largest = value[0]
    for j in range(1, block.n_labelings):
        if value[j] > largest:
            best, largest = j, value[j]
    return best


cdef inline Py_ssize_t worst_active(const Block* block,
                                    const double* value) noexcept nogil:
    """Return the labeling of lowest value among those with a weight, or -1."""
    cdef Py_ssize_t j, worst = -1
    cdef double lowest = 0.0
    for j in range(block.n_labelings):
        # the first one also where it is no number, so that the next check sees that
        if block.weight[j] > 0.0 and (worst < 0 or value[j] < lowest):
            worst, lowest = j, value[j]
    return worst


cdef inline Direction find_direction(
    int step, const Block* block, const double* value, Py_ssize_t best,
    double mixture_value
) noexcept nogil:
    """Return where a step goes, given the best labeling and the mixture's value."""
    cdef Direction way
    cdef Py_ssize_t worst
    way.target, way.source, way.limit = best, MIXTURE, 1.0
    way.slope = value[best] - mixture_value
    if step == FW:
        return way
    worst = worst_active(block, value)
    if worst < 0:
        # no weight is a number any more: the next check says so
        way.slope = 0.0
    elif step == PAIRWISE:
        # no further than to weight zero: the source drops out then
        way.source, way.limit = worst, block.weight[worst]
        way.slope = value[best] - value[worst]
    elif not (way.slope > mixture_value - value[worst]
              or block.weight[worst] >= 1.0):
        # Away from the worst: all other weights grow in proportion. Impossible
        # where it has all the weight, and chosen where that is the steeper way.
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
        # mixture + step (mixture - source)
        for j in range(block.n_labelings):
            block.weight[j] *= 1.0 + step
        block.weight[way.source] -= step
    if step == way.limit:
        finish_full_step(block, way)


cdef inline void finish_full_step(Block* block, const Direction* way) noexcept nogil:
    """Set to zero what a step as far as its limit has spent."""
    # Exactly zero: a rest of rounding errors would keep a labeling active forever.
    cdef Py_ssize_t j
    if way.source != MIXTURE:
        block.weight[way.source] = 0.0
    else:
        for j in range(block.n_labelings):
            block.weight[j] = 1.0 if j == way.target else 0.0
