import numpy as np
import pytest
from graphs import assignments, enumerate_matchings
from hypothesis import given, settings

from sksstruct.inference import matching, matching_max_marginals


@settings(max_examples=150)
@given(assignments())
def test_equals_enumeration(problem):
    scores, unassigned = problem
    best = max(score for _, score in enumerate_matchings(scores, unassigned))
    result = matching(scores, unassigned)
    assert result.score == best
    if best == -np.inf:
        assert result.row_prices is None and result.column_prices is None
        return
    assert (
        dict(enumerate_matchings(scores, unassigned))[tuple(result.labeling.tolist())]
        == best
    )
    # complementary slackness: a certificate of its own
    u, v = result.row_prices, result.column_prices
    assert (v >= 0).all()
    assert (u[:, None] + v >= scores - 1e-9).all()
    assert u.sum() + v.sum() == pytest.approx(best)
    if unassigned is not None:
        assert (u >= np.broadcast_to(unassigned, u.shape) - 1e-9).all()
    for i, j in enumerate(result.labeling):
        if j >= 0:
            assert u[i] + v[j] == pytest.approx(scores[i, j])
    free = set(range(len(v))) - set(result.labeling.tolist())
    assert all(v[j] == 0 for j in free)


@settings(max_examples=150)
@given(assignments())
def test_max_marginals(problem):
    scores, unassigned = problem
    n, m = scores.shape
    expected = np.full((n, m + 1), -np.inf)
    for labels, score in enumerate_matchings(scores, unassigned):
        for i, j in enumerate(labels):
            expected[i, j] = max(expected[i, j], score)
    if unassigned is None and n <= m:
        expected = expected[:, :m]
    np.testing.assert_array_equal(matching_max_marginals(scores, unassigned), expected)


@pytest.mark.parametrize("shape", [(1, 1), (30, 30), (20, 35), (35, 20)])
def test_real_numbers(shape):
    """Each max-marginal is that of the problem with the pair forced."""
    rng = np.random.RandomState(0)
    scores = rng.normal(size=shape)
    marginals = matching_max_marginals(scores)
    for _ in range(20):
        i, j = rng.randint(shape[0]), rng.randint(shape[1])
        forced = scores.copy()
        forced[i] = -np.inf
        forced[:, j] = -np.inf
        forced[i, j] = scores[i, j]
        if shape[0] > shape[1]:  # the row may not stay without
            forced[i, j] += 1e3
            assert matching(forced).score - 1e3 == pytest.approx(marginals[i, j])
        else:
            assert matching(forced).score == pytest.approx(marginals[i, j])
    best = matching(scores)
    assert marginals.max() == pytest.approx(best.score)
    total = best.row_prices.sum() + best.column_prices.sum()
    assert total == pytest.approx(best.score)
    assert (best.row_prices[:, None] + best.column_prices >= scores - 1e-9).all()


def test_large_and_small_scores_together():
    scores = np.array([[1e12, 1.0], [1e12, 0.5]])
    assert matching(scores).labeling.tolist() == [1, 0]
    np.testing.assert_allclose(
        matching_max_marginals(scores), [[1e12 + 0.5, 1e12 + 1], [1e12 + 1, 1e12 + 0.5]]
    )


@pytest.mark.parametrize(
    ("scores", "unassigned", "message"),
    [
        ([1.0], None, "scores must be 2-D"),
        (np.zeros((0, 2)), None, "at least one row and column"),
        ([[np.nan]], None, r"scores\[0, 0\] must be finite"),
        ([[1.0]], np.inf, "unassigned must be finite or -inf, got inf"),
        ([[1e308, -1e308], [1e308, 1.0]], None, "too large"),
        (np.zeros((2, 2)), 1e308, "unassigned: the scores are too large"),
        ([[1.0]], [1.0, 2.0], "unassigned must be a number or have shape"),
    ],
)
@pytest.mark.parametrize("oracle", [matching, matching_max_marginals])
def test_bad_input(scores, unassigned, message, oracle):
    with pytest.raises(ValueError, match=message):
        oracle(scores, unassigned)


@pytest.mark.parametrize("shape", [(4, 5), (5, 4)])
@pytest.mark.parametrize("unassigned", [None, -0.5])
def test_any_memory_layout(shape, unassigned):
    scores = np.random.RandomState(0).normal(size=shape)
    expected = matching(scores, unassigned)
    frozen = np.asfortranarray(scores)
    frozen.flags.writeable = False
    for layout in (frozen, np.repeat(scores, 2, axis=0)[::2], scores[::-1][::-1]):
        for a, b in zip(matching(layout, unassigned), expected, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(
            matching_max_marginals(layout, unassigned),
            matching_max_marginals(scores, unassigned),
        )


def test_max_marginals_of_the_best_are_its_score():
    """Cycles of the residual graph that gain nothing do not gain by rounding."""
    for seed in range(10):
        rng = np.random.RandomState(seed)
        rows = 1e6 * rng.normal(size=(8, 1))
        # many assignments are as good as the best, whose score is small
        scores = 0.1 * rng.randint(5, size=(8, 8)) + rows - rows.mean()
        best, out = matching(scores), matching_max_marginals(scores)
        assert (out[np.arange(8), best.labeling] == best.score).all()
