"""The training objective of graphs with cycles: an upper bound of the LP relaxation.

For any multipliers lambda of the constraints between edges and nodes, the sum of the
maxima of all reparametrized factors is an upper bound of the relaxation (Yen et al.,
2016, (8)). The objective with this bound is therefore above the true objective, and the
duality gap is a certificate. A few sweeps of tree-reweighted message passing start from
the multipliers of training and only lower the bound. At optimal multipliers the bound
equals the relaxation, even if message passing from other multipliers would end above
it.
"""

import numpy as np

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.message_passing.sweeps import TreeReweighted
from sksstruct.utils.parallel import run_in_chunks

# Graphs are added to a chunk until it has about this number of scores.
_SCORES = 2**22
# Largest number of sweeps of message passing for a chunk of graphs.
_SWEEPS = 20
# Sweeps end when one sweep lowers the bound by at most this share of the distance
# between the bound and the score of the best labeling.
_LEAST_FALL = 1e-3
# Sweeps also end when the bound exceeds the score of the best labeling by at most this
# relative difference, which may be rounding error.
_ROUNDING = 1e-12


def relaxed_maxima(
    factors, node_scores, edge_tables, clique_tables, n_jobs=None, multipliers=None
):
    """Return an upper bound of sum_i p_i max_q <loss_i, q> + <w, phi(q) - phi(y_i)>.

    Parameters
    ----------
    factors : GraphFactors
        Graphs, observed labels, costs and weights of examples.
    node_scores : callable
        ``node_scores(start, stop)`` returns the scores of the labels of a range of
        nodes, (stop - start, n_labels), a new array.
    edge_tables : callable
        ``edge_tables(start, stop)`` returns, for a range of edges, tables, the index of
        each edge's table, and factors of the edges, or None.
    clique_tables : ndarray or None
        Flat tables of cliques, if there are any.
    n_jobs : int, default=None
        Threads.
    multipliers : callable, default=None
        Returns lambda as (first, labels, values, cliques): sparse rows for the ends of
        edges, and rows of all labels for the nodes of cliques; None: zeros.

    Returns
    -------
    bound : float
        The upper bound, never below zero by more than rounding.
    """
    chunks = _chunks(factors)
    lambdas = None if multipliers is None else multipliers()
    values = np.zeros(len(chunks))

    def bound(start, stop):
        for k in range(start, stop):
            values[k] = _bound(
                factors, chunks[k], node_scores, edge_tables, clique_tables, lambdas
            )

    run_in_chunks(bound, len(chunks), n_jobs)
    return float(values.sum())


def _chunks(factors):
    """Divide the examples into ranges, which are the same for any number of threads."""
    K = factors.n_labels
    # number of scores of each example: of its nodes, of messages along its edges, of
    # tables of edges that are not shared, and of tables of cliques
    scores = np.diff(factors.first_variable) * K
    scores += np.diff(factors.first_pair) * factors.scores_of_edge
    if factors.cliques is not None:
        scores += factors.per_example(factors.cliques.outcomes)
    ends = np.unique(np.cumsum(scores) // _SCORES, return_index=True)[1]
    return list(zip(ends, np.append(ends[1:], len(scores)), strict=True))


def _bound(factors, examples, node_scores, edge_tables, clique_tables, multipliers):
    """The bound of a range of examples, minus the scores of the observed labels."""
    first, last = examples
    nodes = slice(*factors.first_variable[[first, last]])
    edges = slice(*factors.first_pair[[first, last]])
    weights = factors.example_weights[first:last]
    weight_of_node = np.repeat(
        weights, np.diff(factors.first_variable[first : last + 1])
    )
    weight_of_edge = np.repeat(weights, np.diff(factors.first_pair[first : last + 1]))
    y_true = factors.y_true[nodes]
    unaries = node_scores(nodes.start, nodes.stop)
    costs = factors.costs[nodes]
    unaries += costs[:, None]
    unaries[np.arange(len(y_true)), y_true] -= costs
    # p_i multiplies all scores of its graph, so that the graphs of a chunk form one
    # graph
    unaries *= weight_of_node[:, None]
    ends, larger = factors.pairs[edges] - nodes.start, []
    if factors.cliques is not None:
        clique_lambdas = None if multipliers is None else multipliers[3]
        larger = _cliques(factors, examples, clique_tables, clique_lambdas, unaries)
    graph = FactorGraph(unaries, factors=larger)
    if len(ends):
        tables, index, scales = edge_tables(edges.start, edges.stop)
        scales = weight_of_edge if scales is None else scales * weight_of_edge
        graph = FactorGraph(
            unaries,
            ends,
            tables,
            edge_tables=index,
            edge_weights=scales,
            factors=larger,
        )
    kernel = TreeReweighted(MAPProblem(graph))
    if multipliers is not None and len(ends):
        kernel.begin(
            _messages(multipliers, edges, ends, graph) * weight_of_edge[:, None]
        )
    return _sweep(kernel) - graph.score(y_true)


def _messages(multipliers, edges, ends, graph):
    """Multipliers of the end of each edge that message passing visits first."""
    first, labels, values, _ = multipliers
    rows = 2 * np.arange(edges.start, edges.stop) + (ends[:, 0] > ends[:, 1])
    sizes = first[rows + 1] - first[rows]
    dense = np.zeros((len(rows), int(graph.n_states[0])))
    # indices into `labels` and `values` of the entries of these sparse rows, row by row
    before = np.repeat(np.cumsum(sizes) - sizes, sizes)
    entries = np.repeat(first[rows], sizes) + np.arange(sizes.sum()) - before
    dense[np.repeat(np.arange(len(rows)), sizes), labels[entries]] = values[entries]
    return dense


def _cliques(factors, examples, tables, multipliers, unaries):
    """Scopes and tables of the cliques of a range of examples.

    Multipliers of a clique are subtracted from its table and added to `unaries`: scores
    of labelings do not change, and the first bound of the sweeps is (8).
    """
    cliques, K, scoped_tables = factors.cliques, factors.n_labels, []
    start = factors.first_variable[examples[0]]
    for i in range(*examples):
        weight = factors.example_weights[i]
        for c in range(*cliques.first_clique[[i, i + 1]]):
            first, last = cliques.first_node[[c, c + 1]]
            scope, order = cliques.scopes[first:last] - start, int(last - first)
            begin = cliques.first_weight[c]
            table = weight * cliques.factors[c] * tables[begin : begin + K**order]
            table = table.reshape((K,) * order)
            if multipliers is not None:
                messages = multipliers[first * K : last * K].reshape(order, K)
                unaries[scope] += weight * messages
                for axis, row in enumerate(weight * messages):
                    table -= np.expand_dims(row, [j for j in range(order) if j != axis])
            scoped_tables.append((scope, table))
    return scoped_tables


def _sweep(kernel):
    """Run sweeps of message passing until a sweep lowers the bound little; return the
    bound.
    """
    bound, score = np.inf, -np.inf
    for k in range(_SWEEPS):
        before, bound = bound, min(bound, kernel.sweep(k % 2 == 1))
        score = max(score, kernel.score)
        gap = bound - score
        if gap <= _ROUNDING * max(1.0, abs(bound)):
            break
        if before - bound <= _LEAST_FALL * gap:
            break
    return bound
