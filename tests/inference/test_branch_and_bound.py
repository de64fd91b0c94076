import signal
import sys
from itertools import product

import numpy as np
import pytest
from graphs import attractive_graphs, forests
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sksstruct import SSVMClassifier
from sksstruct.inference import Exhaustive, best_boxes, branch_and_bound
from sksstruct.models import StructuredModel, check_model


def search(unary, edges, pairwise, k, **kwargs):
    """Prefixes of labelings; the bound takes the best of what is not fixed yet."""
    tables = pairwise if isinstance(pairwise, list) else [pairwise] * len(edges)

    def bound(prefix):
        n = len(prefix)
        total = sum(
            row[prefix[v]] if v < n else row.max() for v, row in enumerate(unary)
        )
        for (u, v), table in zip(edges, tables, strict=True):
            rows = table[prefix[u] : prefix[u] + 1] if u < n else table
            part = rows[:, prefix[v] : prefix[v] + 1] if v < n else rows
            total += part.max()
        return total

    def split(prefix):
        if len(prefix) == len(unary):
            return None
        return [(*prefix, a) for a in range(len(unary[len(prefix)]))]

    return branch_and_bound((), bound, split, k, **kwargs)


@settings(max_examples=120)
@given(forests(), st.integers(1, 8))
def test_any_pairwise_model(forest, k):
    result = search(*forest, k)
    _, expected = Exhaustive(*forest).topk(k)
    np.testing.assert_array_equal(result.scores, expected)
    assert result.complete and len(set(result.labelings)) == len(expected)
    everything = Exhaustive(*forest)
    rows = map(tuple, everything.labelings.tolist())
    score_of = dict(zip(rows, everything.scores, strict=True))
    assert [score_of[row] for row in result.labelings] == expected.tolist()


@settings(max_examples=100)
@given(attractive_graphs())
def test_graphs_with_cycles(graph):
    unary, edges, pairwise = graph
    result = search(unary, edges, list(pairwise), 3)
    expected = Exhaustive(unary, edges, list(pairwise)).topk(3)[1]
    np.testing.assert_array_equal(result.scores, expected)


def test_giving_up():
    unary = [np.array([0.0, 1.0])] * 5
    result = search(unary, [], [], 3, max_nodes=4)
    assert not result.complete and result.n_visited == 4
    assert len(result.labelings) < 3


def test_loose_bounds_of_parts_do_no_harm():
    """A bound that is higher than that of the set it was split off."""
    values = {"a": 1.0, "b": 2.0}
    result = branch_and_bound(
        "ab",
        lambda s: values.get(s, 2.0) if len(s) < 2 else 2.0,
        lambda s: list(s) if len(s) == 2 else [],
        2,
    )
    assert result.labelings == ["b", "a"] and result.scores.tolist() == [2.0, 1.0]


def test_bad_bounds_and_numbers():
    with pytest.raises(ValueError, match="is NaN"):
        branch_and_bound(0, lambda s: np.nan, lambda s: [], 1)
    with pytest.raises(ValueError, match="k must be an integer"):
        branch_and_bound(0, lambda s: 0, lambda s: [], 0)
    with pytest.raises(ValueError, match="max_nodes must be an integer"):
        branch_and_bound(0, lambda s: 0, lambda s: [], max_nodes=0)


def all_boxes(weights):
    height, width = weights.shape
    for top, left in product(range(height), range(width)):
        for bottom, right in product(range(top, height), range(left, width)):
            box = (top, left, bottom + 1, right + 1)
            yield box, weights[top : bottom + 1, left : right + 1].sum()


@settings(max_examples=120)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 5)),
        elements=st.sampled_from([-np.inf, -3.0, -1.0, 0.0, 1.0, 2.0]),
    ),
    st.integers(1, 20),
)
def test_boxes(weights, k):
    boxes = {box: score for box, score in all_boxes(weights) if score > -np.inf}
    result = best_boxes(weights, k)
    expected = sorted(boxes.values(), reverse=True)[:k]
    assert result.scores.tolist() == expected
    rows = [tuple(row) for row in result.labelings.tolist()]
    assert len(set(rows)) == len(rows) == min(k, len(boxes))
    assert [boxes[row] for row in rows] == expected
    assert result.complete


def overlap(box, other):
    sides = [
        max(0, min(box[a + 2], other[a + 2]) - max(box[a], other[a])) for a in (0, 1)
    ]
    areas = [(b[2] - b[0]) * (b[3] - b[1]) for b in (box, other)]
    return sides[0] * sides[1] / (sum(areas) - sides[0] * sides[1])


@settings(max_examples=120)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.integers(1, 5)),
        elements=st.sampled_from([-np.inf, -3.0, -0.25, 0.0, 0.25, 2.0]),
    ),
    st.integers(1, 20),
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)),
    st.sampled_from([0.0, 0.5, 1.0, 8.0]),
)
def test_boxes_with_the_loss(weights, k, place, factor):
    """The observed box need not lie in the image, nor on its pixels."""
    observed = (place[0], place[1] - 0.5, place[0] + place[2], place[1] + 1)
    scores = {
        box: score + factor * (1 - overlap(box, observed))
        for box, score in all_boxes(weights)
        if score > -np.inf
    }
    result = best_boxes(weights, k, observed=observed, loss_weight=factor)
    expected = sorted(scores.values(), reverse=True)[:k]
    np.testing.assert_allclose(result.scores, expected, rtol=1e-12, atol=1e-12)
    rows = [tuple(row) for row in result.labelings.tolist()]
    assert len(set(rows)) == len(rows) == min(k, len(scores)) and result.complete
    for row, score in zip(rows, result.scores, strict=True):
        assert scores[row] == pytest.approx(score, rel=1e-12, abs=1e-12)


class AnyBox(StructuredModel):
    """All boxes of an image, whose pixels have features."""

    def joint_feature(self, x, y):
        return x[y[0] : y[2], y[1] : y[3]].sum(axis=(0, 1))

    def loss(self, y, y_hat):
        return 1 - overlap(y, y_hat)

    def _best(self, x, w, k, y=None):
        found = best_boxes(x @ w, k, observed=y).labelings
        return [tuple(box) for box in found.tolist()]

    def decode(self, x, w):
        return self._best(x, w, 1)[0]

    def decode_topk(self, x, w, k):
        return self._best(x, w, k)

    def loss_augmented_decode(self, x, y, w):
        return self._best(x, w, 1, y)[0]

    def labelings(self, x):
        return (box for box, _ in all_boxes(x[..., 0]))


def test_a_model_of_all_boxes():
    """Training through the search finds what bright boxes are."""
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(12):
        top, left = rng.randint(0, 3, size=2)
        box = (top, left, top + rng.randint(2, 5), left + rng.randint(2, 5))
        image = 0.3 * rng.normal(size=(7, 7))
        image[box[0] : box[2], box[1] : box[3]] += 1.0
        X.append(np.stack([image, np.ones_like(image)], axis=2) / 10)
        y.append(tuple(int(side) for side in box))
    check_model(AnyBox(), X[:3], y[:3], enumerate_outputs=True, random_state=0)
    classifier = SSVMClassifier(AnyBox(), alpha=1e-3, tol=1e-2).fit(X, y)
    assert classifier.score(X, y) > 0.85
    outputs, scores = classifier.predict_topk(X, 3)
    assert [some[0] for some in outputs] == classifier.predict(X)
    assert all((np.diff(values) <= 1e-12).all() for values in scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observed": (0, 0, 1)}, "observed must be a box"),
        ({"observed": (0, 0, 0, 1)}, "observed must be a box"),
        ({"observed": (0, -np.inf, 1, 1)}, "observed must be a box"),
        ({"observed": (0, 0, 1, 1), "loss_weight": -1.0}, "loss_weight must be"),
    ],
)
def test_bad_losses(arguments, message):
    with pytest.raises(ValueError, match=message):
        best_boxes(np.zeros((2, 2)), **arguments)


def test_boxes_in_a_large_image():
    """Far fewer sets than boxes."""
    rng = np.random.RandomState(0)
    weights = rng.normal(size=(100, 120)) - 0.2
    weights[30:60, 40:80] += 1.5
    result = best_boxes(weights)
    top, left, bottom, right = result.labelings[0]
    assert result.scores[0] == pytest.approx(weights[top:bottom, left:right].sum())
    assert abs(result.labelings[0] - [30, 40, 60, 80]).max() <= 2
    assert result.n_visited < 1e6 < 100 * 101 * 120 * 121 / 4
    assert not best_boxes(weights, max_nodes=10).complete


def test_plateaus_are_searched_in_depth():
    """Equal bounds: straight to a labeling, not through all sets of the same size."""
    assert best_boxes(np.zeros((128, 128))).n_visited < 1000

    def split(bits):
        return [(*bits, 0), (*bits, 1)] if len(bits) < 16 else []

    assert branch_and_bound((), lambda bits: 0.0, split).n_visited == 17


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "weights must be 2-D"),
        (np.zeros((0, 3)), "weights must not be empty"),
        ([[np.inf]], r"weights\[0, 0\] must be finite or -inf, got inf"),
        ([["a"]], "weights must be an array of numbers"),
        (np.full((2, 2), 1e308), "weights: the scores are too large"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        best_boxes(weights)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signal.setitimer")
def test_boxes_answer_signals():
    """Of noise nearly all boxes have to be looked at: that takes minutes."""
    weights = np.random.default_rng(0).standard_normal((1500, 1500))

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            best_boxes(weights, 1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
