cdef struct TreeProblem:
    Py_ssize_t n_tables, n_states
    double mass
    # the tables to project of all trees; for each table of this tree, breadth first,
    # its index in `m`, and whether its columns are the labels of the parent
    const double* m
    const Py_ssize_t* edge
    const char* is_turned
    # for each table e of this tree, 1 / d_e^2, where d_e is the weight of the table
    const double* inverse
    # for each table t of this tree: the younger sibling, the eldest edge below, and the
    # table before t, of which t is the younger sibling or eldest edge; -1: none
    const Py_ssize_t* younger
    const Py_ssize_t* eldest
    const Py_ssize_t* before
    # The Hessian has a row of 3 n_states numbers for each multiplier of a table:
    # derivatives by multipliers of the table itself, of `before`, and, for an eldest
    # edge, of the younger sibling of `before`.
    double* lines
    # for a turned table: shifts of its columns, and sums of its columns; then n_states
    # zeros, and n_states numbers that are written but never read
    double* shift
    double* total
    const double* zeros
    double* unused
    # vectors over the multipliers: start of a line search, gradient, step
    double* start
    double* gradient
    double* step


cdef inline Py_ssize_t first_dual(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """Return the offset of a table's multipliers in the vector of all multipliers."""
    return 0 if table == 0 else 1 + (table - 1) * n_states


# Return the dual function at the multipliers `duals`; write its gradient, and write the
# tables of equation (37) of `_multipliers.pyx` to `out`.
cdef double evaluate(const TreeProblem* tree, const double* duals, double* gradient,
                     double* out) noexcept nogil
# Write step = -(Hessian + damping)^-1 gradient, with the Hessian at the given tables.
cdef void newton_step(const TreeProblem* tree, const double* tables, double damping,
                      const double* gradient, double* step) noexcept nogil
