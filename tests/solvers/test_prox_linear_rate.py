"""The rate of the prox-linear method with Casimir-SVRG: Pillutla et al. (2018), 6.3."""

import numpy as np
import pytest
from scipy.optimize import minimize

from sksstruct.models import ELUScore
from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.roles import nonlinear_loss
from sksstruct.solvers.stochastic._catalyst import Catalyst, Schedule, best_kappa
from sksstruct.solvers.stochastic.prox_linear import LinearizedEpochs
from sksstruct.utils.packed import PackedSequences

ALPHA, ETA, FIRST = 0.05, 0.5, 0.2  # lambda, eta, epsilon_0
TINY = 1e-9  # a smoothing that leaves the hinge as it is


def tagging():
    """The structured hinge of a small network on twelve short chains."""
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(2, 2)) for _ in range(12)]
    y = [(x[:, 0] * x[:, 1] > 0).astype(np.int32) for x in X]
    model = ChainModel(
        loss="hinge", loss_normalization="sequence", score_function=ELUScore(3)
    )
    model.check()
    packed = PackedSequences.from_lengths(np.concatenate(X), [2] * 12)
    problem = model._bind(model._read(packed, y, np.full(12, 1 / 12), None))
    # four labelings: the top-K oracle knows all
    loss = nonlinear_loss(problem, "l2", 4)
    return loss, loss.initial_weights(rng), rng


def convex_model(loss, w, center):
    """F_eta(w; center), eq. (61), and a subgradient of its first term."""
    loss.set_smoothing(TINY)
    value, slope = loss.value_and_gradient(w)
    move = w - center
    return value + ALPHA / 2 * (w @ w) + move @ move / (2 * ETA), value, slope


def minimum(loss, center):
    """The minimum of the convex model by cutting planes, and a point near to it."""
    ridge, w = ALPHA + 1 / ETA, center
    slopes, offsets, share = np.zeros((0, len(w))), np.zeros(0), np.zeros(0)
    best, nearest = np.inf, w

    def dual(share):
        point = (center / ETA - share @ slopes) / ridge
        value = share @ offsets + center @ center / (2 * ETA)
        return (
            ridge / 2 * (point @ point) - value,
            -offsets - slopes @ point,
        )

    for _ in range(200):
        whole, value, slope = convex_model(loss, w, center)
        if whole < best:
            best, nearest = whole, w
        slopes = np.vstack([slopes, slope])
        offsets = np.append(offsets, value - slope @ w)
        found = minimize(
            dual,
            np.append(share, 0.0 if len(share) else 1.0),
            jac=True,
            bounds=[(0.0, None)] * len(offsets),
            constraints={
                "type": "eq",
                "fun": lambda s: s.sum() - 1,
                "jac": np.ones_like,
            },
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        share = np.maximum(found.x, 0.0) / np.maximum(found.x, 0.0).sum()
        w = (center / ETA - share @ slopes) / ridge
        if best + dual(share)[0] < 1e-7:
            return -dual(share)[0], nearest
    raise AssertionError("no minimum")


def solve(loss, center, lower, tolerance, rng):
    """Casimir-SVRG with the settings of Proposition 29; also its number of calls."""
    epochs = LinearizedEpochs(loss, center, rng, None)
    mu, ridge = tolerance / (10 * loss.diameter), ALPHA + 1 / ETA
    A = 10.0
    kappa = best_kappa(ridge, False, A / mu, loss.n_examples)
    schedule = Schedule(ridge, False, mu, kappa)
    catalyst = Catalyst(
        epochs, ridge, schedule, A, loss.n_examples, most_epochs=None,
        linear=-center / ETA,
    )  # fmt: skip
    while convex_model(loss, epochs.w, center)[0] - lower > tolerance:
        catalyst.step()
        assert catalyst.k < 500
    return epochs.w, epochs.calls


def test_linearized_losses_are_off_by_squares():
    """Lemma 34: as the gradients of all scores are Lipschitz near the weights."""
    loss, w, rng = tagging()
    loss.linearize(w)
    loss.set_smoothing(TINY)
    directions = rng.normal(size=(20, len(w)))
    worst = []
    for length in (1e-1, 1e-2, 1e-3):
        moves = length * directions / np.linalg.norm(directions, axis=1)[:, None]
        errors = [
            abs(loss.value(w + z) - loss.value_and_gradient(w + z)[0]) for z in moves
        ]
        worst.append(max(errors) / length**2)
    # an error that is linear would grow tenfold each time
    assert 0.01 < min(worst) and max(worst) < 3 * min(worst)


@pytest.fixture(scope="module")
def run():
    """Objectives, norms of the prox-gradient, tolerances and calls, step by step."""
    loss, w, rng = tagging()
    objective = loss.value(w) + ALPHA / 2 * (w @ w)
    rows, calls = [], 0
    for k in range(1, 25):
        loss.linearize(w)
        lower, near = minimum(loss, w)
        rows.append((objective, np.linalg.norm(w - near) / ETA, FIRST / k, calls))
        found, made = solve(loss, w, lower, FIRST / k, rng)
        calls += made
        upper = convex_model(loss, found, w)[0]
        value = loss.value(found) + ALPHA / 2 * (found @ found)
        # Assumption 33 with 1 / eta, where the method looks
        assert value <= upper + 1e-6
        if value <= objective:
            w, objective = found, value
    return [np.array(column) for column in zip(*rows, strict=True)]


@pytest.mark.slow
def test_the_prox_gradient_vanishes_as_fast_as_proved(run):
    """Theorem 35, with F* >= 0."""
    objective, norm, tolerance, _ = run
    assert (np.diff(objective) <= 0).all() and objective[-1] < 0.8 * objective[0]
    steps = np.arange(1, len(norm) + 1)
    bound = 2 / (ETA * steps) * (objective[0] + np.cumsum(tolerance))
    assert (np.minimum.accumulate(norm) ** 2 <= bound).all()


def test_calls_grow_no_faster_than_proved(run):
    """Proposition 37: iterations of SVRG until the prox-gradient is small."""
    objective, norm, _, calls = run
    loss, w, _ = tagging()
    n, first = loss.n_examples, objective[0] + FIRST
    # the largest Jacobian's norm at the start stands for A
    loss.linearize(w)
    loss.set_smoothing(TINY)
    A = max(
        np.sum(loss.part_gradient(i, w, anchored=False) ** 2)
        for i in range(loss.n_parts)
    )
    levels = np.array([0.55, 0.4, 0.3, 0.2, 0.155])
    reached = calls[[np.argmax(norm <= level) for level in levels]]
    assert norm.min() <= levels[-1] and reached[0] > 0
    bound = n / (ETA * levels**2) * first
    bound += (A * loss.diameter * n / FIRST) ** 0.5 / (ETA * levels**3) * first**1.5
    ratios, logs = reached / bound, np.log(1 / levels)
    assert max(ratios) < 60
    assert ratios[-1] < 2.0 * ratios[1] * (logs[-1] / logs[1]) ** 2
