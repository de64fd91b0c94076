"""Taggers of segments: scikit-learn's contract, what is known, forms, and searches."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF, SegmentCRF, SSVMClassifier, SSVMPathCV
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.models import SegmentModel
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

LETTERS = {"BIO": "BIIB", "IOBES": "BIES", "BILOU": "BILU"}


def sentences(n, seed=0, longest=8):
    """Features, and segments "a" and "b" of one to three positions."""
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


def tags_of(X, y, scheme):
    begin, inside, end, single = LETTERS[scheme]
    out = []
    for x, segments in zip(X, y, strict=True):
        tags = ["O"] * len(x)
        for start, stop, label in segments:
            middle = [begin, *[inside] * (stop - start - 2), end]
            letters = single if stop - start == 1 else middle
            tags[start:stop] = [f"{letter}-{label}" for letter in letters]
        out.append(tags)
    return out


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_contract(check, loss):
    check(SegmentCRF(loss=loss))


def test_is_the_model_of_the_classifier():
    X, y = sentences(60)
    one = SegmentCRF(0.05, loss_unit="segment", random_state=0).fit(X, y)
    model = SegmentModel(loss_unit="segment")
    two = SSVMClassifier(model, alpha=0.05, random_state=0).fit(X, y)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    assert one.predict(X).tolist() == two.predict(X)
    assert one.n_features_in_ == 3 and one.coef_.shape == (4, 3, 3)


@pytest.mark.parametrize("scheme", LETTERS)
def test_tags(scheme):
    """Outputs have the form that training saw, and are the same segments."""
    X, y = sentences(60)
    listed = SegmentCRF(0.05, random_state=0).fit(X, y)
    named = SegmentCRF(0.05, random_state=0).fit(X, tags_of(X, y, scheme))
    assert named.model_.scheme_ == scheme
    test, _ = sentences(40, seed=1)
    expected = tags_of(test, listed.predict(test), scheme)
    assert [each.tolist() for each in named.predict(test)] == expected


def test_inputs_are_alike():
    X, y = sentences(40)
    packed = PackedSequences.from_lengths(np.concatenate(X), [len(x) for x in X])
    forms = [X, packed, [sparse.csr_array(x) for x in X], [(x, None, None) for x in X]]
    fits = [SegmentCRF(0.05, tol=1e-7, random_state=0).fit(each, y) for each in forms]
    for fitted, form in zip(fits, forms, strict=True):
        # sums over sparse rows are in another order
        np.testing.assert_allclose(fitted.weights_, fits[0].weights_, atol=1e-3)
        assert fits[0].predict(form).tolist() == fits[0].predict(X).tolist()


def test_default_alpha_follows_the_scale():
    """Predictions are the same if features, of which all that is learned is, grow."""
    X, y = sentences(50)
    for loss in ("hinge", "log"):
        small, large = (
            SegmentCRF(loss=loss, random_state=0).fit([c * x for x in X], y)
            for c in (1.0, 10.0)
        )
        assert large.alpha_ == pytest.approx(100.0 * small.alpha_)
    # the likelihood's follows the number of sequences, by weight
    weighed = SegmentCRF(loss="log", random_state=0).fit(X, y, np.full(50, 2.0))
    assert weighed.alpha_ == pytest.approx(small.alpha_ / 2.0)


def test_empty_sequences():
    X, y = sentences(30)
    plain = SegmentCRF(0.1, loss="log", random_state=0).fit(X, y)
    more = [X[0][:0], *X, X[0][:0]]
    fitted = SegmentCRF(0.1, loss="log", random_state=0).fit(more, [[], *y, []])
    np.testing.assert_array_equal(fitted.weights_, plain.weights_)
    assert fitted.predict(more).tolist() == [[], *plain.predict(X).tolist(), []]
    assert fitted.predict_segments([X[0][:0], X[0]])[0] == []
    assert fitted.predict_segments([X[0][:0]]) == [[]]
    for some in (more, [X[0][:0]]):
        shares, (outputs, scores) = (
            fitted.predict_proba(some),
            fitted.predict_topk(some, 2),
        )
        assert [len(each) for each in shares] == [len(x) for x in some]
        assert outputs[0] == [[]] and scores[0].tolist() == [0.0]
    assert outputs == [[[]]]
    with pytest.raises(ValueError, match=r"y\[1\]: .* has 0 positions"):
        fitted.fit([X[0], X[0][:0]], [y[0], [(0, 1, "a")]])


def enumerated(fitted, x):
    """All outputs, and their scores."""
    model, w = fitted.model_, fitted.weights_
    outputs = list(model.labelings(x))
    features = np.array([model.joint_feature(x, each) for each in outputs])
    return outputs, features @ w


def best_that_agrees(outputs, scores, agrees):
    """The best output of all that agree with what is known, and probabilities."""
    allowed = np.array([agrees(list(each)) for each in outputs])
    p = np.where(allowed, np.exp(scores - scores.max()), 0.0)
    return outputs[int(np.argmax(p))], p / p.sum()


@pytest.mark.slow
def test_known_segments_by_enumeration():
    X, y = sentences(40, longest=5)
    fitted = SegmentCRF(0.1, loss="log", random_state=0).fit(X, y)
    for x in [next(x for x in X if len(x) == size) for size in (3, 4, 5)]:
        outputs, scores = enumerated(fitted, x)
        for known in ([(0, 2, "b")], [(1, 2, "a"), (2, 3, "b")], []):
            best, p = best_that_agrees(
                outputs, scores, lambda each, known=known: set(known) <= set(each)
            )
            assert fitted.predict([x], known=[known])[0] == best
            for start, stop, label, share in fitted.predict_segments(
                [x], known=[known]
            )[0]:
                has = [(start, stop, label) in each for each in outputs]
                assert share == pytest.approx(p[has].sum(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", LETTERS)
def test_known_tags_by_enumeration(scheme):
    X, y = sentences(40, longest=4)
    y = tags_of(X, y, scheme)
    fitted = SegmentCRF(0.1, random_state=0).fit(X, y)
    begin, inside, _, _ = LETTERS[scheme]
    for x in [x for x in X if len(x) == 4][:3]:
        outputs, scores = enumerated(fitted, x)
        for known in (
            ["O", None, None, None],
            [None, f"{begin}-a", None, None],
            [None, f"{begin}-b", f"{inside}-b", None],
        ):

            def agrees(tags, known=known):
                pairs = zip(tags, known, strict=True)
                return all(k is None or k == tag for tag, k in pairs)

            best = best_that_agrees(outputs, scores, agrees)[0]
            assert fitted.predict([x], known=[known])[0].tolist() == list(best)
    free = fitted.predict(X, known=[None] * len(X)).tolist()
    assert all((a == b).all() for a, b in zip(free, fitted.predict(X), strict=True))


def test_known_labels():
    X = [np.eye(2)[[0, 0, 1, 1, 0]]] * 3
    y = [["x", "x", "y", "y", "x"]] * 3
    fitted = SegmentCRF(0.01, max_length=4, random_state=0).fit(X, y)
    found = fitted.predict(X[:1], known=[[None, "y", None, None, None]])[0]
    assert found[1] == "y" and fitted.predict(X[:1])[0].tolist() == y[0]


def test_inputs_with_spans_in_an_array():
    """As scikit-learn's folds leave them."""
    X, y = sentences(20)
    X = [(x, [(0, 1)], np.ones((1, 2))) for x in X]
    array = np.empty(20, dtype=object)
    array[:] = X
    fits = [SegmentCRF(0.1, random_state=0).fit(each, y) for each in (X, array)]
    np.testing.assert_array_equal(fits[0].span_coef_, fits[1].span_coef_)


BAD_DATA = {
    r"y\[0\] has a missing label: None, at": ([[None, None], ["a", "b"]], {}),
    "max_length names 'c'": ([["a", "b"], ["a", "b"]], {"max_length": {"c": 3}}),
    r"max_length\['a'\] must be an int": ([["a", "b"]] * 2, {"max_length": {"a": 0}}),
    "single class": ([["a", "a"]] * 2, {}),
    "have at most 1 positions": ([["a", "b"]] * 2, {"min_length": 2}),
}


@pytest.mark.parametrize("text", BAD_DATA)
def test_bad_data(text):
    y, params = BAD_DATA[text]
    with pytest.raises(ValueError, match=text):
        SegmentCRF(**params).fit([np.zeros((2, 1))] * 2, y)


BAD_KNOWN = {
    "known has 2": [None, None],
    "must be a list": [3],
    "'c', not in classes_": [[(0, 1, "c")]],
    "overlaps": [[(0, 2, "a"), (1, 3, "a")]],
    "has no segmentation": [[(0, 4, "a")]],
    "the sequence has 4 positions": [[(3, 5, "a")]],
}


@pytest.mark.parametrize("text", BAD_KNOWN)
def test_bad_known(text):
    X, y = sentences(40)
    fitted = SegmentCRF(0.1, random_state=0).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=text):
        fitted.predict([np.zeros((4, 3))], known=BAD_KNOWN[text])


def test_lengths_by_label():
    X, y = sentences(60)
    fitted = SegmentCRF(0.1, max_length={"a": 5}, random_state=0).fit(X, y)
    assert fitted.model_.longest_.tolist() == [1, 5, 3]
    # runs of "b" have two positions or more
    long = [
        [each for each in some if each[2] == "a" or each[1] - each[0] > 1] for some in y
    ]
    fitted = SegmentCRF(0.01, min_length={"b": 2}, random_state=0).fit(X, long)
    found = list(itertools.chain(*fitted.predict(X)))
    assert min(b - a for a, b, label in found if label == "b") == 2
    assert min(b - a for a, b, label in found if label == "a") == 1


def test_score_is_the_share_of_positions():
    X, y = sentences(60)
    tags = tags_of(X, y, "BIO")
    named = SegmentCRF(0.05, random_state=0).fit(X, tags)
    right = [
        a == b
        for a, b in zip(
            np.concatenate(tags), np.concatenate(named.predict(X)), strict=True
        )
    ]
    assert named.score(X, tags) == pytest.approx(np.mean(right))
    weight = np.arange(60.0)
    share = np.average(right, weights=np.repeat(weight, list(map(len, X))))
    assert named.score(X, tags, sample_weight=weight) == pytest.approx(share)
    assert abs(share - np.mean(right)) > 1e-3
    listed = SegmentCRF(0.05, random_state=0).fit(X, y)
    assert listed.score(X, y) > named.score(X, tags)
    assert listed.score(X[:1], [[(0, len(X[0]), "unseen")]]) == 0.0


def test_saved_and_loaded():
    X, y = sentences(40)
    fitted = SegmentCRF(0.1, loss="log", random_state=0).fit(X, tags_of(X, y, "BIO"))
    twin = pickle.loads(pickle.dumps(fitted))
    for a, b in zip(twin.predict(X), fitted.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert twin.predict_segments(X[:3]) == fitted.predict_segments(X[:3])


def objective(tagger, X, y):
    """The structured hinge and the penalty, by the methods of any model."""
    model, w, total = tagger.model_, tagger.weights_, 0.0
    for x, true in zip(X, y, strict=True):
        worst = model.loss_augmented_decode(x, true, w)
        change = model.joint_feature(x, worst) - model.joint_feature(x, true)
        total += model._loss_at(model._input(x, "x"), true, worst) + change @ w
    return total / len(X) + 0.5 * tagger.alpha_ * (w @ w)


@pytest.mark.slow
def test_mini_batches():
    """A stream of all sequences, again and again, comes close to the optimum."""
    X, y = sentences(80)
    for outputs in (y, tags_of(X, y, "IOBES")):
        tagger = SegmentCRF(0.1, max_length=3, loss_unit="segment", random_state=0)
        whole = clone(tagger).set_params(tol=1e-3).fit(X, outputs)
        assert objective(whole, X, outputs) == pytest.approx(whole.objective_)
        reached = []
        for visits in (1, 14):
            for k in visits * [0, 20, 40, 60]:
                batch = X[k : k + 20], outputs[k : k + 20]
                tagger.partial_fit(*batch, classes=["a", "b"])
            reached.append(objective(tagger, X, outputs))
        # 1.12, 1.05
        assert whole.objective_ <= reached[1] < 1.08 * whole.objective_ < reached[0]
        assert tagger.score(X, outputs) > whole.score(X, outputs) - 0.03
    # the first mini-batch has no segment of "b"
    rare = SegmentCRF(0.1, max_length=3).partial_fit(X[:1], [[(0, 1, "a")]], ["a", "b"])
    assert rare.classes_.tolist() == ["a", "b"]
    # once fitted, one more visit changes little
    before = whole.weights_.copy()
    whole.partial_fit(X[:20], outputs[:20])
    distance = np.linalg.norm(whole.weights_ - before)
    assert 0.0 < distance < 0.3 * np.linalg.norm(before)


def series(n, size=60, seed=0):
    """Series that are cut out of longer ones, with runs of one to fifty positions."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        lengths = rng.randint(1, 51, size=size)
        labels = np.repeat(np.arange(size) % 2, lengths)[20 : size + 20]
        y.append(np.array(["a", "b"])[labels])
        X.append(labels[:, None] + rng.normal(size=(size, 1)))
    return X, y


@pytest.mark.parametrize("boundary_lengths", ["same", "own", "none"])
def test_mini_batches_without_a_limit_of_lengths(boundary_lengths):
    """Later mini-batches have longer runs; a stream can be pickled in the middle."""
    X, y = series(40)
    # the first mini-batch has short runs only
    y[0], y[1] = (np.array(list("aabbb" * 12)) for _ in range(2))
    tagger = SegmentCRF(
        0.05,
        max_length=None,
        length_features=4,
        boundary_lengths=boundary_lengths,
        random_state=0,
    )
    whole = clone(tagger).set_params(tol=1e-3).fit(X, y)
    assert objective(whole, X, y) == pytest.approx(whole.objective_)
    tagger.partial_fit(X[:2], y[:2], classes=["a", "b"])
    twin = pickle.loads(pickle.dumps(tagger))
    reached = []
    for _ in range(20):
        for k in range(0, 40, 10):
            for each in tagger, twin:
                each.partial_fit(X[k : k + 10], y[k : k + 10])
        reached.append(objective(tagger, X, y))
    np.testing.assert_array_equal(twin.weights_, tagger.weights_)
    # from 1.21, 1.14, 1.33 to 1.10, 1.09, 1.12
    assert whole.objective_ <= reached[-1] < 1.13 * whole.objective_ < reached[0]
    for each in whole, tagger:
        assert each.length_coef_.shape == (5, 2)
        has_own = hasattr(each, "boundary_length_coef_")
        assert has_own == (boundary_lengths == "own")
    long = [np.vstack([x, x, x]) for x in X[:3]]
    known = [["a"] * 180] * 3
    assert tagger.predict(long, known=known)[0].tolist() == known[0]
    assert tagger.score(*series(20, seed=1)) > 0.85


def test_mini_batches_count_by_their_weights():
    """Sizes of all sequences so far are averaged, and weights follow another alpha."""
    X, y = sentences(30)
    weight = np.arange(1.0, 31.0)
    tagger = SegmentCRF(0.1, max_length=3, random_state=0)
    for k in (0, 10, 20):
        tagger.partial_fit(
            X[k : k + 10], y[k : k + 10], ["a", "b"], weight[k : k + 10]
        )  # fmt: skip
    mean = np.average(list(map(len, X)), weights=weight)
    assert tagger.model_.mean_size_ == pytest.approx(mean)
    assert abs(mean - np.mean([len(x) for x in X[20:]])) > 0.1
    # a sequence that counts for nothing: what was learned is divided by four
    other = copy.deepcopy(tagger).set_params(alpha=0.4)
    for each in (tagger, other):
        each.partial_fit(X[:1], y[:1], sample_weight=[1e-9])
    np.testing.assert_allclose(other.weights_, tagger.weights_ / 4.0, atol=1e-8)


BAD_STREAMS = {
    "classes must be given": ({"max_length": 3}, None),
    "max_length must be a number": ({}, ["a", "b"]),
    "loss='log' cannot": ({"loss": "log"}, ["a", "b"]),
    "alpha > 0": ({"alpha": 0.0, "max_length": 3}, ["a", "b"]),
    "not in classes_": ({"max_length": 3}, ["a", "c"]),
}


@pytest.mark.parametrize("text", BAD_STREAMS)
def test_bad_mini_batches(text):
    X, y = sentences(20)
    params, classes = BAD_STREAMS[text]
    with pytest.raises(ValueError, match=text):
        SegmentCRF(**params).partial_fit(X, y, classes)


@pytest.mark.slow
def test_searches():
    X, y = sentences(60)
    params = {"min_length": [1], "loss_unit": ["position", "segment"]}
    search = GridSearchCV(SegmentCRF(0.1, random_state=0), params, cv=3).fit(X, y)
    assert search.best_score_ > 0.5
    path = SSVMPathCV(SegmentCRF(random_state=0), alphas=[1.0, 0.1, 0.01], cv=3)
    path.fit(X, y)
    assert path.best_score_ > 0.5 and isinstance(path.best_estimator_, SegmentCRF)
    assert np.mean(cross_val_score(SegmentCRF(random_state=0), X, y, cv=3)) > 0.5


def test_in_a_pipeline():
    X = [
        [{"w": w} for w in "the old man sails".split()],
        [{"w": "man"}, {"w": "sails"}],
    ]
    y = [["O", "B-N", "I-N", "O"], ["B-N", "O"]]
    tagger = make_pipeline(SequenceVectorizer(), SegmentCRF(0.01, random_state=0))
    assert [each.tolist() for each in tagger.fit(X, y).predict(X)] == y


def test_probabilities_need_the_likelihood():
    X, y = sentences(30)
    fitted = SegmentCRF(random_state=0).fit(X, y)
    with pytest.raises(AttributeError, match="predict_proba needs loss='log'"):
        fitted.predict_proba(X)
    likely = clone(fitted).set_params(loss="log").fit(X, y)
    shares = likely.predict_proba(X)
    assert shares[0].shape == (len(X[0]), 3)
    np.testing.assert_allclose(np.concatenate(shares).sum(axis=1), 1.0, rtol=1e-9)
    with pytest.raises(NotFittedError):
        SegmentCRF().predict(X)


@pytest.mark.slow
def test_steady_where_a_chain_flickers():
    """Durations that are known help where single positions tell little."""
    rng = np.random.RandomState(0)

    def series(n):
        X, y = [], []
        for _ in range(n):
            labels = rng.permutation(["x", "y", "z"])
            labels = np.repeat(labels, rng.randint(6, 12, 3))
            noise = 1.2 * rng.normal(size=(len(labels), 3))
            X.append((labels[:, None] == list("xyz")) + noise)
            y.append(labels)
        return X, y

    (X, y), (test, true) = series(40), series(60)
    chain = ChainCRF(tol=0.02, random_state=0).fit(X, y).score(test, true)
    segments = SegmentCRF(tol=0.02, random_state=0).fit(X, y).score(test, true)
    # 0.62 of the errors
    assert 1.0 - segments < 0.85 * (1.0 - chain)


@pytest.mark.parametrize("form", ["segments", "tags", "labels"])
def test_predictions_without_positions(form):
    """One labeling of nothing, with a score of 0, beside those of other sequences."""
    X, y = sentences(30)
    if form != "segments":
        y = [as_rows(x, each, form) for x, each in zip(X, y, strict=True)]
    fitted = SegmentCRF(0.1, loss="log", random_state=0).fit(X, y)
    test = [X[0], np.zeros((0, 3)), X[1]]
    for k in (1, 3):
        outputs, scores = fitted.predict_topk(test, k)
        assert len(outputs[1]) == 1 and len(outputs[1][0]) == 0
        assert scores[1].tolist() == [0.0] and len(outputs[2]) == k
    shares = fitted.predict_proba(test)
    assert [each.shape[0] for each in shares] == [len(x) for x in test]
    np.testing.assert_array_equal(shares[2], fitted.predict_proba(X[1:2])[0])
    # nothing but such sequences
    assert fitted.predict_proba(test[1:2])[0].shape == (0, shares[0].shape[1])
    assert len(fitted.predict_topk(test[1:2], 2)[0][0]) == 1


def as_rows(x, segments, form):
    """Tags, or labels, of positions."""
    row = ["O"] * len(x)
    for start, stop, label in segments:
        begin, inside = (f"B-{label}", f"I-{label}") if form == "tags" else [label] * 2
        row[start:stop] = [begin] + [inside] * (stop - start - 1)
    return row


def test_probabilities_without_segmentation():
    X, y = [np.eye(2), np.ones((3, 2))], [[0, 0], [1, 1, 1]]
    fitted = SegmentCRF(0.1, loss="log", min_length=2).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[1\] of 1 positions has no segmentation"):
        fitted.predict_proba([X[0], X[0][:1]])


@pytest.mark.parametrize("form", ["segments", "tags", "labels"])
def test_series_with_an_index(form):
    """Rows, and the list of them, may have an index that does not count from 0."""
    pd = pytest.importorskip("pandas")
    X, y = sentences(30)
    X, y = [*X, np.zeros((0, 3))], [*y, []]
    if form != "segments":
        y = [as_rows(x, each, form) for x, each in zip(X, y, strict=True)]
    weight = np.arange(31) % 3
    fits = [SegmentCRF(0.1, random_state=0).fit(X, y, weight)]
    index = np.arange(31) + 7
    fits.append(SegmentCRF(0.1, random_state=0).fit(X, pd.Series(y, index), weight))
    if form != "segments":
        rows = [pd.Series(row, np.arange(len(row)) + 5, dtype=object) for row in y]
        fits.append(SegmentCRF(0.1, random_state=0).fit(X, rows, weight))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fits[0].weights_, fit.weights_)


def test_known_is_checked():
    X, y = sentences(40)
    fitted = SegmentCRF(0.1, random_state=0).fit(X, y)
    test = [np.zeros((0, 3)), np.zeros((4, 3))]
    # sequences keep their numbers
    with pytest.raises(ValueError, match=r"known\[1\] has the label 'c'"):
        fitted.predict(test, known=[None, [(0, 1, "c")]])
    with pytest.raises(ValueError, match=r"known\[0\] has some"):
        fitted.predict(test, known=[[(0, 1, "a")], None])
    for known in ("aa", {0: None, 1: None}, 3):
        with pytest.raises(TypeError, match="known must be a list"):
            fitted.predict(test, known=known)
    for known in ("OOOO", 3):
        with pytest.raises(ValueError, match=r"known\[1\] must be a list"):
            fitted.predict(test, known=[None, known])
    pd = pytest.importorskip("pandas")
    known = [None, [(0, 1, "a")]]
    found = fitted.predict(test, known=pd.Series(known, [5, 9]))
    assert found.tolist() == fitted.predict(test, known=known).tolist()


def test_known_without_roles():
    """Where nothing says where segments end, that cannot be known."""
    X, y = sentences(40)
    rows = [as_rows(x, each, "tags") for x, each in zip(X, y, strict=True)]
    fitted = SegmentCRF(0.1, roles=False, random_state=0).fit(X, rows)
    test = [np.zeros((3, 3))]
    assert fitted.predict(test, known=[[None, "O", None]])[0][1] == "O"
    with pytest.raises(ValueError, match="known tags need roles=True"):
        fitted.predict(test, known=[["B-a", "B-a", None]])
    fitted = SegmentCRF(0.1, roles=False, random_state=0).fit(X, y)
    assert fitted.predict(test, known=[[]])[0] == fitted.predict(test)[0]
    with pytest.raises(ValueError, match="known segments need roles=True"):
        fitted.predict(test, known=[[(0, 1, "a")]])


def test_stream_that_begins_outside():
    X, y = [np.zeros((2, 1)), np.ones((2, 1))], [["O", "O"], ["B-a", "I-a"]]
    tagger = SegmentCRF(0.1, max_length=3)
    with pytest.raises(ValueError, match="the first mini-batch needs a segment"):
        tagger.partial_fit(X[:1], y[:1], classes=["a"])
    # as labels of positions
    tagger.partial_fit(X[:1], y[:1], classes=["O", "a"])
    assert tagger.model_.form_ == "labels"


def test_errors_count_all_sequences():
    """Also those that are not trained on: empty ones, and those of weight zero."""
    X = [np.zeros((0, 1)), *[np.zeros((4, 1))] * 3]
    y = [[], [(0, 1, "a")], [(0, 3, "b")], [(0, 1, "b")]]
    with pytest.raises(ValueError, match=r"y\[3\] has a segment of 'b' from 0 to 1"):
        SegmentCRF(min_length={"b": 2}).fit(X, y, [1, 0, 1, 1])
    with pytest.raises(ValueError, match=r"sample_weight\[0\] is NaN"):
        SegmentCRF().fit(X, y, np.nan)


def test_mini_batches_say_what_they_cut():
    X, y = sentences(20)
    with pytest.warns(UserWarning, match="longer than max_length=2") as warned:
        SegmentCRF(0.1, max_length=2).partial_fit(X, y, classes=["a", "b"])
    assert warned[0].filename == __file__


def test_the_warning_of_cuts_points_to_the_caller_of_fit():
    X, y = sentences(20)
    with pytest.warns(UserWarning, match="longer than max_length=2") as warned:
        SegmentCRF(0.1, max_length=2).fit(X, y)
    assert warned[0].filename == __file__


def test_no_memory_for_lengths_that_do_not_fit():
    X, y = sentences(30)
    short = SegmentCRF(0.1, max_length=8, length_features=4, random_state=0)
    long = clone(short).set_params(max_length=10**7)
    shapes = [each.fit(X, y).length_coef_.shape for each in (short, long)]
    # ranges of lengths that no sequence has weigh nothing
    assert shapes == [(5, 3), (26, 3)] and not long.length_coef_[5:].any()
    assert short.predict(X).tolist() == long.predict(X).tolist()


def test_segments_at_characters():
    words = [["New", "York", "is", "big"], ["in", "New", "York"], []]
    X = [[[float(w == "New"), float(w == "York"), 1.0] for w in row] for row in words]
    X[2] = np.empty((0, 3))
    y = [[(0, 2, "place")], [(1, 3, "place")], []]
    fitted = SegmentCRF(1e-3, loss="log", random_state=0).fit(X, y)
    offsets = [[(0, 3), (4, 8), (9, 11), (12, 15)], [(0, 2), (3, 6), (7, 11)], []]
    plain = fitted.predict_segments(X)
    assert [[each[:3] for each in row] for row in plain] == y
    found = fitted.predict_segments(X, offsets=offsets)
    assert [[each[:3] for each in row] for row in found] == [
        [(0, 8, "place")],
        [(3, 11, "place")],
        [],
    ]
    assert [row[0][3] for row in found[:2]] == [row[0][3] for row in plain[:2]]
    # tokens that are no part of the text
    offsets[1] = [(0, 2), (2, 2), (2, 2)]
    assert fitted.predict_segments(X, offsets=offsets)[1] == []
    with pytest.raises(ValueError, match=r"offsets\[1\] has 2 tokens, but there are 3"):
        fitted.predict_segments(X, offsets=[offsets[0], offsets[1][:2], []])
