import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placements import as_tables, placements

from sksstruct.inference import (
    Exhaustive,
    bmmf,
    max_marginals,
    max_product,
    parts_max_marginals,
    parts_max_product,
    parts_sum_product,
)
from sksstruct.inference.parts._topk import BestPlacements


@pytest.mark.slow
@settings(max_examples=150)
@given(placements())
def test_equals_tables(problem):
    unary = problem[0]
    labeling, score = parts_max_product(*problem)
    tables = as_tables(*problem)
    expected = Exhaustive(*tables)
    assert score == expected.scores.max()
    if score > -np.inf:
        states = labeling[:, 0] * unary.shape[2] + labeling[:, 1]
        place = np.ravel_multi_index(states, [unary[0].size] * len(unary))
        assert expected.scores[place] == score
    marginals = parts_max_marginals(*problem)
    for found, true in zip(marginals, expected.max_marginals(), strict=True):
        np.testing.assert_array_equal(found.ravel(), true)


@settings(max_examples=100)
@given(placements(), st.sampled_from([1, 2, 5, 30, 10**6]))
def test_k_best(problem, k):
    search = BestPlacements(*problem)
    scores = Exhaustive(*as_tables(*problem)).scores
    expected = np.sort(scores[scores > -np.inf])[::-1][:k]
    # what a search leaves behind is no part of the next
    for _ in range(2):
        found = search.find(k)
        places = np.ravel_multi_index(found.T, [problem[0][0].size] * found.shape[1])
        assert len(set(places.tolist())) == len(found)
        np.testing.assert_array_equal(scores[places], expected)


@settings(max_examples=60)
@given(placements(max_parts=5, max_side=5))
def test_larger_trees(problem):
    tables = as_tables(*problem)
    assert parts_max_product(*problem).score == max_product(*tables)[1]
    found = parts_max_marginals(*problem)
    expected = max_marginals(*tables)
    np.testing.assert_array_equal(found.reshape(len(found), -1), expected)


@pytest.mark.parametrize("seed", range(5))
def test_real_numbers(seed):
    """Any offsets, curvatures from very flat to very steep."""
    rng = np.random.RandomState(seed)
    unary = 10 * rng.normal(size=(6, 9, 11))
    unary[rng.rand(*unary.shape) < 0.2] = -np.inf
    edges = [(0, 1), (2, 1), (1, 3), (4, 3), (3, 5)]
    problem = (
        unary,
        edges,
        3 * rng.normal(size=(5, 2)),
        10.0 ** rng.uniform(-8, 3, size=(5, 2)),
        rng.normal(size=(5, 2)),
    )
    tables = as_tables(*problem)
    labeling, score = parts_max_product(*problem)
    assert score == pytest.approx(max_product(*tables)[1], rel=1e-9)
    states = labeling[:, 0] * 11 + labeling[:, 1]
    value = sum(row[a] for row, a in zip(tables[0], states, strict=True))
    value += sum(
        t[states[u], states[v]] for (u, v), t in zip(edges, tables[2], strict=True)
    )
    assert value == pytest.approx(score, rel=1e-9)
    found = parts_max_marginals(*problem)
    expected = np.array(max_marginals(*tables))
    np.testing.assert_allclose(found.reshape(6, -1), expected, rtol=1e-9)


def test_numbers_for_all_edges():
    rng = np.random.RandomState(0)
    unary, edges = rng.normal(size=(3, 4, 5)), [(0, 1), (1, 2)]
    full = (np.full((2, 2), 1.0), np.full((2, 2), 0.5), np.full((2, 2), 0.25))
    one = parts_max_product(unary, edges, 1.0, 0.5, 0.25)
    many = parts_max_product(unary, edges, *full)
    np.testing.assert_array_equal(one.labeling, many.labeling)


def test_best_first_from_max_marginals():
    """The max-marginals serve the K best, as any others do."""
    rng = np.random.RandomState(0)
    unary = rng.randint(-5, 5, size=(2, 2, 3)).astype(float)
    tables = as_tables(
        unary, [(0, 1)], np.zeros((1, 2)), np.ones((1, 2)), np.zeros((1, 2))
    )
    _, scores = bmmf(
        lambda u: parts_max_marginals(
            np.reshape(u, unary.shape), [(0, 1)], 0.0, 1.0
        ).reshape(2, -1),
        unary.reshape(2, -1),
        10,
    )
    np.testing.assert_array_equal(scores, Exhaustive(*tables).topk(10)[1])


def test_a_large_grid_needs_no_tables():
    rng = np.random.RandomState(0)
    unary = rng.normal(size=(10, 200, 200))
    edges = [(v, v + 1) for v in range(9)]
    labeling, score = parts_max_product(unary, edges, 3.0, 0.05)
    value = unary[np.arange(10), labeling[:, 0], labeling[:, 1]].sum()
    value -= 0.05 * ((np.diff(labeling, axis=0) - 3.0) ** 2).sum()
    assert score == pytest.approx(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 3)), [(0, 1)], 0, 1), "unary must be 3-D"),
        ((np.zeros((0, 2, 2)), [], 0, 1), "unary must have parts"),
        ((np.zeros((2, 2, 2)), [(0, 1), (1, 0)], 0, 1), "closes a cycle"),
        ((np.zeros((2, 2, 2)), [(0, 1)], np.zeros((2, 2)), 1), "offsets must be"),
        (
            (np.zeros((2, 2, 2)), [(0, 1)], np.nan, 1),
            "offsets must be finite or -inf, got nan",
        ),
        ((np.zeros((2, 2, 2)), [(0, 1)], -np.inf, 1), "offsets has an entry"),
        (
            (np.zeros((2, 2, 2)), [(0, 1)], 0, [[1, -1]]),
            r"quadratic\[0\], of the edge \(0, 1\), is negative",
        ),
        ((np.full((2, 2, 2), 1e308), [(0, 1)], 0, 1), "too large"),
        ((np.zeros((2, 2, 2)), [(0, 1)], 1e155, 1), "too large"),
        ((np.zeros((2, 2, 2)), [(0, 1)], 1e200, 0), "too large"),
        ((np.zeros((2, 2, 2)), [(0, 1)], 0, 1e300), "too large"),
        ((np.zeros((2, 2, 2)), [(0, 1)], 0, 1, -1e308), "too large"),
    ],
)
@pytest.mark.parametrize(
    "oracle", [parts_max_product, parts_max_marginals, parts_sum_product]
)
def test_bad_input(arguments, message, oracle):
    with pytest.raises(ValueError, match=message):
        oracle(*arguments)
