"""The temperature of a tagger, against an independent optimum."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline

from sksstruct import CalibratedTagger, ChainCRF, SegmentCRF, Tagger, make_tagger
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils import estimator_checks

LABELS = ["B-X", "I-X", "O"]


def sentences(n, seed=0):
    """Labels that one feature each makes likely; as rows, and as dicts."""
    rng = np.random.RandomState(seed)
    codes = [rng.randint(3, size=rng.randint(1, 5)) for _ in range(n)]
    rows = [np.eye(3)[code] + rng.normal(size=(len(code), 3)) for code in codes]
    dicts = [[dict(zip("abc", row, strict=True)) for row in x] for x in rows]
    return rows, dicts, [[LABELS[k] for k in code] for code in codes]


def scores_of(tagger, x, y):
    """Score of a labeling, and those of all."""
    labelings, (scores,) = tagger.predict_topk([x], 3 ** len(x))
    match = (labelings[0] == np.array(y)).all(axis=1)
    return scores[match][0], scores


def best_temperature(triples):
    """That of (tagger, x, y), by enumeration."""
    pairs = [scores_of(*each) for each in triples]

    def loss(inverse):
        return sum(logsumexp(inverse * s) - inverse * own for own, s in pairs)

    found = minimize_scalar(loss, bounds=(1e-3, 1e3), method="bounded")
    return 1.0 / found.x


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
def test_temperature_of_folds(loss):
    X, _, y = sentences(40)
    base = ChainCRF(0.02, loss=loss, random_state=0)
    found = CalibratedTagger(base, cv=4).fit(X, y)
    triples = []
    for train, test in KFold(4).split(X):
        fold = clone(base).fit([X[i] for i in train], [y[i] for i in train])
        triples += [(fold, X[i], y[i]) for i in test]
    assert found.temperature_ == pytest.approx(best_temperature(triples), rel=1e-3)
    alone = clone(base).fit(X, y)
    assert [row.tolist() for row in found.predict(X)] == (
        [row.tolist() for row in alone.predict(X)]
    )
    own, scores = scores_of(alone, X[0], y[0])
    want = (own - logsumexp(scores / found.temperature_) * found.temperature_) / (
        found.temperature_
    )
    assert found.log_proba(X[:1], y[:1])[0] == pytest.approx(want, abs=1e-9)
    for rows in found.predict_proba(X):
        np.testing.assert_allclose(rows.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["chain", "tagger", "pipeline", "search"])
def test_frozen(kind):
    """What is trained already keeps its weights and gets no temperature itself."""
    rows, dicts, y = sentences(60)
    X = rows if kind == "chain" else dicts
    made = {
        "chain": ChainCRF(random_state=0),
        "tagger": make_tagger(random_state=0),
        "pipeline": make_pipeline(SequenceVectorizer(), ChainCRF(random_state=0)),
        "search": GridSearchCV(make_tagger(), {"chaincrf__alpha": [0.1, 0.01]}, cv=2),
    }[kind].fit(X[:40], y[:40])
    found = CalibratedTagger(FrozenEstimator(made)).fit(X[40:], y[40:])
    chain = getattr(made, "best_estimator_", made)
    first, chain = (None, chain) if kind == "chain" else (chain[0], chain[-1])
    rows = X if first is None else list(first.transform(X))
    rows = [each.toarray() if hasattr(each, "toarray") else each for each in rows]
    triples = [(chain, *each) for each in zip(rows[40:], y[40:], strict=True)]
    assert found.temperature_ == pytest.approx(best_temperature(triples), rel=1e-3)
    assert not hasattr(made, "predict_proba") and chain._temperature is None
    assert len(found.predict_entities(X[:3])) == 3
    assert found.classes_.tolist() == LABELS


def many_features(n=30):
    """Sentences with a feature of each position."""
    _, X, y = sentences(n)
    return [
        [{**t, "i": f"{i} {k}"} for k, t in enumerate(x)] for i, x in enumerate(X)
    ], y


@pytest.mark.parametrize("kind", ["chain", "tagger"])
def test_a_frozen_tagger_is_stored_once(kind):
    """Until one of both is changed: then there are two."""
    X, y = many_features(60)
    made = make_tagger(random_state=0).fit(X[:40], y[:40])
    if kind == "chain":
        X, made = made[0].transform(X), made[-1]
    found = CalibratedTagger(FrozenEstimator(made)).fit(X[40:], y[40:])
    chain = found.estimator_ if kind == "chain" else found.estimator_[-1]
    assert np.shares_memory(chain.coef_, (made if kind == "chain" else made[-1]).coef_)
    size = len(pickle.dumps(made))
    text = pickle.dumps(found)
    assert len(text) < 1.1 * size
    again = pickle.loads(text)
    assert again.temperature_ == found.temperature_
    one, other = (np.concatenate(each.predict_proba(X)) for each in (again, found))
    np.testing.assert_array_equal(one, other)
    # a copy of a copy is as small, and the frozen one has no temperature
    assert len(pickle.dumps(again)) < 1.1 * size
    inner = again.estimator.estimator
    assert not hasattr(inner, "predict_proba")
    chain.coef_ = chain.coef_ * 2
    changed = pickle.loads(pickle.dumps(found))
    assert len(pickle.dumps(found)) > 1.3 * size
    for one, other in zip(
        changed.predict_proba(X), found.predict_proba(X), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    state = again.__getstate__() | {"estimator": None}
    with pytest.raises(ValueError, match="must have estimator_"):
        again.__setstate__(state)


def test_what_the_tagger_can_is_passed_on(tmp_path):
    X, y = many_features()
    unfitted = CalibratedTagger(make_tagger())
    with pytest.raises(NotFittedError):
        unfitted.to_json(tmp_path / "none.json")
    assert not hasattr(unfitted, "state_features_")
    assert not hasattr(unfitted, "predict_segments")
    found = CalibratedTagger(make_tagger(random_state=0), cv=3).fit(X, y)
    found.to_json(tmp_path / "tagger.json")
    found.to_crfsuite(tmp_path / "tagger.crfsuite")
    expected = np.concatenate(found.predict_proba(X))
    again = Tagger.from_json(tmp_path / "tagger.json")
    np.testing.assert_array_equal(np.concatenate(again.predict_proba(X)), expected)
    again = Tagger.from_crfsuite(
        tmp_path / "tagger.crfsuite", first="__BOS__", last="__EOS__"
    )
    np.testing.assert_allclose(np.concatenate(again.predict_proba(X)), expected)
    assert found.state_features_ == found.estimator_.state_features_
    assert found.transition_features_ == found.estimator_.transition_features_
    assert found.explain(X[0], 0).position == 0


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_weights_count_sequences(frozen):
    """In the fits, in the temperature, and in the score; 0 leaves one out."""
    X, _, y = sentences(40)
    weight = np.random.RandomState(1).randint(0, 6, 40).astype(float)
    base, tagger = ChainCRF(0.02, tol=1e-6, random_state=0), None
    if frozen:
        base, folds = base.fit(X[:20], y[:20]), [(None, range(20, 40))]
        found = CalibratedTagger(FrozenEstimator(base))
        found.fit(X[20:], y[20:], sample_weight=weight[20:])
    else:
        found, folds = CalibratedTagger(base, cv=4), list(KFold(4).split(X))
        found.fit(X, y, sample_weight=weight)
    triples = []
    for train, test in folds:
        tagger = base
        if train is not None:
            parts = ([each[i] for i in train] for each in (X, y, weight))
            tagger = clone(base).fit(*parts)
        triples += [(tagger, X[i], y[i]) for i in test for _ in range(int(weight[i]))]
    wanted = best_temperature(triples)
    assert found.temperature_ == pytest.approx(wanted, rel=1e-3)
    unweighted = clone(found).fit(X[-20 if frozen else 0 :], y[-20 if frozen else 0 :])
    assert unweighted.temperature_ != pytest.approx(wanted, rel=0.02)
    right = [(a == b).sum() for a, b in zip(found.predict(X), y, strict=True)]
    share = weight @ right / (weight @ list(map(len, y)))
    assert found.score(X, y, sample_weight=weight) == pytest.approx(share, rel=1e-12)
    assert found.score(X, y) != pytest.approx(share, rel=1e-3)


@pytest.mark.slow
def test_scikit_learn():
    _, X, y = sentences(30)
    tagger = CalibratedTagger(make_tagger(random_state=0), cv=3)
    assert "estimator__chaincrf__alpha" in tagger.get_params()
    for name in ("predict_proba", "predict_entities", "entropy"):
        with pytest.raises(NotFittedError):
            getattr(tagger, name)(X)
    with pytest.raises(NotFittedError):
        tagger.explain(X[0], 0)
    assert not hasattr(tagger, "classes_")
    grid = {"estimator__chaincrf__alpha": [0.1, 0.02]}
    search = GridSearchCV(tagger, grid, cv=2).fit(X, y)
    assert search.best_score_ > 0.4
    best = search.best_estimator_
    copy = pickle.loads(pickle.dumps(best))
    assert copy.temperature_ == best.temperature_
    assert copy.predict_entities(X) == best.predict_entities(X)
    assert copy.entropy(X).tolist() == best.entropy(X).tolist()
    assert best.score(X, y) == best.estimator_.score(X, y)
    known = [[None] * len(row) for row in y]
    i = next(i for i, row in enumerate(y) if len(row) > 1)
    known[i][0] = "B-X"
    assert best.predict(X, known=known)[i][0] == "B-X"
    probabilities = best.predict_proba(X, known=known)[i]
    np.testing.assert_allclose(probabilities[0], [1, 0, 0], atol=1e-12)
    assert best.predict_marginals(X)[0][0].keys() == set(LABELS)
    assert best.explain(X[i], 1, known=known[i]).labels[0] == "B-X"
    assert cross_val_predict(tagger, X, y, cv=2).shape == (30,)
    threads = clone(tagger).set_params(n_jobs=2).fit(X, y)
    assert threads.temperature_ == clone(tagger).fit(X, y).temperature_


# not of a single sequence or none, which has no folds, and of parameters of chains
@pytest.mark.parametrize(
    "name",
    [
        check.__name__
        for check in estimator_checks.CHECKS
        if not check.__name__.endswith(("selection", "bad_input", "legal_corners"))
    ],
)
def test_contract(name):
    check = getattr(estimator_checks, name)
    check(CalibratedTagger(ChainCRF(random_state=0), cv=2))


def test_another_fit_of_the_chain_forgets_the_temperature():
    X, _, y = sentences(20)
    found = CalibratedTagger(ChainCRF(), cv=2).fit(X, y)
    chain = found.estimator_
    assert hasattr(chain, "predict_proba")
    chain.fit(X, y)
    assert not hasattr(chain, "predict_proba")


def test_labels_that_a_fold_lacks():
    X, _, y = sentences(20)
    plain = CalibratedTagger(ChainCRF(random_state=0), cv=4).fit(X, y)
    y[0] = ["once"] * len(y[0])
    found = CalibratedTagger(ChainCRF(random_state=0), cv=4).fit(X, y)
    assert "once" in found.classes_ and plain.temperature_ != found.temperature_
    with pytest.raises(ValueError, match="each held-out sequence of y has a label"):
        names = [[name, name] for name in "aabb"]
        rows = [np.eye(2)] * 4
        both = [([0, 1, 2, 3], [0])]
        fitted = ChainCRF().fit(rows, names)
        CalibratedTagger(FrozenEstimator(fitted), cv=both).fit(rows[:1], [["c", "c"]])


@pytest.mark.parametrize("n", [4, 20])
def test_nothing_to_learn_from(n):
    """Without an error on held-out data there is no best temperature."""
    X, y = [np.eye(2)] * n, [["O", "B-X"]] * n
    with pytest.warns(UserWarning, match=f"the {n} held-out labelings are predicted"):
        found = CalibratedTagger(ChainCRF(), cv=2).fit(X, y)
    fold = ChainCRF().fit(X[: n // 2], y[: n // 2])
    with pytest.warns(UserWarning, match="nearly without error"):
        fold = CalibratedTagger(FrozenEstimator(fold)).fit(X, y)
    assert fold.log_proba(X, y).mean() == pytest.approx(-1 / n, rel=1e-3)
    (((start, stop, label, p),),) = found.predict_entities(X[:1])
    assert (start, stop, label) == (1, 2, "X") and 1 - 2 / n < p < 1


def test_errors():
    X, _, y = sentences(12)
    with pytest.raises(TypeError, match="estimator must be a ChainCRF, or a pipeline"):
        CalibratedTagger(SegmentCRF(random_state=0), cv=2).fit(X, y)
    with pytest.raises(NotFittedError):
        CalibratedTagger(FrozenEstimator(ChainCRF())).fit(X, y)
    with pytest.raises(ValueError, match="The 'n_jobs' parameter"):
        CalibratedTagger(ChainCRF(), n_jobs="2").fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CalibratedTagger(ChainCRF()).fit(X, y[:5])
