# f at multipliers: its value, its gradient, and the tables `out` that they stand for
ctypedef double (*Evaluate)(const void* problem, const double* duals, double* gradient,
                            double* out) noexcept nogil
# step = -(Hessian + damping)^-1 gradient, the tables being those of the multipliers
ctypedef void (*FindStep)(const void* problem, const double* tables, double damping,
                          const double* gradient, double* step) noexcept nogil


cdef struct PiecewiseQuadratic:
    Py_ssize_t n_duals
    # most steps, and the largest entry of the gradient that is none
    Py_ssize_t most_steps
    double tolerance
    const void* problem
    Evaluate evaluate
    FindStep find_step
    # memory of n_duals numbers each
    double* start
    double* gradient
    double* step


cdef PiecewiseQuadratic piecewise_quadratic(
    const void* problem, Evaluate evaluate, FindStep find_step, Py_ssize_t n_duals,
    Py_ssize_t n_tables, double mass, double* memory) noexcept nogil
cdef double minimize(const PiecewiseQuadratic* f, double* duals,
                     double* out) noexcept nogil
