"""The local polytope of a graph as a linear program, and the size of the program.

The program has a column for each state of each variable, and for each entry of each
table: the marginals. Its rows make the marginals of a variable sum to one, and the
marginals of a table to those of its variables. A `Logic` factor has no columns: its
rows are the convex hull of the states that it allows.
"""

import numpy as np


def program(graph, late=lambda: False):
    """Return the local polytope of a graph with finite scores; None if time is over.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    late : callable, default=lambda: False
        Whether time is over.

    Returns
    -------
    cost : ndarray of shape (n_columns,)
        Scores: of the states of all variables, then of the entries of all tables.
    rows : CSR matrix of shape (n_rows, n_columns)
        Constraints.
    low, high : ndarrays of shape (n_rows,)
        Bounds of the constraints.
    """
    first = graph.first_state
    parts = Rows()
    for v in range(graph.n_variables):
        parts.add(np.arange(first[v], first[v + 1]), 1.0, 1.0, 1.0)
    costs, n_columns = [np.asarray(graph.unaries)], int(first[-1])
    for scope, table, weight in graph._listed():
        if late():
            return None
        if table.condition is not None:
            add_condition(parts, table, first[scope])
            continue
        costs.append(weight * table.dense().reshape(-1))
        index = n_columns + np.arange(len(costs[-1])).reshape(table.shape)
        add_marginals(parts, index, first[scope])
        n_columns += index.size
    return np.concatenate(costs), *parts.build(n_columns)


def program_size(graph):
    """Return the numbers of rows, columns and nonzeros of the program of a graph.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    size : ndarray of shape (3,)
        The numbers, as floats: large factors have more entries than integers can count.
    """
    sizes = np.array([table_size(table) for table in graph.tables]).reshape(-1, 3)
    n_states = float(graph.first_state[-1])
    size = np.array([graph.n_variables, n_states, n_states])
    for tables in (graph.edge_tables, graph.factor_tables):
        size += sizes[np.asarray(tables, dtype=np.intp)].sum(axis=0)
    return size


def table_size(table):
    """Return the numbers of rows, columns and nonzeros of a factor with this table."""
    shape = np.array(table.shape, dtype=np.float64)
    n = len(shape)
    if table.condition is not None:
        # "orout" has a further row of two columns for each input
        further = n - 1 if table.condition == "orout" else 0
        return 1 + further, 0.0, n + 2 * further
    return shape.sum(), shape.prod(), n * shape.prod() + shape.sum()


class Rows:
    """Constraints ``low <= row x <= high``, collected one by one."""

    def __init__(self):
        self.columns, self.values, self.sizes = [], [], []
        self.low, self.high = [], []

    def add(self, columns, values, low, high):
        """Add a row with its columns, the values in these columns, and its bounds."""
        self.columns.append(columns)
        self.values.append(np.broadcast_to(values, len(columns)))
        self.sizes.append(len(columns))
        self.low.append(low)
        self.high.append(high)

    def add_all(self, columns, values, low, high):
        """Add rows of equal values and bounds; `columns` has a line for each row."""
        n, width = columns.shape
        self.columns.append(columns.reshape(-1))
        self.values.append(np.tile(values, n))
        self.sizes += [width] * n
        self.low += [low] * n
        self.high += [high] * n

    def build(self, n_columns):
        """Return all rows as a matrix, and their bounds."""
        from scipy import sparse

        rows = np.repeat(np.arange(len(self.sizes)), self.sizes)
        shape = (len(self.sizes), n_columns)
        entries = np.concatenate(self.values), (rows, np.concatenate(self.columns))
        return (
            sparse.csr_matrix(entries, shape),
            np.array(self.low),
            np.array(self.high),
        )


def add_marginals(parts, index, first):
    """Add the rows that make the entries of a table sum to the marginals of states.

    `index` has the column of each entry, `first` the column of the first state of each
    variable.
    """
    for axis, start in enumerate(first):
        entries = np.moveaxis(index, axis, 0).reshape(index.shape[axis], -1)
        states = start + np.arange(len(entries))[:, None]
        values = np.append(np.ones(entries.shape[1]), -1.0)
        parts.add_all(np.hstack([entries, states]), values, 0.0, 0.0)


def add_condition(parts, table, first):
    """Add the convex hull of a condition, in terms of P(x = 1) of its variables."""
    columns = first + 1
    # a literal is constant + sign * P(x = 1)
    sign = np.where(table.negated, -1.0, 1.0)
    constant = table.negated.astype(np.float64)

    def add(places, coefficients, low, high):
        shift = float(np.dot(coefficients, constant[places]))
        values = coefficients * sign[places]
        parts.add(columns[places], values, low - shift, high - shift)

    n, kind = len(columns), table.condition
    bounds = {
        "xor": (1.0, 1.0),
        "atmostone": (-np.inf, 1.0),
        "or": (1.0, np.inf),
        "budget": (-np.inf, table.limit),
        # bounds of the sum of the inputs minus the output
        "xorout": (0.0, 0.0),
        "orout": (0.0, np.inf),
    }
    ones = np.ones(n)
    if kind in ("xorout", "orout"):
        ones[-1] = -1.0
    add(np.arange(n), ones, *bounds[kind])
    if kind == "orout":
        # no input is above the output
        for k in range(n - 1):
            add(np.array([k, n - 1]), np.array([1.0, -1.0]), -np.inf, 0.0)
