"""Taggers with many labels, whose weights of pairs exist where they were met, against
the same with a table of all pairs."""

import pickle
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, ssvm_path
from sksstruct.estimators._callbacks import PassCallbacks
from sksstruct.inference.chains._pair_index import PairIndex
from sksstruct.models.chain import chain as chain_module
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._sparse_training import SparseBoundChain
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers import BCFW, BMRM, SSG, CuttingPlane, FrankWolfe
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

LABELS = np.array(list("abcdef"))


def use_sparse(monkeypatch, yes):
    """Keep transitions where they have a weight, or a table, whatever is faster."""
    monkeypatch.setattr(chain_module, "sparse_pays", lambda *numbers: yes)


@pytest.fixture
def few(monkeypatch):
    """Few labels are many."""
    use_sparse(monkeypatch, True)


def data(seed=0, n=20, n_features=4, longest=9, kind=np.float64):
    rng = np.random.RandomState(seed)
    X = [rng.standard_normal((rng.randint(1, longest), n_features)) for _ in range(n)]
    y = [LABELS[rng.randint(len(LABELS), size=len(x))] for x in X]
    return [x.astype(kind) for x in X], y


def both(monkeypatch, make, X, y, weight=None):
    """The same tagger fitted with sparse transitions, and with a table."""
    found = []
    for yes in (True, False):
        use_sparse(monkeypatch, yes)
        found.append(make().fit(X, y, weight))
    assert sparse.issparse(found[0].transitions_)
    assert not sparse.issparse(found[1].transitions_)
    return found


def assert_same(one, other, atol=1e-9):
    assert one.objective_ == pytest.approx(other.objective_, abs=atol)
    assert one.dual_gap_ == pytest.approx(other.dual_gap_, abs=atol)
    for name in ("coef_", "intercept_", "start_", "end_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=atol)
    np.testing.assert_allclose(
        one.transitions_.toarray(), other.transitions_, atol=atol
    )


OPTIONS = [
    {},
    {"boundary": False},
    {"fit_intercept": False},
    {"class_weight": {"a": 2.0, "b": 0.5}},
    {"class_weight": "balanced"},
    {"loss_normalization": "sequence"},
    {"kind": np.float32},
    {"sparse": True},
    {"weight": True},
    {"no_gram": True},
    {"forbidden_transitions": [("a", "b"), (None, "c"), ("d", None), ("e", "e")]},
]


def problem(options):
    """Data, sample weights and parameters of a tagger."""
    options = dict(options)
    no_gram = options.pop("no_gram", False)
    shape = {"n_features": 1, "longest": 60, "n": 6} if no_gram else {}
    X, y = data(kind=options.pop("kind", np.float64), **shape)
    if options.pop("sparse", False):
        X = [sparse.csr_array(np.where(x > 0, x, 0)) for x in X]
    weight = np.arange(len(X)) % 3 if options.pop("weight", False) else None
    if "forbidden_transitions" in options:
        y = [np.array(["f"] * len(labels)) for labels in y]
        y[0] = np.array((list("abcdef") * 2)[1 : 1 + len(y[0])])
        for labels in y[1:6]:
            labels[: len(labels) // 2] = "a"
        y[1:3] = [
            np.array(["b", "d", "a", "c"] * 3)[: len(labels)] for labels in y[1:3]
        ]
        # nothing that is observed is forbidden
        for labels in y:
            labels[labels == "b"] = "f"
            labels[0] = "a" if labels[0] == "c" else labels[0]
            labels[-1] = "f" if labels[-1] == "d" else labels[-1]
            labels[1:][(labels[1:] == "e") & (labels[:-1] == "e")] = "f"
        y[7][0] = "b"
    return X, y, weight, options


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_plain_steps_are_the_same(options, monkeypatch):
    X, y, weight, options = problem(options)
    solver = BCFW.as_published(step="fw", max_iter=15, tol=0.0, check_every=5)
    make = partial(ChainCRF, 0.05, solver=solver, random_state=0, **options)
    with pytest.warns(match="did not converge"):
        one, other = both(monkeypatch, make, X, y, weight)
    assert_same(one, other)
    assert 0 < one.dual_gap_ < 2
    for a, b in zip(one.predict(X), other.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "options", [each for each in OPTIONS if "no_gram" not in each], ids=str
)
def test_the_optimum_is_the_same(options, monkeypatch):
    X, y, weight, options = problem(options)
    make = partial(ChainCRF, 0.3, tol=1e-3, random_state=0, **options)
    one, other = both(monkeypatch, make, X, y, weight)
    assert one.objective_ - one.dual_gap_ <= other.objective_ + 1e-9
    assert other.objective_ - other.dual_gap_ <= one.objective_ + 1e-9
    # the objective is strongly convex
    near = sum(np.sqrt(2 * tagger.dual_gap_ / 0.3) for tagger in (one, other))
    difference = np.linalg.norm(one.coef_ - other.coef_)
    assert difference <= near
    assert np.linalg.norm(one.transitions_.toarray() - other.transitions_) <= near
    if options.get("boundary") is False:
        assert not one.start_.any() and not one.end_.any()
    if options.get("fit_intercept") is False:
        assert not one.intercept_.any()


@pytest.mark.parametrize(
    "solver",
    [
        BCFW.as_published(step="away", max_iter=5, tol=0.0, sampling="permutation"),
        BCFW.as_published(
            bounds={"transitions": (-0.1, 0.0), "coef": (None, 0.2)}, max_iter=5
        ),
        SSG(max_iter=5, tol=0.0),
        FrankWolfe(max_iter=10, tol=0.0),
        BMRM(max_iter=10, tol=0.0),
    ],
    ids=lambda solver: type(solver).__name__,
)
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_solvers_with_the_max_oracle(solver, monkeypatch):
    X, y = data()
    make = partial(ChainCRF, 0.05, solver=solver, random_state=0)
    one, other = both(monkeypatch, make, X, y)
    assert_same(one, other, 1e-7)
    assert one.objective_ < 2.0


@pytest.mark.parametrize(
    "solver",
    [
        BCFW.as_published(step="pairwise", averaging=False, max_iter=500, tol=1e-4),
        BCFW.as_published(step="away", cache=True, max_iter=500, tol=1e-4),
        CuttingPlane(tol=1e-3),
    ],
    ids=["pairwise", "cache", "cutting_plane"],
)
def test_solvers_that_rounding_leads_elsewhere(solver, monkeypatch):
    X, y = data()
    make = partial(ChainCRF, 0.5, solver=solver, random_state=0)
    one, other = both(monkeypatch, make, X, y)
    assert one.dual_gap_ < 2e-3 and other.dual_gap_ < 2e-3
    assert one.objective_ - one.dual_gap_ <= other.objective_
    assert other.objective_ - other.dual_gap_ <= one.objective_


def test_bounds_that_most_pairs_cannot_keep(few):
    X, y = data()
    for bound in ((0.1, None), (None, -0.1), (np.zeros((6, 6)), None)):
        tagger = ChainCRF(0.05, solver=BCFW(bounds={"transitions": bound}))
        with pytest.raises(ValueError, match="bounds on transitions must be numbers"):
            tagger.fit(X, y)


@pytest.mark.parametrize("solver", ["casimir", "pragam"])
def test_solvers_with_other_oracles_keep_tables(solver, few):
    tagger = ChainCRF(0.05, solver=solver, tol=0.7, random_state=0).fit(*data())
    assert isinstance(tagger.transitions_, np.ndarray)


def test_other_losses_and_features_keep_tables(few):
    X, y = data()
    for options in ({"loss": "log"}, {"transition_features": [0]}):
        tagger = ChainCRF(0.05, tol=0.1, random_state=0, **options).fit(X, y)
        assert isinstance(tagger.transitions_, np.ndarray)


def test_the_choice():
    # where a pass takes less time, see the benchmarks
    pays = chain_module.sparse_pays
    assert pays(200, 4000, 0) and pays(10_000, 20_000, 100) and pays(130, 3657, 0)
    assert not pays(45, 1000, 0) and not pays(150, 13_500, 0)
    assert pays(3000, 10_000, 200_000) and not pays(200, 4000, 15_000)
    rng = np.random.RandomState(0)
    X = [rng.standard_normal((5, 3)) for _ in range(60)]
    y = [rng.randint(120, size=5) for _ in X]
    y += [np.arange(120)]
    X += [rng.standard_normal((120, 3))]
    tagger = ChainCRF(0.05, tol=0.1, random_state=0)
    assert sparse.issparse(tagger.fit(X, y).transitions_)
    # a table is as good where most of it is forbidden
    seen = {pair for row in y for pair in pairwise(row.tolist())}
    forbidden = [(a, b) for a in range(120) for b in range(120) if (a, b) not in seen]
    tagger.set_params(forbidden_transitions=forbidden)
    assert isinstance(tagger.fit(X, y).transitions_, np.ndarray)


def test_room_for_pairs_runs_out(monkeypatch):
    X, y = data()
    make = partial(ChainCRF, 0.05, tol=1e-3, random_state=0)
    one, other = both(monkeypatch, make, X, y)
    slots, bound = [], SparseBoundChain

    class Narrow(bound):
        def __new__(cls, *args, **kwargs):
            return bound.__new__(cls, *args, n_slots=2, **kwargs)

        def grow(self):
            slots.append(self.n_slots)
            super().grow()

    use_sparse(monkeypatch, True)
    monkeypatch.setattr(chain_module, "SparseBoundChain", Narrow)
    tagger = make().fit(X, y)
    assert slots == [8, 32]
    assert tagger.transitions_.nnz > 8
    # both are as close to the optimum as the tolerance says, by different passes
    assert_same(tagger, other, 2e-2)
    assert tagger.objective_ == pytest.approx(one.objective_, abs=1e-3)


def test_a_run_that_begins_again_reports_each_pass_once(few, monkeypatch):
    rng = np.random.RandomState(0)
    X = [rng.standard_normal((6, 4)) for _ in range(40)]
    y = [rng.randint(40, size=6) for _ in X]
    passes, bound, told = [], SparseBoundChain, PassCallbacks.__call__

    def noted(self, n_passes, weights):
        passes.append(n_passes)
        return told(self, n_passes, weights)

    def fitted(n_slots):
        """A tagger, and the number of passes before there was no more room."""
        passes.clear()
        begun = []

        class Narrow(bound):
            def __new__(cls, *args, **kwargs):
                return bound.__new__(cls, *args, n_slots=n_slots, **kwargs)

            def grow(self):
                begun.append(len(passes))
                super().grow()

        monkeypatch.setattr(chain_module, "SparseBoundChain", Narrow)
        tagger = ChainCRF(0.02, tol=0.0, max_iter=4, early_stopping=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return tagger.set_params(random_state=0).fit(X, y), begun

    monkeypatch.setattr(PassCallbacks, "__call__", noted)
    for n_slots in range(150, 1000, 25):
        tagger, begun = fitted(n_slots)
        assert len(tagger.validation_scores_) == tagger.n_iter_
        if begun and begun[-1] > 0:
            break
    else:
        pytest.fail("no run began again after its first pass")
    assert passes.count(1) == 2
    roomy, begun = fitted(5000)
    assert not begun
    np.testing.assert_allclose(tagger.validation_scores_, roomy.validation_scores_)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_estimator_checks(check, few):
    check(ChainCRF(alpha=0.1, random_state=0))


def test_unknown_labels(monkeypatch):
    X, y = data(longest=6)
    y = [[None if k % 3 == 1 else label for k, label in enumerate(row)] for row in y]
    # steps that are the same, as completions are all or nothing
    solver = BCFW.as_published(step="fw", sampling="permutation", max_iter=20, tol=0.01)
    for forbidden in ([], [("a", "a"), (None, "a"), ("b", None)]):
        for row in y:
            # what is observed must be allowed
            row[0] = "c" if forbidden else row[0]
            row[-1] = None if forbidden and row[-1] == "b" and len(row) > 1 else row[-1]
        make = partial(
            ChainCRF, 0.05, solver=solver, random_state=0,
            forbidden_transitions=forbidden,
        )  # fmt: skip
        with pytest.warns(match="did not converge"):
            one, other = both(monkeypatch, make, X, y)
        assert one.dual_gap_ == other.dual_gap_ == np.inf
        one.dual_gap_ = other.dual_gap_ = 0.0
        assert_same(one, other)


def test_unknown_labels_keep_what_is_forbidden(few):
    X, y = data(longest=6)
    y = [[None if k % 3 == 1 else label for k, label in enumerate(row)] for row in y]
    seen = {pair for row in y for pair in pairwise(row)}
    pairs = [(a, b) for a in LABELS for b in LABELS if (a, b) not in seen]
    pairs = [pair for pair in pairs if pair[0] == pair[1]]
    tagger = ChainCRF(0.05, random_state=0, forbidden_transitions=pairs).fit(X, y)
    assert len(pairs) > 3
    for labels in tagger.predict(X):
        assert not set(pairs) & set(pairwise(labels))
    bad = [("a", None)]
    y[0][-1] = "a"
    with pytest.raises(ValueError, match=r"y\[0\] ends with 'a'"):
        ChainCRF(0.05, forbidden_transitions=bad).fit(X, y)


def test_warm_start_pickle_and_threads(few):
    X, y = data()
    tagger = ChainCRF(0.05, tol=1e-3, random_state=0, warm_start=True).fit(X, y)
    copy = pickle.loads(pickle.dumps(tagger))
    for a, b in zip(tagger.predict(X), copy.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    again = clone(tagger).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(again.coef_, tagger.coef_)
    assert (again.transitions_ != tagger.transitions_).nnz == 0
    passes = tagger.n_iter_
    copy.fit(X, y)
    assert copy.n_iter_ < passes
    assert copy.dual_gap_ <= 1e-3


def test_a_stream_after_a_fit(few):
    X, y = data()
    tagger = ChainCRF(0.05, tol=1e-3, random_state=0).fit(X, y)
    score = tagger.score(X, y)
    tagger.partial_fit(X, y)
    assert isinstance(tagger.transitions_, np.ndarray)
    assert abs(tagger.score(X, y) - score) < 0.3


def test_early_stopping(few):
    X, y = data(n=40)
    tagger = ChainCRF(0.05, early_stopping=True, random_state=0).fit(X, y)
    assert sparse.issparse(tagger.transitions_)
    assert len(tagger.validation_scores_) == tagger.n_iter_


def test_the_path(monkeypatch):
    X, y = data()
    paths = []
    for yes in (True, False):
        use_sparse(monkeypatch, yes)
        estimator = ChainCRF(random_state=0)
        options = {"relative": False, "alpha_min": 0.02}
        paths.append(ssvm_path(estimator, X, y, epsilon=0.1, **options))
    one, other = paths
    assert one.alphas[0] == pytest.approx(other.alphas[0])
    tagger = one.estimator(0.05)
    assert sparse.issparse(tagger.transitions_)
    # both are within epsilon of the optimum
    difference = tagger.coef_ - other.estimator(0.05).coef_
    assert np.linalg.norm(difference) <= 2 * np.sqrt(2 * 0.1 / 0.05)
    assert tagger.coef_.any()


def test_interrupted(few):
    X, y = data()

    def stop(number, weights):
        weights()
        if number == 3:
            raise KeyboardInterrupt

    tagger = ChainCRF(0.05, tol=0.0, random_state=0)
    spec = tagger._model()
    spec.check()
    model = spec._bind(spec._read(X, y, None, tagger))
    result = BCFW(tol=0.0).solve(model, 0.05, random_state=0, callback=stop)
    assert result.n_iter == 3
    hinge = np.empty(model.n_examples)
    model.hinge(model.workspace(result.weights), 0, model.n_examples, hinge)
    primal = 0.025 * result.weights @ result.weights
    primal += model.example_weights @ hinge
    assert result.objective == pytest.approx(primal)


# ---- the oracle, and what it follows ----


def bound(rng, K, forbidden=()):
    """A sparse model and one with a table, of the same data."""
    lengths = rng.randint(1, 6, size=4)
    values = rng.randint(-2, 3, size=(lengths.sum(), 3)) / 2.0
    X = PackedSequences.from_lengths(values, lengths)
    labels = rng.randint(K, size=lengths.sum()).astype(np.int32)
    index = PairIndex(K)
    index.extend(*(np.array([p[k] for p in forbidden], dtype=np.int32) for k in (0, 1)))
    one = SparseBoundChain(
        X, K, labels=labels, loss_length=4.0, pair_index=index,
        n_forbidden=len(forbidden),
    )  # fmt: skip
    mask = np.zeros((2 + K, one.ld))
    for a, b in forbidden:
        mask[2 + a, b] = -np.inf
    other = BoundChain(
        X, K, labels=labels, loss_length=4.0, mask=mask if len(forbidden) else None
    )
    return one, other


def table_weights(one, other, w):
    """Flat weights of the model with a table."""
    out = np.zeros(other.n_weights)
    views = other.views(out)
    for name, block in one.views(w).items():
        views[name][...] = block.toarray() if sparse.issparse(block) else block
    return out


def decoded(model, workspace):
    """Labelings, hinge losses and losses of all examples."""
    n = model.n_examples
    found = (np.zeros(model.starts[n], dtype=np.int32), np.empty(n), np.empty(n))
    model.decode_all(workspace, 0, n, *found)
    return found


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5, 11]), st.booleans())
@settings(max_examples=60)
def test_oracle_with_ties(seed, K, forbids):
    rng = np.random.RandomState(seed)
    # observed labels must be allowed
    one, other = bound(rng, K)
    if forbids and K > 2:
        seen = set()
        for start, stop in pairwise(one.starts.tolist()):
            seen |= set(pairwise(one.labels[start:stop].tolist()))
        pairs = [(a, b) for a in range(K) for b in range(K) if (a, b) not in seen]
        rng = np.random.RandomState(seed)
        one, other = bound(rng, K, pairs[: len(pairs) // 3])
    w = np.zeros(one.n_weights)
    views = one.views(w)
    for name in ("coef", "intercept", "start", "end"):
        views[name][...] = rng.randint(-2, 3, size=views[name].shape) / 4.0
    n_forbidden, some = one.pair_index.n_pairs, rng.randint(K, size=(2, 3 * K))
    one.pair_index.extend(*some.astype(np.int32))
    n_pairs = one.pair_index.n_pairs
    scores = w[one.first_pair : one.first_pair + n_pairs]
    scores[n_forbidden:] = rng.randint(-3, 4, size=n_pairs - n_forbidden) / 4.0
    found = decoded(one, one.workspace(w, training=False))
    table = table_weights(one, other, w)
    expected = decoded(other, other.workspace(table, training=False))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_oracle_follows_changes(seed):
    rng = np.random.RandomState(seed)
    one, other = bound(rng, 7)
    weights = Weights(one.n_weights)
    workspace = one.workspace(weights.w)
    for _ in range(6):
        labelings = rng.randint(7, size=one.starts[-1]).astype(np.int32)
        # in quarters, so that the order of sums does not matter
        scale = rng.randint(-4, 5) / 2.0
        one.add_difference(workspace, labelings, scale, weights.w)
        found = decoded(one, workspace)
        table = table_weights(one, other, weights.w)
        expected = decoded(other, other.workspace(table, training=False))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b)
