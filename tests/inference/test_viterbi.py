import numpy as np
import pytest
from hypothesis import given, settings
from reference import best_by_tie_rule, chains, enumerate_chain

from sksstruct.inference import viterbi


@settings(max_examples=120)
@given(chains())
def test_equals_enumeration_with_tie_rule(chain):
    unary, pairwise = chain
    labeling, score = viterbi(unary, pairwise)
    labelings, scores = enumerate_chain(unary, pairwise)
    assert score == scores.max()
    if np.isfinite(score):
        np.testing.assert_array_equal(labeling, best_by_tie_rule(labelings, scores))
    else:
        assert labeling.min() >= 0 and labeling.max() < unary.shape[1]


@pytest.mark.parametrize("n_states", [1, 3, 4, 5, 8, 9, 22, 31, 32, 33, 64, 65, 130])
def test_all_row_widths(n_states):
    rng = np.random.RandomState(n_states)
    unary = rng.normal(size=(7, n_states))
    pairwise = rng.normal(size=(n_states, n_states))
    best, back = unary[0], []
    for row in unary[1:]:
        candidates = best[:, None] + pairwise
        back.append(candidates.argmax(axis=0))
        best = candidates.max(axis=0) + row
    expected = [best.argmax()]
    for pointers in back[::-1]:
        expected.append(pointers[expected[-1]])
    labeling, score = viterbi(unary, pairwise)
    np.testing.assert_array_equal(labeling, expected[::-1])
    assert score == best.max()


def test_all_equal_scores_give_the_first_label():
    labeling, score = viterbi(np.zeros((6, 5)), np.zeros((5, 5)))
    assert labeling.tolist() == [0] * 6
    assert score == 0.0


def test_read_only_input_is_left_alone():
    unary, pairwise = np.ones((3, 2)), np.eye(2)
    for array in (unary, pairwise):
        array.flags.writeable = False
    viterbi(unary, pairwise)
    np.testing.assert_array_equal(unary, np.ones((3, 2)))


@pytest.mark.parametrize(
    ("unary", "pairwise", "message"),
    [
        (np.zeros(3), np.zeros((3, 3)), "unary must have shape"),
        (np.zeros((0, 3)), np.zeros((3, 3)), "unary must have shape"),
        (np.zeros((2, 0)), np.zeros((0, 0)), "unary must have shape"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "pairwise must have shape"),
        (np.zeros((4, 3)), np.zeros((4, 3, 3)), "pairwise must have shape"),
        (
            [[np.nan, 0.0]],
            np.zeros((2, 2)),
            r"unary\[0, 0\] must be finite or -inf, got nan",
        ),
        (
            [[0.0, 0.0]],
            [[np.inf, 0.0], [0.0, 0.0]],
            r"pairwise\[0, 0\] must be finite or -inf, got inf",
        ),
    ],
)
def test_bad_input(unary, pairwise, message):
    with pytest.raises(ValueError, match=message):
        viterbi(unary, pairwise)
