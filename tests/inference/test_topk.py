import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import chains, enumerate_chain, in_order

from sksstruct.inference import (
    best_boxes,
    max_product_topk,
    viterbi,
    viterbi_topk,
)


@settings(max_examples=120)
@given(chains(), st.integers(1, 30))
def test_equals_enumeration_with_tie_rule(chain, k):
    unary, pairwise = chain
    labelings, scores = viterbi_topk(unary, pairwise, k)
    expected, expected_scores = in_order(*enumerate_chain(unary, pairwise))
    np.testing.assert_array_equal(labelings, expected[:k])
    np.testing.assert_array_equal(scores, expected_scores[:k])


@pytest.mark.slow
@pytest.mark.parametrize("n_states", [1, 3, 4, 5, 22, 33, 130])
@pytest.mark.parametrize("k", [1, 2, 50])
def test_all_row_widths(n_states, k):
    """Against K best prefixes kept at every position and label."""
    rng = np.random.RandomState(n_states)
    unary = rng.normal(size=(9 if n_states < 100 else 3, n_states))
    pairwise = rng.normal(size=(n_states, n_states))
    lists = [[(score, (b,))] for b, score in enumerate(unary[0])]
    for row in unary[1:]:
        lists = [
            sorted(
                (
                    (score + pairwise[labels[-1], b] + row[b], (*labels, b))
                    for prefixes in lists
                    for score, labels in prefixes
                ),
                reverse=True,
            )[:k]
            for b in range(n_states)
        ]
    best = sorted((entry for prefixes in lists for entry in prefixes), reverse=True)
    labelings, scores = viterbi_topk(unary, pairwise, k)
    assert [tuple(row) for row in labelings] == [labels for _, labels in best[:k]]
    np.testing.assert_allclose(scores, [score for score, _ in best[:k]])
    labeling, score = viterbi(unary, pairwise)
    np.testing.assert_array_equal(labelings[0], labeling)
    assert scores[0] == score


def test_more_than_there_are():
    labelings, scores = viterbi_topk(np.zeros((2, 2)), [[0, -np.inf], [0, 0]], 10**9)
    assert labelings.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert scores.tolist() == [0, 0, 0]


def test_a_large_k_costs_nothing():
    """Room for the labelings there are, not for those that were asked for."""
    unary = np.tile([0.0, -np.inf, -np.inf], (1000, 1))
    assert len(viterbi_topk(unary, np.zeros((3, 3)), 10**9)[0]) == 1
    unary, edges = np.zeros((10, 2)), [(0, v) for v in range(1, 10)]
    assert len(max_product_topk(unary, edges, np.eye(2), 10**9)[0]) == 1024
    assert len(best_boxes(np.zeros((3, 3)), 10**9).scores) == 36


def test_many_labelings():
    """Lists that grow: a thousand of a longer chain, against sorted prefixes."""
    rng = np.random.RandomState(0)
    unary, pairwise = rng.normal(size=(10, 2)), rng.normal(size=(2, 2))
    labelings, scores = viterbi_topk(unary, pairwise, 1000)
    expected, expected_scores = in_order(*enumerate_chain(unary, pairwise))
    np.testing.assert_array_equal(labelings, expected[:1000])
    np.testing.assert_allclose(scores, expected_scores[:1000])


def test_none_when_all_is_forbidden():
    labelings, scores = viterbi_topk(np.full((3, 2), -np.inf), np.zeros((2, 2)), 4)
    assert labelings.shape == (0, 3) and scores.shape == (0,)


@pytest.mark.parametrize("k", [0, -2, 1.0, "3", None, True])
def test_bad_k(k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        viterbi_topk(np.zeros((2, 2)), np.zeros((2, 2)), k)


def test_bad_potentials():
    with pytest.raises(ValueError, match="pairwise must have shape"):
        viterbi_topk(np.zeros((2, 2)), np.zeros((2, 3)), 2)
