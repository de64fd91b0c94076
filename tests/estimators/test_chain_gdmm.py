"""Taggers whose transitions are sparse."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.solvers import GDMM

SOLVER = GDMM(3000, 3e-5, check_every=50)


def data(seed=0, kind=np.float64):
    rng = np.random.RandomState(seed)
    X = [rng.standard_normal((rng.randint(1, 6), 3)).astype(kind) for _ in range(15)]
    y = [np.array(list("abcd"))[rng.randint(4, size=len(x))] for x in X]
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"boundary": False},
        {"fit_intercept": False},
        {"class_weight": {"a": 2.0, "b": 0.5}},
        {"kind": np.float32},
        {"sparse": True},
        {"weight": True},
    ],
    ids=str,
)
def test_the_optimum_is_that_of_other_solvers(options):
    options = dict(options)
    X, y = data(kind=options.pop("kind", np.float64))
    if options.pop("sparse", False):
        X = [sparse.csr_array(np.where(x > 0, x, 0)) for x in X]
    weight = np.arange(15) % 3 if options.pop("weight", False) else None
    first = ChainCRF(0.05, solver=SOLVER, random_state=0, **options)
    second = ChainCRF(0.05, tol=3e-4, random_state=0, max_iter=3000, **options)
    first.fit(X, y, weight)
    second.fit(X, y, weight)
    assert sparse.issparse(first.transitions_)
    assert first.objective_ - first.dual_gap_ <= second.objective_ + 1e-9
    assert first.objective_ >= second.objective_ - second.dual_gap_ - 1e-9
    assert first.dual_gap_ < 2e-4
    np.testing.assert_allclose(first.coef_, second.coef_, atol=0.05)
    if options.get("boundary") is False:
        assert not first.start_.any() and not first.end_.any()
    if options.get("fit_intercept") is False:
        assert not first.intercept_.any()


def test_predictions_are_those_of_the_whole_table():
    X, y = data()
    tagger = ChainCRF(0.05, solver=SOLVER, random_state=0).fit(X, y)
    dense = clone(tagger)
    dense.__dict__.update(tagger.__dict__)
    dense.transitions_ = tagger.transitions_.toarray()
    known = [["b"] + [None] * (len(x) - 1) for x in X]
    excluded = [[["a", "c"]] + [None] * (len(x) - 1) for x in X]
    forbidden = [("a", "b"), (None, "c"), ("d", None)]
    for constraints in (
        {},
        {"known": known},
        {"excluded": excluded},
        {"forbidden_transitions": forbidden},
    ):
        found, expected = (t.predict(X, **constraints) for t in (tagger, dense))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    labelings, scores = tagger.predict_topk(X, 3)
    best = tagger.decision_function(X)
    np.testing.assert_allclose([row[0] for row in scores], best)
    for row, labels in zip(labelings, tagger.predict(X), strict=True):
        np.testing.assert_array_equal(row[0], labels)
    assert tagger.score(X, y) == dense.score(X, y)
    again = pickle.loads(pickle.dumps(tagger))
    np.testing.assert_array_equal(again.decision_function(X), best)
    table = tagger.transitions_.toarray()
    names = tagger.classes_.tolist()
    for (a, b), value in tagger.transition_features_.items():
        assert table[names.index(a), names.index(b)] == value
    with pytest.raises(ValueError, match="leave no labeling"):
        tagger.predict(X[:1], excluded=[[list("abcd")] + [None] * (len(X[0]) - 1)])


def test_streams_go_on():
    X, y = data()
    tagger = ChainCRF(0.05, solver=SOLVER, random_state=0).fit(X, y)
    tagger.set_params(solver="bcfw").partial_fit(X, y)
    assert isinstance(tagger.transitions_, np.ndarray)
    assert len(tagger.predict(X)) == len(X)


@pytest.mark.parametrize("change", ["nothing", "alpha", "features", "labels"])
def test_warm_start(change):
    """It goes on from distributions and multipliers, and ends at the same optimum."""
    X, y = data()
    options = {"solver": GDMM(3000, 3e-5, check_every=10), "random_state": 0}
    tagger = ChainCRF(0.05, warm_start=True, **options).fit(X, y)
    first = tagger.objective_, tagger.n_iter_
    if change == "alpha":
        tagger.set_params(alpha=0.04)
    elif change == "features":
        X = [x + 0.01 * np.cos(x) for x in X]
    elif change == "labels":
        y = [y[0][::-1], *y[1:]]
    tagger.fit(X, y)
    if change == "nothing":
        # summed in another order
        assert tagger.n_iter_ <= 10
        assert tagger.objective_ == pytest.approx(first[0], rel=1e-4)
        return
    cold = ChainCRF(tagger.alpha, **options).fit(X, y)
    assert tagger.n_iter_ < cold.n_iter_
    if change == "features":
        # they are feasible for any features, and nearly as good
        assert tagger.history_["dual"][0] > 0.95 * cold.objective_
    certificates = tagger.dual_gap_, cold.dual_gap_
    assert max(certificates) < 2e-4
    assert tagger.objective_ == pytest.approx(cold.objective_, abs=max(certificates))


def test_warm_start_of_what_does_not_fit():
    X, y = data()
    tagger = ChainCRF(0.05, solver=SOLVER, warm_start=True, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="starting afresh"):
        tagger.fit(X[:-1], y[:-1])
    cold = clone(tagger).fit(X[:-1], y[:-1])
    np.testing.assert_array_equal(tagger.coef_, cold.coef_)
    tagger.set_params(solver="soft_bcfw")
    with pytest.warns(UserWarning, match="starting afresh"):
        tagger.fit(X[:-1], y[:-1])


def test_weights_of_a_restarted_run_are_those_of_its_distributions():
    """Also where multipliers and distributions are far from the optimum."""
    X, y = data()
    options = {"alpha": 0.05, "random_state": 0, "warm_start": True}
    tagger = ChainCRF(solver=GDMM(4, 0.0, check_every=1), **options)
    with pytest.warns(ConvergenceWarning):
        tagger.fit(X, y)
    last = tagger.history_["dual"][-1]
    # nothing but the start is evaluated
    tagger.set_params(solver=GDMM(1, 1e9))
    tagger.fit(X, y)
    assert tagger.n_iter_ == 0
    assert last == pytest.approx(tagger.history_["dual"][0], rel=1e-9)
