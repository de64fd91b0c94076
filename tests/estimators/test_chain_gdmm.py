"""Taggers whose transitions are sparse."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, ssvm_path
from sksstruct.models.chain import chain
from sksstruct.models.chain._factors import ChainFactors
from sksstruct.solvers import BCFW, GDMM
from sksstruct.solvers.dual_decomposition._state import GDMMState
from sksstruct.utils._layout import padded_length
from sksstruct.utils.packed import PackedSequences

SOLVER = GDMM(3000, 3e-5, check_every=50)


def data(seed=0, kind=np.float64):
    rng = np.random.RandomState(seed)
    X = [rng.standard_normal((rng.randint(1, 6), 3)).astype(kind) for _ in range(15)]
    y = [np.array(list("abcd"))[rng.randint(4, size=len(x))] for x in X]
    return X, y


@pytest.mark.slow
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


FORBIDDEN = [*[p for p in zip("abcd", "cadb", strict=True)], (None, "c"), ("d", None)]
FORBIDDEN += [("a", "d"), ("c", "c")]


def obedient(seed=0, hidden=0.0):
    """Labels without the forbidden transitions, some of them not observed."""
    rng = np.random.RandomState(seed)
    X, _ = data(seed)
    y = []
    for x in X:
        labels = [None]
        while len(labels) <= len(x):
            new = "abcd"[rng.randint(4)]
            last = len(labels) == len(x) and new == "d"
            if (labels[-1], new) not in FORBIDDEN and not last:
                labels.append(new)
        y.append([None if rng.rand() < hidden else label for label in labels[1:]])
        # every sequence has a label, and all are met
        y[-1][0] = labels[1]
    return X, y


@pytest.fixture(params=["table", "sparse"])
def form(request, monkeypatch):
    """The form that transitions have for other solvers."""
    if request.param == "sparse":
        monkeypatch.setattr(chain, "sparse_pays", lambda *sizes: True)
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("update", ["bcfw", "bgcd", "afw"])
@pytest.mark.parametrize(
    ("boundary", "form"), [(True, "table"), (False, "sparse")], indirect=["form"]
)
def test_forbidden_transitions(boundary, update, form):
    """The optimum is that of the exact oracle, and every dual value below it."""
    X, y = obedient()
    options = {"forbidden_transitions": FORBIDDEN, "boundary": boundary}
    options |= {"alpha": 0.05, "random_state": 0}
    tol = 1e-2 if update == "afw" else 1e-4
    solver = GDMM(5000, tol, update=update, check_every=50)
    first = ChainCRF(solver=solver, **options).fit(X, y)
    second = ChainCRF(tol=3e-5, max_iter=3000, **options).fit(X, y)
    free = clone(second).set_params(forbidden_transitions=None).fit(X, y)
    # the constraints matter
    assert second.objective_ < free.objective_ - free.dual_gap_ - 0.01
    assert first.dual_gap_ < 1.01 * tol
    assert first.objective_ <= second.objective_ + first.dual_gap_
    assert first.objective_ >= second.objective_ - second.dual_gap_ - 1e-9
    # also where distributions of pairs and of variables are far from each other
    early = GDMM(60, 0.0, update=update, check_every=1)
    with pytest.warns(ConvergenceWarning):
        tagger = ChainCRF(solver=early, **options).fit(X, y)
    assert (tagger.history_["dual"] <= second.objective_ + 1e-9).all()
    assert tagger.history_["dual"].max() > 0.01 * second.objective_
    for labels in first.predict(X):
        pairs = zip([None, *labels], [*labels, None], strict=True)
        assert not set(pairs) & set(FORBIDDEN)


def test_forbidden_transitions_of_many_labels():
    """The objective by sparse and by whole tables is the same."""
    rng = np.random.RandomState(0)
    X = [rng.standard_normal((4, 3)) for _ in range(5)]
    lengths, y = np.full(5, 4), np.arange(20, dtype=np.int32)
    # every pair of labels that were seen but for those of neighbors
    rows, columns = (a.ravel().astype(np.int32) for a in np.indices((20, 20)))
    allowed = (columns == rows + 1) & (rows % 4 < 3)
    forbidden = rows[~allowed], columns[~allowed]
    values = []
    for n_labels in (20, 501):
        ld = padded_length(n_labels)
        ends = np.zeros((2, ld))
        ends[0, 1:4] = ends[1, 0] = -np.inf
        # labels that are not allowed anywhere change nothing
        ends[:, 20:n_labels] = -np.inf
        both = forbidden
        if n_labels > 20:
            more = np.indices((n_labels, n_labels)).reshape(2, -1).astype(np.int32)
            more = more[:, more.max(axis=0) >= 20]
            both = [np.append(a, b) for a, b in zip(forbidden, more, strict=True)]
        factors = ChainFactors(
            PackedSequences.from_lengths(np.concatenate(X), lengths),
            n_labels,
            y,
            forbidden=tuple(both),
            ends=ends,
            loss_length=4.0,
        )
        state = GDMMState(factors, 0.05, 10.0)
        for _ in range(5):
            state.visit(np.arange(5), -np.ones(20), False)
            state.update(1.0)
        weights = factors.weights()
        values.append((factors.maxima(weights), weights @ weights))
    np.testing.assert_allclose(*values)


@pytest.mark.slow
@pytest.mark.parametrize("forbidden", [None, FORBIDDEN], ids=["free", "forbidden"])
def test_labels_that_were_not_observed(forbidden, form):
    """Rounds of completing and training end where they do with the exact oracle."""
    X, y = obedient(hidden=0.4)
    options = {"alpha": 0.05, "random_state": 0, "forbidden_transitions": forbidden}
    solver = GDMM(3000, 3e-5, check_every=50)
    first = ChainCRF(solver=solver, **options).fit(X, y)
    second = ChainCRF(tol=1e-4, max_iter=3000, **options).fit(X, y)
    assert first.dual_gap_ == np.inf
    assert first.objective_ == pytest.approx(second.objective_, abs=2e-4)
    np.testing.assert_allclose(first.coef_, second.coef_, atol=0.05)
    table = first.transitions_
    other = second.transitions_
    if form == "sparse":
        other = other.toarray()
    np.testing.assert_allclose(table.toarray(), other, atol=0.05)


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


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
def test_warm_start_of_what_does_not_fit():
    X, y = data()
    tagger = ChainCRF(0.05, solver=SOLVER, warm_start=True, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="training starts from zero"):
        tagger.fit(X[:-1], y[:-1])
    cold = clone(tagger).fit(X[:-1], y[:-1])
    np.testing.assert_array_equal(tagger.coef_, cold.coef_)
    tagger.set_params(solver="soft_bcfw")
    with pytest.warns(UserWarning, match="training starts from zero"):
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


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["last label", "several"])
def test_dual_values_of_away_steps_are_bounds(problem):
    """Away-steps leave rounding errors at labels that must not end a sequence."""
    X, y = [[[0.4], [1.0], [0.2], [1.2]]], [[1, 1, 1, 0]]
    alpha, forbidden = 0.44, [(0, 0), (1, None)]
    if problem == "several":
        X = [[[-0.2], [-0.2]], [[0.9], [-1.0], [0.6], [0.2]]]
        y, alpha = [[1, 1], [0, 0, 2, 1]], 0.45
        forbidden = [(0, 1), (0, None), (2, None), (None, 2)]
    common = {"alpha": alpha, "forbidden_transitions": forbidden, "random_state": 0}
    common["fit_intercept"] = False
    solver = GDMM(update="afw", tol=1e-5, max_iter=1000, check_every=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = ChainCRF(solver=solver, **common).fit(X, y)
    exact = ChainCRF(solver=BCFW(tol=1e-3), **common).fit(X, y)
    assert fitted.history_["dual"].max() <= exact.objective_ * (1 + 1e-9)


def test_warm_starts_of_the_greedy_update():
    """Factors that have moved are visited again, though none seems worth adding."""
    X, y = [[[1.0]], [[0.5]]], [[0], [1]]
    solver = GDMM(2000, 1e-3, update="bgcd")
    tagger = ChainCRF(solver=solver, boundary=False, random_state=0)
    path = ssvm_path(tagger, X, y, method="grid", alphas=[1, 0.1])
    assert path.gaps.max() <= 1e-3
