"""The relaxation as a linear program, and MAP as an integer program, by HiGHS."""

import numpy as np
from scipy import optimize, sparse

from sksstruct.inference.lp.core._decode import by_variable, decode
from sksstruct.inference.lp.core.solver import MAPSolver

# Columns of the program beyond which it is refused, before memory is taken.
_MAX_COLUMNS = 4_000_000


class HiGHS(MAPSolver):
    """The LP relaxation, or the exact problem, by SciPy's HiGHS: the referee.

    The local polytope has a column for each state and for each entry of each table.

    Parameters
    ----------
    exact : bool, default=False
        Whether variables have to be integral: the MAP problem itself, by branch and
        bound.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the bound, relative to
        the score or 1.
    max_iter : int, default=1000000
        Largest number of simplex iterations; of nodes with `exact`.
    """

    _pairwise = False
    _parameter_constraints = {**MAPSolver._parameter_constraints, "exact": ["boolean"]}

    def __init__(self, exact=False, *, tol=1e-6, max_iter=1_000_000):
        self.exact = exact
        self.tol = tol
        self.max_iter = max_iter

    def _run(self, run):
        graph = run.problem.graph
        cost, rows, low, high = program(graph)
        n = int(graph.first_state[-1])
        limit = {} if run.time_limit is None else {"time_limit": run.time_limit}
        constraint = optimize.LinearConstraint(rows, low, high)
        if self.exact:
            found = optimize.milp(
                -cost, constraints=constraint, bounds=optimize.Bounds(0.0, 1.0),
                integrality=np.r_[np.ones(n), np.zeros(len(cost) - n)],
                options={"mip_rel_gap": self.tol * 1e-2, "node_limit": self.max_iter,
                         **limit},
            )  # fmt: skip
            bound = getattr(found, "mip_dual_bound", None)
            bound = None if bound is None else -bound
        else:
            found = optimize.milp(
                -cost, constraints=constraint, bounds=optimize.Bounds(0.0, 1.0),
                options=limit,
            )  # fmt: skip
            # the bound is the value of a solved program, up to its tolerances
            bound = -found.fun + 1e-9 * abs(found.fun) if found.status == 0 else None
        if found.x is None:
            run.offer(np.zeros(graph.n_variables, dtype=np.int32))
        else:
            flat = np.clip(found.x[:n], 0.0, 1.0)
            decode(run, flat)
            run.marginals = by_variable(run.problem, flat)
        run.report(bound=bound)
        if found.status == 2:
            run.status = "infeasible"
        elif run.status in (None, "max_iter"):
            solved = found.status == 0 and not self.exact
            timed = found.status == 1 and run.late()
            run.status = (
                "fractional" if solved else "time_limit" if timed else "max_iter"
            )


def solve_relaxation(graph):
    """A solution of the relaxation of a graph of edges, with finite scores.

    Parameters
    ----------
    graph : FactorGraph
        Variables with the same number of states, and edges.

    Returns
    -------
    nodes : ndarray of shape (n_variables, n_states)
        Marginals of the variables.
    edges : ndarray of shape (n_edges, n_states, n_states)
        Marginals of the edges.
    """
    cost, rows, low, high = program(graph)
    found = optimize.milp(
        -cost,
        constraints=optimize.LinearConstraint(rows, low, high),
        bounds=optimize.Bounds(0.0, 1.0),
    )
    if found.status != 0:
        raise RuntimeError(f"the linear program was not solved: {found.message}")
    n, K = graph.n_variables, int(graph.n_states[0])
    return found.x[: n * K].reshape(n, K), found.x[n * K :].reshape(-1, K, K)


def program(graph):
    """The local polytope of a graph with finite scores.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    cost : ndarray of shape (n_columns,)
        Scores: of the states of all variables, then of the entries of all tables.
    rows : CSR matrix of shape (n_rows, n_columns)
        Constraints.
    low, high : ndarrays of shape (n_rows,)
        Their bounds.
    """
    first = graph.first_state
    n = int(first[-1])
    weights = (
        np.ones(graph.n_edges) if graph.edge_weights is None else graph.edge_weights
    )
    factors = [
        (scope, graph.tables[t], w)
        for scope, t, w in zip(graph.edges, graph.edge_tables, weights, strict=True)
    ]
    factors += [
        (scope, graph.tables[t], 1.0)
        for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True)
    ]
    columns = n + sum(
        int(np.prod(table.shape)) for _, table, _ in factors if not _is_logic(table)
    )
    if columns > _MAX_COLUMNS:
        raise ValueError(
            f"the linear program would have {columns} columns: use another solver"
        )
    parts = _Rows()
    for v in range(graph.n_variables):
        parts.add(np.arange(first[v], first[v + 1]), 1.0, 1.0, 1.0)
    costs, at = [np.asarray(graph.unaries)], n
    for scope, table, w in factors:
        if _is_logic(table):
            _condition(parts, table, first[scope])
            continue
        index = at + np.arange(int(np.prod(table.shape))).reshape(table.shape)
        costs.append(w * table.dense().reshape(-1))
        at += index.size
        for axis, v in enumerate(scope):
            for k in range(table.shape[axis]):
                entries = np.take(index, k, axis=axis).reshape(-1)
                parts.add(np.r_[entries, first[v] + k],
                          np.r_[np.ones(len(entries)), -1.0], 0.0, 0.0)  # fmt: skip
    return np.concatenate(costs), *parts.build(at)


def _is_logic(table):
    return hasattr(table, "condition")


class _Rows:
    def __init__(self):
        self.columns, self.values, self.sizes = [], [], []
        self.low, self.high = [], []

    def add(self, columns, values, low, high):
        self.columns.append(columns)
        self.values.append(np.broadcast_to(values, len(columns)))
        self.sizes.append(len(columns))
        self.low.append(low)
        self.high.append(high)

    def build(self, n_columns):
        rows = np.repeat(np.arange(len(self.sizes)), self.sizes)
        shape = (len(self.sizes), n_columns)
        entries = np.concatenate(self.values), (rows, np.concatenate(self.columns))
        return (
            sparse.csr_matrix(entries, shape),
            np.array(self.low),
            np.array(self.high),
        )


def _condition(parts, table, first):
    """The convex hull of a condition, in terms of P(x = 1) of its variables."""
    columns = first + 1
    sign = np.where(table.negated, -1.0, 1.0)
    constant = table.negated.astype(np.float64)
    # a literal is constant + sign * P

    def row(coefficients, low, high):
        shift = float(np.dot(coefficients, constant))
        parts.add(columns, coefficients * sign, low - shift, high - shift)

    n, kind = len(columns), table.condition
    ones = np.ones(n)
    if kind == "xor":
        row(ones, 1.0, 1.0)
    elif kind == "atmostone":
        row(ones, -np.inf, 1.0)
    elif kind == "or":
        row(ones, 1.0, np.inf)
    elif kind == "budget":
        row(ones, -np.inf, float(table.limit))
    else:
        ones[-1] = -1.0
        if kind == "xorout":
            row(ones, 0.0, 0.0)
            return
        row(ones, 0.0, np.inf)
        for k in range(n - 1):
            pair = np.zeros(n)
            pair[k], pair[-1] = 1.0, -1.0
            row(pair, -np.inf, 0.0)
