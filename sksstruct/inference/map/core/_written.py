"""All scores of a graph as tables."""

import numpy as np


def written_out(graph):
    """Scores of variables and factors, with the weights of edges, as arrays.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    rows : list of ndarrays of shape (n_states[i],)
        Scores of the variables.
    scopes : list of ndarrays
        Variables of the edges, and then of the larger factors.
    tables : list of ndarrays
        Their scores, which may be shared and are not to be changed.
    """
    rows = [np.array(graph.unary(v)) for v in range(graph.n_variables)]
    scopes, tables = [], []
    for scope, table, weight in graph._listed():
        scopes.append(scope)
        # shared as long as nothing has to be multiplied
        tables.append(table.dense() if weight == 1.0 else table.dense() * weight)
    return rows, scopes, tables
