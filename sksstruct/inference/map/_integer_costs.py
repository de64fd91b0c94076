"""The factors of a problem as integer costs, for toulbar2 and CP-SAT."""

import numpy as np

# Graphs with more table entries in total are refused before memory is allocated.
_MAX_ENTRIES = 1 << 26
# Costs are integers below this one: floats represent all of these exactly.
_LARGEST = 2.0**50


def check_entries(graph, name, conditions=True):
    """Raise an error if written out tables would be too large.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    name : str
        Name of the solver.
    conditions : bool, default=True
        Whether conditions are written out, too.
    """
    entries = sum(
        float(np.prod(graph.tables[t].shape, dtype=np.float64))
        for t in (*graph.edge_tables, *graph.factor_tables)
        if conditions or graph.tables[t].condition is None
    )
    if entries > _MAX_ENTRIES:
        raise ValueError(
            f"{name} needs all tables written out, which are {entries:.3g} "
            "entries: use another solver"
        )


class IntegerCosts:
    """The factors of a problem as integer costs, rounded down.

    The cost of an entry is the highest score of its table minus its score, times
    `_scale`. As costs are rounded down, a lower bound on costs gives an upper bound on
    scores.

    Parameters
    ----------
    problem : MAPProblem
        The problem.
    tol : float
        Relative error that rounding may cause at most, where integers are large enough.
    conditions : bool, default=True
        Whether conditions are written out; otherwise, they are left out.

    Attributes
    ----------
    top : int
        The cost of forbidden entries, which is above the cost of every allowed
        labeling.
    arrays : dict of ndarrays
        Numbers of states, "sizes"; the variables of all factors, "scopes", and the
        "first" of each factor; the "costs" of all entries, and the offset "begin" of
        each factor's costs; "top".
    """

    def __init__(self, problem, tol, conditions=True):
        self._high, self._spread = 0.0, 0.0
        scopes, tables = [], []
        for scope, values in _factors(problem, conditions):
            high = values.max()
            self._high += high
            scopes.append(scope)
            tables.append(high - values)
            self._spread += tables[-1].max()
        # a forbidden entry costs more than every allowed labeling
        forbidden = -problem.penalty if problem.penalty else np.inf
        total = min(self._spread + 1.0, forbidden)
        self._scale = _scale(tables, total, len(tables), tol)
        self.top = int(np.floor(total * self._scale))
        flat = np.concatenate([table.reshape(-1) for table in tables])
        # Rounding must not make an allowed entry cost as much as a forbidden one.
        highest = max(self.top - 1, 0)
        costs = np.floor(np.minimum(flat * self._scale, highest)).astype(np.int64)
        # penalties are rounded: an entry that costs nearly as much as a penalty is
        # forbidden
        costs[flat >= forbidden * (1.0 - 1e-9)] = self.top
        self.arrays = {
            "sizes": np.asarray(problem.graph.n_states),
            "top": np.array(self.top),
            "first": np.cumsum([0] + [len(scope) for scope in scopes]),
            "scopes": np.concatenate(scopes).astype(np.int64),
            "begin": np.cumsum([0] + [table.size for table in tables]),
            "costs": costs,
        }

    def tables(self):
        """Yield the scope of each factor, and its costs as a table."""
        arrays = self.arrays
        sizes = arrays["sizes"]
        scopes = np.split(arrays["scopes"], arrays["first"][1:-1])
        tables = np.split(arrays["costs"], arrays["begin"][1:-1])
        for scope, costs in zip(scopes, tables, strict=True):
            yield scope, costs.reshape(sizes[scope])

    def score(self, cost):
        """Return the score that no labeling of at least this cost exceeds."""
        return self._high - cost / self._scale


def _factors(problem, conditions):
    """Yield scope and scores of all factors, written out."""
    graph = problem.graph
    for v in range(graph.n_variables):
        yield [v], graph.unary(v)
    for scope, table, weight in graph._listed():
        if table.condition is not None and not conditions:
            continue
        # `Logic` tables have -inf; other tables are finite, and may be below the
        # penalty
        values = weight * table.dense()
        yield scope, np.where(values > -np.inf, values, problem.penalty)


def _scale(tables, total, n_tables, tol):
    """Return a power of two to multiply costs by: 1 if all costs are integers."""
    if all((table == np.floor(table)).all() for table in tables) and total < _LARGEST:
        return 1.0
    precise = 10.0 * n_tables / max(tol, 1e-12)
    return 2.0 ** np.floor(np.log2(min(precise, _LARGEST / total)))
