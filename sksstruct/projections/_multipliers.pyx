"""The dual of the projection onto the local polytope of a tree, and Newton's steps.

The tables alpha_e of the edges of a tree are not negative, sum to a mass, and agree on
the variables they share; those nearest to tables m_e are sought, with weights d_e^2 of
the squared distances (Saha et al., 2009, Appendix E.3.1, eq. (33)). The paper
alternates between blocks of multipliers; Newton's method on all of them at once ends at
the exact solution.

Each tree hangs from one of its variables, and an edge joins a parent u and a child v.
Where several edges meet at a variable, each agrees with the one before it: an edge e to
a child of u with its elder sibling, the edge to the last child before, or the eldest
with the edge above u. With a multiplier lambda for the mass of the first table, and
mu_e(i) for the agreement of any other table e with the one before it,

    alpha_e(i, j) = [ m_e(i, j) + ( lambda 1[e = 0] - mu_e(i)
                      + mu_next(i) + mu_eldest(j) ) / d_e^2 ]_+                   (37)

for labels i of u and j of v, next being the younger sibling of e and eldest the eldest
edge below v. They minimize 1/2 sum d_e^2 alpha^2 - mass lambda, convex and piecewise
quadratic. So mu_e meets mu_next, mu_eldest and no others but what it is next or eldest
of: Cholesky's method from the leaves up fills nothing in, whatever the degrees are, and
takes O(n_states^3) for each edge.

Tables are numbered breadth first, so that next = e + 1 < eldest. Multipliers (`duals`)
are lambda, mu_1, mu_2, ...
"""

from libc.math cimport sqrt
from libc.string cimport memset


cdef inline Py_ssize_t dual_count(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """How many multipliers a table has: the first one has lambda."""
    return 1 if table == 0 else n_states


cdef inline double* lines_of(const TreeProblem* tree, Py_ssize_t t) noexcept nogil:
    """The lines of the Hessian of a table's multipliers; NULL for no table."""
    if t < 0:
        return NULL
    return tree.lines + 3 * tree.n_states * tree.n_states * t


cdef inline Py_ssize_t aside_of(const TreeProblem* tree, Py_ssize_t t) noexcept nogil:
    """The younger sibling of the table before one that is the eldest below it, or -1.

    Of the eldest only: a younger sibling is itself the one of the table before, which
    is eliminated after all that is below that.
    """
    cdef Py_ssize_t before = tree.before[t]
    cdef Py_ssize_t sibling = tree.younger[before] if before >= 0 else -1
    return sibling if sibling != t else -1


cdef inline double add_table(const TreeProblem* tree, Py_ssize_t t, const double* duals,
                             double* gradient, double* out,
                             double value) noexcept nogil:
    """Write a table, add its part of the gradient, and return the function so far."""
    cdef Py_ssize_t K = tree.n_states, stride = 0 if t == 0 else 1, i
    cdef Py_ssize_t own = first_dual(t, K), younger = tree.younger[t]
    cdef Py_ssize_t eldest = tree.eldest[t]
    cdef const double* given = tree.m + tree.edge[t] * K * K
    # lambda raises the whole table, mu_e lowers its lines; the multipliers of others,
    # which agree with this one, pull the other way
    cdef double sign = 1.0 if t == 0 else -1.0, shift, total
    cdef double inverse = tree.inverse[t]
    cdef const double* others = tree.zeros
    cdef const double* below = tree.zeros
    cdef double* others_slope = tree.unused
    cdef double* below_slope = tree.unused
    out += tree.edge[t] * K * K
    if younger >= 0:
        others = duals + first_dual(younger, K)
        others_slope = gradient + first_dual(younger, K)
    if eldest >= 0:
        below = duals + first_dual(eldest, K)
        below_slope = gradient + first_dual(eldest, K)
    # A derivative by a multiplier is the sum of the entries that it moves, with its
    # sign. A table is stored as it was given, whichever of its ends the parent is.
    if tree.is_turned[t]:
        for i in range(K):
            tree.shift[i] = sign * duals[own + stride * i] + others[i]
            tree.total[i] = 0.0
    for i in range(K):
        if tree.is_turned[t]:
            shift = below[i]
            total = add_line(K, given, inverse, shift, tree.shift, out, tree.total,
                             &value)
            below_slope[i] += total
        else:
            shift = sign * duals[own + stride * i] + others[i]
            total = add_line(K, given, inverse, shift, below, out, below_slope, &value)
            gradient[own + stride * i] += sign * total
            others_slope[i] += total
        given += K
        out += K
    if tree.is_turned[t]:
        for i in range(K):
            gradient[own + stride * i] += sign * tree.total[i]
            others_slope[i] += tree.total[i]
    return value


cdef inline double add_line(Py_ssize_t n, const double* given, double inverse,
                            double shift, const double* shifts, double* out,
                            double* totals, double* value) noexcept nogil:
    """Write a line of a table; add it to totals, and return its sum."""
    cdef Py_ssize_t j
    cdef double entry, total = 0.0, so_far = value[0], half = 0.5 / inverse
    shift *= inverse
    for j in range(n):
        # -inf stays below zero whatever is added
        entry = given[j] + shift + inverse * shifts[j]
        entry = entry if entry > 0.0 else 0.0
        out[j] = entry
        # so are most entries, near the solution
        if entry == 0.0:
            continue
        so_far += half * entry * entry
        total += entry
        totals[j] += entry
    value[0] = so_far
    return total


cdef double evaluate(const TreeProblem* tree, const double* duals, double* gradient,
                     double* out) noexcept nogil:
    """Tables at the multipliers, the gradient, and the function."""
    cdef Py_ssize_t t
    cdef double value = 0.0
    # one pass over the tables gives all three
    memset(gradient, 0, first_dual(tree.n_tables, tree.n_states) * sizeof(double))
    gradient[0] = -tree.mass
    for t in range(tree.n_tables):
        value = add_table(tree, t, duals, gradient, out, value)
    return value - tree.mass * duals[0]


cdef void form_hessian(const TreeProblem* tree, const double* tables) noexcept nogil:
    """The second derivatives: each positive entry adds the products of its own."""
    cdef Py_ssize_t K = tree.n_states, width = 3 * K, t, i, j, start, column
    cdef double sign, count, inverse
    cdef double* own
    cdef double* younger
    cdef double* eldest
    cdef bint turned
    # of the first table, lambda alone has a line; the others of it stay unused
    memset(tree.lines, 0, tree.n_tables * K * width * sizeof(double))
    for t in range(tree.n_tables):
        start, turned = tree.edge[t] * K * K, tree.is_turned[t]
        inverse = tree.inverse[t]
        own = lines_of(tree, t)
        younger = lines_of(tree, tree.younger[t])
        eldest = lines_of(tree, tree.eldest[t])
        # derivatives of d_e^2 alpha_e are 1 or -1: lambda's has the sign of those of
        # later tables
        sign = 1.0 if t == 0 else -1.0
        for i in range(K):
            count, column = 0.0, 0 if t == 0 else i
            for j in range(K):
                # labels i of the parent and j of the child
                if tables[start + (j * K + i if turned else i * K + j)] <= 0.0:
                    continue
                count += inverse
                if eldest != NULL:
                    eldest[j * width + j] += inverse
                    eldest[j * width + K + column] += sign * inverse
                    # both meet in the tables of t, with the same sign
                    if younger != NULL:
                        eldest[j * width + 2 * K + i] += inverse
            own[column * width + column] += count
            if younger != NULL:
                younger[i * width + i] += count
                younger[i * width + K + column] += sign * count


cdef inline void subtract_row(Py_ssize_t n, double factor, const double* row,
                              double* out) noexcept nogil:
    """out -= factor row"""
    cdef Py_ssize_t column
    for column in range(n):
        out[column] -= factor * row[column]


cdef void eliminate(const TreeProblem* tree, Py_ssize_t t, double damping,
                    double* step) noexcept nogil:
    """Take the multipliers of a table out of the lines of those that they meet.

    In its own lines the upper triangle becomes L', the transpose of its Cholesky
    factor; what is beside it and the step become L^-1 times what they are. Only upper
    triangles are kept up to date.
    """
    cdef Py_ssize_t K = tree.n_states, stride = 3 * K, n = dual_count(t, K), k, row
    cdef Py_ssize_t column, width = n, n_before = 0, n_aside = 0
    cdef Py_ssize_t before = tree.before[t], sibling = aside_of(tree, t)
    cdef double pivot, entry
    cdef double* line = lines_of(tree, t)
    cdef double* vector = step + first_dual(t, K)
    cdef double* lines_before = lines_of(tree, before)
    cdef double* lines_aside = lines_of(tree, sibling)
    # lambda is the last, and meets nothing that is left
    if before >= 0:
        n_before, width = dual_count(before, K), 2 * K
    if sibling >= 0:
        n_aside, width = K, 3 * K
    for k in range(n):
        # the Hessian is positive semidefinite: what is below zero is rounding
        pivot = sqrt((line[k] if line[k] > 0.0 else 0.0) + damping)
        line[k] = pivot
        vector[k] /= pivot
        for column in range(k + 1, width):
            line[column] /= pivot
        for row in range(k + 1, n):
            entry = line[row]
            # tables are sparse near the solution
            if entry != 0.0:
                subtract_row(width - row, entry, line + row,
                             line + (row - k) * stride + row)
                vector[row] -= entry * vector[k]
        # the Schur complements of the blocks that are met are differences
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
    """lines -= row' row, in the upper triangle, and vector -= value row."""
    cdef Py_ssize_t k
    for k in range(n):
        if row[k] != 0.0:
            subtract_row(n - k, row[k], row + k, lines + k * stride + k)
            vector[k] -= row[k] * value


cdef void substitute(const TreeProblem* tree, Py_ssize_t t,
                     double* step) noexcept nogil:
    """Solve for the multipliers of a table, those that it meets being known."""
    cdef Py_ssize_t K = tree.n_states, n = dual_count(t, K), row, k, n_before = 0
    cdef Py_ssize_t before = tree.before[t], sibling = aside_of(tree, t)
    cdef const double* lines = lines_of(tree, t)
    cdef const double* line
    cdef double* vector = step + first_dual(t, K)
    cdef const double* known = step + first_dual(before, K)
    cdef const double* aside = step + first_dual(sibling, K)
    if before >= 0:
        n_before = dual_count(before, K)
    # L' x = vector, from the last row up, without what is known of each
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
    """step = -(Hessian + damping)^-1 gradient, from the leaves up and down again."""
    cdef Py_ssize_t t, k
    form_hessian(tree, tables)
    # numbers rise from the root to the leaves, which `eliminate` relies on
    for k in range(first_dual(tree.n_tables, tree.n_states)):
        step[k] = -gradient[k]
    for t in range(tree.n_tables - 1, -1, -1):
        # in the units of the Hessian, whose lines are as large as the inverse weights
        eliminate(tree, t, damping * tree.inverse[t], step)
    for t in range(tree.n_tables):
        substitute(tree, t, step)
