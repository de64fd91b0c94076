"""Model selection, scores and mini-batches with labels that are None or sets."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from sksstruct import (
    CalibratedTagger,
    ChainCRF,
    SegmentCRF,
    SSVMClassifier,
    SSVMPathCV,
    make_tagger,
    metrics,
)
from sksstruct.models import SegmentModel


def sequences(n=40, seed=0, names=("B-up", "O")):
    """Features, labels by the sign of one with noise, and where they are known."""
    rng = np.random.RandomState(seed)
    X = [rng.normal(size=(k, 3)) for k in rng.randint(2, 8, size=n)]
    signs = (x[:, 0] + 0.5 * rng.normal(size=len(x)) > 0 for x in X)
    y = [np.where(sign, *names).astype(object) for sign in signs]
    known = [rng.rand(len(x)) < 0.6 for x in X]
    for each in known:
        each[rng.randint(len(each))] = True
    return X, y, known


def hidden(y, known, seed=0):
    """Labels, of which some are not known, or in a set with all others."""
    every, rng = frozenset(np.concatenate(y)), np.random.RandomState(seed)
    rows = []
    for row, some in zip(y, known, strict=True):
        rows.append(row.copy())
        for t in np.flatnonzero(~some):
            rows[-1][t] = [None, every, set(every)][rng.randint(3)]
    return rows


def without(y, known):
    return [np.where(k, row, None) for row, k in zip(y, known, strict=True)]


def names_of(y):
    """Labels that are no tags."""
    return [[label.replace("-", "") for label in row] for row in y]


def words(X):
    return [[{"w": float(t[0]), "v": float(t[1])} for t in x] for x in X]


ESTIMATORS = {
    "hinge": lambda: ChainCRF(random_state=0),
    "log": lambda: ChainCRF(loss="log"),
    "smoothed hinge": lambda: ChainCRF(loss="smoothed_hinge"),
    "second order": lambda: ChainCRF(loss="log", order=2),
    "segments": lambda: SegmentCRF(random_state=0, max_length=2),
    "segments, log": lambda: SegmentCRF(loss="log", max_length=2),
    "tagger": lambda: make_tagger(loss="log"),
    "calibrated": lambda: CalibratedTagger(ChainCRF(random_state=0), cv=2),
    "path": lambda: SSVMPathCV(ChainCRF(loss="log"), cv=2, alphas=[1.0, 0.01]),
    "model": lambda: SSVMClassifier(
        SegmentModel(roles=False, loss_normalization="example"),
        loss="log",
    ),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_scores_are_those_of_known_labels(name):
    # the model of segments knows no tags without roles
    names = ("up", "down") if name == "model" else ("B-up", "O")
    X, y, known = sequences(names=names)
    if name == "tagger":
        X = words(X)
    estimator = ESTIMATORS[name]().fit(X, hidden(y, known))
    partly, found = without(y, known), estimator.predict(X)
    right = [(a == b)[k] for a, b, k in zip(y, found, known, strict=True)]
    flip = dict(zip(names, names[::-1], strict=True))
    other = [[flip[k] if k else None for k in row] for row in partly]
    if name == "model":  # sequences count the same, whatever their lengths
        expected = np.mean([each.mean() for each in right])
    else:
        expected = np.concatenate(right).mean()
    assert estimator.score(X, partly) == pytest.approx(expected)
    assert 0.8 < estimator.score(X, partly) < estimator.score(X, hidden(y, known)) < 1
    assert estimator.score(X, other) == pytest.approx(1 - expected)
    # sequences of which nothing is known are left out
    more = [*partly, [None] * len(X[0])]
    assert estimator.score([*X, X[0]], more) == pytest.approx(expected)
    with pytest.raises(ValueError, match="y has no known label"):
        estimator.score(X[:2], [[None] * len(x) for x in X[:2]])


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n not in ("tagger", "path")])
def test_weighted_scores(name):
    names = ("up", "down") if name == "model" else ("B-up", "O")
    X, y, known = sequences(names=names)
    estimator, partly = ESTIMATORS[name]().fit(X, y), without(y, known)
    weight = np.random.RandomState(0).randint(3, size=len(X))
    several = np.repeat(np.arange(len(X)), weight)
    expected = estimator.score([X[i] for i in several], [partly[i] for i in several])
    assert estimator.score(X, partly, sample_weight=weight) == pytest.approx(expected)
    assert estimator.score(X, partly) != pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:there are no chunks in y_pred")
@pytest.mark.parametrize("name", ["hinge", "log", "segments, log", "tagger"])
@pytest.mark.parametrize(
    "scorer",
    [
        None,
        metrics.token_accuracy_scorer,
        metrics.sequence_accuracy_scorer,
        metrics.flat_f1_macro_scorer,
        metrics.chunk_f1_scorer,
    ],
    ids=str,
)
def test_grid_search_finds_alpha(name, scorer):
    X, y, known = sequences(60)
    partly = hidden(y, known)
    X = words(X) if name == "tagger" else X
    estimator = ESTIMATORS[name]()
    parameter = "chaincrf__alpha" if name == "tagger" else "alpha"
    grid = {parameter: [1e9, 0.01]}
    search = GridSearchCV(estimator, grid, cv=3, scoring=scorer, error_score="raise")
    search.fit(X, partly)
    assert search.best_params_[parameter] == 0.01
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.isfinite(cross_val_score(estimator, X, partly, scoring=scorer)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["log", "segments, log", "tagger"])
def test_path_finds_alpha(name):
    X, y, known = sequences(60)
    X = words(X) if name == "tagger" else X
    for alphas in (None, [1e9, 0.01]):
        search = SSVMPathCV(ESTIMATORS[name](), alphas=alphas, cv=3)
        search.fit(X, hidden(y, known))
        assert search.alpha_ < 1.0
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_early_stopping(loss):
    X, y, known = sequences(60)
    partly, rare = hidden(y, known), "in no other sequence"
    tagger = ChainCRF(
        loss=loss, early_stopping=True, validation_fraction=0.5, random_state=0
    )
    scores = tagger.fit(X, partly).validation_scores_
    assert np.isfinite(scores).all()
    assert scores.max() > 0.8
    # all labels are learned, those that only a set has, too
    for i in range(0, 60, 7):
        partly[i][0] = {"O", rare + str(i)}
    tagger.fit(X, partly)
    assert {rare + str(i) for i in range(0, 60, 7)} <= {*tagger.classes_.tolist()}


BATCHES = {
    "chain": (lambda: ChainCRF(random_state=0), ["B-up", "O"]),
    "average": (lambda: ChainCRF(solver="bcfw", random_state=0), ["B-up", "O"]),
    "triples": (lambda: ChainCRF(order=2, random_state=0), ["B-up", "O"]),
    "segments": (lambda: SegmentCRF(max_length=2, random_state=0), ["up"]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_mini_batches(name):
    make, classes = BATCHES[name]
    X, y, known = sequences(90)
    partly, tagger = hidden(y, known), make()
    for first in range(0, 90, 30):
        rows = slice(first, first + 30)
        tagger.partial_fit(X[rows], partly[rows], classes=classes)
        assert tagger.score(X, partly) > 0.8
    assert tagger.score(X, y) > 0.8
    # labels that are known stay what they were
    whole = make().partial_fit(X, y, classes=classes)
    other = make().partial_fit(X, [[{k} for k in row] for row in y], classes=classes)
    np.testing.assert_array_equal(
        whole.decision_function(X), other.decision_function(X)
    )
    # what a set has, and what it has not
    before = tagger.decision_function(X)
    tagger.partial_fit(X[:1], [[{"B-up", "O"}] * len(X[0])])
    assert (tagger.decision_function(X) != before).any()
    with pytest.raises(
        ValueError, match=r"'B-x', (which is not in|not in)|not in classes"
    ):
        tagger.partial_fit(X[:1], [[{"B-up", "B-x"}] * len(X[0])])


@pytest.mark.parametrize("name", BATCHES)
def test_mini_batches_are_completed_from_sets(name):
    make, classes = BATCHES[name]
    X, y, known = sequences(60)
    every, weights = {*classes, "B-down"} if "O" in classes else {"up", "down"}, []
    # the label that features speak for is not in the set, or nothing is said
    for entry in ({"B-down", "O"}, frozenset(["B-down", "O"]), None):
        tagger = make().partial_fit(X[:30], y[:30], classes=every)
        rows = [
            [k if some else entry for k, some in zip(row, where, strict=True)]
            for row, where in zip(y[30:], known[30:], strict=True)
        ]
        weights.append(tagger.partial_fit(X[30:], rows).decision_function(X))
    np.testing.assert_array_equal(weights[0], weights[1])
    assert (weights[0] != weights[2]).any()


@pytest.mark.parametrize("estimator", [ChainCRF(loss="log"), SegmentCRF(loss="log")])
def test_frozensets_are_sets(estimator):
    X, y, known = sequences()
    sets = [
        [k if some else {k, "B-down"} for k, some in zip(row, where, strict=True)]
        for row, where in zip(y, known, strict=True)
    ]
    frozen = [[frozenset(k) if isinstance(k, set) else k for k in row] for row in sets]
    scores = [
        clone(estimator).fit(X, rows).decision_function(X) for rows in (sets, frozen)
    ]
    np.testing.assert_array_equal(*scores)
    estimator = clone(estimator).fit(X, y)
    assert estimator.score(X, sets) == estimator.score(X, frozen)
    for kind in (set, frozenset):
        for fitted in (estimator, SegmentCRF(loss="log").fit(X, names_of(y))):
            with pytest.raises(ValueError, match=r"known\[0\] has the label"):
                fitted.predict(X[:1], known=[[kind(["B-up", "O"])] * len(X[0])])
        with pytest.raises(TypeError, match="set"):
            ChainCRF().partial_fit(X, y, classes=["O", kind(["B-up", "B-down"])])
        with pytest.raises(TypeError, match=r"not hashable|a set of labels"):
            SegmentCRF().fit([np.ones((2, 1))], [[(0, 1, kind("ab"))]])


def test_losses_of_segments_with_roles():
    """What is not known takes part as it was predicted."""
    X, y, _ = sequences()
    for unit in ("position", "segment"):
        model = SegmentModel(max_length=3, loss_unit=unit, loss_normalization=None)
        model = SSVMClassifier(model, random_state=0).fit(X, y).model_
        assert model.loss(["B-up", None, "O"], ["B-up", "I-up", "O"]) == 0
        assert model.loss(["B-up", None, "O"], ["O", "O", "O"]) == 1
        assert model.loss([None, None, "O"], ["B-up", "I-up", "O"]) == 0
        assert model.loss([{"O", "B-up"}, "O"], ["B-up", "O"]) == 0
        assert model.loss([frozenset(["O", "B-up"]), "O"], ["O", "O"]) == 0
