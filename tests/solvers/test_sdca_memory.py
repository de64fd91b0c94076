"""Dual variables of SDCA in single precision, and means that are not kept."""

import pickle
import warnings

import numpy as np
import pytest
from reference import Chain
from scipy.special import logsumexp, softmax
from scipy.stats import entropy

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import GraphModel
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.protocols import _entropy_dual
from sksstruct.models.protocols._weights import Weights
from sksstruct.models.roles import entropy_dual
from sksstruct.solvers import LBFGS, SDCA
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.stochastic.dual_ascent import DualAscentKernel
from sksstruct.solvers.stochastic.sdca import Ascent
from sksstruct.utils.packed import PackedSequences


def problem(sizes, n_labels=3, seed=0, scale=1.0):
    """Inputs and labels that depend on them."""
    rng = np.random.RandomState(seed)
    y = [rng.randint(n_labels, size=size) for size in sizes]
    X = [scale * (np.eye(n_labels)[row] + rng.normal(size=(len(row), n_labels)))
         for row in y]  # fmt: skip
    return X, y


def bound(X, y, n_labels):
    packed = PackedSequences.from_lengths(np.vstack(X), [len(x) for x in X])
    labels = np.concatenate(y).astype(np.int32)
    model = BoundChain(packed, n_labels, labels, None, np.zeros(n_labels))
    model.surrogate = SmoothedHinge("entropy", 1.0, 1)
    return model


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_the_dual_is_that_of_the_rounded_parameters(scale):
    """Weights, entropies and the dual follow from what is kept, to double precision."""
    alpha = 0.01
    X, y = problem([4, 1, 3, 5, 2], scale=scale)
    model = bound(X, y, 3)
    run = Ascent(SDCA(20, 0.0), model, alpha, Options(random_state=0))
    run.look()
    for number in range(1, 9):
        run.loop.n_iter = number
        run.one_pass()
    assert run.dual.natural.dtype == np.float32
    assert run.dual.begun.all()
    ld, first = model.ld, 0
    chain = Chain(X, y, 3, costs=np.zeros(3), length=None)
    v = entropies = 0.0
    for i, row in enumerate(y):
        rows = run.dual.natural[first : first + (len(row) + 3) * ld].astype(float)
        first += (len(row) + 3) * ld
        rows = rows.reshape(-1, ld)[:, :3]
        nodes, pairs = rows[: len(row)], rows[len(row) :]
        labelings = np.stack(
            np.meshgrid(*[range(3)] * len(row), indexing="ij"), -1
        ).reshape(-1, len(row))
        scores = nodes[np.arange(len(row)), labelings].sum(axis=1)
        scores += pairs[labelings[:, :-1], labelings[:, 1:]].sum(axis=1)
        shares = softmax(scores)
        assert run.dual.entropies[i] == pytest.approx(entropy(shares), abs=1e-11)
        features = np.array([chain.feature_map(i, each) for each in labelings])
        v += chain.p[i] / alpha * (chain.feature_map(i, row) - shares @ features)
        entropies += chain.p[i] * entropy(shares)
    views = model.views(run.own_weights())
    names = ("coef", "intercept", "start", "end", "transitions")
    w = np.concatenate([np.ravel(views[name]) for name in names])
    np.testing.assert_allclose(w, v, rtol=0, atol=1e-10 * np.abs(v).max())
    dual = entropies - alpha / 2 * v @ v
    assert run.dual_value() == pytest.approx(dual, rel=1e-10)
    primal = alpha / 2 * v @ v
    for i, row in enumerate(y):
        scores = chain.enumerate(i, v)[1]
        primal += chain.p[i] * (logsumexp(scores) - v @ chain.feature_map(i, row))
    assert dual <= primal


def chains(**parameters):
    rng = np.random.RandomState(1)
    X, y = problem(rng.randint(1, 9, size=30))
    tagger = ChainCRF(
        0.02, loss="log", solver=SDCA(12, 0.0), random_state=0, **parameters
    )
    return tagger, X, y


def paths():
    _, X, y = chains()
    edges = [np.stack([np.arange(len(k) - 1), np.arange(1, len(k))], 1) for k in y]
    classifier = SSVMClassifier(
        GraphModel(), alpha=0.02, loss="log", solver=SDCA(12, 0.0), random_state=0
    )
    return classifier, list(zip(X, edges, strict=True)), y


@pytest.mark.parametrize(
    "make",
    [
        chains,
        lambda: chains(l1_ratio=0.3),
        lambda: chains(transition_features=[0, 1]),
        lambda: chains(order=2),
        lambda: chains(forbidden_transitions=[(0, 0)]),
        lambda: chains(n_jobs=2),
        paths,
    ],
    ids=["chains", "l1", "pairs", "triples", "forbidden", "jobs", "paths"],
)
@pytest.mark.parametrize("limit", ["KEPT_BYTES", "MOST_KEPT"])
def test_means_are_found_again_bit_for_bit(monkeypatch, make, limit):
    """Whether they are kept decides on time and memory only."""
    model, X, y = make()
    if "forbidden_transitions" in model.get_params() and model.forbidden_transitions:
        y = [np.arange(len(row)) % 3 for row in y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = model.fit(X, y).history_
        # room for some examples, or for none
        monkeypatch.setattr(_entropy_dual, limit, 3000 if limit == "KEPT_BYTES" else 1)
        found = model.fit(X, y).history_
    for name in ("primal", "dual"):
        np.testing.assert_array_equal(found[name], kept[name])


@pytest.mark.parametrize(
    ("n_labels", "sizes", "n_kept"),
    [(3, [4] * 10, 40 * 4 + 30 * 4), (50, [6] * 10, 560 * 56), (100, [6] * 4, 0)],
)
def test_bytes_of_dual_variables(n_labels, sizes, n_kept):
    """Four for each score, and eight for each mean where there are few."""
    X, y = problem(sizes, n_labels)
    model = bound(X, y, n_labels)
    rows = sum(sizes) + n_labels * len(sizes)
    assert model.entropy_dual_size == rows * model.ld
    assert model.entropy_dual_bytes == 4 * rows * model.ld + 8 * n_kept
    dual = entropy_dual(model, model.surrogate)
    assert dual.natural.nbytes == 4 * rows * model.ld
    state = dual.state()
    assert len(pickle.dumps(state)) < 4 * rows * model.ld + 10_000


@pytest.mark.parametrize(
    ("sizes", "parameters"),
    [
        ([300, 2, 1, 40], {}),
        ([6] * 20, {"alpha": 1e-3}),
        ([3] * 15, {"forbidden_transitions": [(0, 2), (1, 0), (None, 2)]}),
        ([4] * 12, {"loss": "smoothed_hinge"}),
        ([5] * 10, {"scale": 100.0}),
        ([1] * 12, {}),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gap_is_true(sizes, parameters, seed):
    """The optimum is between both bounds, which meet as closely as they should."""
    options = {"alpha": 0.05, "loss": "log", **parameters}
    X, y = problem(sizes, seed=seed, scale=options.pop("scale", 1.0))
    if "forbidden_transitions" in options:
        y = [np.zeros_like(row) for row in y]
        y[0][:] = 1
    weight = np.ones(len(X))
    weight[-1] = 0.0
    other = ChainCRF(solver=LBFGS(5000, 1e-9), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = other.fit(X, y, weight).objective_
        for tol in (1e-1, 1e-3, 1e-6):
            tagger = ChainCRF(
                solver=SDCA(5000, tol), random_state=seed, **options
            ).fit(X, y, weight)  # fmt: skip
            assert tagger.dual_gap_ <= tol * tagger.objective_
            lower = tagger.objective_ - tagger.dual_gap_
            assert lower <= best * (1 + 1e-9)
            assert tagger.objective_ >= best * (1 - 1e-6)


def test_many_labels():
    """No means are kept, and the gap gets as small as with few labels."""
    X, y = problem([4] * 30, n_labels=100)
    tagger = ChainCRF(0.1, loss="log", solver=SDCA(200, 1e-6), random_state=0)
    other = ChainCRF(0.1, loss="log", solver=LBFGS(2000, 1e-8)).fit(X, y)
    tagger.fit(X, y)
    assert tagger.dual_gap_ <= 1e-6 * tagger.objective_
    assert tagger.objective_ == pytest.approx(other.objective_, rel=2e-6)


@pytest.mark.parametrize("limit", [0, 2**26])
def test_a_copy_goes_on_with_the_same_bits(monkeypatch, limit):
    monkeypatch.setattr(_entropy_dual, "KEPT_BYTES", limit)
    tagger, X, y = chains(warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twin = pickle.loads(pickle.dumps(tagger.fit(X, y)))
        before = tagger.dual_gap_
        np.testing.assert_array_equal(tagger.fit(X, y).coef_, twin.fit(X, y).coef_)
    assert tagger.dual_gap_ < before


def test_states_of_another_form_are_refused():
    """Such as those of natural parameters and means in double precision."""
    tagger, X, y = chains(warm_start=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = tagger.fit(X, y)._warm[1]["entropy_dual"]
        natural = state.pop("natural")
        with pytest.raises(ValueError, match="dual variables: it lacks natural"):
            tagger.fit(X, y)
        state["natural"] = natural.astype(float)
        with pytest.raises(ValueError, match="natural must be float32"):
            tagger.fit(X, y)


def test_scores_beyond_single_precision():
    """The largest numbers stand for them, as what is infinite stays so."""
    X, y = problem([3] * 6)
    model = bound(X, y, 3)
    dual = entropy_dual(model, model.surrogate)
    weights = Weights(model.n_weights)
    weights.set(1e40 * np.random.RandomState(0).normal(size=model.n_weights))
    DualAscentKernel(dual, weights, 1e90).visit_in_order(np.arange(6))
    assert dual.begun.any()
    assert np.isfinite(dual.natural).all()
    assert np.abs(dual.natural).max() == np.finfo(np.float32).max
    assert np.isfinite(dual.entropies).all()
