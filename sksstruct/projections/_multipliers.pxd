cdef struct TreeProblem:
    Py_ssize_t n_tables, n_states
    double mass
    # tables of all trees, and of each table of this one, breadth first: which it is,
    # and whether its columns are the parent's labels
    const double* m
    const Py_ssize_t* edge
    const char* is_turned
    # of each table of this one, 1 / d_e^2
    const double* inverse
    # the younger sibling, the eldest edge below, and what this one is one of these of;
    # -1: none
    const Py_ssize_t* younger
    const Py_ssize_t* eldest
    const Py_ssize_t* before
    # The Hessian has a line of 3 n_states numbers for each multiplier of a table: where
    # it meets those of the table itself, those of `before`, and, for the eldest, those
    # of the younger sibling of `before`.
    double* lines
    # of a table that is turned: what is added to its columns, and sums of these; then
    # n_states zeros, and as many numbers that are only written
    double* shift
    double* total
    const double* zeros
    double* unused
    # memory of a number for each multiplier: where a step begins, and the step
    double* start
    double* gradient
    double* step


cdef inline Py_ssize_t first_dual(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """Where the multipliers of a table begin."""
    return 0 if table == 0 else 1 + (table - 1) * n_states


# f at multipliers: its value, its gradient, and the tables `out` that they stand for
cdef double evaluate(const TreeProblem* tree, const double* duals, double* gradient,
                     double* out) noexcept nogil
# step = -(Hessian + damping)^-1 gradient, the tables being those of the multipliers
cdef void newton_step(const TreeProblem* tree, const double* tables, double damping,
                      const double* gradient, double* step) noexcept nogil
