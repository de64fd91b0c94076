"""Sum-product on trees of parts in a grid, by log-sum transforms.

A message is the distance transform of `_parts.pyx` with sums of exponentials in place
of maxima: its two passes, along the rows of the grid and along its columns, compute

    out[x] = log sum_z exp(values[z] + g(x - z)),   g(d) = linear d - quadratic d^2

over all positions z, in O(height + width) time for each position.

Both the sums of exponentials and the sums in log space are products of a row and a
table, `combine`. Exponentials are relative to the maximum of the values and to the
maximum of g, so that the largest is 1. Terms that underflow are below 1e-307, and
negligible in a sum above 1e-280. If any sum of a message is smaller, the message is
computed again in log space, which takes several times as long.

A grid has a row of ld >= width numbers for each row of positions, where ld is a
multiple of 8, and -inf in the padding. In the comments below, x is the position of a
parent and z that of its child; r and c denote their rows and columns.
"""

from libc.math cimport INFINITY, exp, log
from libc.string cimport memcpy, memset

from sksstruct.inference.parts._parts cimport PartsTree
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._pointers cimport const_doubles, doubles
from sksstruct.utils._simd cimport sks_exp_row, sks_logplus, sks_scores_f64

# Sums of exponentials below this may have lost relevant terms.
cdef double SMALLEST = 1e-280


cdef struct Lines:
    # g(x - z) - top, or its exponential, for all differences x - z of a parent's and a
    # child's coordinate, from 1 - n to n - 1 (`forward`) and from n - 1 to 1 - n
    # (`backward`). g scores the displacement of an edge, and `top` is its maximum.
    double* forward
    double* backward
    double top


cdef struct Scratch:
    Py_ssize_t height, width, ld, cells, ld_turned
    # message of each part to its parent
    double* messages
    # grids of a child and its parent without messages between the two; results of the
    # first pass and of the second pass
    double* child
    double* parent
    double* between
    double* sent
    # a transposed grid, (width, ld_turned), and a table of pairs of rows or columns
    double* turned
    double* pairs
    # (width, ld): the score g of the displacement minus its maximum, or the exponential
    # of this difference, for each pair of a sender's and a receiver's column
    double* table
    Lines rows
    Lines columns
    const double* zeros


cdef Py_ssize_t grid_ld(Py_ssize_t width) noexcept nogil:
    """Return the length of a grid's row: the width, rounded up to a multiple of 8."""
    return (width + 7) // 8 * 8


cdef Py_ssize_t pair_size(Py_ssize_t height, Py_ssize_t width) noexcept nogil:
    """Return the size of a table of pairs of rows, or of pairs of columns."""
    return max(height * grid_ld(height), width * grid_ld(width))


cdef Py_ssize_t scratch_size(Py_ssize_t n_parts, Py_ssize_t height,
                             Py_ssize_t width) noexcept nogil:
    """Number of doubles of memory that `sum_product` needs."""
    cdef Py_ssize_t ld = grid_ld(width), ld_turned = grid_ld(height)
    return ((n_parts + 4) * height * ld + width * ld_turned + width * ld
            + pair_size(height, width) + 5 * (ld + ld_turned))


cdef double* take(double** memory, Py_ssize_t size) noexcept nogil:
    """Return the next `size` doubles of memory, and move the pointer behind them."""
    cdef double* out = memory[0]
    memory[0] += size
    return out


cdef Scratch divide_memory(Py_ssize_t n_parts, Py_ssize_t height, Py_ssize_t width,
                           double* memory) noexcept nogil:
    """Divide `scratch_size` doubles among the arrays of `Scratch`."""
    cdef Scratch s
    s.height, s.width, s.ld, s.ld_turned = height, width, grid_ld(width), grid_ld(
        height)
    s.cells = height * s.ld
    # all sizes are multiples of eight doubles, so that all rows begin at cache lines
    s.messages = take(&memory, n_parts * s.cells)
    s.child, s.parent = take(&memory, s.cells), take(&memory, s.cells)
    s.between, s.sent = take(&memory, s.cells), take(&memory, s.cells)
    s.turned = take(&memory, width * s.ld_turned)
    s.pairs = take(&memory, pair_size(height, width))
    s.table = take(&memory, width * s.ld)
    s.rows.forward = take(&memory, 2 * s.ld_turned)
    s.rows.backward = take(&memory, 2 * s.ld_turned)
    s.columns.forward = take(&memory, 2 * s.ld)
    s.columns.backward = take(&memory, 2 * s.ld)
    # the zeros are at least as long as a row of a grid and of a transposed grid
    s.zeros = take(&memory, s.ld + s.ld_turned)
    memset(<void*> s.zeros, 0, (s.ld + s.ld_turned) * sizeof(double))
    return s


cdef inline void combine(bint logs, Py_ssize_t n, Py_ssize_t ld, const double* row,
                         const double* table, const double* zeros,
                         double* out) noexcept nogil:
    """Multiply a row by a table: write out[b] = sum_a row[a] table[a, b].

    If `logs`, the numbers are logarithms: out[b] = log sum_a exp(row[a] + table[a, b]).
    """
    if logs:
        # `sks_logplus` adds to `out`
        memset(out, 0, ld * sizeof(double))
        sks_logplus(n, ld, row, table, out)
    else:
        sks_scores_f64(n, NULL, row, 1.0, table, ld, zeros, out)


cdef void turn(bint logs, const Scratch* s, const double* grid) noexcept nogil:
    """Write the transpose of a grid to `turned`."""
    cdef Py_ssize_t row, column
    cdef double nothing = -INFINITY if logs else 0.0
    for column in range(s.width):
        for row in range(s.height):
            s.turned[column * s.ld_turned + row] = grid[row * s.ld + column]
        for row in range(s.height, s.ld_turned):
            s.turned[column * s.ld_turned + row] = nothing


# ---- springs ----

cdef inline double sign_of(Tree tree, Py_ssize_t child) noexcept nogil:
    """Return 1 if displacements count from the child to its parent, else -1."""
    return -1.0 if tree._ends[2 * tree._edge[child] + 1] == child else 1.0


cdef void fill_lines(bint logs, const Spring* spring, Py_ssize_t axis, double sign,
                     Py_ssize_t n, Lines* lines) noexcept nogil:
    """Tabulate the scores g of an edge's displacements along an axis of length n."""
    cdef Py_ssize_t k
    cdef double d
    lines.top = -INFINITY
    # g depends only on the parent's coordinate minus the child's, 1 - n to n - 1
    for k in range(2 * n - 1):
        d = sign * (k - (n - 1)) - spring.offset[axis]
        lines.forward[k] = d * (spring.linear[axis] - spring.quadratic[axis] * d)
        lines.top = max(lines.top, lines.forward[k])
    for k in range(2 * n - 1):
        lines.forward[k] -= lines.top
        if not logs:
            lines.forward[k] = exp(lines.forward[k])
        lines.backward[2 * n - 2 - k] = lines.forward[k]


cdef void load_springs(bint logs, Tree tree, Py_ssize_t child, const Spring* springs,
                       bint up, Scratch* s) noexcept nogil:
    """Tabulate the scores g of displacements of the edge above a child.

    The tables are for the message from the child (`up`) or to the child.
    """
    cdef const Spring* spring = springs + tree._edge[child]
    cdef double sign = sign_of(tree, child)
    cdef const double* line
    cdef Py_ssize_t sender, n = s.width
    fill_lines(logs, spring, 0, sign, s.height, &s.rows)
    fill_lines(logs, spring, 1, sign, n, &s.columns)
    # A row of the table is a section of the line, which starts one entry earlier for
    # each next sender. `pass_rows` reads the line itself.
    line = s.columns.forward if up else s.columns.backward
    for sender in range(n):
        memcpy(s.table + sender * s.ld, line + (n - 1 - sender), n * sizeof(double))
        # the padding is not used, but must not be NaN
        memset(s.table + sender * s.ld + n, 0, (s.ld - n) * sizeof(double))


cdef void pass_rows(bint logs, const Scratch* s, bint up, const double* grid,
                    double* out) noexcept nogil:
    """Transform a grid in each column: sum over the sender's rows.

    One of the two passes of a message; `up` if the child is the sender.
    """
    # The parent's row minus the child's row decreases with the sender's row if the
    # child is the sender, and increases if the parent is the sender.
    cdef const double* line = s.rows.backward if up else s.rows.forward
    cdef Py_ssize_t row
    for row in range(s.height):
        combine(logs, s.height, s.ld, line + (s.height - 1 - row), grid, s.zeros,
                out + row * s.ld)


cdef void pass_columns(bint logs, const Scratch* s, const double* grid,
                       double* out) noexcept nogil:
    """Transform a grid in each row: sum over the sender's columns.

    One of the two passes of a message.
    """
    cdef Py_ssize_t row
    for row in range(s.height):
        combine(logs, s.width, s.ld, grid + row * s.ld, s.table, s.zeros,
                out + row * s.ld)


# ---- messages ----

cdef double load_grid(bint logs, const Scratch* s, const double* values,
                      double* out) noexcept nogil:
    """Write a grid of values to `out` for `combine`; return the value subtracted.

    If `logs`, values are copied, and 0 is returned. Otherwise exp(value - maximum) is
    written, and the maximum is returned.
    """
    cdef double low
    if logs:
        memcpy(out, values, s.cells * sizeof(double))
        return 0.0
    # the whole grid is a single row for `sks_exp_row`
    return sks_exp_row(s.cells, s.cells, values, out, &low)


cdef bint is_large(const Scratch* s) noexcept nogil:
    """Return whether all sums of exponentials of a message are large enough.

    Smaller sums may have lost terms that underflowed.
    """
    cdef Py_ssize_t row, column
    cdef double smallest = INFINITY
    # the padding is excluded, as its sums are zero
    for row in range(s.height):
        for column in range(s.width):
            smallest = min(smallest, s.sent[row * s.ld + column])
    return smallest >= SMALLEST


cdef void read_message(bint logs, const Scratch* s, double top,
                       double* out) noexcept nogil:
    """Write a message as logarithms of the sums in `sent`; `top` was subtracted."""
    cdef Py_ssize_t row, column
    cdef double value
    top += s.rows.top + s.columns.top
    for row in range(s.height):
        for column in range(s.width):
            value = s.sent[row * s.ld + column]
            out[row * s.ld + column] = top + (value if logs else log(value))
        for column in range(s.width, s.ld):
            out[row * s.ld + column] = -INFINITY


cdef bint try_up(bint logs, Tree tree, Py_ssize_t child, const Spring* springs,
                 const double* grid, Scratch* s) noexcept nogil:
    """Compute the message from a child to its parent; return False if inexact."""
    cdef double top
    load_springs(logs, tree, child, springs, True, s)
    # the order of the passes is arbitrary here; `try_down` needs columns first
    top = load_grid(logs, s, grid, s.child)
    pass_rows(logs, s, True, s.child, s.between)
    pass_columns(logs, s, s.between, s.sent)
    if not logs and not is_large(s):
        return False
    read_message(logs, s, top, s.messages + child * s.cells)
    return True


cdef bint try_down(bint logs, Tree tree, Py_ssize_t child, const Spring* springs,
                   const double* grid, const double* others, Scratch* s,
                   double* moments) noexcept nogil:
    """Compute the message to a child, in `sent`, and the moments of the edge.

    `grid` is the grid of the child without the message from the parent, and `others`
    the grid of the parent without the message from the child. Returns False if the
    message is not exact.
    """
    cdef Py_ssize_t k, edge = tree._edge[child]
    cdef double top, sign = sign_of(tree, child)
    load_springs(logs, tree, child, springs, False, s)
    top = load_grid(logs, s, others, s.parent)
    # the pass over columns is first: moments need the sums over the parent's columns
    # for each pair of a parent's row and a child's column
    pass_columns(logs, s, s.parent, s.between)
    pass_rows(logs, s, False, s.between, s.sent)
    if not logs and not is_large(s):
        return False
    read_message(logs, s, top, s.sent)
    load_grid(logs, s, grid, s.child)
    # Probabilities of pairs of rows are sums over pairs of columns: the first pass has
    # summed over the parent's columns, and the products below sum over the child's.
    turn(logs, s, s.between)
    for k in range(s.height):
        combine(logs, s.width, s.ld_turned, s.child + k * s.ld, s.turned, s.zeros,
                s.pairs + k * s.ld_turned)
    form_moments(logs, s.height, s.ld_turned, s.pairs, &s.rows, sign,
                 springs[edge].offset[0], moments)
    # Probabilities of pairs of columns are sums over the child's rows, then over the
    # parent's rows. `between` may be overwritten, as the message from the parent has
    # been computed.
    pass_rows(logs, s, True, s.child, s.between)
    turn(logs, s, s.between)
    for k in range(s.width):
        combine(logs, s.height, s.ld, s.turned + k * s.ld_turned, s.parent, s.zeros,
                s.pairs + k * s.ld)
    form_moments(logs, s.width, s.ld, s.pairs, &s.columns, sign,
                 springs[edge].offset[1], moments + 1)
    return True


cdef void form_moments(bint logs, Py_ssize_t n, Py_ssize_t ld, double* pairs,
                       const Lines* lines, double sign, double offset,
                       double* moments) noexcept nogil:
    """Write the means of d and d^2 to moments[0] and moments[2], in one axis.

    d is the displacement of the edge minus its offset. Row z of `pairs` has, for each
    coordinate x of the parent and the coordinate z of the child, the probability of
    (x, z) without the factor exp(g(x - z)), up to a common factor; its logarithm if
    `logs`. `pairs` is overwritten.
    """
    cdef Py_ssize_t sender, receiver
    cdef double d, total = 0.0, first = 0.0, second = 0.0, top = -INFINITY
    cdef double* row
    cdef const double* line
    # multiply by the factor exp(g(x - z)), or add its logarithm
    for sender in range(n):
        row, line = pairs + sender * ld, lines.forward + (n - 1 - sender)
        for receiver in range(n):
            if logs:
                row[receiver] += line[receiver]
                top = max(top, row[receiver])
            else:
                row[receiver] *= line[receiver]
    for sender in range(n):
        row = pairs + sender * ld
        for receiver in range(n):
            # without logarithms, the sum of the exponentials is not tiny, as `is_large`
            # accepted the message
            if logs:
                row[receiver] = exp(row[receiver] - top)
            d = sign * (receiver - sender) - offset
            total += row[receiver]
            first += row[receiver] * d
            second += row[receiver] * d * d
    moments[0], moments[2] = first / total, second / total


cdef void add_message(const Scratch* s, double sign, const double* message,
                      const double* grid, double* out) noexcept nogil:
    """Write grid + sign * message to `out`, and -inf in the padding."""
    cdef Py_ssize_t row, column, cell
    for row in range(s.height):
        for column in range(s.width):
            cell = row * s.ld + column
            # messages are finite, as `sum_up` has returned if all positions are
            # forbidden
            out[cell] = grid[cell] + sign * message[cell]
        for column in range(s.width, s.ld):
            out[row * s.ld + column] = -INFINITY


cdef double sum_up(Tree tree, const Spring* springs, double* grids,
                   Scratch* s) noexcept nogil:
    """Send messages to all parents; return the log partition."""
    cdef Py_ssize_t k, child, parent
    cdef double value = 0.0, top, low
    cdef double* grid
    # place 0 of the order is the root of roots, which is not a part
    for k in range(tree.n_variables, 0, -1):
        child = tree._order[k]
        parent, grid = tree._parent[child], grids + child * s.cells
        top = sks_exp_row(s.cells, s.cells, grid, s.child, &low)
        # every placement is forbidden: there is no distribution
        if top == -INFINITY:
            return top
        if parent == tree.root:
            # trees are independent: their log partitions are added
            value += top + log(sum_of(s.cells, s.child))
            continue
        # sums of exponentials are exact for most messages; the others are computed in
        # log space
        if not try_up(False, tree, child, springs, grid, s):
            try_up(True, tree, child, springs, grid, s)
        add_message(s, 1.0, s.messages + child * s.cells, grids + parent * s.cells,
                    grids + parent * s.cells)
    return value


cdef double sum_of(Py_ssize_t n, const double* values) noexcept nogil:
    """Return the sum of n numbers, where n is a multiple of eight."""
    cdef Py_ssize_t k, j
    # eight independent sums, which the compiler keeps in vectors
    cdef double[8] total
    cdef double out = 0.0
    memset(total, 0, 8 * sizeof(double))
    for k in range(0, n, 8):
        for j in range(8):
            total[j] += values[k + j]
    for j in range(8):
        out += total[j]
    return out


cdef double sum_product(Tree tree, Py_ssize_t height, Py_ssize_t width,
                        const Spring* springs, double* grids, double* scratch,
                        double* moments) noexcept nogil:
    """Compute the log partition, marginals and moments of displacements.

    Parameters
    ----------
    tree : Tree
        Parts and edges.
    height, width : int
        Sizes of the image.
    springs : pointer to Spring
        Springs of all edges.
    grids : pointer to double
        Scores of the positions of each part, one grid per part; overwritten with the
        marginals, with zeros in the padding.
    scratch : pointer to double
        `scratch_size` doubles.
    moments : pointer to double
        Output: E d_r, E d_c, E d_r^2, E d_c^2 of each edge.

    Returns
    -------
    log_partition : float
        -inf if every placement is forbidden; all other outputs are then undefined.
    """
    cdef Scratch s = divide_memory(tree.n_variables, height, width, scratch)
    cdef Py_ssize_t k, part, parent, cell
    cdef double value, total, low
    cdef double* grid
    cdef double* message
    value = sum_up(tree, springs, grids, &s)
    if value == -INFINITY:
        return value
    for k in range(1, tree.n_variables + 1):
        part = tree._order[k]
        parent, grid = tree._parent[part], grids + part * s.cells
        message = s.messages + part * s.cells
        if parent == tree.root:
            continue
        # the parent's grid has all messages by now, including the child's own
        add_message(&s, -1.0, message, grids + parent * s.cells, message)
        # the memory of the message to the parent now holds the grid of the parent
        # without this message
        if not try_down(False, tree, part, springs, grid, message, &s,
                        moments + 4 * tree._edge[part]):
            try_down(True, tree, part, springs, grid, message, &s,
                     moments + 4 * tree._edge[part])
        # the moments needed the grid of the part without the message from its parent
        add_message(&s, 1.0, s.sent, grid, grid)
    # each part is normalized by its own sum, as a rounding error of the log partition
    # would be exponentiated
    for part in range(tree.n_variables):
        grid = grids + part * s.cells
        sks_exp_row(s.cells, s.cells, grid, grid, &low)
        total = sum_of(s.cells, grid)
        for cell in range(s.cells):
            grid[cell] /= total
    return value


def grid_length(Py_ssize_t width):
    """Return the length of a grid's row: the width, rounded up to a multiple of 8."""
    return grid_ld(width)


def sums_memory(PartsTree tree):
    """Return the number of doubles of memory that `sum_parts` needs."""
    return scratch_size(tree.n_variables, tree.height, tree.width)


def sum_parts(PartsTree tree, springs, grids, scratch, moments):
    """Write the marginals and moments of `sum_product`, and return the log-partition.

    `springs` has six numbers per edge, in the order of `Spring`.
    """
    cdef const Spring* strings = <const Spring*> const_doubles(springs)
    cdef double* values = doubles(grids)
    cdef double* memory = doubles(scratch)
    cdef double* means = doubles(moments)
    cdef double value
    with nogil:
        value = sum_product(tree, tree.height, tree.width, strings, values, memory,
                            means)
    return value
