"""Projection onto the local polytopes of trees, and of chains, which are trees.

The tables of the edges of a tree are nonnegative, sum to a mass, and agree on shared
variables; `_multipliers.pyx` states the problem.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import csgraph

from sksstruct.projections._probabilities import project_simplex
from sksstruct.projections._tree_polytope import project_trees


class LocalPolytopes:
    """The local polytopes of the trees of a forest, and their multipliers.

    Parameters
    ----------
    n_nodes : int
        Number of variables.
    edges : ndarray of shape (n_edges, 2)
        Pairs of variables, without a cycle.
    n_states : int
        Number of labels.
    d : ndarray of shape (n_edges,), default=None
        Weights of the tables; None: all are one.

    Attributes
    ----------
    node : ndarray of shape (n_trees,)
        A variable of each tree that has an edge.
    """

    def __init__(self, n_nodes, edges, n_states, d=None):
        self.n_states = n_states
        tables, parent, child, tree = hang(n_nodes, edges)
        n_tables = len(tables)
        # `_first` has the offset of the tables of each tree; all other arrays are those
        # of `TreeProblem`
        self._edge = tables
        self._is_turned = (edges[tables, 0] != parent).astype(np.int8)
        self._inverse = np.ones(n_tables) if d is None else d[tables] ** -2.0
        first = np.flatnonzero(np.append(True, np.diff(tree) != 0)[:n_tables])
        self.node = parent[first]
        self._first = np.append(first, n_tables).astype(np.intp)
        start = np.repeat(first, np.diff(self._first))
        # number of each table within its tree, in which siblings are consecutive
        place = np.arange(n_tables) - start
        has_elder = np.append(False, np.diff(parent) == 0)[:n_tables]
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
        # the multipliers of a projection are the initial multipliers of the next one
        self._duals = np.zeros(n_tables * n_states + len(first))

    def project(self, tables, mass, out):
        """Project the tables of all edges onto the local polytopes of the trees.

        A table sums to the mass of its tree. Returns the largest violation of a
        constraint, as a fraction of the mass.
        """
        most_tables, k = int(np.diff(self._first).max(initial=0)), self.n_states
        arrays = (
            self._first, self._edge, self._is_turned, self._inverse, self._younger,
            self._eldest, self._before, self._duals,
        )  # fmt: skip
        scratch = np.empty(3 * most_tables * k * (k + 1) + 4 * k + 3)
        return project_trees(k, *arrays, tables, mass, scratch, out)


def hang(n_nodes, edges):
    """Order the edges of a forest tree by tree, breadth first in each tree.

    Returns
    -------
    tables, parent, child, tree : ndarray of shape (n_edges,), intp
        The edges in this order, their ends, and the tree of each edge.
    """
    ends = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
    # an additional variable, to which all roots are joined below
    shape = n_nodes + 1, n_nodes + 1
    ones = np.ones(len(ends))
    graph = sparse.csr_array((ones, (ends[:, 0], ends[:, 1])), shape=shape)
    n_trees, tree = csgraph.connected_components(graph, directed=False)
    # the additional variable is still a tree of its own
    if len(ends) != n_nodes + 1 - n_trees:
        raise ValueError("edges close a cycle: the graph must be a tree or a forest")
    # the root of a tree is its variable with the lowest number
    roots = np.unique(tree, return_index=True)[1]
    roots = roots[roots < n_nodes]
    join = np.column_stack([np.full(len(roots), n_nodes), roots])
    joined = np.concatenate([ends, join])
    graph = sparse.csr_array(
        (np.ones(len(joined)), (joined[:, 0], joined[:, 1])), shape=shape
    )
    order, parents = csgraph.breadth_first_order(graph, n_nodes, directed=False)
    # either end of an edge may be the parent
    below = np.where(parents[ends[:, 1]] == ends[:, 0], ends[:, 1], ends[:, 0])
    edge_above = np.full(n_nodes + 1, -1, dtype=np.intp)
    edge_above[below] = np.arange(len(ends))
    child = order[edge_above[order] >= 0].astype(np.intp)
    # the stable sort keeps the breadth-first order within each tree
    child = child[np.argsort(tree[child], kind="stable")]
    return (
        edge_above[child],
        parents[child].astype(np.intp),
        child,
        tree[child].astype(np.intp),
    )


def project_chain_polytope(m: ArrayLike, *, d: ArrayLike | None = None) -> np.ndarray:
    """Compute the Euclidean projection onto the local polytope of a chain.

    The result is the closest to `m` of all tables that are nonnegative, sum to one
    each, and agree on the variables they share. Such tables are the pair marginals of a
    distribution.

    Parameters
    ----------
    m : array-like of shape (n_edges, n_states, n_states)
        A table for each pair of neighbors, from -> to; ``-inf`` entries stay zero.
    d : array-like of shape (n_edges,), default=None
        Positive weights of the tables: the squared distance is
        ``sum_e d[e]**2 * |alpha[e] - m[e]|**2``. None: all are one.

    Returns
    -------
    alpha : ndarray of shape (n_edges, n_states, n_states)
        The projection.

    Raises
    ------
    ValueError
        If m or d has the wrong shape, an entry of m is NaN or ``+inf``, an entry of d
        is not positive and finite, or m has no labeling whose entries are finite.

    References
    ----------
    A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and faster rates
    for training SVMs", 2009, Appendix E.3.1.

    Examples
    --------
    >>> from sksstruct.projections import project_chain_polytope
    >>> m = [[[1.0, 0.0], [0.0, 0.0]], [[0.5, 0.0], [0.0, 0.5]]]
    >>> project_chain_polytope(m).round(3).tolist()
    [[[0.75, 0.125], [0.0, 0.125]], [[0.625, 0.125], [0.0, 0.25]]]
    """
    m = check_tables(m)
    # labels at the current position that a sequence of finite entries leads to
    reached = np.ones(m.shape[1], dtype=bool)
    for table in m:
        reached = (np.isfinite(table) & reached[:, None]).any(axis=0)
    if not reached.any():
        raise ValueError("m must have a chain of finite entries")
    first = np.arange(len(m))
    return project_one(m, np.column_stack([first, first + 1]), d)


def project_tree_polytope(
    m: ArrayLike, edges: ArrayLike, *, d: ArrayLike | None = None
) -> np.ndarray:
    """Compute the Euclidean projection onto the local polytope of a tree.

    The result is the closest to `m` of all tables that are nonnegative, sum to one
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
    d : array-like of shape (n_edges,), default=None
        Positive weights of the tables: the squared distance is
        ``sum_e d[e]**2 * |alpha[e] - m[e]|**2``. None: all are one.

    Returns
    -------
    alpha : ndarray of shape (n_edges, n_states, n_states)
        The projection.

    Raises
    ------
    ValueError
        If m, edges or d has the wrong shape, an entry of m is NaN or ``+inf``, an entry
        of d is not positive and finite, m has no labeling whose entries are finite, or
        the edges have a cycle.

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
    m = check_tables(m)
    edges = np.asarray(edges)
    if edges.shape != (len(m), 2) or edges.dtype.kind not in "iu" or edges.min() < 0:
        raise ValueError(
            f"edges must be {len(m)} pairs of variables, an integer array of shape "
            f"({len(m)}, 2) without negative entries"
        )
    return project_one(m, edges.astype(np.intp), d)


def check_tables(m):
    """Convert tables to float64; raise an error for a wrong shape, NaN or +inf."""
    m = np.ascontiguousarray(m, dtype=np.float64)
    if m.ndim != 3 or 0 in m.shape or m.shape[1] != m.shape[2]:
        raise ValueError(
            f"m must be of shape (n_edges, n_states, n_states), got {m.shape}"
        )
    if np.isnan(m).any() or np.isposinf(m).any():
        at = np.argwhere(~(m < np.inf))[0].tolist()
        raise ValueError(f"m{at} must be finite or -inf, got {m[tuple(at)]}")
    return m


def project_one(m, edges, d):
    """Project checked tables onto the local polytopes of a forest, with mass one."""
    if d is not None:
        d = np.asarray(d, dtype=np.float64)
        if d.shape != (len(m),) or not (np.isfinite(d).all() and d.min() > 0.0):
            raise ValueError(f"d must be {len(m)} positive numbers, one for each table")
        # with weights near one, the initial damping of Newton's method is well scaled
        d = d / np.exp(np.log(d).mean())
    polytopes = LocalPolytopes(int(edges.max()) + 1, edges, m.shape[1], d)
    check_feasible(polytopes, m)
    # a single table has no agreement constraints
    if len(m) == 1:
        return project_simplex(m.ravel()).reshape(m.shape)
    out = np.empty_like(m)
    violation = polytopes.project(m, np.ones(len(polytopes.node)), out)
    uneven = 1.0 if d is None else (d.max() / d.min()) ** 2
    # a constraint is a sum over states, each with its own rounding errors
    rounding = 8.0 * np.finfo(float).eps * uneven * m.shape[1]
    if violation > max(1e-9, rounding):
        raise ValueError(
            f"the projection was not found: a constraint is off by {violation:.1e}"
        )
    return out


def check_feasible(polytopes, m):
    """Raise an error if a tree has no labeling of finite entries."""
    if np.isfinite(m).all():
        return
    for i in range(len(polytopes.node)):
        first = polytopes._first[i]
        # for each table: labels of its parent and child that the edges visited so far
        # allow
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
                    "none"
                )
            other = polytopes._before[first + t]
            # a younger sibling shares its parent with `before`; an eldest edge's parent
            # is the child of `before`
            if other >= 0:
                allowed[other, int(polytopes._younger[first + other] != t)] &= parent
