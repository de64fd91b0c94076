"""Dual coordinate ascent: certificate, elastic net, and what it refuses."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Chain
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import entropy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SegmentCRF, make_tagger
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers import LBFGS, SDCA, SGD
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.stochastic.dual_ascent import DualAscentKernel, steepness
from sksstruct.solvers.stochastic.sdca import Ascent
from sksstruct.utils._free_memory import free_bytes
from sksstruct.utils.packed import PackedSequences


def problem(seed=0, n=6, n_labels=3, n_features=4):
    rng = np.random.RandomState(seed)
    y = [rng.randint(n_labels, size=size) for size in rng.randint(1, 5, size=n)]
    X = [rng.normal(size=(len(row), n_features)) for row in y]
    return X, y


def ascent(X, y, alpha, mu=1.0, l1=0.0, p=None, n_labels=3, support=None, **kwargs):
    """A run that has not begun, and the same objective in NumPy."""
    costs = np.zeros(n_labels) if mu == 1.0 else np.ones(n_labels)
    packed = PackedSequences.from_lengths(np.vstack(X), [len(x) for x in X])
    labels = np.concatenate(y).astype(np.int32)
    model = BoundChain(packed, n_labels, labels, p, costs, **kwargs)
    model.surrogate = SmoothedHinge("entropy", mu, 1)
    model.support = support
    options = Options(random_state=0, l1=l1)
    return Ascent(SDCA(50, 0.0), model, alpha, options), Chain(
        X, y, n_labels, p=p, costs=costs, length=None
    )


def all_scores(chain, i, w):
    """Every labeling of a sequence, and its loss-augmented score."""
    labelings, scores = chain.enumerate(i, w)
    wrong = labelings != chain.y[i]
    return labelings, scores + wrong @ chain.costs[chain.y[i]] / chain.lengths[i]


def smooth_objective(chain, w, alpha, mu, l1=0.0):
    total = alpha / 2 * w @ w + l1 * np.abs(w).sum()
    for i, row in enumerate(chain.y):
        scores = all_scores(chain, i, w)[1]
        true = w @ chain.feature_map(i, row)
        total += chain.p[i] * (mu * logsumexp(scores / mu) - true)
    return total


def flat(chain, model, w):
    """Weights of a bound chain in the order of the reference."""
    blocks = model.views(np.asarray(w))
    names = ("coef", "intercept", "start", "end", "transitions")
    return np.concatenate([np.ravel(blocks[name]) for name in names])


@pytest.mark.parametrize("sampling", ["gap", "permutation"])
@pytest.mark.parametrize("mu", [1.0, 0.3])
@pytest.mark.parametrize("l1", [0.0, 0.02])
def test_certificate_at_every_pass(sampling, mu, l1):
    """The primal is NumPy's, the dual rises, and is never above the primal."""
    X, y = problem()
    p = np.array([0.1, 0.3, 0.2, 0.1, 0.1, 0.2])
    run, chain = ascent(X, y, 0.1, mu, l1, p)
    run.solver.sampling = sampling
    run.look()
    duals = []
    for number in range(1, 30):
        run.loop.n_iter = number
        run.kernel.gain = 0.0
        before = run.dual_value() if duals else 0.0
        run.one_pass()
        run.look()
        w = flat(chain, run.model, run.weights.w)
        primal = smooth_objective(chain, w, 0.1, mu, l1)
        duals.append(run.dual_value())
        if not l1:
            assert duals[-1] - before == pytest.approx(run.kernel.gain, abs=1e-10)
        else:  # a lower bound of the gain
            assert duals[-1] - before >= run.kernel.gain - 1e-10
        assert run.loop.primal <= primal + 1e-10
        assert duals[-1] <= primal + 1e-10
        # the block gaps add up to the gap
        assert run.kernel.gaps.sum() == pytest.approx(primal - duals[-1], abs=1e-9)
    assert (np.diff(duals) >= -1e-12).all()
    assert primal - duals[-1] <= 0.5


def test_the_weights_are_those_of_the_duals():
    X, y = problem(1)
    run, _ = ascent(X, y, 0.05, l1=0.01)
    run.look()
    for number in range(1, 8):
        run.loop.n_iter = number
        run.one_pass()
    restored = Weights(run.model.n_weights, threshold=0.01 / 0.05)
    DualAscentKernel(run.dual, restored, 0.05).restore()
    np.testing.assert_allclose(restored.v, run.weights.v, atol=1e-10)
    np.testing.assert_allclose(restored.w, run.weights.w, atol=1e-10)


@pytest.mark.parametrize("l1", [0.0, 2e-3])
@pytest.mark.parametrize("sampling", ["gap", "permutation"])
def test_certificate_with_a_proximal_term(sampling, l1):
    """The dual is that of the duals alone; block gaps add up to the inner gap."""
    alpha, p = 1e-3, np.array([0.1, 0.3, 0.2, 0.1, 0.1, 0.2])
    X, y = problem()
    run, chain = ascent(X, y, alpha, l1=l1, p=p)
    run.solver.sampling = sampling
    run.look()
    strengths = [run.kappa]
    assert strengths[0] > 5 * alpha
    for number in range(1, 60):
        run.loop.n_iter = number
        run.one_pass()
        run.look()
        w, center = (
            flat(chain, run.model, each) for each in (run.weights.w, run.center)
        )
        primal = smooth_objective(chain, w, alpha, 1.0, l1)
        alone = Weights(run.model.n_weights, threshold=l1 / alpha)
        DualAscentKernel(run.dual, alone, alpha).restore()
        np.testing.assert_allclose(run.own_weights(), alone.w, atol=1e-8)
        linear = p @ (run.dual.losses + run.dual.entropies)
        dual = linear - alpha / 2 * alone.w @ alone.w
        assert run.dual_value() == pytest.approx(dual, abs=1e-8)
        assert dual <= run.loop.primal <= primal + 1e-10
        kappa = run.kappa
        inner = primal + kappa / 2 * ((w - center) @ (w - center) - center @ center)
        inner -= linear - (alpha + kappa) / 2 * w @ w
        assert run.kernel.gaps.sum() == pytest.approx(inner, abs=1e-8)
        strengths.append(kappa)
    # it falls, and rises again where the objective does
    assert min(strengths) < strengths[0] == max(strengths)
    assert primal - dual <= 0.05 * primal


@pytest.mark.parametrize("mu", [1.0, 0.3])
def test_steepness_against_enumeration(mu):
    p = np.array([0.1, 0.3, 0.2, 0.1, 0.1, 0.2])
    run, chain = ascent(*problem(), 0.1, mu, p=p)
    squares = gains = 0.0
    for i, row in enumerate(chain.y):
        zero = np.zeros_like(chain.feature_map(i, row))
        labelings, losses = all_scores(chain, i, zero)
        shares = softmax(losses / mu)
        change = shares @ [chain.feature_map(i, each) for each in labelings]
        change -= chain.feature_map(i, row)
        squares += p[i] ** 2 * change @ change
        gains += p[i] * (shares @ losses + mu * entropy(shares))
    everyone = np.arange(len(chain.y))
    assert steepness(run.dual, everyone) == pytest.approx(squares / gains)
    # at zero weights, whatever the duals are
    run.kernel.visit_in_order(everyone)
    assert steepness(run.dual, everyone) == pytest.approx(squares / gains)
    assert steepness(run.dual, everyone[:0]) == 0.0


@settings(max_examples=60)
@given(st.floats(0.0, 2.0), st.lists(st.floats(-5, 5), min_size=1, max_size=9))
def test_soft_threshold(threshold, values):
    v = np.array(values)
    support = np.arange(0, len(v), 2)
    for kept in (None, support):
        weights = Weights(len(v), threshold=threshold, support=kept)
        weights.set(v)
        expected = np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)
        if kept is not None:
            expected[1::2] = 0.0
        np.testing.assert_array_equal(weights.w, expected)


@settings(max_examples=15)
@given(st.integers(0, 1000), st.floats(0.05, 0.95), st.floats(0.02, 0.5))
def test_elastic_net_subgradient(seed, l1_ratio, alpha):
    """At the optimum the gradient is within the subdifferential of the penalty."""
    X, y = problem(seed, n=8)
    y[0][0], y[1][0] = 0, 1  # at least two labels
    tagger = ChainCRF(
        alpha, l1_ratio=l1_ratio, loss="log", tol=1e-8, max_iter=5000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tagger.fit(X, y)
    n_labels = len(tagger.classes_)
    codes = [np.searchsorted(tagger.classes_, row) for row in y]
    chain = Chain(X, codes, n_labels, costs=np.zeros(n_labels))
    w = chain.flatten(tagger)
    gradient = alpha * (1 - l1_ratio) * w
    for i, row in enumerate(codes):
        labelings, scores = all_scores(chain, i, w)
        shares = np.exp(scores - logsumexp(scores))
        features = np.array([chain.feature_map(i, each) for each in labelings])
        gradient += chain.p[i] * (shares @ features - chain.feature_map(i, row))
    limit, slack = alpha * l1_ratio, 2e-3
    assert (np.abs(gradient) <= limit + slack).all()
    np.testing.assert_allclose(
        gradient[w != 0], -limit * np.sign(w[w != 0]), atol=slack
    )
    objective = smooth_objective(chain, w, alpha * (1 - l1_ratio), 1.0, limit)
    assert tagger.objective_ == pytest.approx(objective, rel=1e-9)


@pytest.mark.slow
def test_elastic_net_against_another_optimizer():
    """Positive and negative parts as weights of their own, by scipy's L-BFGS-B."""
    X, y = problem(3, n=4, n_labels=2)
    chain = Chain(X, y, 2, costs=np.zeros(2))
    alpha, l1 = 0.05, 0.03

    def objective(parts):
        w = parts[: len(parts) // 2] - parts[len(parts) // 2 :]
        return smooth_objective(chain, w, alpha, 1.0) + l1 * parts.sum()

    size = len(chain.feature_map(0, y[0]))
    best = minimize(
        objective, np.zeros(2 * size), method="L-BFGS-B", bounds=[(0, None)] * 2 * size
    ).fun
    tagger = ChainCRF(
        alpha + l1, l1_ratio=l1 / (alpha + l1), loss="log", tol=1e-7, random_state=0
    ).fit(X, y)
    assert tagger.objective_ == pytest.approx(best, rel=1e-5)
    assert tagger.objective_ - tagger.dual_gap_ <= best + 1e-8
    assert 0 < (tagger.coef_ == 0).mean() < 1


def test_weights_that_do_not_exist():
    data = make_chain(25, n_classes=4, n_features=6, random_state=0)
    X = [x * (np.abs(x) > 1.0) for x in data.X]
    tagger = ChainCRF(
        0.02, loss="log", all_possible_states=False, all_possible_transitions=False,
        solver="sdca", tol=1e-6, random_state=0,
    )  # fmt: skip
    other = clone(tagger).set_params(solver=LBFGS(2000, 1e-7)).fit(X, data.y)
    tagger.fit(X, data.y)
    assert tagger.objective_ == pytest.approx(other.objective_, rel=1e-5)
    np.testing.assert_array_equal(tagger.coef_ == 0, other.coef_ == 0)
    np.testing.assert_array_equal(tagger.transitions_ == 0, other.transitions_ == 0)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 5e-4])
@pytest.mark.parametrize(
    "change", [{"alpha": 0.01}, {"alpha": 2e-4}, {"l1_ratio": 0.4}]
)
def test_warm_start(change, alpha):
    data = make_chain(40, n_classes=3, random_state=0)
    tagger = ChainCRF(
        alpha, loss="log", solver="sdca", warm_start=True, tol=1e-4, random_state=0
    )
    tagger.fit(data.X, data.y).set_params(**change)
    cold = clone(tagger).set_params(tol=1e-7).fit(data.X, data.y)
    tagger.fit(data.X, data.y)
    assert tagger.objective_ - cold.objective_ <= 1.1e-4 * tagger.objective_
    again = tagger.fit(data.X, data.y)
    assert again.n_iter_ == 0  # where it starts is good enough
    # duals that are certain of other labels are no start
    shifted = [(row + 1) % 3 for row in data.y]
    other = clone(tagger).set_params(tol=1e-7).fit(data.X, shifted)
    with pytest.warns(UserWarning, match="training starts from zero"):
        tagger.fit(data.X, shifted)
    assert abs(tagger.objective_ - other.objective_) <= 1.1e-4 * tagger.objective_


def long_runs(seed, n=6, size=120):
    """Sequences whose runs of a label take 20 to 59 positions, in noise."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        runs = [[rng.integers(3)] * int(rng.integers(20, 60)) for _ in range(6)]
        labels = np.concatenate(runs)[:size]
        X.append(0.7 * np.eye(3)[labels] + rng.normal(size=(size, 3)))
        y.append(labels)
    return X, y


@pytest.mark.parametrize("max_length", [25, 60])
def test_segments_of_long_runs(max_length):
    # a run of a label that may follow itself has 2^59 segmentations
    X, y = long_runs(0)
    options = {"loss": "log", "max_length": max_length, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.filterwarnings("ignore", "[0-9]+ segments of y are longer")
        best = SegmentCRF(0.1, solver="lbfgs", tol=1e-6, **options).fit(X, y)
        tagger = SegmentCRF(0.1, solver="sdca", tol=1e-4, **options).fit(X, y)
    assert best.objective_ <= tagger.objective_ <= 1.01 * best.objective_


def test_choice_of_the_solver(monkeypatch):
    data = make_chain(20, n_classes=3, random_state=0)
    partial = [[*row[:-1], None] if len(row) > 1 else row for row in data.y]

    def chosen(y=data.y, **parameters):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return type(ChainCRF(0.1, **parameters).fit(data.X, y).solver_)

    # the features are few beside the tables of pairs of labels
    assert chosen(loss="log") is LBFGS
    module = "sksstruct.solvers.stochastic.sdca"
    monkeypatch.setattr(f"{module}.COST_OF_WEIGHT", 1e6)
    assert chosen(loss="log") is SDCA
    assert chosen(loss="smoothed_hinge") is SDCA
    assert chosen(loss=SmoothedHinge("l2")) is LBFGS
    assert chosen(partial, loss="log") is LBFGS
    assert chosen(partial, loss="smoothed_hinge") is SDCA
    monkeypatch.setattr(f"{module}.free_bytes", lambda: 1000)
    assert chosen(loss="log") is LBFGS
    monkeypatch.undo()
    monkeypatch.setattr(f"{module}.COST_OF_WEIGHT", 1e6)
    monkeypatch.setattr(f"{module}.ENOUGH_BYTES", 1)
    assert chosen(loss="log") is SDCA
    # hundreds of labels
    monkeypatch.setattr(f"{module}.BYTES_OF_POSITION", 1)
    assert chosen(loss="log") is LBFGS
    assert chosen(loss="log", l1_ratio=0.5) is SDCA


@pytest.mark.parametrize("n", [50, 499, 500])
def test_the_number_of_sentences_does_not_decide(n):
    """Text, with a word at most positions that few others have."""
    rng = np.random.RandomState(0)
    words = rng.randint(1000, size=(n, 20))
    X = [[[f"w={word}", f"s={word % 100}"] for word in row] for row in words]
    tagger = make_tagger(loss="log", max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger.fit(X, [list(row % 12) for row in words])
    assert type(tagger[-1].solver_) is SDCA


def test_many_labels_in_short_sequences():
    """A visit forms a table of all pairs, which L-BFGS does once in a sweep."""
    rng = np.random.RandomState(0)
    for n in (50, 500):
        y = rng.randint(60, size=(n, 5))
        X = [[[f"w{label}"] for label in row] for row in y]
        tagger = make_tagger(loss="log", max_iter=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tagger.fit(X, y.tolist())
        assert type(tagger[-1].solver_) is LBFGS


@pytest.mark.parametrize("parameters", [{"l1_ratio": 0.5}, {"solver": "sdca"}])
def test_no_memory_for_dual_variables(monkeypatch, parameters):
    """An error before the run, with what is needed and what helps."""
    data = make_chain(20, n_classes=3, random_state=0)
    tagger = ChainCRF(0.1, loss="log", **parameters)
    monkeypatch.setattr("sksstruct.solvers.stochastic.sdca.free_bytes", lambda: 1000)
    size = 12 * 4 * (sum(map(len, data.y)) + 20 * 3)
    message = f"{size} bytes for 20 examples with 3 labels, and 1000 bytes.*lbfgs"
    with pytest.raises(MemoryError, match=message):
        tagger.fit(data.X, data.y)
    assert not hasattr(tagger, "coef_")


def test_free_memory():
    assert 2**20 < free_bytes() < 2**50


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"loss": SmoothedHinge("l2"), "solver": "sdca"}, "smoothing='entropy'"),
        ({"loss": "hinge", "solver": "sdca"}, "gradient"),
        ({"loss": "hinge", "l1_ratio": 0.5}, "l1_ratio"),
        ({"loss": "log", "solver": "svrg", "l1_ratio": 0.5}, "l1_ratio"),
        ({"loss": "log", "l1_ratio": 1.5}, "l1_ratio"),
        ({"loss": "log", "solver": "sdca", "l1_ratio": 1.0}, "alpha > 0"),
    ],
)
def test_refusals(parameters, message):
    data = make_chain(5, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match=message):
        ChainCRF(0.1, **parameters).fit(data.X, data.y)


def test_labels_that_were_not_observed():
    data = make_chain(5, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="solver='lbfgs'"):
        ChainCRF(0.1, loss="log", solver="sdca").fit(
            data.X, [[*row[:-1], None] if len(row) > 1 else row for row in data.y]
        )


def test_no_number_is_lost():
    data = make_chain(5, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="not finite"):
        ChainCRF(1e-300, loss="log", solver="sdca").fit(
            [1e200 * x for x in data.X], data.y
        )
    # a tolerance of zero ends where rounding errors allow no more
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tagger = ChainCRF(0.1, loss="log", solver="sdca", tol=0.0, random_state=0)
        tagger.fit(data.X, data.y)
    assert tagger.dual_gap_ <= 1e-12
    assert tagger.n_iter_ < 1000


@pytest.mark.parametrize("n_forced", [1, 2, 10])
def test_sequences_of_one_allowed_labeling(n_forced):
    """Their entropy is zero, and they are no guide for the others."""
    rng = np.random.RandomState(0)
    y = [np.append(0, rng.randint(3, size=5)) for _ in range(60)]
    y += [np.array([0])] * n_forced
    X = [np.eye(3)[row] + rng.normal(size=(len(row), 3)) for row in y]
    compare_with_lbfgs(
        X, y, alpha=0.01, loss="log", forbidden_transitions=[(None, 1), (None, 2)]
    )


@pytest.mark.parametrize("normalization", ["mean", None])
@pytest.mark.parametrize("seed", [0, 3, 5])
def test_distributions_that_became_certain(normalization, seed):
    """Large weights at first make some labelings certain, also wrong ones."""
    data = make_chain(40, random_state=seed)
    weight = np.random.RandomState(seed).rand(40)
    compare_with_lbfgs(
        data.X, data.y, weight, alpha=3e-3, loss="smoothed_hinge",
        loss_normalization=normalization, class_weight={0: 3.0},
    )  # fmt: skip


def compare_with_lbfgs(X, y, sample_weight=None, **parameters):
    one = ChainCRF(solver=LBFGS(3000, 1e-4), **parameters)
    two = ChainCRF(solver=SDCA(3000, 1e-3), random_state=0, **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.fit(X, y, sample_weight)
        two.fit(X, y, sample_weight)
    assert two.objective_ == pytest.approx(one.objective_, rel=1.2e-3)


@pytest.mark.parametrize("solver", ["sdca", "sgd", "lbfgs", "svrg"])
def test_a_tagger_that_can_go_on_can_be_copied(solver):
    data = make_chain(20, n_classes=3, random_state=0)
    tagger = ChainCRF(
        0.1, loss="log", solver=solver, warm_start=True, random_state=0
    ).fit(data.X, data.y)
    other = pickle.loads(pickle.dumps(tagger))
    for each in (tagger, other, copy.deepcopy(tagger)):
        each.set_params(alpha=0.05).fit(data.X, data.y)
        assert each.objective_ == pytest.approx(tagger.objective_, rel=5e-3)


class TestSGD:
    def test_steps_that_are_too_long(self):
        data = make_chain(30, n_classes=3, random_state=0)
        tagger = ChainCRF(1e-3, loss="log", solver=SGD(eta0=300.0), random_state=0)
        with pytest.warns(UserWarning, match="steps are too long"):
            tagger.fit(data.X, data.y)

    def test_features_of_another_scale(self):
        data = make_chain(60, random_state=4)
        X = [30 * x for x in data.X]
        tagger = ChainCRF(loss="log", solver="sgd", random_state=0).fit(X, data.y)
        assert tagger.objective_ <= 0.1 * tagger.history_["primal"][0]

    def test_earlier_weights_are_not_changed(self):
        data = make_chain(20, n_classes=3, random_state=0)
        X = [x * (np.abs(x) > 2.0) for x in data.X]
        tagger = ChainCRF(
            0.1, loss="log", solver="sgd", warm_start=True, random_state=0
        ).fit(data.X, data.y)
        weights = tagger._warm[1]["weights"]
        before = weights.copy()
        tagger.set_params(all_possible_states=False).fit(X, data.y)
        np.testing.assert_array_equal(weights, before)
        # some of them do not exist any more
        assert (tagger.coef_ == 0).any()


def test_tiny_alpha():
    """The proximal term gets stronger again where passes undo each other."""
    rng = np.random.RandomState(0)
    X = [(rng.uniform(size=(6, 60)) < 0.1).astype(float) for _ in range(120)]
    weights = rng.standard_normal((60, 4))
    y = [(x @ weights).argmax(axis=1) for x in X]
    tagger = ChainCRF(
        1e-7, loss="log", solver="sdca", tol=0.5, max_iter=400, random_state=0
    )
    # about 0.004 at the minimum, and above 2 where the term only gets weaker
    assert tagger.fit(X, y).objective_ < 0.1
