import numpy as np
import pytest
from graphs import assignments, attractive_graphs, enumerate_matchings, forests
from hypothesis import given, settings
from hypothesis import strategies as st

from sksstruct.inference import (
    Exhaustive,
    bmmf,
    matching,
    matching_max_marginals,
    max_marginals,
    max_product,
    max_product_topk,
    min_cut,
    min_cut_max_marginals,
)


def check(labelings, scores, expected):
    """The k best of all (labeling, score), distinct and in order."""
    best = sorted((s for s in expected.values() if s > -np.inf), reverse=True)
    np.testing.assert_array_equal(scores, best[: len(scores)])
    rows = [tuple(row) for row in labelings.tolist()]
    assert len(set(rows)) == len(rows)
    assert [expected[row] for row in rows] == scores.tolist()
    return len(best)


def enumeration(everything):
    rows = map(tuple, everything.labelings.tolist())
    return dict(zip(rows, everything.scores.tolist(), strict=True))


@settings(max_examples=120)
@given(forests(max_variables=4), st.integers(1, 12), st.booleans())
def test_trees(forest, k, solve):
    unary, edges, pairwise = forest
    labelings, scores = bmmf(
        lambda u: max_marginals(u, edges, pairwise),
        unary,
        k,
        max_product=(lambda u: max_product(u, edges, pairwise)) if solve else None,
    )
    count = check(labelings, scores, enumeration(Exhaustive(*forest)))
    assert len(scores) == min(k, count)


@pytest.mark.slow
@settings(max_examples=120)
@given(attractive_graphs(max_variables=4), st.integers(1, 12), st.booleans())
def test_cuts(graph, k, solve):
    unary, edges, pairwise = graph
    labelings, scores = bmmf(
        lambda u: min_cut_max_marginals(u, edges, pairwise),
        unary,
        k,
        max_product=(lambda u: min_cut(u, edges, pairwise)) if solve else None,
    )
    everything = Exhaustive(unary, edges, list(pairwise))
    count = check(labelings, scores, enumeration(everything))
    assert len(scores) == min(k, count)


@settings(max_examples=120)
@given(assignments(), st.integers(1, 12), st.booleans())
def test_matchings(problem, k, solve):
    scores, alone = problem
    if alone is None and len(scores) > scores.shape[1]:
        scores = scores.T
    if alone is None:
        best = (lambda u: matching(u)[:2]) if solve else None
        labelings, found = bmmf(matching_max_marginals, scores, k, max_product=best)
    else:
        extended = np.column_stack([scores, np.broadcast_to(alone, len(scores))])

        def best(u):
            labeling, score = matching(u[:, :-1], u[:, -1])[:2]
            return labeling % u.shape[1], score

        labelings, found = bmmf(
            lambda u: matching_max_marginals(u[:, :-1], u[:, -1]),
            extended,
            k,
            max_product=best if solve else None,
        )
        labelings[labelings == scores.shape[1]] = -1
    count = check(labelings, found, dict(enumerate_matchings(scores, alone)))
    assert len(found) == min(k, count)


def test_max_marginals_decode_the_best():
    """Theorem 45: no two labelings have the same score, and each state is the best."""
    rng = np.random.RandomState(0)
    edges = [(0, 1), (1, 2), (2, 3), (1, 4)]
    loops = [*edges, (0, 2), (3, 4)]
    for _ in range(20):
        unary, tables = rng.normal(size=(5, 3)), rng.normal(size=(4, 3, 3))
        everything = Exhaustive(unary, edges, list(tables))
        found = max_marginals(unary, edges, list(tables))
        best = everything.labelings[everything.scores.argmax()]
        np.testing.assert_array_equal(np.argmax(found, axis=1), best)
        unary, tables = rng.normal(size=(5, 2)), rng.normal(size=(6, 2, 2))
        lack = np.tensordot(tables, [[-1.0, 1.0], [1.0, -1.0]])
        tables[:, 1, 1] += np.maximum(lack, 0.0)
        everything = Exhaustive(unary, loops, list(tables))
        best = everything.labelings[everything.scores.argmax()]
        found = min_cut_max_marginals(unary, loops, tables)
        np.testing.assert_array_equal(found.argmax(axis=1), best)
        scores = rng.normal(size=(5, 5))
        best = max(enumerate_matchings(scores, None), key=lambda pair: pair[1])[0]
        found = matching_max_marginals(scores).argmax(axis=1)
        np.testing.assert_array_equal(found, best)


def test_calls_are_at_most_twice_k():
    rng = np.random.RandomState(0)
    unary, table = rng.normal(size=(12, 4)), rng.normal(size=(4, 4))
    edges = [(v, v + 1) for v in range(11)]
    calls = []

    def oracle(u):
        calls.append(1)
        return max_marginals(u, edges, table)

    labelings, scores = bmmf(oracle, unary, 30)
    expected, expected_scores = max_product_topk(unary, edges, table, 30)
    np.testing.assert_allclose(scores, expected_scores)
    np.testing.assert_array_equal(labelings, expected)
    assert 30 <= len(calls) <= 60


def test_calls_with_an_oracle_for_the_best():
    """Ties cost nothing, and most parts never need max-marginals of their own."""
    edges, table = [(v, v + 1) for v in range(11)], np.zeros((3, 3))
    calls = {"max_marginals": 0, "max_product": 0}

    def counted(oracle):
        def call(u):
            calls[oracle.__name__] += 1
            return oracle(u, edges, table)

        return call

    for unary in (np.zeros((12, 3)), np.random.RandomState(0).normal(size=(12, 3))):
        calls.update(max_marginals=0, max_product=0)
        labelings, scores = bmmf(
            counted(max_marginals), unary, 30, max_product=counted(max_product)
        )
        assert len(np.unique(labelings, axis=0)) == 30
        expected = max_product_topk(unary, edges, table, 30)[1]
        np.testing.assert_allclose(scores, expected)
        assert calls["max_product"] == 30 and calls["max_marginals"] < 45
        calls.update(max_marginals=0, max_product=0)
        bmmf(counted(max_marginals), unary, 1, max_product=counted(max_product))
        assert calls == {"max_marginals": 0, "max_product": 1}


@pytest.mark.parametrize(
    ("labeling", "message"),
    [([0], "returned 1 states"), ([0, 2], "variable 1 the state 2"),
     ([0, 0], "variable 1 the state 0")],
)  # fmt: skip
def test_bad_best_labelings(labeling, message):
    def best(unary):
        # the first call allows all
        return (labeling if np.isneginf(unary).any() else [0, 0]), 0.0

    with pytest.raises(ValueError, match=message):
        bmmf(lambda u: u, np.array([[0.0, -1.0], [0.0, -0.5]]), 2, max_product=best)


def test_constraints_of_the_caller():
    """States that the scores forbid do not come back."""
    unary = np.array([[0.0, -np.inf], [0.0, 1.0]])
    labelings, scores = bmmf(lambda u: max_marginals(u, [], None), unary, 9)
    assert labelings.tolist() == [[0, 1], [0, 0]] and scores.tolist() == [1.0, 0.0]


def test_rounding_does_not_mix_labelings():
    """Two labelings that are equal but for rounding, at a score of zero."""
    unary = np.array([[-11, -25], [0, -3], [3, 6]]) * 0.1
    tables = [np.array([[9, 4], [-8, 5]]) * 0.1, np.array([[-1, -5], [5, 4]]) * 0.1]
    edges = [(0, 1), (1, 2)]
    labelings, scores = bmmf(lambda u: max_marginals(u, edges, tables), unary, 2)
    assert sorted(labelings.tolist()) == [[0, 0, 0], [0, 1, 1]]
    np.testing.assert_allclose(scores, 0.0, atol=1e-12)


def test_scores_about_zero():
    """Sums of tenths, many of them equal but for rounding: each its own score."""
    rng = np.random.RandomState(0)
    for _ in range(200):
        unary, tables = 0.1 * rng.randint(-9, 9, size=(4, 2)), []
        for _ in range(3):
            tables.append(0.1 * rng.randint(-9, 9, size=(2, 2)))
        edges = [(0, 1), (1, 2), (2, 3)]
        labelings, scores = bmmf(
            lambda u, e=edges, t=tables: max_marginals(u, e, t), unary, 5
        )
        everything = Exhaustive(unary, edges, tables)
        np.testing.assert_allclose(scores, everything.topk(5)[1], atol=1e-12)
        score_of = enumeration(everything)
        true = [score_of[tuple(row)] for row in labelings.tolist()]
        np.testing.assert_allclose(scores, true, atol=1e-12)


def test_tuples_of_different_lengths():
    unary = ((0.0, 1.0), (2.0,), (0.0, 0.5, 0.25))
    labelings, scores = bmmf(lambda u: max_marginals(u, [], None), unary, 2)
    assert labelings.tolist() == [[1, 0, 1], [1, 0, 2]]
    assert scores.tolist() == [3.5, 3.25]


def test_small_differences_of_large_scores():
    unary = np.array([[1e13, 1e13 + 1]])
    labelings, scores = bmmf(lambda u: max_marginals(u, [], None), unary, 2)
    assert labelings.tolist() == [[1], [0]] and scores.tolist() == [1e13 + 1, 1e13]


@pytest.mark.parametrize(
    ("oracle", "unary", "k", "message"),
    [
        (lambda u: u, np.zeros((2, 2)), 0, "k must be"),
        (lambda u: u, [], 1, "unary is empty"),
        (lambda u: u, [["a"], ["b"]], 1, r"unary\[0\] must be an array of numbers"),
        (lambda u: np.zeros_like(u), np.zeros((2, 2)), 1, "that its argument forbids"),
        (lambda u: u[:1], np.zeros((2, 2)), 1, "one number for each state"),
        (
            lambda u: u * np.nan,
            np.zeros((2, 2)),
            1,
            "returned NaN for state 0 of variable 0",
        ),
    ],
)
def test_bad_input(oracle, unary, k, message):
    with pytest.raises(ValueError, match=message):
        bmmf(oracle, unary, k)


@pytest.mark.parametrize("score", [np.nan, np.inf])
def test_scores_that_are_no_numbers(score):
    with pytest.raises(ValueError, match=f"max_product returned the score {score}"):
        bmmf(lambda u: u, np.zeros((2, 2)), 2, max_product=lambda u: ([0, 0], score))
