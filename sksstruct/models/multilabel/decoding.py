"""The best set of labels of a sample, at given scores of labels and pairs of labels."""

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph
from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from sksstruct.inference.map import resolve_map_solver
from sksstruct.utils.parallel import run_in_chunks

# The values of the labels that the LP relaxation leaves open are enumerated if there
# are at most this many such labels.
MOST_OPEN = 16


def decode(unaries, pairs, interactions, *, exact, by_gdmm, n_jobs):
    """Best labels of samples with the given unary scores, as 0 and 1."""
    n, n_labels = unaries.shape
    scores = interactions[pairs[:, 0], pairs[:, 1]]
    used = scores != 0.0
    pairs, scores = pairs[used], scores[used]
    labels = np.empty((n, n_labels), dtype=np.int64)
    graph = LabelPairs(pairs, n_labels)
    graph.set_scores(scores)

    def run(first, last):
        if exact or by_gdmm:
            for i in range(first, last):
                if by_gdmm:
                    labels[i] = _by_gdmm(unaries[i], pairs, scores)
                else:
                    labels[i] = graph.best_labels(unaries[i], scores)
            return
        halves = ReducedRoofDual(graph).solve_all(unaries[first:last])
        labels[first:last] = halves // 2
        for i in first + np.flatnonzero((halves == 1).any(axis=1)):
            y = halves[i - first] / 2.0
            open_ = np.flatnonzero(y == 0.5)
            labels[i, open_] = decide_open(
                y, open_, unaries[i], pairs, scores, interactions
            )

    run_in_chunks(run, n, n_jobs)
    return labels


def decide_open(y, open_, unary, pairs, scores, interactions, most_open=MOST_OPEN):
    """Values of the labels that the relaxation leaves open, given the other labels."""
    fixed = np.where(y == 0.5, 0.0, y)
    inner = unary[open_] + interactions[open_] @ fixed
    places = np.full(len(y), -1)
    places[open_] = np.arange(len(open_))
    ends = places[pairs]
    inside = (ends >= 0).all(axis=1)
    ends, scores = ends[inside], scores[inside]
    if len(open_) <= most_open:
        return LabelPairs(ends, len(open_)).best_labels(inner, scores)
    return _by_gdmm(inner, ends, scores)


def _by_gdmm(unary, pairs, scores):
    """Labels with the highest score that Algorithm 2 of Huang et al. (2017) finds."""
    unaries = np.column_stack([np.zeros_like(unary), unary])
    if not len(pairs):
        return (unary > 0.0).astype(np.int64)
    graph = FactorGraph(
        unaries, pairs, DenseTable([[0.0, 0.0], [0.0, 1.0]]), edge_weights=scores
    )
    return resolve_map_solver("gdmm_binary").solve(graph, random_state=0).labeling
