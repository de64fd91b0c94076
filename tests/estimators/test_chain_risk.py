"""Labels with the smallest expected Hamming loss, against enumeration of labelings."""

import copy
import itertools
import pickle
from functools import cache

import numpy as np
import pytest
from reference import enumerate_chain
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sksstruct import CalibratedTagger, ChainCRF, Tagger, make_tagger
from sksstruct.inference import scheme_transitions, viterbi
from sksstruct.metrics import iter_chunks

BIO, IOBES = ["B-X", "I-X", "O"], ["B-X", "E-X", "I-X", "O", "S-X"]
LENGTHS = [1, 4, 0, 3, 2]


@cache
def fitted(labels):
    n = len(labels)
    tagger = ChainCRF(loss="log", risk="hamming").fit([np.eye(n)], [list(labels)])
    assert tagger.classes_.tolist() == list(labels)
    return tagger


def scored(labels, seed, scale=1.0):
    """A chain whose features are the scores of labels, and the features."""
    rng = np.random.RandomState(seed)
    n = len(labels)
    tagger = copy.copy(fitted(tuple(labels)))
    tagger.coef_, tagger.intercept_ = np.eye(n), np.zeros(n)
    weights = scale * rng.normal(size=(n + 2, n))
    tagger.start_, tagger.end_, tagger.transitions_ = *weights[:2], weights[2:]
    return tagger, [scale * rng.normal(size=(size, n)) for size in LENGTHS]


def distribution(tagger, x, pairs=(), known=None, excluded=None):
    """Labelings that are allowed, as numbers, and their probabilities."""
    unary = np.array(x)
    unary[0] += tagger.start_
    unary[-1] += tagger.end_
    codes, scores = enumerate_chain(unary, tagger.transitions_)
    names = tagger.classes_.tolist()
    allowed = np.ones(len(codes), dtype=bool)
    for before, after in pairs:
        first, second = names.index(before or names[0]), names.index(after or names[0])
        if before is None:
            allowed &= codes[:, 0] != second
        elif after is None:
            allowed &= codes[:, -1] != first
        else:
            follow = (codes[:, :-1] == first) & (codes[:, 1:] == second)
            allowed &= ~follow.any(axis=1)
    for t in range(len(x)):
        if known is not None and known[t] is not None:
            allowed &= codes[:, t] == names.index(known[t])
        for label in (excluded[t] or ()) if excluded is not None else ():
            allowed &= codes[:, t] != names.index(label)
    codes, scores = codes[allowed], scores[allowed]
    return codes, np.exp(scores - logsumexp(scores))


def assert_least_risk(tagger, x, found, **constraints):
    """The expected number of wrong labels, by its definition, is the least."""
    codes, p = distribution(tagger, x, **constraints)
    risks = (codes[:, None] != codes[None]).sum(axis=2) @ p
    place = np.searchsorted(tagger.classes_, found)
    (chosen,) = np.flatnonzero((codes == place).all(axis=1))
    assert risks[chosen] <= risks.min() + 1e-9
    return chosen != p.argmax()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 2.0, 900.0])
@pytest.mark.parametrize("labels", [BIO, IOBES], ids=len)
def test_free_labelings(labels, scale):
    """Scores of 900 are summed in log space."""
    differs = 0
    for seed in range(20):
        tagger, X = scored(labels, seed, scale)
        found = tagger.predict(X)
        for x, row, p in zip(X, found, tagger.predict_proba(X), strict=True):
            assert len(row) == len(x)
            assert row.tolist() == tagger.classes_[p.argmax(axis=1)].tolist()
            if len(x):
                differs += assert_least_risk(tagger, x, row)
    assert differs > 3 or scale > 2.0


def some_pairs(labels, rng):
    """Pairs that must not follow each other; every label may follow itself."""
    pairs = [(a, b) for a in labels for b in labels if a != b and rng.rand() < 0.6]
    return [*pairs, (None, labels[rng.randint(5)]), (labels[rng.randint(5)], None)]


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_constrained_labelings(where):
    """Forbidden transitions, ends, and labels of single positions, all at once."""
    differs = 0
    for seed in range(60):
        rng = np.random.RandomState(seed)
        tagger, X = scored(IOBES, seed, 0.3)
        pairs = some_pairs(IOBES, rng)
        given = {"forbidden_transitions": pairs}
        if where == "fit":
            tagger.forbidden_transitions_, given = pairs, {}
        # the labels of some positions are free, so that something is allowed
        excluded = [None, [None, {IOBES[rng.randint(5)]}, None, None], [], None, None]
        known = [None, None, [], [None, IOBES[rng.randint(5)], None], None]
        rules = {"known": known, "excluded": excluded}
        try:
            found = tagger.predict(X, **rules, **given)
        except ValueError as error:
            assert "the constraints leave no labeling" in str(error)
            continue
        marginals = tagger.predict_proba(X, **rules, **given)
        for i, x in enumerate(X):
            if len(x):
                rules = {"known": known[i], "excluded": excluded[i], "pairs": pairs}
                assert_least_risk(tagger, x, found[i], **rules)
                free = tagger.classes_[marginals[i].argmax(axis=1)].tolist()
                differs += free != found[i].tolist()
    # labels that are each most probable would not do
    assert differs > 3


def test_forbidden_labels_are_no_bridge():
    """A forbidden label has the probability 0, which allowed labels may have, too."""
    # of three kinds, a switch from a to e takes two positions; z, which is forbidden,
    # would need one
    labels = ["a", "b1", "b2", "b3", "c1", "c2", "c3", "e", "z"]
    follow = {("a", "a"), ("e", "e")}
    follow |= {("a", f"b{k}") for k in "123"} | {(f"c{k}", "e") for k in "123"}
    follow |= {(f"b{k}", f"c{k}") for k in "123"}
    pairs = [
        (s, t) for s in labels for t in labels if "z" not in (s, t)
        if (s, t) not in follow
    ]  # fmt: skip
    everything = pairs + [(None, t) for t in labels if t != "a"]
    everything += [(s, None) for s in labels if s != "e"]
    tagger, _ = scored(labels, 0, 0.0)
    x = np.zeros((5, 9))
    arguments = {"excluded": [[["z"]] * 5], "forbidden_transitions": everything}
    (found,) = tagger.predict([x], **arguments)
    assert_least_risk(tagger, x, found, pairs=everything, excluded=[["z"]] * 5)
    table = np.zeros((9, 9))
    for s, t in pairs:
        table[labels.index(s), labels.index(t)] = -np.inf
    (marginals,) = tagger.predict_proba([x], **arguments)
    assert [labels[k] for k in viterbi(marginals, table)[0]] == list("aazee")


def test_ties():
    tagger, X = scored(BIO, 0)
    for name in ("coef_", "start_", "end_", "transitions_"):
        setattr(tagger, name, np.zeros_like(getattr(tagger, name)))
    for x, row in zip(X, tagger.predict(X), strict=True):
        assert row.tolist() == ["B-X"] * len(x)
    # the last label comes first: of O I and I O, that with I at the end
    pairs = [("I-X", "I-X"), ("O", "O")]
    arguments = {"excluded": [[["B-X"]] * 2], "forbidden_transitions": pairs}
    (found,) = tagger.predict([X[4]], **arguments)
    assert found.tolist() == ["O", "I-X"]


@pytest.mark.parametrize(
    "parameters",
    [{"order": 2}, {"transition_features": [0, 1]}, {"order": 2, "n_jobs": 2}],
    ids=str,
)
def test_other_chains(parameters):
    """Their marginals have tests; labelings follow from them."""
    rng = np.random.RandomState(0)
    y = [rng.choice(BIO, size=n).tolist() for n in (4, 1, 5, 3, 2, 6)]
    X = [rng.normal(size=(len(row), 3)) for row in y]
    tagger = ChainCRF(1e-3, loss="log", risk="hamming", **parameters).fit(X, y)
    X.append(np.zeros((0, 3)))
    for row, p in zip(tagger.predict(X), tagger.predict_proba(X), strict=True):
        assert row.tolist() == tagger.classes_[p.argmax(axis=1)].tolist()
    pairs = scheme_transitions(BIO, "bio")
    found = tagger.predict(X, forbidden_transitions=pairs)
    proba = tagger.predict_proba(X, forbidden_transitions=pairs)
    for row, p in zip(found, proba, strict=True):
        best = max(
            sum(p[t, k] for t, k in enumerate(codes))
            for codes in itertools.product(range(3), repeat=len(row))
            if is_allowed([BIO[k] for k in codes], pairs)
        )
        assert is_allowed(row, pairs)
        right = sum(p[t, BIO.index(label)] for t, label in enumerate(row))
        assert right == pytest.approx(best)


def is_allowed(labels, pairs):
    return not set(itertools.pairwise([None, *labels, None])) & set(pairs)


def test_missing_labels():
    rng = np.random.RandomState(0)
    y = [[[None, "a", {"a", "b"}, "c"][k] for k in rng.permutation(4)] for _ in "12345"]
    X = [rng.normal(size=(4, 2)) for _ in y]
    tagger = ChainCRF(0.1, loss="log", risk="hamming").fit(X, y)
    found = tagger.predict(np.array(X))
    assert found.shape == (5, 4)
    best = np.array(tagger.predict_proba(X)).argmax(axis=2)
    assert (found == tagger.classes_[best]).all()


def test_no_probabilities():
    X, y = [np.eye(2)] * 3, [["a", "b"]] * 3
    with pytest.raises(NotFittedError):
        ChainCRF(risk="hamming").predict(X)
    with pytest.raises(ValueError, match="'risk' parameter"):
        ChainCRF(risk="f1").fit(X, y)
    tagger = ChainCRF(risk="hamming", random_state=0).fit(X, y)
    for ask in (tagger.predict, lambda X: tagger.score(X, y)):
        with pytest.raises(ValueError, match=r"risk='hamming' needs.*CalibratedTagger"):
            ask(X)
    # what was fitted counts
    assert tagger.set_params(risk="sequence", loss="log").score(X, y) == 1.0
    with pytest.raises(ValueError, match="has loss='hinge'"):
        tagger.set_params(risk="hamming").predict(X)
    with pytest.raises(ValueError, match=r"risk must be .*'f1'"):
        tagger.set_params(risk="f1").predict(X)


def test_constraints_that_leave_nothing():
    tagger, X = scored(BIO, 0)
    with pytest.raises(ValueError, match=r"X\[3\]: the constraints leave no"):
        tagger.predict(X, excluded=[None] * 3 + [[None, BIO, None], None])


def test_temperature():
    """The more certain the probabilities, the nearer is the best labeling."""
    rng = np.random.RandomState(1)
    y = [rng.choice(list("abc"), size=4).tolist() for _ in range(60)]
    X = [np.eye(3)[np.searchsorted(list("abc"), row)] for row in y]
    X = [x + rng.normal(size=x.shape) for x in X]
    tagger = CalibratedTagger(ChainCRF(risk="hamming", random_state=0), cv=3)
    tagger.fit(X, y)
    proba = np.array(tagger.predict_proba(X))
    found = np.array(tagger.predict(X).tolist())
    assert (found == tagger.classes_[proba.argmax(axis=2)]).all()
    assert tagger.score(X, y) == np.mean(found == np.array(y))
    tagger.estimator_._temperature = 1e-3
    best = tagger.estimator_.set_params(risk="sequence").predict(X)
    sharp = tagger.estimator_.set_params(risk="hamming").predict(X)
    assert np.array_equal(best.tolist(), sharp.tolist())


def test_in_scikit_learn(tmp_path):
    rng = np.random.RandomState(0)
    y = [rng.choice(BIO, size=5).tolist() for _ in range(30)]
    X = [[{"w": label, "n": str(rng.randint(3))} for label in row] for row in y]
    for row in X:
        row[rng.randint(5)]["w"] = "?"
    tagger = make_tagger(loss="log", risk="hamming").fit(X, y)
    assert clone(tagger).get_params()["chaincrf__risk"] == "hamming"
    found = tagger.predict(X)
    accuracy = np.mean(np.concatenate(found) == np.concatenate(y))
    assert tagger.score(X, y) == pytest.approx(accuracy)
    for row, entities in zip(found, tagger.predict_entities(X), strict=True):
        spans = [(start, stop, kind) for start, stop, kind, _ in entities]
        chunks = [(start, stop, kind) for kind, start, stop in iter_chunks(row)]
        assert spans == chunks
    tagger.to_json(tmp_path / "tagger.json")
    for other in (
        pickle.loads(pickle.dumps(tagger)),
        Tagger.from_json(tmp_path / "tagger.json"),
    ):
        assert other[-1].risk == "hamming"
        assert [a.tolist() for a in other.predict(X)] == [a.tolist() for a in found]
    grid = {"chaincrf__risk": ["sequence", "hamming"]}
    search = GridSearchCV(tagger, grid, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
