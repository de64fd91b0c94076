"""All scores of a graph as plain arrays, for solvers that do not use `Table`."""

import numpy as np


def written_out(graph):
    """Return the scores of variables and factors, with edge weights, as arrays.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    rows : list of ndarrays of shape (n_states[i],)
        Scores of the variables.
    scopes : list of ndarrays
        Variables of the edges, then of the larger factors.
    tables : list of ndarrays
        Scores of the scopes. Factors may share arrays, which must not be changed.
    """
    rows = [np.array(graph.unary(v)) for v in range(graph.n_variables)]
    scopes, tables = [], []
    for scope, table, weight in graph._listed():
        scopes.append(scope)
        # arrays are shared unless the weight changes entries
        tables.append(table.dense() if weight == 1.0 else table.dense() * weight)
    return rows, scopes, tables
