"""The k best sets of labels against enumeration."""

from functools import partial
from itertools import product

import numpy as np
import pytest

from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from sksstruct.models.multilabel.best_sets import best_sets

find = partial(best_sets, most_open=16, n_jobs=None)


def problem(n_labels, kind, n=12):
    rng = np.random.RandomState(n_labels)
    pairs = np.column_stack(np.triu_indices(n_labels, 1))
    unaries, scores = 2.0 * rng.standard_normal((n, n_labels)), np.zeros(len(pairs))
    if kind != "alone":
        scores = 2.0 * rng.standard_normal(len(pairs))
    if kind == "excluding":
        unaries, scores = np.abs(unaries), -np.abs(scores)
    if kind == "ties":
        unaries, scores = np.round(unaries), np.round(scores / 2.0)
    table = np.zeros((n_labels, n_labels))
    table[pairs[:, 0], pairs[:, 1]] = scores
    return unaries, pairs, table + table.T


def scores_of(sets, unaries, table):
    return sets @ unaries + 0.5 * np.einsum("...j,jk,...k->...", sets, table, sets)


def check(unaries, table, labels, scores):
    """Sets are different, and their scores are theirs and in order."""
    for unary, sets, values in zip(unaries, labels, scores, strict=True):
        assert len(np.unique(sets, axis=0)) == len(sets)
        np.testing.assert_allclose(scores_of(sets, unary, table), values, atol=1e-10)
        assert (np.diff(values) <= 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["alone", "attracting or excluding", "excluding", "ties"]
)
@pytest.mark.parametrize("n_labels", [1, 2, 4, 7])
def test_enumeration(n_labels, kind):
    unaries, pairs, table = problem(n_labels, kind)
    every = np.array(list(product((0, 1), repeat=n_labels)))
    for k in (1, 2, 5, 10**6):
        labels, scores = find(unaries, pairs, table, k)
        n_sets = min(k, 2**n_labels)
        assert labels.shape == (len(unaries), n_sets, n_labels)
        check(unaries, table, labels, scores)
        for unary, values in zip(unaries, scores, strict=True):
            best = -np.sort(-scores_of(every, unary, table))
            np.testing.assert_allclose(values, best[:n_sets], atol=1e-10)


def test_some_are_left_open_by_the_relaxation():
    unaries, pairs, table = problem(7, "excluding")
    graph = LabelPairs(pairs, 7)
    graph.set_scores(table[pairs[:, 0], pairs[:, 1]])
    assert (ReducedRoofDual(graph).solve_all(unaries) == 1).any()
    # with none enumerated, sets are still different and their scores right
    labels, scores = best_sets(unaries, pairs, table, 9, most_open=0, n_jobs=None)
    check(unaries, table, labels, scores)
    assert (scores[:, 0] <= find(unaries, pairs, table, 1)[1][:, 0] + 1e-10).all()


@pytest.mark.slow
def test_many_labels_without_pairs():
    rng = np.random.RandomState(0)
    unaries = rng.standard_normal((5, 600))
    nothing = np.zeros((600, 600)), np.empty((0, 2), dtype=int)
    labels, scores = find(unaries, nothing[1], nothing[0], 30)
    check(unaries, nothing[0], labels, scores)
    for unary, values in zip(unaries, scores, strict=True):
        # the thirty best flip some of the labels that lose least
        losses = np.sort(np.abs(unary))[:14]
        least = np.sort(np.array(list(product((0, 1), repeat=14))) @ losses)[:30]
        assert least[-1] < np.sort(np.abs(unary))[14]
        np.testing.assert_allclose(values, unary[unary > 0].sum() - least, atol=1e-9)


def test_bounds_save_work(monkeypatch):
    """A part is solved only if its bound is among the best."""
    calls, solve = [], ReducedRoofDual.solve

    class Counted(ReducedRoofDual):
        def solve(self, unary, start=None):
            calls.append(1)
            return solve(self, unary, start)

    monkeypatch.setattr(
        "sksstruct.models.multilabel.best_sets.ReducedRoofDual", Counted
    )
    unaries, pairs, table = problem(40, "alone", n=1)
    find(unaries, pairs, table, 8)
    # without pairs, bounds are scores
    assert len(calls) == 8


def test_threads_find_the_same():
    unaries, pairs, table = problem(6, "ties", n=40)
    one = find(unaries, pairs, table, 4)
    two = best_sets(unaries, pairs, table, 4, most_open=16, n_jobs=2)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bounds_count_what_labels_add_on_both_sides():
    """Bounds of flips that lack a pair, of either of its labels, lose the fourth."""
    rng = np.random.default_rng(2793)
    pairs = np.column_stack(np.triu_indices(5, 1))
    table = np.triu(rng.integers(-4, 5, size=(5, 5)), 1).astype(float)
    table += table.T
    unaries = rng.integers(-6, 7, size=(1, 5)).astype(float)
    labels, scores = find(unaries, pairs, table, 8)
    check(unaries, table, labels, scores)
    every = np.array(list(product((0, 1), repeat=5)))
    best = -np.sort(-scores_of(every, unaries[0], table))
    np.testing.assert_allclose(scores[0], best[:8])
