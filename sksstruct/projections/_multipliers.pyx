"""The dual of the projection onto the local polytope of a tree, and Newton's steps.

The tables alpha_e of the edges of a tree are nonnegative, sum to a mass, and agree on
shared variables. The projection finds the tables closest to given tables m_e, with
weights d_e^2 of the squared distances (Saha et al., 2009, Appendix E.3.1, eq. (33)).
The paper alternates between blocks of multipliers; Newton's method on all multipliers
at once ends at the exact solution.

Each tree is rooted at one of its variables, and an edge joins a parent u and a child v.
The edges at a variable form a sequence in which each agrees with the edge before it:
before an edge e to a child of u comes the elder sibling, the edge to the previous
child, or before the eldest edge, the edge above u. With a multiplier lambda for the
mass of the first table, and mu_e(i) for the agreement of any other table e with the
table before it,

    alpha_e(i, j) = [ m_e(i, j) + ( lambda 1[e = 0] - mu_e(i)
                      + mu_next(i) + mu_eldest(j) ) / d_e^2 ]_+                   (37)

for labels i of u and j of v, where next is the younger sibling of e and eldest the
eldest edge below v. The multipliers minimize 1/2 sum d_e^2 alpha^2 - mass lambda, which
is convex and piecewise quadratic. In its Hessian, mu_e is only coupled to mu_next,
mu_eldest, and multipliers to which e is next or eldest: the Cholesky factorization from
the leaves to the root has no fill-in, whatever the degrees are, and takes O(n_states^3)
for each edge.

Tables are numbered breadth first, so that next = e + 1 < eldest. The vector of
multipliers (`duals`) is lambda, mu_1, mu_2, ...
"""

from libc.math cimport sqrt
from libc.string cimport memset


cdef inline Py_ssize_t dual_count(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """Return the number of multipliers of a table; the first table has only lambda."""
    return 1 if table == 0 else n_states


cdef inline double* lines_of(const TreeProblem* tree, Py_ssize_t t) noexcept nogil:
    """Return the rows of the Hessian for a table's multipliers; NULL for table -1."""
    if t < 0:
        return NULL
    return tree.lines + 3 * tree.n_states * tree.n_states * t


cdef inline Py_ssize_t aside_of(const TreeProblem* tree, Py_ssize_t t) noexcept nogil:
    """Return the younger sibling of the table above an eldest edge t, or -1.

    A table t that is itself the younger sibling of `before` has no such table.
    """
    cdef Py_ssize_t before = tree.before[t]
    cdef Py_ssize_t sibling = tree.younger[before] if before >= 0 else -1
    return sibling if sibling != t else -1


cdef inline double add_table(const TreeProblem* tree, Py_ssize_t t, const double* duals,
                             double* gradient, double* out,
                             double value) noexcept nogil:
    """Write the table t at the multipliers, and add its terms of the dual's gradient.

    Returns `value` plus the table's term of the dual function.
    """
    cdef Py_ssize_t K = tree.n_states, stride = 0 if t == 0 else 1, i
    cdef Py_ssize_t first_own = first_dual(t, K), younger = tree.younger[t]
    cdef Py_ssize_t eldest = tree.eldest[t]
    cdef const double* given = tree.m + tree.edge[t] * K * K
    # lambda raises all entries and mu_e lowers rows, while multipliers of the younger
    # sibling raise rows and multipliers of the eldest edge below raise columns
    cdef double sign = 1.0 if t == 0 else -1.0, shift, total
    cdef double inverse = tree.inverse[t]
    cdef const double* younger_mu = tree.zeros
    cdef const double* eldest_mu = tree.zeros
    cdef double* younger_slope = tree.unused
    cdef double* eldest_slope = tree.unused
    out += tree.edge[t] * K * K
    if younger >= 0:
        younger_mu = duals + first_dual(younger, K)
        younger_slope = gradient + first_dual(younger, K)
    if eldest >= 0:
        eldest_mu = duals + first_dual(eldest, K)
        eldest_slope = gradient + first_dual(eldest, K)
    # The derivative by a multiplier is the signed sum of the entries that the
    # multiplier shifts. A table is turned if its columns, as given, belong to the
    # parent.
    if tree.is_turned[t]:
        for i in range(K):
            tree.shift[i] = sign * duals[first_own + stride * i] + younger_mu[i]
            tree.total[i] = 0.0
    for i in range(K):
        if tree.is_turned[t]:
            shift = eldest_mu[i]
            total = add_line(K, given, inverse, shift, tree.shift, out, tree.total,
                             &value)
            eldest_slope[i] += total
        else:
            shift = sign * duals[first_own + stride * i] + younger_mu[i]
            total = add_line(K, given, inverse, shift, eldest_mu, out, eldest_slope,
                             &value)
            gradient[first_own + stride * i] += sign * total
            younger_slope[i] += total
        given += K
        out += K
    if tree.is_turned[t]:
        for i in range(K):
            gradient[first_own + stride * i] += sign * tree.total[i]
            younger_slope[i] += tree.total[i]
    return value


cdef inline double add_line(Py_ssize_t n, const double* given, double inverse,
                            double shift, const double* shifts, double* out,
                            double* totals, double* value) noexcept nogil:
    """Write a row of a table, and return its sum.

    The row is added to `totals`, and its term of the dual function to `value`.
    """
    cdef Py_ssize_t j
    cdef double entry, total = 0.0, so_far = value[0], half = 0.5 / inverse
    shift *= inverse
    for j in range(n):
        # an entry of -inf stays zero, whatever is added
        entry = given[j] + shift + inverse * shifts[j]
        entry = entry if entry > 0.0 else 0.0
        out[j] = entry
        # near the solution, most entries are zero
        if entry == 0.0:
            continue
        so_far += half * entry * entry
        total += entry
        totals[j] += entry
    value[0] = so_far
    return total


cdef double evaluate(const TreeProblem* tree, const double* duals, double* gradient,
                     double* out) noexcept nogil:
    """Compute the tables at the multipliers, and the dual function and its gradient."""
    cdef Py_ssize_t t
    cdef double value = 0.0
    # a single pass over the tables computes the tables, the gradient and the function
    memset(gradient, 0, first_dual(tree.n_tables, tree.n_states) * sizeof(double))
    gradient[0] = -tree.mass
    for t in range(tree.n_tables):
        value = add_table(tree, t, duals, gradient, out, value)
    return value - tree.mass * duals[0]


cdef void form_hessian(const TreeProblem* tree, const double* tables) noexcept nogil:
    """Compute the Hessian of the dual: sums over the positive entries of the tables."""
    cdef Py_ssize_t K = tree.n_states, width = 3 * K, t, i, j, start, column
    cdef double sign, count, inverse
    cdef double* own_lines
    cdef double* younger_lines
    cdef double* eldest_lines
    cdef bint turned
    # the first table uses only one row, that of lambda
    memset(tree.lines, 0, tree.n_tables * K * width * sizeof(double))
    for t in range(tree.n_tables):
        start, turned = tree.edge[t] * K * K, tree.is_turned[t]
        inverse = tree.inverse[t]
        own_lines = lines_of(tree, t)
        younger_lines = lines_of(tree, tree.younger[t])
        eldest_lines = lines_of(tree, tree.eldest[t])
        # Derivatives of d_e^2 alpha_e by multipliers are 1 or -1: -1 by mu_e, and 1 by
        # lambda and by the multipliers of the younger sibling and the eldest edge.
        sign = 1.0 if t == 0 else -1.0
        for i in range(K):
            count, column = 0.0, 0 if t == 0 else i
            for j in range(K):
                # labels i of the parent and j of the child
                if tables[start + (j * K + i if turned else i * K + j)] <= 0.0:
                    continue
                count += inverse
                if eldest_lines != NULL:
                    eldest_lines[j * width + j] += inverse
                    eldest_lines[j * width + K + column] += sign * inverse
                    # mu_next and mu_eldest both enter the entries of t, with the same
                    # sign
                    if younger_lines != NULL:
                        eldest_lines[j * width + 2 * K + i] += inverse
            own_lines[column * width + column] += count
            if younger_lines != NULL:
                younger_lines[i * width + i] += count
                younger_lines[i * width + K + column] += sign * count


cdef inline void subtract_row(Py_ssize_t n, double factor, const double* row,
                              double* out) noexcept nogil:
    """Subtract factor times row from `out`."""
    cdef Py_ssize_t column
    for column in range(n):
        out[column] -= factor * row[column]


cdef void eliminate(const TreeProblem* tree, Py_ssize_t t, double damping,
                    double* step) noexcept nogil:
    """Eliminate the multipliers of a table from the rows of coupled multipliers.

    The upper triangle of the table's own rows becomes L', the transpose of its Cholesky
    factor; the blocks beside it, and the step, are multiplied by L^-1. Only upper
    triangles are updated.
    """
    cdef Py_ssize_t K = tree.n_states, stride = 3 * K, n = dual_count(t, K), k, row
    cdef Py_ssize_t column, width = n, n_before = 0, n_aside = 0
    cdef Py_ssize_t before = tree.before[t], sibling = aside_of(tree, t)
    cdef double pivot, entry
    cdef double* line = lines_of(tree, t)
    cdef double* vector = step + first_dual(t, K)
    cdef double* lines_before = lines_of(tree, before)
    cdef double* lines_aside = lines_of(tree, sibling)
    # lambda is eliminated last, when no multiplier is left to which it is coupled
    if before >= 0:
        n_before, width = dual_count(before, K), 2 * K
    if sibling >= 0:
        n_aside, width = K, 3 * K
    for k in range(n):
        # the Hessian is positive semidefinite: a negative entry is a rounding error
        pivot = sqrt((line[k] if line[k] > 0.0 else 0.0) + damping)
        line[k] = pivot
        vector[k] /= pivot
        for column in range(k + 1, width):
            line[column] /= pivot
        for row in range(k + 1, n):
            entry = line[row]
            # tables are sparse near the solution, so that many entries are zero
            if entry != 0.0:
                subtract_row(width - row, entry, line + row,
                             line + (row - k) * stride + row)
                vector[row] -= entry * vector[k]
        # Schur complements of the coupled blocks
        subtract_square(n_before, stride, line + K, vector[k],
                        lines_before, step + first_dual(before, K))
        subtract_square(n_aside, stride, line + 2 * K, vector[k],
                        lines_aside, step + first_dual(sibling, K))
        for row in range(n_aside):
            subtract_row(n_before, line[2 * K + row], line + K,
                         lines_aside + row * stride + K)
        line += stride


cdef inline void subtract_square(Py_ssize_t n, Py_ssize_t stride, const double* row,
                                 double value, double* lines,
                                 double* vector) noexcept nogil:
    """Subtract row' row from the upper triangle `lines`, value row from `vector`."""
    cdef Py_ssize_t k
    for k in range(n):
        if row[k] != 0.0:
            subtract_row(n - k, row[k], row + k, lines + k * stride + k)
            vector[k] -= row[k] * value


cdef void substitute(const TreeProblem* tree, Py_ssize_t t,
                     double* step) noexcept nogil:
    """Solve for the multipliers of a table, given the multipliers of coupled tables."""
    cdef Py_ssize_t K = tree.n_states, n = dual_count(t, K), row, k, n_before = 0
    cdef Py_ssize_t before = tree.before[t], sibling = aside_of(tree, t)
    cdef const double* lines = lines_of(tree, t)
    cdef const double* line
    cdef double* vector = step + first_dual(t, K)
    cdef const double* known = step + first_dual(before, K)
    cdef const double* aside = step + first_dual(sibling, K)
    if before >= 0:
        n_before = dual_count(before, K)
    # solve L' x = vector minus the terms of known multipliers, from the last row
    # upwards
    for row in range(n - 1, -1, -1):
        line = lines + row * 3 * K
        for k in range(n_before):
            vector[row] -= line[K + k] * known[k]
        for k in range(K if sibling >= 0 else 0):
            vector[row] -= line[2 * K + k] * aside[k]
        for k in range(n - 1, row, -1):
            vector[row] -= line[k] * vector[k]
        vector[row] /= line[row]


cdef void newton_step(const TreeProblem* tree, const double* tables, double damping,
                      const double* gradient, double* step) noexcept nogil:
    """Write -(Hessian + damping)^-1 gradient to `step`."""
    cdef Py_ssize_t t, k
    form_hessian(tree, tables)
    for k in range(first_dual(tree.n_tables, tree.n_states)):
        step[k] = -gradient[k]
    # from the leaves to the root: table numbers increase from the root to the leaves
    for t in range(tree.n_tables - 1, -1, -1):
        # the damping is scaled by 1 / d_e^2, like the entries of the Hessian
        eliminate(tree, t, damping * tree.inverse[t], step)
    for t in range(tree.n_tables):
        substitute(tree, t, step)
