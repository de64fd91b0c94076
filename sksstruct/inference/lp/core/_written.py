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
    weights = graph.edge_weights
    scopes = [*graph.edges, *graph.factor_scopes]
    tables = [graph.tables[t].dense() for t in graph.edge_tables]
    if weights is not None:
        tables = [table * w for table, w in zip(tables, weights, strict=True)]
    tables += [graph.tables[t].dense() for t in graph.factor_tables]
    return rows, scopes, tables
