# Score tables of edges and larger factors, as the kernels read them.

# Kinds of tables, numbered as in factor_graphs/_tables.py.
cdef enum:
    DENSE = 0
    POTTS = 1
    LINEAR = 2
    QUADRATIC = 3
    LOGIC = 4

# Conditions on binary variables, numbered as in Logic.conditions.
cdef enum:
    XOR = 0
    ATMOSTONE = 1
    OR = 2
    OROUT = 3
    XOROUT = 4
    BUDGET = 5


cdef struct TableSpec:
    int kind
    Py_ssize_t rows, cols
    const double* data          # DENSE: the entries; LOGIC: 1.0 where negated
    double agree, differ        # POTTS: entries on and off the diagonal
    double scale, limit         # LINEAR, QUADRATIC: see entry_of; LOGIC: budget limit
    int condition               # LOGIC: one of the conditions above
    # Large dense tables only, else NULL: largest entry of each row and each column, in
    # one allocation at row_high, which `Problem` frees.
    double* row_high
    double* col_high
    # whether a large dense table is symmetric; False for all other tables
    bint symmetric


# Workspace of one message: a value and an index for each state of the largest variable.
cdef struct Scratch:
    double* value
    Py_ssize_t* index


cdef inline double entry_of(const TableSpec* table, Py_ssize_t row,
                            Py_ssize_t col) noexcept nogil:
    """Score of a pair of states, without the weight of the edge."""
    cdef double distance
    # the most frequent kind first
    if table.kind == DENSE:
        return table.data[row * table.cols + col]
    if table.kind == POTTS:
        return table.agree if row == col else table.differ
    distance = <double>(row - col)
    if table.kind == LINEAR:
        distance = table.scale * (distance if distance > 0 else -distance)
    else:
        distance = table.scale * distance * distance
    return -distance if distance < table.limit else -table.limit


cdef inline bint holds(const TableSpec* table, Py_ssize_t n_true,
                       Py_ssize_t last) noexcept nogil:
    """Whether a condition holds if `n_true` literals are true.

    `last` is 1 if the last literal is true, otherwise 0.
    """
    if table.condition == XOR:
        return n_true == 1
    if table.condition == ATMOSTONE:
        return n_true <= 1
    if table.condition == OR:
        return n_true >= 1
    # the last literal is the output: whether any other (OROUT), or exactly one
    # (XOROUT), is true
    if table.condition == OROUT:
        return (n_true > last) == last
    if table.condition == XOROUT:
        return n_true - last == last
    return n_true <= table.limit


cdef int specify(TableSpec* spec, tuple table, Py_ssize_t n_uses) except -1
cdef void send(const TableSpec* table, double weight, bint backward,
               const double* incoming, double* out, Scratch* scratch) noexcept nogil
