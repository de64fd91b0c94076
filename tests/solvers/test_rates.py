"""Rates of convergence that the papers prove: constants where they are known."""

import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, MultilabelPairwise
from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import TRWS
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.gdmm._toplists import Lists
from sksstruct.inference.map.gdmm.binary_state import MAPBinaryGDMMState
from sksstruct.inference.map.gdmm.state import MAPGDMMState
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.solvers import BCFW, GDMM, CuttingPlane, ProxLinear
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.frank_wolfe.bcfw import BCFWState
from sksstruct.solvers.frank_wolfe.exported import export
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import Epochs
from sksstruct.utils.packed import PackedSequences

ALPHA, N_CLASSES = 0.2, 3


def multiclass(seed=0, n=12):
    """Single positions: labelings are classes, and all of them can be looked at."""
    rng = np.random.RandomState(seed)
    y = rng.randint(N_CLASSES, size=n).astype(np.int32)
    X = np.eye(N_CLASSES)[y] + rng.normal(size=(n, N_CLASSES))
    packed = PackedSequences.from_lengths(X, [1] * n)
    return BoundChain(packed, N_CLASSES, y, fit_intercept=False, boundary=False), X, y


# ---- Osokin et al. (2016), Proposition 1, Lemmas 3 and 8, Theorems 1 to 4 ----


class Visits:
    """Block-coordinate Frank-Wolfe, one visit at a time; f is minus the dual."""

    def __init__(self, model, **options):
        solver = BCFW.as_published(averaging=False, **options)
        self.state = BCFWState(solver, model, ALPHA, Options(0))
        self.kernel, self.n = self.state.kernel, model.n_examples

    def f(self):
        w = self.state.weights.w
        return ALPHA / 2 * (w @ w) - self.kernel.loss

    def gaps(self, renew=False):
        """Exact block gaps."""
        model = self.state.model
        workspace = model.workspace(self.state.weights.w, training=False)
        hinge, gaps = np.empty((2, self.n))
        self.kernel.check(workspace, 0, self.n, hinge, gaps)
        if renew:
            self.kernel.set_gaps(gaps)
        return gaps

    def visit(self, i):
        self.kernel.visit_in_order(np.array([i], dtype=np.intp))

    def duals(self):
        """beta_i(y) of all examples and labels; labelings have to be kept."""
        state, first = export(self.kernel), 0
        beta = np.zeros((self.n, N_CLASSES))
        for i, count in enumerate(state["counts"]):
            last = first + count
            beta[i, state["keys"][first:last]] = state["values"][first:last]
            first = last
        return beta

    def hinges(self, X, y):
        """H_i(y; w) of all examples and labels."""
        coef = self.state.model.views(self.state.weights.w)["coef"][:N_CLASSES]
        scores = X @ coef.T
        wrong = np.arange(N_CLASSES) != y[:, None]
        return wrong + scores - scores[np.arange(self.n), y][:, None]


def curvatures(X):
    """Upper bounds 4 R_i^2 / (lambda n^2); psi_i(y) has x_i twice."""
    return 4.0 * 2.0 * (X**2).sum(axis=1) / (ALPHA * len(X) ** 2)


@pytest.fixture(scope="module")
def problem():
    model, X, _ = multiclass()
    solver = CuttingPlane(500, 1e-10)
    return model, X, -solver.solve(model, ALPHA, random_state=0).objective


def runs(model, n_visits, n_runs=20, exact=False, **options):
    """f after every visit, of runs; with exact gap sampling, the gaps before it."""
    values, gaps = np.empty((n_runs, n_visits + 1)), []
    for seed in range(n_runs):
        rng = np.random.RandomState(seed)
        run = Visits(model, **options)
        values[seed, 0] = run.f()
        for k in range(n_visits):
            p = None
            if exact or options.get("cache"):
                g = run.gaps(renew=True)
                if g.sum() <= 1e-12:
                    values[seed, k + 1 :] = values[seed, k]
                    break
                gaps.append((k, g))
                p = g / g.sum() if exact else None
            run.visit(rng.choice(run.n, p=p))
            values[seed, k + 1] = run.f()
    return values, gaps


def test_descent_lemma(problem):
    """Lemma 3: a visit gains what any step would, with the curvature of the block."""
    model, X, _ = problem
    C, rng, run = curvatures(X), np.random.RandomState(0), Visits(model)
    some = 0
    for _ in range(200):
        i, before, gap = rng.randint(run.n), run.f(), run.gaps()
        run.visit(i)
        step = min(1.0, gap[i] / C[i])
        least = step * gap[i] - step**2 / 2 * C[i]
        assert before - run.f() >= least - 1e-12
        some += least > 1e-6
    assert some > 50


@pytest.mark.parametrize("step", ["pairwise", "away"])
def test_descent_lemma_of_pairwise_and_away_steps(step):
    """Lemma 8, block by block: unless the step is cut short by a weight."""
    model, X, y = multiclass()
    rng, run = np.random.RandomState(0), Visits(model, step=step)
    some = 0
    for _ in range(300):
        i, before = rng.randint(run.n), run.f()
        H, beta = run.hinges(X, y)[i], run.duals()[i]
        best = np.eye(N_CLASSES)[H.argmax()]
        worst = np.eye(N_CLASSES)[np.where(beta > 0, H, np.inf).argmin()]
        direction, longest = best - worst, worst @ beta
        if step == "away":
            direction, longest = beta - worst, longest / max(1 - longest, 1e-300)
            if (best - beta) @ H >= direction @ H:
                direction, longest = best - beta, 1.0
        size = (X[i] @ X[i]) / (ALPHA * run.n**2)
        bend = (direction @ direction) * size
        run.visit(i)
        if bend == 0 or direction @ H / run.n >= longest * bend * (1 - 1e-9):
            continue
        slope = (best - worst) @ H / run.n / (1 if step == "pairwise" else 2)
        # psi_i(y) - psi_i(y') has x_i twice
        gamma = min(1.0, slope / (2 * size))
        least = gamma * slope - gamma**2 / 2 * 2 * size
        assert before - run.f() >= least - 1e-12
        some += least > 1e-6
    assert some > 50


def test_weights_of_a_smaller_alpha():
    """Proposition 1: the same weights, and a gap that grows by what (12) says."""
    model, X, y = multiclass()
    run = Visits(model, step="pairwise")
    for i in 2 * list(range(run.n)):
        run.visit(i)
    w, beta, gap = run.state.weights.w.copy(), run.duals(), run.gaps().sum()
    delta = (beta * run.hinges(X, y)).sum() / run.n
    assert delta > 0.01
    rho = 1.0
    for share in (0.9, 0.5, 0.1):
        rho *= share
        run.kernel.rescale(share, rho * ALPHA)
        expected = rho * beta
        expected[np.arange(run.n), y] += 1 - rho
        np.testing.assert_allclose(run.duals(), expected, atol=1e-14)
        np.testing.assert_allclose(run.state.weights.w, w, atol=1e-12)
        assert run.gaps().sum() == pytest.approx(gap + (1 - rho) * delta)
        primal = rho * ALPHA / 2 * (w @ w) + Risk(model).value(w)
        dual = run.kernel.loss - rho * ALPHA / 2 * (w @ w)
        assert primal - dual == pytest.approx(gap + (1 - rho) * delta)


@pytest.mark.slow
def test_uniform_sampling(problem):
    """Theorem 1, and Theorem 3 with a cache: the expected distance to the optimum."""
    model, X, best = problem
    n, C = len(X), curvatures(X).sum()
    k = np.arange(301)
    values, _ = runs(model, 300, sampling="uniform")
    h = values.mean(axis=0) - best
    assert (h >= -1e-9).all()
    assert (h <= 2 * n / (k + 2 * n) * (C + h[0])).all()
    assert h[-1] < 0.05 * h[0]
    # nu / n is nu-tilde; gaps are exact, and F does not matter
    nu = 0.5
    values, _ = runs(model, 300, cache=True, cache_nu=nu * n, cache_factor=0.0)
    h = values.mean(axis=0) - best
    assert (h <= 2 * n / (nu * k + 2 * n) * (C / nu + h[0])).all()
    assert h[-1] < 0.2 * h[0]


def chi(values):
    return len(values) ** 0.5 * np.linalg.norm(values) / np.sum(values)


def test_exact_gap_sampling(problem):
    """Theorem 2, whose constant is the better the less alike the gaps are."""
    model, X, best = problem
    n, C, n_visits = len(X), curvatures(X), 120
    values, gaps = runs(model, n_visits, exact=True, sampling="gap")
    h = values.mean(axis=0) - best
    ratio = np.zeros(n_visits)
    for at, g in gaps:
        ratio[at] += chi(C) / chi(g) ** 3 / len(values)
    k = np.arange(n_visits + 1)
    assert ratio.max() <= chi(C) * (1 + 1e-12)
    assert 0 < ratio[-1] < 0.3 * chi(C)
    assert (h <= 2 * n / (k + 2 * n) * (C.sum() * ratio.max() + h[0])).all()
    uniform, _ = runs(model, n_visits, sampling="uniform")
    assert h[-1] < 0.5 * (uniform.mean(axis=0)[-1] - best)


@pytest.mark.parametrize("step", ["pairwise", "away"])
def test_pairwise_and_away_steps_are_linear(step, problem):
    """Theorem 4: by the same factor over and over, where plain steps slow down."""
    model, X, best = problem
    marks = len(X) * np.array([0, 20, 40, 60])
    values, _ = runs(model, marks[-1], 5, sampling="uniform", step=step)
    # rounding, and the accuracy of the optimum, limit what can be told
    h = np.maximum(values.mean(axis=0) - best, 1e-9)[marks]
    assert (h[1:] <= np.maximum(0.05 * h[:-1], 2e-9)).all()
    plain, _ = runs(model, marks[-1], 5, sampling="uniform")
    assert plain.mean(axis=0)[-1] - best > 100 * h[-1]


# ---- Pillutla et al. (2018), Propositions 29 to 32, and Theorem 35 ----

DIAMETER = 0.5  # of (1 - |u|^2) / 2 on the simplex


def calls_to(eps, alpha, adaptive, mu, best, seeds=3):
    """SVRG iterations until F - F* <= eps, on average; A, kappa and |w|^2 there."""
    total = []
    for seed in range(seeds):
        model, X, _ = multiclass(n=20)
        loss = ChainSmoothLoss(
            model, SmoothedHinge("l2", 1.0, N_CLASSES), nonsmooth=True
        )
        A = (X**2).sum(axis=1).max()
        kappa = best_kappa(alpha, adaptive, A / mu, model.n_examples)
        schedule = Schedule(alpha, adaptive, mu, kappa)
        epochs, risk = Epochs(loss, np.random.RandomState(seed)), Risk(model)
        catalyst = Catalyst(epochs, alpha, schedule, A, 40, most_epochs=None)
        w = epochs.w
        while risk.value(w) + alpha / 2 * (w @ w) - best > eps:
            catalyst.step()
            assert catalyst.k < 2000
        total.append(epochs.calls)
    return np.mean(total), A, kappa


@cache
def regularized(alpha):
    return CuttingPlane(2000, 1e-8).solve(multiclass(n=20)[0], alpha, random_state=0)


LEVELS = (0.2, 0.1, 0.05, 0.025)


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("alpha", [0.1, 0.0])
def test_complexity_of_casimir(alpha, adaptive):
    """Propositions 29 to 32: calls grow with 1 / epsilon no faster than the bounds."""
    n = 20
    # without regularization as with hardly any, which also bounds the distance
    small = regularized(alpha or 1e-3)
    best = small.objective - (0 if alpha else 1e-3 / 2 * small.weights @ small.weights)
    first, distance = 1.0 - best, small.weights @ small.weights
    ratios = []
    for eps in LEVELS:
        share = 10 if alpha else 20
        mu = 0.5 if adaptive else eps / (share * DIAMETER)
        calls, A, kappa = calls_to(eps, alpha, adaptive, mu, best)
        if alpha and adaptive:
            q = alpha / (alpha + kappa)
            rest = first + mu * DIAMETER / (1 - q**0.5)
            bound = n + A / (mu * (alpha + kappa) * eps) * rest
        elif alpha:
            bound = n + (A * DIAMETER * n / (alpha * eps)) ** 0.5
        elif adaptive:
            rest = first + kappa * distance + mu * DIAMETER
            bound = rest / eps * (n + A / (mu * kappa))
        else:
            bound = n * (first / eps) ** 0.5
            bound += (A * DIAMETER * n * distance) ** 0.5 / eps
        ratios.append(calls / bound)
    # what is hidden in the bounds are a constant, and logarithms of both loops
    logs = np.log(1 / np.array(LEVELS))
    assert max(ratios) < 60
    assert ratios[-1] < 2.0 * ratios[1] * (logs[-1] / logs[1]) ** 2


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("ridge", [0.5, 0.0])
def test_extrapolation_of_casimir(ridge, adaptive):
    """Equations (27) to (29), wherever the epochs lead."""

    def epoch(*_):
        epochs.w += 1.0

    epochs = SimpleNamespace(
        w=np.zeros(1),
        box=None,
        set_smoothing=lambda mu: None,
        value_and_gradient=lambda: 0.0,
        epoch=epoch,
    )
    schedule = Schedule(ridge, adaptive, 1.0, 2.0)
    catalyst = Catalyst(epochs, ridge, schedule, 1.0, 1)
    for k in range(1, 6):
        before, last = catalyst.a, catalyst.w
        catalyst.step()
        a, old, new = catalyst.a, *(schedule.kappa(j) + ridge for j in (k, k + 1))
        assert a**2 * new == pytest.approx((1 - a) * before**2 * old + a * ridge)
        beta = before * (1 - before) * old / (before**2 * old + a * new)
        np.testing.assert_allclose(catalyst.z, catalyst.w + beta * (catalyst.w - last))


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.2, 2.0])
def test_prox_linear_never_rises(eta):
    """Theorem 35: no step raises the objective."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(3, 2)) for _ in range(8)]
    y = [np.where(x[:, 0] * x[:, 1] > 0, "same", "other") for x in X]
    solver = ProxLinear(15, 0.0, eta=eta, inner="casimir")
    tagger = ChainCRF(0.01, solver=solver, score_function=ELUScore(3), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        primal = tagger.fit(X, y).history_["primal"]
    assert (np.diff(primal) <= 1e-12).all()
    assert primal[-1] < 0.7 * primal[0]


# ---- Huang et al. (2017), Theorems 1 and 2; Yen et al. (2016), Theorems 1 and 2 ----


def tree(n_states, seed):
    """A tree, of which the relaxation is exact."""
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(v)), v) for v in range(1, 15)]
    table = rng.normal(size=(n_states, n_states))
    weights = None
    if n_states == 2:
        table, weights = np.array([[0.0, 0.0], [0.0, 1.0]]), rng.normal(size=14)
    unaries = rng.normal(size=(15, n_states))
    return FactorGraph(unaries, edges, table, edge_weights=weights)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_states", [2, 12])
def test_gdmm_of_map_is_linear(n_states, seed):
    graph = tree(n_states, seed)
    best = TRWS(1000).solve(graph, random_state=0).score
    problem = MAPProblem(graph)
    binary = n_states == 2
    state = (
        MAPBinaryGDMMState(problem, 0.3)
        if binary
        else MAPGDMMState(problem, Lists(problem), 0.3)
    )
    gaps = []
    for _ in range(400):
        if binary:
            state.grow(100, 100)
            state.iterate()
        else:
            state.sweep()
        gaps.append(state.bound() - best)
    gaps = np.minimum.accumulate(np.maximum(gaps, 1e-11))
    assert gaps[-1] < 1e-7 * gaps[0]
    # each factor of a hundred takes about as long as the one before
    marks = [int(np.argmax(gaps <= gaps[0] * 100.0**-k)) for k in (0, 1, 2, 3)]
    steps = np.diff(marks)
    assert steps[2] <= 2 * max(steps[:2]) + 20


@pytest.mark.parametrize("update", ["afw", "bgcd"])
def test_gdmm_of_training_is_linear(update):
    """Theorems 1 and 2 of Yen et al. (2016): Algorithms 2 and 3, with a fixed rho."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((8, 3))
    Y = (X @ rng.standard_normal((3, 3)) + rng.standard_normal((8, 3)) > 0.5).astype(
        int
    )
    classifier = MultilabelPairwise(
        0.5,
        loss="structured_hinge",
        interaction_scaling=1.0,
        solver=GDMM(6000, 1e-6, update=update, rho=0.3, check_every=5),
        random_state=0,
    )
    history = classifier.fit(X, Y).history_
    gaps = np.minimum.accumulate(history["gap"])
    assert gaps[-1] <= 1e-5
    passes = [history["pass"][np.argmax(gaps <= g)] for g in (1e-1, 1e-3, 1e-5)]
    # the last two digits would take a hundred times as many passes at a rate of 1 / t,
    # and ten times as many at 1 / t^2
    assert passes[2] - passes[1] < 6 * (passes[1] - passes[0])
