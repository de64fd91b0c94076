"""Models of segments: forms of outputs, lengths, probabilities, and errors."""

import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sksstruct import SSVMClassifier
from sksstruct.metrics import chunk_f1_score, iter_chunks
from sksstruct.models import SegmentModel, check_model
from sksstruct.models.segments.inputs import SegmentInputs
from sksstruct.utils.entries import Entries


def sentences(n, seed=0, longest=8):
    """Segments "a" and "b" of one to three positions, each with a feature."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        size = rng.randint(1, longest + 1)
        x, segments, t = rng.normal(size=(size, 3)), [], 0
        while t < size:
            stop, kind = min(t + rng.randint(1, 4), size), rng.randint(3)
            if kind:
                segments.append((t, stop, "ab"[kind - 1]))
                x[t:stop, kind] += 2.0
            t = stop
        X.append(x)
        y.append(segments)
    return X, y


def tags(X, y):
    out = []
    for x, segments in zip(X, y, strict=True):
        labels = ["O"] * len(x)
        for start, stop, label in segments:
            labels[start:stop] = [f"B-{label}"] + [f"I-{label}"] * (stop - start - 1)
        out.append(labels)
    return out


def test_forms_are_the_same_model():
    X, y = sentences(60)
    named = tags(X, y)
    fits = [
        SSVMClassifier(SegmentModel(), alpha=0.02, random_state=0).fit(X, each)
        for each in (y, named)
    ]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    test, true = sentences(40, seed=1)
    listed, labels = (fit.predict(test) for fit in fits)
    for segments, each in zip(listed, labels, strict=True):
        chunks = [(start, stop, kind) for kind, start, stop in iter_chunks(each)]
        assert chunks == segments
    assert chunk_f1_score(tags(test, true), [each.tolist() for each in labels]) > 0.35


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["position", "segment"])
@pytest.mark.parametrize("roles", [False, True])
def test_by_enumeration(unit, roles):
    X, y = sentences(10, longest=4)
    model = SegmentModel(loss_unit=unit, roles=roles)
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["position", "segment"])
@pytest.mark.parametrize("boundary_lengths", ["own", "none"])
@pytest.mark.parametrize("max_length", [None, "auto"])
def test_lengths_at_boundaries_by_enumeration(unit, boundary_lengths, max_length):
    X, y = sentences(12, longest=5)
    X = [(x, [(0, len(x)), (0, 1)][: len(x)], np.ones((2, 1))[: len(x)]) for x in X]
    # shorter ones are pieces of longer ones
    y = [
        [(a, b, k) for a, b, k in rows if b - a > 1 or a == 0 or b == len(x[0])]
        for x, rows in zip(X, y, strict=True)
    ]
    model = SegmentModel(
        length_features=1 if max_length is None else 2,
        min_length=2,
        max_length=max_length,
        boundary_lengths=boundary_lengths,
        loss_unit=unit,
    )
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


def test_lengths_at_boundaries():
    """Series that are cut out of longer ones: inner runs are of ten."""
    rng = np.random.RandomState(0)
    labels = np.tile(np.repeat(["a", "b"], 10), 60)
    starts = rng.randint(len(labels) - 35, size=40)
    y = [labels[start : start + 35] for start in starts]
    X = [(row == "b")[:, None] + rng.normal(size=(35, 1)) for row in y]
    fits = {
        kind: SSVMClassifier(
            SegmentModel(boundary_lengths=kind, max_length=12), alpha=0.01, loss="log"
        ).fit(X, y)
        for kind in ("same", "own", "none")
    }
    for kind, fit in fits.items():
        coef = fit.length_coef_
        assert coef.shape == (12, 2) and hasattr(fit, "boundary_length_coef_") == (
            kind == "own"
        )
        if kind != "same":
            assert (coef[9] > np.delete(coef, 9, axis=0).max(axis=0) + 1.0).all()
    assert fits["own"].boundary_length_coef_.shape == (12, 2)
    # the first and the last run cannot be told to be too short
    with pytest.raises(ValueError, match=r"y\[0\] has a segment"):
        SSVMClassifier(SegmentModel(min_length=10)).fit(X, y)
    model = SegmentModel(min_length=10, boundary_lengths="own")
    fitted = SSVMClassifier(model, alpha=0.01, loss="log").fit(X, y)
    for found in fitted.predict(X):
        runs = np.flatnonzero(np.r_[True, found[1:] != found[:-1], True])
        assert set(np.diff(runs)[1:-1]) <= {10}


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["position", "segment"])
@pytest.mark.parametrize("n_lengths", [1, 3])
def test_some_labels_without_a_limit_by_enumeration(unit, n_lengths):
    """Spans that are longer than all rows, a smallest length, and a largest one."""
    X, y = sentences(8, longest=5)
    X = [(x, [(0, len(x))], np.full((1, 1), 2.0)) for x in X]
    y = [[row for row in rows if row[2] == "b" or row[1] - row[0] > 1] for rows in y]
    limits = {"max_length": {"a": None, "b": 3}, "min_length": {"a": 2}}
    model = SegmentModel(length_features=n_lengths, loss_unit=unit, **limits)
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["segments", "tags", "labels"])
def test_lengths_without_a_limit_by_enumeration(form):
    """All oracles, losses and outputs; two lengths have weights of their own."""
    X, y = sentences(12, longest=5)
    if form != "segments":
        y = tags(X, y)
    if form == "labels":
        y = [[tag[-1] for tag in row] for row in y]
    model = SegmentModel(max_length=None, length_features=2)
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


def test_lengths_without_a_limit():
    """A run of any length is one segment, whose score is linear in its length."""
    X, y = sentences(20, longest=6)
    y = [[tag[-1] for tag in row] for row in tags(X, y)]
    model = SegmentModel(max_length=None, length_features=3, min_length={"a": 2})
    with pytest.raises(ValueError, match=r"max_length\['a'\] must be an int"):
        SSVMClassifier(SegmentModel(max_length={"a": 0})).fit(X, y)
    joined = [list(itertools.chain(*rows)) for rows in (y, y[::-1])]
    inputs = [np.vstack(X), np.vstack(X[::-1])]
    joined = [["a", "a", *row, "a", "a"] for row in joined]
    inputs = [np.vstack([x[:2], x, x[:2]]) for x in inputs]
    for row in joined:
        for t in range(1, len(row) - 1):
            # no run of a single a
            if row[t] == "a" != row[t - 1] and row[t + 1] != "a":
                row[t] = "O"
    fitted = SSVMClassifier(model, alpha=0.1, loss="log", random_state=0)
    fitted = pickle.loads(pickle.dumps(fitted.fit(inputs, joined)))
    coef = fitted.length_coef_
    assert coef.shape == (4, 3)
    # longer than all that was seen
    x = np.zeros((300, 3))
    scores = []
    for size in 100, 101, 300:
        inputs, known = SegmentInputs.read([x[:size]]), [["b"] * size]
        found, score = fitted.model_._predict(inputs, fitted.weights_, known=known)
        assert found[0].tolist() == ["b"] * size
        scores.append(score[0] - size * fitted.intercept_[0, 2])
    assert scores[1] - scores[0] == pytest.approx(coef[3, 2], abs=1e-10)
    assert scores[2] - scores[0] == pytest.approx(200 * coef[3, 2], abs=1e-9)
    others = fitted.start_[2] + fitted.end_[2] + coef[2, 2] + 97 * coef[3, 2]
    assert scores[0] == pytest.approx(others, abs=1e-9)


def test_no_limit_of_one_label():
    X, y = sentences(30)
    model = SegmentModel(max_length={"a": None, "b": 2}, length_features=2)
    with pytest.warns(UserWarning, match="longer than max_length"):
        fitted = SSVMClassifier(model, alpha=0.1, loss="log").fit(X, y)
    inputs = SegmentInputs.read([np.zeros((50, 3))])
    known = [[(0, 50, "a")]]
    assert fitted.model_._predict(inputs, fitted.weights_, known=known)[0] == known
    with pytest.raises(ValueError, match="no segmentation with the lengths"):
        fitted.model_._predict(inputs, fitted.weights_, known=[[(0, 50, "b")]])


def test_probabilities_of_segments():
    X, y = sentences(20, longest=4)
    fitted = SSVMClassifier(SegmentModel(), alpha=0.1, loss="log", random_state=0)
    fitted.fit(X, y)
    model, w = fitted.model_, fitted.weights_
    found = model.predict_segments(X, w)
    assert sum(map(len, found)) > 10
    marginals = fitted.predict_marginals(X)
    for x, segments, share in zip(X, found, marginals, strict=True):
        outputs = list(model.labelings(x))
        scores = np.array([model.joint_feature(x, each) @ w for each in outputs])
        p = np.exp(scores - scores.max())
        p /= p.sum()
        for start, stop, label, probability in segments:
            where = [(start, stop, label) in each for each in outputs]
            assert probability == pytest.approx(p[where].sum(), rel=1e-9)
        np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-9)
        inside = [any(a <= 0 < b for a, b, _ in each) for each in outputs]
        assert 1.0 - share[0, 0] == pytest.approx(p[inside].sum(), rel=1e-9, abs=1e-12)


def test_a_label_may_be_named_as_the_outside():
    X, y = [np.ones((3, 1))], [[(0, 2, "O")]]
    model = SegmentModel(roles=False, loss_normalization=None)
    model.prepare(X, y)
    assert model.loss(y[0], [(0, 3, "O")]) == model._loss_at(X[0], y[0], []) - 1 == 1
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


def test_lengths():
    X, y = sentences(40)
    with pytest.warns(UserWarning, match="segments of y are longer than max_length=2"):
        fitted = SSVMClassifier(SegmentModel(max_length=2), alpha=0.1).fit(X, y)
    assert fitted.model_.longest_.tolist() == [1, 2, 2]
    lengths = [stop - start for each in fitted.predict(X) for start, stop, _ in each]
    assert max(lengths) == 2
    # every segment has at least so many positions
    long = [[(0, len(x), "ab"[i % 2])] for i, x in enumerate(X) if len(x) > 2]
    X = [x for x in X if len(x) > 2]
    fitted = SSVMClassifier(SegmentModel(min_length=3), random_state=0).fit(X, long)
    for each in fitted.predict(X):
        assert all(stop - start >= 3 for start, stop, _ in each)


def test_pieces_are_about_as_long_as_each_other():
    """No piece of what is cut is shorter than it has to be, and than it may be."""
    X, y = [np.ones((8, 1)), np.ones((7, 1))], [[(0, 7, "a")], [(0, 6, "a")]]
    model = SegmentModel(min_length=2, max_length=3)
    with pytest.warns(UserWarning, match="2 segments of y are longer than max_length"):
        model.prepare(X, y)
    shown = [
        model._shown(each, model._output(each, segments, "y"))
        for each, segments in zip([model._input(x, "x") for x in X], y, strict=True)
    ]
    assert shown == [
        [(0, 2, "a"), (2, 4, "a"), (4, 7, "a")], [(0, 3, "a"), (3, 6, "a")]
    ]  # fmt: skip
    with (
        pytest.warns(UserWarning, match="they were cut into pieces"),
        pytest.raises(ValueError, match=r"y\[0\] has .* from 0 to 7, .* 3 to 3 pos"),
    ):
        SSVMClassifier(SegmentModel(min_length=3, max_length=3)).fit(X, y)


def test_durations_of_labels():
    """Runs of a label do not become shorter than they may be."""
    rng = np.random.RandomState(0)

    def series(n):
        X, y = [], []
        for _ in range(n):
            labels = np.repeat(rng.permutation(["x", "y", "z"]), rng.randint(4, 9, 3))
            X.append(
                (labels[:, None] == list("xyz"))
                + 0.8 * rng.normal(size=(len(labels), 3))
            )
            y.append(labels)
        return X, y

    X, y = series(30)
    model = SegmentModel(min_length=4)
    fitted = SSVMClassifier(model, alpha=0.01, random_state=0).fit(X, y)
    test, true = series(20)
    for labels in fitted.predict(test):
        runs = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1], True])
        assert np.diff(runs).min() >= 4
    assert fitted.score(test, true) > 0.85


@pytest.mark.parametrize("unit", ["position", "segment"])
def test_some_inputs_have_spans(unit):
    X, y = sentences(30)
    X = [(x, [(0, 1)], np.ones((1, 2))) if i % 2 else x for i, x in enumerate(X)]
    model = SegmentModel(loss_unit=unit)
    fitted = SSVMClassifier(model, alpha=0.1, random_state=0).fit(X, y)
    assert fitted.span_coef_.shape == (3, 2)
    bare = [x[0] if isinstance(x, tuple) else x for x in X]
    assert len(fitted.predict(bare)) == len(fitted.predict(X)) == 30


BAD = {
    "overlaps": ([np.ones((3, 1))], [[(0, 2, "a"), (1, 3, "a")]]),
    "the sequence has 3 positions": ([np.ones((3, 1))], [[(0, 4, "a")]]),
    "y has no segment": ([np.ones((3, 1))], [[]]),
    "has no positions": ([np.ones((0, 1))], [[]]),
    "has a span twice": (
        [(np.ones((2, 1)), [(0, 1), (0, 1)], np.ones((2, 1)))],
        [[(0, 1, "a")]],
    ),
    "is empty or not within 2 positions": (
        [(np.ones((2, 1)), [(0, 3)], np.ones((1, 1)))],
        [[(0, 1, "a")]],
    ),
    "spans have no features": ([(np.ones((2, 1)), [(0, 1)], None)], [[(0, 1, "a")]]),
    "must be a list of labels, tags or segments": ([np.ones((3, 1))], ["aab"]),
    "scheme IOB1": ([np.ones((2, 1))], [["I-a", "O"]]),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_data(text):
    X, y = BAD[text]
    with pytest.raises(ValueError, match=text):
        SSVMClassifier(SegmentModel()).fit(X, y)


def test_too_short_for_its_lengths():
    X, y = [np.ones((4, 1))], [list("aabb")]
    fitted = SSVMClassifier(clone(SegmentModel(min_length=2)), alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="of 1 positions has no segmentation"):
        fitted.predict([np.ones((1, 1))])


@pytest.mark.parametrize("form", ["segments", "labels"])
def test_labelings_from_elsewhere(form):
    """Of all records of small integers, those are accepted that are labelings."""
    y = [[(0, 1, "a"), (1, 3, "b")]] if form == "segments" else [list("abb")]
    model = SegmentModel(min_length=1)
    X = [model._input(np.ones((3, 1)), "x")]
    model.prepare([np.ones((3, 1))], y)
    bound = model._bound(X, [model._output(X[0], y[0], "y")], None)
    allowed = {
        tuple(model._output(X[0], each, "y")) for each in model.labelings(X[0][0])
    }
    n_labels = len(model.longest_)
    entries, accepted = Entries({}, "state"), set()
    for record in itertools.product(range(-1 - n_labels, n_labels + 1), repeat=3):
        keys = np.array(record, dtype=np.int32)
        try:
            bound.check_labelings(entries, np.ones(1, dtype=np.intp), keys)
        except ValueError:
            continue
        accepted.add(record)
    assert accepted == allowed and len(allowed) >= 4


def test_arrays_of_segments():
    X, y = sentences(30)
    y = [[(a, b, "ab".index(label)) for a, b, label in each] for each in y]
    arrays = [np.array(each, dtype=int).reshape(-1, 3) for each in y]
    fits = [
        SSVMClassifier("segments", alpha=0.1, random_state=0).fit(X, z)
        for z in (y, arrays)
    ]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)


@pytest.mark.parametrize(
    ("segment", "error", "text"),
    [
        ((1, 2.5, "a"), ValueError, r"y\[1\] must be a list of \(start, stop, label\)"),
        (("x", 2, "a"), ValueError, r"y\[1\] must be a list of \(start, stop, label\)"),
        ((1, 2, None), ValueError, r"y\[1\] has a segment with a missing label: None"),
        ((1, 2, np.nan), ValueError, r"y\[1\] has a segment with a missing label: nan"),
        ((1, 2, ["a"]), TypeError, r"y\[1\] has a label that is not hashable"),
    ],
)
def test_bad_segments_are_named(segment, error, text):
    X, y = [np.zeros((3, 1))] * 2, [[(0, 1, "a")], [segment]]
    with pytest.raises(error, match=text):
        SSVMClassifier("segments").fit(X, y)


def test_limits_name_the_label():
    X, y = [np.zeros((3, 1))], [[(0, 1, "a"), (1, 3, "b")]]
    text = "segments of 'b' have at most 2 positions, and min_length is 4"
    with pytest.raises(ValueError, match=text):
        SSVMClassifier(SegmentModel(min_length={"b": 4})).fit(X, y)


def test_observed_segments_are_spans_once():
    """Those that are candidates keep their features, others have none."""
    X = [
        (np.ones((3, 1)), [(1, 3), (0, 1)], np.array([[5.0], [4.0]])),
        (np.ones((2, 1)), [(0, 2)], np.array([[6.0]])),
    ]
    # of all five positions: (0, 1), (1, 3) and (3, 4), (4, 5)
    observed = np.array([0, 1, 3, 4]), np.array([1, 3, 4, 5])
    inputs = SegmentInputs.read(X)
    features, first, starts, first_of, longest = inputs.bound_spans(1, observed)
    assert features.toarray().ravel().tolist() == [4.0, 5.0, 0.0, 6.0, 0.0]
    assert starts.tolist() == [0, 1, 0, 0, 1] and first_of.tolist() == [0, 2, 5]
    assert longest.tolist() == [2, 2]
    # before each position, and at the end, of every sequence
    assert first.tolist() == [0, 1, 1, 2, 0, 1, 3]
