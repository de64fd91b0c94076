"""Projection onto the local polytopes of trees.

The tables alpha_e of the edges of a tree are not negative, sum to a mass, and agree on
the variables they share; those nearest to tables m_e are sought. As for chains
(`_polytope.pyx`, Saha et al., 2009, Appendix E.3.1), which are trees, Newton's method
on the multipliers ends at the exact solution.

Each tree hangs from one of its variables, and an edge joins a parent u and a child v.
Where several edges meet at a variable, each agrees with the one before it: an edge e to
a child of u with its elder sibling, the edge to the last child before, or the eldest
with the edge above u. With a multiplier lambda for the mass of the first table, and
mu_e(i) for the agreement of any other table e with the one before it,

    alpha_e(i, j) = [ m_e(i, j) + lambda 1[e = 0] - mu_e(i)
                      + mu_next(i) + mu_eldest(j) ]_+

for labels i of u and j of v, next being the younger sibling of e and eldest the eldest
edge below v. So mu_e meets mu_next, mu_eldest and no others but what it is next or
eldest of: Cholesky's method from the leaves up fills nothing in, whatever the degrees
are, and takes O(n_states^3) for each edge.

Tables are numbered breadth first, so that next = e + 1 < eldest. Multipliers (`duals`)
are lambda, mu_1, mu_2, ...
"""

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport sqrt
from libc.string cimport memset

from sksstruct.projections._newton cimport (
    PiecewiseQuadratic, minimize, piecewise_quadratic,
)

from sksstruct.projections._simplex import project_simplex


cdef struct TreeProblem:
    Py_ssize_t n_tables, n_states
    double mass
    # tables of all trees, and of each table of this one, breadth first: which it is,
    # and whether its columns are the parent's labels
    const double* m
    const Py_ssize_t* edge
    const char* is_turned
    # the younger sibling, the eldest edge below, and what this one is one of these of;
    # -1: none
    const Py_ssize_t* younger
    const Py_ssize_t* eldest
    const Py_ssize_t* before
    # of each table: blocks of the Hessian where mu_e meets itself, mu_before, and, for
    # the eldest, the younger sibling of `before`
    double* own
    double* above
    double* aside
    # what is added to rows and columns of a table, and sums of these
    double* shift
    double* total


cdef inline Py_ssize_t first_dual(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """Where the multipliers of a table begin."""
    return 0 if table == 0 else 1 + (table - 1) * n_states


cdef inline Py_ssize_t dual_count(Py_ssize_t table, Py_ssize_t n_states) noexcept nogil:
    """How many multipliers a table has: the first one has lambda."""
    return 1 if table == 0 else n_states


cdef void find_shifts(const TreeProblem* tree, Py_ssize_t t, const double* duals,
                      double* parent, double* child) noexcept nogil:
    """What multipliers add to a table, by the labels of its parent and its child."""
    cdef Py_ssize_t n_states = tree.n_states, i
    cdef const double* own = duals + first_dual(t, n_states)
    cdef const double* next_one
    for i in range(n_states):
        # lambda raises the whole table, mu_e lowers its lines
        parent[i] = own[0] if t == 0 else -own[i]
        child[i] = 0.0
    # the others agree with this one, and pull the other way
    if tree.younger[t] >= 0:
        next_one = duals + first_dual(tree.younger[t], n_states)
        for i in range(n_states):
            parent[i] += next_one[i]
    if tree.eldest[t] >= 0:
        next_one = duals + first_dual(tree.eldest[t], n_states)
        for i in range(n_states):
            child[i] += next_one[i]


cdef void add_slopes(const TreeProblem* tree, Py_ssize_t t, const double* parent,
                     const double* child, double* gradient) noexcept nogil:
    """Add the sums of a table by labels of its ends to the gradient."""
    cdef Py_ssize_t n_states = tree.n_states, i
    cdef double* own = gradient + first_dual(t, n_states)
    cdef double* other
    # a derivative by a multiplier is the sum of the entries that it moves, with the
    # sign of `find_shifts`
    for i in range(n_states):
        if t == 0:
            own[0] += parent[i]
        else:
            own[i] -= parent[i]
    if tree.younger[t] >= 0:
        other = gradient + first_dual(tree.younger[t], n_states)
        for i in range(n_states):
            other[i] += parent[i]
    if tree.eldest[t] >= 0:
        other = gradient + first_dual(tree.eldest[t], n_states)
        for i in range(n_states):
            other[i] += child[i]


cdef double evaluate(const void* problem, const double* duals, double* gradient,
                     double* out) noexcept nogil:
    """Tables at the multipliers, the gradient, and the function."""
    cdef const TreeProblem* tree = <const TreeProblem*> problem
    cdef Py_ssize_t n_states = tree.n_states, t, i, j, start
    cdef double value = 0.0, entry
    cdef double* rows
    cdef double* columns
    cdef double* row_sums
    cdef double* column_sums
    # one pass over the tables gives all three
    memset(gradient, 0, first_dual(tree.n_tables, n_states) * sizeof(double))
    gradient[0] = -tree.mass
    for t in range(tree.n_tables):
        find_shifts(tree, t, duals, tree.shift, tree.shift + n_states)
        rows, row_sums = tree.shift, tree.total
        columns, column_sums = rows + n_states, row_sums + n_states
        # a table is stored as it was given, whichever of its ends the parent is
        if tree.is_turned[t]:
            rows, columns = columns, rows
            row_sums, column_sums = column_sums, row_sums
        memset(tree.total, 0, 2 * n_states * sizeof(double))
        start = tree.edge[t] * n_states * n_states
        for i in range(n_states):
            for j in range(n_states):
                # -inf stays below zero whatever is added
                entry = tree.m[start + i * n_states + j] + rows[i] + columns[j]
                entry = entry if entry > 0.0 else 0.0
                out[start + i * n_states + j] = entry
                value += 0.5 * entry * entry
                row_sums[i] += entry
                column_sums[j] += entry
        add_slopes(tree, t, tree.total, tree.total + n_states, gradient)
    return value - tree.mass * duals[0]


cdef void form_hessian(const TreeProblem* tree, const double* tables) noexcept nogil:
    """The second derivatives, in blocks: each positive entry adds its derivatives."""
    cdef Py_ssize_t K = tree.n_states, t, i, j, start
    cdef Py_ssize_t younger, eldest
    # of the first table, lambda alone has a block; the others of it stay unused
    memset(tree.own, 0, 3 * tree.n_tables * K * K * sizeof(double))
    for t in range(tree.n_tables):
        start = tree.edge[t] * K * K
        younger, eldest = tree.younger[t], tree.eldest[t]
        for i in range(K):
            for j in range(K):
                # labels i of the parent and j of the child
                if tables[start + (j * K + i if tree.is_turned[t] else i * K + j)] <= 0:
                    continue
                # the squares of its derivatives, which are 1 or -1, on diagonals
                if t == 0:
                    tree.own[0] += 1.0
                else:
                    tree.own[(t * K + i) * K + i] += 1.0
                # and the products of two: `above` has a row for each multiplier of the
                # later table, and a column for each of t
                if younger >= 0:
                    tree.own[(younger * K + i) * K + i] += 1.0
                    tree.above[(younger * K + i) * K + (0 if t == 0 else i)] += (
                        1.0 if t == 0 else -1.0)
                if eldest >= 0:
                    tree.own[(eldest * K + j) * K + j] += 1.0
                    tree.above[(eldest * K + j) * K + (0 if t == 0 else i)] += (
                        1.0 if t == 0 else -1.0)
                    # both meet in the tables of t, with the same sign
                    if younger >= 0:
                        tree.aside[(eldest * K + j) * K + i] += 1.0


cdef void factorize(Py_ssize_t n, Py_ssize_t K, double damping,
                    double* block) noexcept nogil:
    """Replace the lower triangle of a block by its Cholesky factor."""
    cdef Py_ssize_t row, column, k
    cdef double total
    # row by row: what is left of a row in the triangle is final by then
    for row in range(n):
        for column in range(row + 1):
            total = block[row * K + column]
            for k in range(column):
                total -= block[row * K + k] * block[column * K + k]
            if row > column:
                block[row * K + column] = total / block[column * K + column]
            else:
                # the Hessian is positive semidefinite: what is below zero is rounding
                total = total if total > 0.0 else 0.0
                block[row * K + row] = sqrt(total + damping)


cdef void solve_lower(Py_ssize_t n, Py_ssize_t K, const double* factor,
                      Py_ssize_t n_columns, double* block) noexcept nogil:
    """block = L^-1 block"""
    cdef Py_ssize_t row, column, k
    cdef double entry
    for row in range(n):
        for k in range(row):
            entry = factor[row * K + k]
            # tables are sparse near the solution
            if entry == 0.0:
                continue
            for column in range(n_columns):
                block[row * K + column] -= entry * block[k * K + column]
        for column in range(n_columns):
            block[row * K + column] /= factor[row * K + row]


cdef void subtract_product(Py_ssize_t n, Py_ssize_t K, const double* left,
                           Py_ssize_t n_rows, const double* right, Py_ssize_t n_columns,
                           double* out) noexcept nogil:
    """out -= left' right"""
    cdef Py_ssize_t k, row, column
    cdef double entry
    # sums of outer products, so that the inner loop is over a row of each
    for k in range(n):
        for row in range(n_rows):
            entry = left[k * K + row]
            if entry == 0.0:
                continue
            for column in range(n_columns):
                out[row * K + column] -= entry * right[k * K + column]


cdef void subtract_turned(Py_ssize_t n, Py_ssize_t K, const double* block,
                          Py_ssize_t n_columns, const double* vector,
                          double* out) noexcept nogil:
    """out -= block' vector"""
    cdef Py_ssize_t k, column
    for k in range(n):
        for column in range(n_columns):
            out[column] -= block[k * K + column] * vector[k]


cdef void eliminate(const TreeProblem* tree, Py_ssize_t t, double damping,
                    double* step) noexcept nogil:
    """Factorize the block of a table, and take it out of those that it meets."""
    cdef Py_ssize_t K = tree.n_states, n = dual_count(t, K), n_before, before, sibling
    cdef double* own = tree.own + t * K * K
    cdef double* above = tree.above + t * K * K
    cdef double* aside = tree.aside + t * K * K
    cdef double* vector = step + first_dual(t, K)
    factorize(n, K, damping, own)
    solve_vector(n, K, own, vector)
    before = tree.before[t]
    # lambda is the last, and meets nothing that is left
    if before < 0:
        return
    n_before = dual_count(before, K)
    # with L^-1 times the blocks beside it, the Schur complement is a difference
    solve_lower(n, K, own, n_before, above)
    subtract_product(n, K, above, n_before, above, n_before, tree.own + before * K * K)
    subtract_turned(n, K, above, n_before, vector, step + first_dual(before, K))
    sibling = tree.younger[before]
    # Of the eldest only: a younger sibling is `sibling` itself, which is eliminated
    # after all that is below `before`.
    if sibling < 0 or sibling == t:
        return
    solve_lower(n, K, own, K, aside)
    subtract_product(n, K, aside, K, above, n_before, tree.above + sibling * K * K)
    subtract_product(n, K, aside, K, aside, K, tree.own + sibling * K * K)
    subtract_turned(n, K, aside, K, vector, step + first_dual(sibling, K))


cdef void solve_vector(Py_ssize_t n, Py_ssize_t K, const double* factor,
                       double* vector) noexcept nogil:
    """vector = L^-1 vector"""
    cdef Py_ssize_t row, k
    for row in range(n):
        for k in range(row):
            vector[row] -= factor[row * K + k] * vector[k]
        vector[row] /= factor[row * K + row]


cdef void substitute(const TreeProblem* tree, Py_ssize_t t,
                     double* step) noexcept nogil:
    """Solve for the multipliers of a table, those that it meets being known."""
    cdef Py_ssize_t K = tree.n_states, n = dual_count(t, K), row, k
    cdef Py_ssize_t before, sibling = -1
    cdef const double* own = tree.own + t * K * K
    cdef double* vector = step + first_dual(t, K)
    cdef const double* known
    # the rows that `eliminate` left, from the root down
    before = tree.before[t]
    if before >= 0:
        known = step + first_dual(before, K)
        for row in range(n):
            for k in range(dual_count(before, K)):
                vector[row] -= tree.above[(t * K + row) * K + k] * known[k]
        sibling = tree.younger[before]
    if sibling >= 0 and sibling != t:
        known = step + first_dual(sibling, K)
        for row in range(n):
            for k in range(K):
                vector[row] -= tree.aside[(t * K + row) * K + k] * known[k]
    # L' x = vector, from the last row up
    for row in range(n - 1, -1, -1):
        vector[row] /= own[row * K + row]
        for k in range(row):
            vector[k] -= own[row * K + k] * vector[row]


cdef void newton_step(const void* problem, const double* tables, double damping,
                      const double* gradient, double* step) noexcept nogil:
    """step = -(Hessian + damping)^-1 gradient, from the leaves up and down again."""
    cdef const TreeProblem* tree = <const TreeProblem*> problem
    cdef Py_ssize_t t, k
    form_hessian(tree, tables)
    # numbers rise from the root to the leaves, which `eliminate` relies on
    for k in range(first_dual(tree.n_tables, tree.n_states)):
        step[k] = -gradient[k]
    for t in range(tree.n_tables - 1, -1, -1):
        eliminate(tree, t, damping, step)
    for t in range(tree.n_tables):
        substitute(tree, t, step)


@cython.final
cdef class LocalPolytopes:
    """The local polytopes of the trees of a forest, and their multipliers.

    Parameters
    ----------
    n_nodes : int
        Number of variables.
    edges : ndarray of shape (n_edges, 2)
        Pairs of variables, without a cycle.
    n_states : int
        Number of labels.

    Attributes
    ----------
    node : ndarray of shape (n_trees,)
        A variable of each tree that has an edge.
    """

    cdef readonly object node
    cdef readonly Py_ssize_t n_states
    # of each tree, where its tables begin; tables as in `TreeProblem`
    cdef Py_ssize_t[::1] _first, _edge, _younger, _eldest, _before
    cdef char[::1] _is_turned
    # kept, so that the next projection starts from the last
    cdef double[::1] _duals

    def __init__(self, n_nodes, edges, n_states):
        self.n_states = n_states
        tables, parent, child, tree = hang(n_nodes, edges)
        n_tables = len(tables)
        self._edge = tables
        self._is_turned = (edges[tables, 0] != parent).astype(np.int8)
        first = np.flatnonzero(np.append(True, tree[1:] != tree[:-1])[:n_tables])
        self.node = parent[first]
        self._first = np.append(first, n_tables).astype(np.intp)
        start = np.repeat(first, np.diff(self._first))
        # numbers within a tree: siblings follow each other
        place = np.arange(n_tables) - start
        has_elder = np.append(False, parent[1:] == parent[:-1])[:n_tables]
        has_younger = np.append(has_elder[1:], False)[:n_tables]
        self._younger = np.where(has_younger, place + 1, -1)
        below = np.full(n_nodes, -1, dtype=np.intp)
        above = np.full(n_nodes, -1, dtype=np.intp)
        below[parent[~has_elder]] = place[~has_elder]
        above[child] = place
        eldest, before = below[child], above[parent]
        self._eldest = eldest
        before[has_elder] = place[has_elder] - 1
        self._before = before
        self._duals = np.zeros(n_tables * n_states + len(first))

    def project(self, const double[:, :, ::1] tables, const double[::1] mass,
                double[:, :, ::1] out):
        """Project the tables of all edges, where each tree has its own mass.

        Returns the largest violation of a constraint, as a share of the mass.
        """
        cdef Py_ssize_t i, n_trees = self._first.shape[0] - 1, first, dual = 0
        cdef Py_ssize_t K = self.n_states
        cdef double worst = 0.0, violation
        if not n_trees:
            return 0.0
        most = int(np.diff(self._first).max())
        cdef double[::1] memory = np.empty(3 * most * K * (K + 1) + 4 * K + 3)
        cdef TreeProblem tree
        tree.n_states, tree.m = K, &tables[0, 0, 0]
        with nogil:
            for i in range(n_trees):
                # arrays of all trees follow each other; numbers in them are of the tree
                first = self._first[i]
                tree.n_tables, tree.mass = self._first[i + 1] - first, mass[i]
                tree.edge = &self._edge[first]
                tree.is_turned = &self._is_turned[first]
                tree.younger, tree.eldest = &self._younger[first], &self._eldest[first]
                tree.before = &self._before[first]
                violation = project_tree(&tree, &self._duals[dual], &memory[0],
                                         &out[0, 0, 0]) / mass[i]
                worst = violation if violation > worst else worst
                dual += first_dual(tree.n_tables, K)
                # a large tree may take a second, and all of them minutes
                with gil:
                    PyErr_CheckSignals()
        return worst


cdef double project_tree(TreeProblem* tree, double* duals, double* memory,
                         double* out) noexcept nogil:
    """Tables out next to m; duals are where to start, and what was found.

    memory is for 3 n_tables n_states (n_states + 1) + 4 n_states + 3 numbers. Returns
    the largest violation of a constraint.
    """
    cdef Py_ssize_t n = first_dual(tree.n_tables, tree.n_states)
    cdef Py_ssize_t blocks = tree.n_tables * tree.n_states * tree.n_states
    cdef PiecewiseQuadratic f = piecewise_quadratic(
        tree, evaluate, newton_step, n, tree.n_tables, tree.mass, memory)
    memory += 3 * n
    tree.own, tree.above, tree.aside = memory, memory + blocks, memory + 2 * blocks
    memory += 3 * blocks
    tree.shift, tree.total = memory, memory + 2 * tree.n_states
    return minimize(&f, duals, out)


def hang(n_nodes, edges):
    """Order the edges of a forest tree by tree, breadth first in each tree.

    Returns
    -------
    tables, parent, child, tree : ndarray of shape (n_edges,), intp
        The edges in this order, their ends, and the tree of each.
    """
    ends = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    # one more variable will join the trees
    shape = n_nodes + 1, n_nodes + 1
    ones = np.ones(len(ends))
    graph = sparse.csr_array((ones, (ends[:, 0], ends[:, 1])), shape=shape)
    n_trees, tree = csgraph.connected_components(graph, directed=False)
    # it counts as a tree by itself here
    if len(ends) != n_nodes + 1 - n_trees:
        raise ValueError("edges close a cycle: the graph must be a tree or a forest")
    # trees hang from the variable with the lowest number
    roots = np.unique(tree, return_index=True)[1]
    roots = roots[roots < n_nodes]
    join = np.column_stack([np.full(len(roots), n_nodes), roots])
    joined = np.concatenate([ends, join])
    graph = sparse.csr_array(
        (np.ones(len(joined)), (joined[:, 0], joined[:, 1])), shape=shape)
    order, parents = csgraph.breadth_first_order(graph, n_nodes, directed=False)
    # whichever end is the parent; -1 of the root, which is met once
    below = np.where(parents[ends[:, 1]] == ends[:, 0], ends[:, 1], ends[:, 0])
    edge_above = np.full(n_nodes + 1, -1, dtype=np.intp)
    edge_above[below] = np.arange(len(ends))
    child = order[edge_above[order] >= 0].astype(np.intp)
    # tree by tree, each breadth first
    child = child[np.argsort(tree[child], kind="stable")]
    return (edge_above[child], parents[child].astype(np.intp), child,
            tree[child].astype(np.intp))


def project_tree_polytope(m, edges):
    """Compute the Euclidean projection onto the local polytope of a tree.

    The result is the closest to `m` of all tables that are not negative, sum to one
    each, and agree on the variables they share. Such tables are the pair marginals of a
    distribution.

    Parameters
    ----------
    m : array-like of shape (n_edges, n_states, n_states)
        A table for each edge, from its first to its second variable; ``-inf`` entries
        stay zero.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables, numbered from zero, without a cycle. The trees of a forest
        are projected separately.

    Returns
    -------
    alpha : ndarray of shape (n_edges, n_states, n_states)
        The projection.

    Raises
    ------
    ValueError
        If m or edges has the wrong shape, an entry of m is NaN or ``+inf``, m has no
        labeling whose entries are finite, or the edges have a cycle.

    References
    ----------
    A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and faster rates
    for training SVMs", 2009, Appendix E.3.1.

    Examples
    --------
    >>> from sksstruct.projections import project_tree_polytope
    >>> m = [[[1.0, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]]]
    >>> project_tree_polytope(m, [(0, 1), (1, 2)]).round(3).tolist()
    [[[0.75, 0.125], [0.0, 0.125]], [[0.625, 0.125], [0.0, 0.25]]]
    """
    m = np.ascontiguousarray(m, dtype=np.float64)
    if m.ndim != 3 or 0 in m.shape or m.shape[1] != m.shape[2]:
        raise ValueError(
            f"m must be of shape (n_edges, n_states, n_states), got {m.shape}")
    if np.isnan(m).any() or np.isposinf(m).any():
        raise ValueError("m must not have entries that are NaN or +inf")
    edges = np.asarray(edges)
    if edges.shape != (len(m), 2) or edges.dtype.kind not in "iu" or edges.min() < 0:
        raise ValueError(
            f"edges must be {len(m)} pairs of variables, an integer array of shape "
            f"({len(m)}, 2) without negative entries")
    edges = edges.astype(np.intp)
    polytopes = LocalPolytopes(int(edges.max()) + 1, edges, m.shape[1])
    check_feasible(polytopes, m)
    # nothing has to agree
    if len(m) == 1:
        return project_simplex(m.ravel()).reshape(m.shape)
    out = np.empty_like(m)
    violation = polytopes.project(m, np.ones(len(polytopes.node)), out)
    if violation > 1e-9:
        raise ValueError(
            f"the projection was not found: a constraint is off by {violation:.1e}")
    return out


def check_feasible(LocalPolytopes polytopes, m):
    """Raise an error if a tree has no labeling of finite entries."""
    cdef Py_ssize_t i, t, first, edge, other
    if np.isfinite(m).all():
        return
    for i in range(len(polytopes.node)):
        first = polytopes._first[i]
        # of each table: labels of its parent and of its child that edges so far allow
        n_tables = polytopes._first[i + 1] - first
        allowed = np.ones((n_tables, 2, polytopes.n_states), dtype=bool)
        for t in range(n_tables - 1, -1, -1):
            edge = polytopes._edge[first + t]
            table = np.isfinite(m[edge])
            if polytopes._is_turned[first + t]:
                table = table.T
            parent = (table & allowed[t, 1]).any(axis=1) & allowed[t, 0]
            if not parent.any():
                raise ValueError(
                    f"m must have a labeling of finite entries: edges[{edge}] leaves "
                    "none")
            other = polytopes._before[first + t]
            # a younger sibling shares the parent with `before`, the eldest its child
            if other >= 0:
                allowed[other, int(polytopes._younger[first + other] != t)] &= parent
