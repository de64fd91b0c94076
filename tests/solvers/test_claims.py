"""What the papers prove of their methods, on problems where it can be computed."""

from itertools import product

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.optimize import brentq, linprog

from sksstruct import LinearSSVC
from sksstruct.losses import SmoothedHinge
from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.models.roles import dual_space
from sksstruct.solvers import BMRM, CuttingPlane, Pragam
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.pragam import ExcessiveGap
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic._epochs import Epochs
from sksstruct.utils.packed import PackedSequences


class Hadamard:
    """max(0, max_i <a_i, w>) with orthonormal a_i, in the manner of eq. (14).

    The matrix printed in Saha et al. (2009) has each column and its negative, so that
    two planes are enough. What the proof of Theorem 6 uses is that the a_i are
    orthonormal and the risk is not negative, and that ties go to a new plane.
    """

    nonnegative = False  # not known to the solver
    cost = 1

    def __init__(self, d):
        self.A = hadamard(d) / np.sqrt(d)
        self.n_weights = d
        self.seen = []  # the risk and |w|^2 of all iterates

    def plane(self, w):
        values = np.round(self.A.T @ w, 12)
        k = int(np.argmax(values))
        assert values[k] >= 0.0
        self.seen.append((values[k], w @ w))
        return values[k], self.A[:, k].copy(), 0.0


@pytest.mark.parametrize("inner", ["qp", "line_search"])
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_bmrm_lower_bound(inner, alpha):
    """Theorems 6 and 7: the gap is no less than 1 / (2 lambda t) for t < d / 2.

    Nor is the distance of w_1, ..., w_t to the optimum, which is not above J(0) = 0.
    """
    d = 64
    solver, risk = BMRM(d // 2 - 1, 0.0, inner=inner), Hadamard(d)
    result = solver._minimize(risk, alpha, Options())
    gaps = result.history["gap"]
    assert len(gaps) == d // 2
    for t, gap in enumerate(gaps[1:], 1):
        bound = 1.0 / (2.0 * alpha * t)
        assert gap >= bound * (1 - 1e-12)
        value, square = risk.seen[t]
        assert value + alpha / 2 * square >= bound * (1 - 1e-9)
        if inner == "qp":  # which is what the proof computes
            assert gap == pytest.approx(bound, rel=1e-9)
            assert value + alpha / 2 * square == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("inner", ["qp", "line_search"])
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_bmrm_upper_bound(inner, alpha):
    """Theorem 5, with G = H* = J(0) = 1: planes until the gap is less than epsilon."""
    rng = np.random.RandomState(0)
    n = 60
    X = rng.normal(size=(n, 8))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = (X[:, 0] + 0.2 * rng.normal(size=n) > 0).astype(int)
    risk = Risk(BoundBinary(X, y, np.full(n, 1.0 / n), False))
    result = BMRM(1000, 0.0, inner=inner)._minimize(risk, alpha, Options())
    gaps = result.history["gap"]
    assert gaps[0] == pytest.approx(1.0)
    for eps in (0.5, 0.1, 0.02, 0.001):
        bound = np.log2(alpha) + 8 / (alpha * eps) - 4
        assert min(gaps[: int(bound) + 1]) < eps


def test_gradient_of_the_dual_is_lipschitz():
    """Theorem 4, part 1: with |X|^2 / alpha, as alpha/2 |w|^2 is strongly convex."""
    rng = np.random.RandomState(0)
    n, alpha = 30, 0.07
    X, y = rng.normal(size=(n, 5)), rng.randint(2, size=n)
    space = dual_space(BoundBinary(X, y, np.full(n, 1.0 / n), False))

    def gradient(x):
        return space.slopes(space.combine(x) / alpha)

    norm = np.linalg.norm(X, 2)
    # the direction of the largest curvature, among others
    first = np.linalg.svd((2.0 * y - 1.0)[:, None] * X)[0][:, 0]
    ratios = []
    for k in range(20):
        x = rng.uniform(0, 1 / n, size=n)
        move = first if k == 0 else rng.normal(size=n)
        change = np.linalg.norm(gradient(x + move) - gradient(x))
        ratios.append(change / np.linalg.norm(move))
    assert max(ratios) <= norm**2 / alpha * (1 + 1e-9)
    assert ratios[0] == pytest.approx(norm**2 / alpha)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [1.0, 0.03, 0.001])
def test_pragam_upper_bound(seed, alpha):
    """Eq. (26): the gap after k iterations is below 2 R^2 / (lambda (k+1) (k+2))."""
    rng = np.random.RandomState(seed)
    n = 40
    X, y = rng.normal(size=(n, 6)), rng.randint(2, size=n)
    X *= rng.uniform(0.5, 2.0, size=(n, 1))
    R2 = (X**2).sum(axis=1).max()
    model = BoundBinary(X, y, np.full(n, 1.0 / n), False)
    space = dual_space(model)
    run = ExcessiveGap(Pragam(lipschitz=n * R2 / alpha, restart=False), space, alpha)
    run.first_step()
    for k in range(300):
        gap = space.risk(run.w, run.slopes) + alpha / 2 * run.w @ run.w - run.dual()
        assert -1e-12 <= gap <= 2.0 * R2 / (alpha * (k + 1) * (k + 2))
        # the excessive gap: smoothed by mu, the primal is not above the dual
        x = space.project(run.slopes / run.mu)
        smoothed = alpha / 2 * run.w @ run.w + run.slopes @ x - run.mu / 2 * x @ x
        assert smoothed <= run.dual() + 1e-9
        run.iterate()
    # the constant of the data is smaller, and so is the gap
    sharp = ExcessiveGap(
        Pragam(lipschitz=np.linalg.norm(X, 2) ** 2 / alpha, restart=False),
        space,
        alpha,
    )
    sharp.first_step()
    for _ in range(300):
        sharp.iterate()
    assert sharp.gap() < gap


def test_pragam_as_printed():
    """Algorithm 1 with the mappings (23)-(25), in NumPy, and its rate (26)."""
    rng = np.random.RandomState(0)
    n, alpha = 20, 0.05
    X, y = rng.normal(size=(n, 3)), rng.randint(2, size=n)
    signs, D2 = 2.0 * y - 1.0, 1 / (2 * n)
    L = np.linalg.norm(X, 2) ** 2 / alpha
    options = {"lipschitz": L, "restart": False, "check_every": 1}

    def project(z):
        # the dual of the equality is found by bisection, and the rest by clipping
        def clipped(rho):
            return np.clip(z + rho * signs, 0.0, 1 / n)

        return clipped(brentq(lambda rho: signs @ clipped(rho), -99, 99, xtol=1e-15))

    def w_of(x):
        return X.T @ (signs * x) / alpha

    def slopes(w):
        return 1.0 - signs * (X @ w)

    space = dual_space(BoundBinary(X, y, np.full(n, 1 / n), True, free_bias=True))
    run = ExcessiveGap(Pragam(**options, step_size="decreasing"), space, alpha)
    run.first_step()
    other = ExcessiveGap(Pragam(**options), space, alpha)
    other.first_step()
    start = np.zeros(n)
    x, w, mu = project(start + slopes(w_of(start)) / L), w_of(start), 2 * L
    for k in range(30):
        tau = 2 / (k + 3)
        beta = (1 - tau) * x + tau * project(slopes(w) / mu)
        w = (1 - tau) * w + tau * w_of(beta)
        x, mu = project(beta + slopes(w_of(beta)) / L), (1 - tau) * mu
        run.iterate()
        np.testing.assert_allclose(run.w[:3], w, atol=1e-9)
        np.testing.assert_allclose(run.x, x, atol=1e-11)
        other.iterate()
        assert other.mu < run.mu == pytest.approx(mu)
        assert 0.0 < run.gap() <= 4 * L * D2 / ((k + 2) * (k + 3))
    best, found = (
        LinearSSVC(alpha, solver=solver, penalize_intercept=False).fit(X, y).objective_
        for solver in (
            Pragam(tol=1e-6),
            Pragam(tol=1e-4, **options, step_size="decreasing"),
        )
    )
    assert found == pytest.approx(best, abs=1e-4)
    with pytest.raises(ValueError, match="needs a number for lipschitz"):
        Pragam(step_size="decreasing").check()


def multiclass(seed, n=12, n_classes=3):
    """Data of single positions, and the matrix of all labelings of each example."""
    rng = np.random.RandomState(seed)
    y = rng.randint(n_classes, size=n).astype(np.int32)
    X = np.eye(n_classes)[y] + rng.normal(size=(n, n_classes))
    packed = PackedSequences.from_lengths(X, [1] * n)
    model = BoundChain(packed, n_classes, y, fit_intercept=False, boundary=False)
    loss = ChainSmoothLoss(model, SmoothedHinge("l2", 1.0, n_classes), nonsmooth=True)
    # A^(i) maps w to the scores of all labels relative to the true one
    spectral = [np.linalg.norm(np.kron(np.eye(n_classes), x[None]), 2) ** 2 for x in X]
    return model, loss, X, y, max(spectral)


def unregularized(X, y, n_classes):
    """Least hinge loss and the least weights (in sum of sizes) that have it."""
    n, d = X.shape
    k = n_classes * d
    rows, sides = [], []
    for i, a in product(range(n), range(n_classes)):
        row = np.zeros(k + n)
        row[a * d : (a + 1) * d] += X[i]
        row[y[i] * d : (y[i] + 1) * d] -= X[i]
        row[k + i] = -1.0
        rows.append(row)
        sides.append(-float(a != y[i]))
    cost = np.concatenate([np.zeros(k), np.full(n, 1.0 / n)])
    free = [(None, None)] * k + [(0, None)] * n
    result = linprog(cost, np.array(rows), sides, bounds=free)
    assert result.success
    w = result.x[:k]
    return result.fun, float(w @ w)


def run(catalyst, risk, alpha, most):
    """Hinge objectives of w_1, w_2, ..."""
    w = catalyst.epochs.w
    for _ in range(most):
        catalyst.step()
        yield risk.decode(w)[0] + alpha / 2 * float(w @ w)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 0.02])
@pytest.mark.parametrize("start", ["prox_center", "extrapolation", "previous"])
def test_casimir_with_regularization(adaptive, alpha, start):
    """Corollaries 17 and 18."""
    model, loss, _, _, A = multiclass(0)
    best = CuttingPlane(500, 1e-9).solve(model, alpha, random_state=0).objective
    D, mu = 0.5, 0.1 if adaptive else 0.02
    kappa = best_kappa(alpha, adaptive, A / mu, model.n_examples)
    schedule = Schedule(alpha, adaptive, mu, kappa)
    epochs = Epochs(loss, np.random.RandomState(0))
    catalyst = Catalyst(epochs, alpha, schedule, A, 200, start, most_epochs=None)
    q = alpha / (alpha + kappa)
    root, eta = np.sqrt(q), 1.0 - np.sqrt(q) / 2.0
    first = 1.0 * (len(np.unique(multiclass(0)[3])) > 1) - best  # F(0) = 1
    for k, value in enumerate(run(catalyst, Risk(model), alpha, 25), 1):
        if adaptive:
            rest = mu * D / (1 - root) * (2 - root + root / (1 - np.sqrt(eta)))
            bound = eta ** (k / 2) * (2 * first + rest)
        else:
            bound = (3 - root) / (1 - root) * mu * D + 2 * eta**k * first
        assert -1e-9 <= value - best <= bound


@pytest.mark.parametrize("adaptive", [False, True])
def test_casimir_without_regularization(adaptive):
    """Corollaries 19 and 20."""
    model, loss, X, y, A = multiclass(1, n=20)
    best, norm = unregularized(X, y, 3)
    assert best > 0.05  # else zero loss would be too easy
    D, mu = 0.5, 0.2
    kappa = best_kappa(0.0, adaptive, A / mu, model.n_examples)
    schedule = Schedule(0.0, adaptive, mu, kappa)
    epochs = Epochs(loss, np.random.RandomState(0))
    catalyst = Catalyst(epochs, 0.0, schedule, A, 400, most_epochs=None)
    first = 1.0 - best
    for k, value in enumerate(run(catalyst, Risk(model), 0.0, 40), 1):
        if adaptive:
            factor = np.log(k + 1) / (k + 1) / (np.log(2) if k == 1 else 1.0)
            bound = factor * (2 * first + kappa * norm + 27 * mu * D)
        else:
            bound = 8 / (k + 2) ** 2 * (first + kappa / 2 * norm)
            bound += mu * D * (1 + 12 / (k + 2) + 30 / (k + 2) ** 2)
        assert -1e-9 <= value - best <= bound
    assert value - best < 0.2 * first


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("alpha", [0.1, 0.0])
def test_casimir_with_any_sequences(alpha, adaptive):
    """Theorem 16: the bound (30), with the sequences as they are."""
    model, loss, X, y, A = multiclass(1, n=20)
    if alpha:
        found = CuttingPlane(500, 1e-9).solve(model, alpha, random_state=0)
        best, norm = found.objective, found.weights @ found.weights
    else:
        best, norm = unregularized(X, y, 3)
    D, n_steps = 0.5, 25
    kappa = best_kappa(alpha, adaptive, A / 0.2, model.n_examples)
    schedule = Schedule(alpha, adaptive, 0.2, kappa)
    # no corollary's: alpha_0 is larger
    schedule.alpha0 = before = 0.5 * (1 + schedule.alpha0)
    catalyst = Catalyst(
        Epochs(loss, np.random.RandomState(0)), alpha, schedule, A, 400,
        most_epochs=None,
    )  # fmt: skip
    share = before * ((schedule.kappa(1) + alpha) * before - alpha) / (1 - before)
    first = 1.0 - best + share / 2 * norm  # F(0) = 1
    last, rest = 2 * schedule.mu(1), 0.0
    for k, value in enumerate(run(catalyst, Risk(model), alpha, n_steps), 1):
        mu, delta = schedule.mu(k), schedule.delta(k)
        # the products in both terms are those of the step before, times one more factor
        first *= (1 - before) / (1 - delta)
        rest *= (1 - before) / (1 - delta)
        rest += (last - (1 - delta) * mu) / (1 - delta) * D
        assert -1e-9 <= value - best <= first + mu * D + rest
        last, before = mu, catalyst.a
    assert value - best < 0.2 * (1.0 - best)


def test_max_oracle_gives_subgradients():
    """Lemma 7 (i): planes of the best outputs are below the risk, and touch it."""
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(18, 2)), rng.randint(3, size=18).astype(np.int32)
    risk = Risk(BoundChain(PackedSequences.from_lengths(X, [3] * 6), 3, y))
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.normal(size=risk.n_weights)
        value, gradient, offset = risk.plane(w)
        assert gradient @ w + offset == pytest.approx(value)
        others = w + scale * rng.normal(size=(50, len(w)))
        values = np.array([risk.value(other) for other in others])
        assert (values >= others @ gradient + offset - 1e-9).all()
        assert (values > others @ gradient + offset + 1e-3 * scale).any()


def test_sequence_of_extrapolations():
    """Lemma 21, and eq. (27) itself."""
    for ridge, adaptive in product((0.0, 0.3), (False, True)):
        schedule = Schedule(ridge, adaptive, 0.1, 0.7)
        _, loss, *_ = multiclass(0)
        epochs = Epochs(loss, np.random.RandomState(0))
        catalyst = Catalyst(epochs, ridge, schedule, 10.0, 5)
        for k in range(1, 12):
            before, last = catalyst.a, catalyst.w
            catalyst.step()
            a, after = catalyst.a, schedule.kappa(k + 1) + ridge
            left = a * a * after
            right = (1 - a) * before**2 * (schedule.kappa(k) + ridge) + a * ridge
            assert left == pytest.approx(right, rel=1e-12)
            kappa = schedule.kappa(k) + ridge
            beta = before * (1 - before) * kappa / (before**2 * kappa + a * after)
            z = catalyst.w + beta * (catalyst.w - last)  # eqs. (28), (29)
            np.testing.assert_allclose(catalyst.z, z, atol=1e-14)
            assert 0 < a <= before * (1 + 1e-12) < 1
            assert a * a >= ridge / after * (1 - 1e-12)
