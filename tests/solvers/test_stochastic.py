"""The compiled stochastic steps against the same steps with dense vectors."""

import numpy as np
import pytest
from reference import Chain
from scipy import sparse

from sksstruct.losses import SmoothedHinge
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.models.protocols._weights import LazyWeights, Weights
from sksstruct.solvers.stochastic.iterates import (
    SubgradientKernel,
    VarianceReducedKernel,
)
from sksstruct.utils.packed import PackedSequences


def problem(form="dense", n_labels=3, boundary=True, intercept=True, seed=0):
    rng = np.random.RandomState(seed)
    sizes = [2, 3, 1, 4, 2]
    X = rng.normal(size=(sum(sizes), 4)) * (rng.uniform(size=(sum(sizes), 4)) < 0.7)
    labels = rng.randint(n_labels, size=sum(sizes)).astype(np.int32)
    p = rng.uniform(0.5, 1.5, size=5)
    p /= p.sum()
    values = sparse.csr_array(X) if form == "csr" else X
    packed = PackedSequences.from_lengths(values, sizes)
    model = BoundChain(
        packed, n_labels, labels, p, fit_intercept=intercept, boundary=boundary
    )
    cuts = np.cumsum(sizes)[:-1]
    reference = Chain(
        np.split(X, cuts),
        np.split(labels, cuts),
        n_labels,
        p,
        intercept=intercept,
        boundary=boundary,
        length=None,
    )
    return model, packed, reference


def flat(model, w):
    """Flat weights of the model in the order of the reference."""
    blocks = model.views(np.asarray(w))
    names = ("coef", "intercept", "start", "end", "transitions")
    return np.concatenate([np.asarray(blocks[name]).ravel() for name in names])


def worst(reference, i, w):
    """The loss-augmented labeling, by enumeration."""
    from itertools import product

    y_true = reference.feature_map(i, reference.y[i])
    best, value = None, -np.inf
    for y in product(range(reference.n_labels), repeat=len(reference.y[i])):
        score = reference.loss(i, y) + w @ (reference.feature_map(i, y) - y_true)
        if score > value + 1e-12:
            best, value = y, score
    return y_true - reference.feature_map(i, best), reference.loss(i, best)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("rule", ["pegasos", "halving", "small"])
def test_subgradient_steps(form, rule):
    """Iterate, average and losses; "halving" puts the sum aside several times."""
    model, _, reference = problem(form)
    alpha, steps = 0.3, 90
    weights = Weights(model.n_weights, average=True)
    kernel = SubgradientKernel(weights, model, alpha)
    rng = np.random.RandomState(1)
    order = rng.randint(5, size=steps).astype(np.intp)
    t = np.arange(1.0, steps + 1)
    rates = {"pegasos": 1 / (alpha * t), "halving": 0.5 / alpha + 0 * t}
    rates = rates.get(rule, 0.01 / (1 + t // 5))
    w = total = 0.0 * flat(model, weights.w)
    loss = 0.0
    for k, (i, rate) in enumerate(zip(order, rates, strict=True), 1):
        psi, missed = worst(reference, i, w)
        share = 5 * reference.p[i]
        w = (1 - rate * alpha) * w + rate * share * psi
        loss += share * missed
        total = total + k * w
    # in two calls, as passes are
    kernel.visit(order[:40], rates[:40])
    kernel.visit(order[40:], rates[40:])
    np.testing.assert_allclose(flat(model, kernel.weights()), w, atol=1e-10)
    average = 2 * total / (steps * (steps + 1))
    np.testing.assert_allclose(flat(model, kernel.average()), average, atol=1e-10)
    assert kernel.loss == pytest.approx(loss)


def gradients(loss, model, w, i):
    """Gradient of f_i, from the sweep over a problem of one example."""
    a, b = model.starts[i], model.starts[i + 1]
    packed, labels = loss.given
    one = PackedSequences.from_lengths(packed.values[a:b], [b - a])
    part = BoundChain(
        one,
        model.n_labels,
        labels[a:b],
        fit_intercept=model.fit_intercept,
        boundary=model.boundary,
    )
    smooth = ChainSmoothLoss(part, loss.smoothing)
    gradient = np.zeros_like(w)
    smooth.value_and_gradient(w, gradient)
    return gradient


class Given(ChainSmoothLoss):
    """Remembers what it was made from."""


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("parameters", [("entropy", 0.4, 1), ("l2", 0.4, 81)])
@pytest.mark.parametrize("anchored", [True, False])
@pytest.mark.parametrize(
    ("rate", "ridge"), [(0.05, 0.3), (0.4, 2.3)], ids=["small", "shrinks"]
)
@pytest.mark.parametrize("n_labels", [2, 3, 6])
def test_variance_reduced_steps(form, parameters, anchored, rate, ridge, n_labels):
    flags = {"boundary": n_labels != 2, "intercept": n_labels != 6}
    model, packed, reference = problem(form, n_labels, **flags)
    loss = Given(model, SmoothedHinge(*parameters))
    loss.given = packed, np.concatenate(reference.y).astype(np.int32)
    loss.smoothing = SmoothedHinge(*parameters)
    weights = LazyWeights(model.n_weights)
    rng = np.random.RandomState(2)
    exists = np.zeros_like(weights.w)
    rows = exists.reshape(-1, model.ld)[:, :n_labels]
    rows[...] = 1.0
    if not model.fit_intercept:
        rows[4] = 0.0
    if not model.boundary:
        rows[5:7] = 0.0
    weights.w[:] = 0.3 * rng.normal(size=len(exists)) * exists
    loss.keep_anchors = True
    anchor, full = weights.w.copy(), np.zeros_like(weights.w)
    loss.value_and_gradient(anchor, full)
    linear = 0.1 * rng.normal(size=len(exists)) * exists
    direction = (full if anchored else 0.0) + linear
    order = rng.randint(5, size=30).astype(np.intp)
    ratios = rng.uniform(0.5, 1.5, size=30)
    w = anchor.copy()
    for i, ratio in zip(order, ratios, strict=True):
        step = gradients(loss, model, w, i)
        if anchored:
            step = step - gradients(loss, model, anchor, i)
        w = (1 - rate * ridge) * w - rate * (ratio * step + direction)
    kernel = VarianceReducedKernel(loss, weights)
    kernel.epoch(order, ratios, direction, rate, ridge, anchored)
    np.testing.assert_allclose(weights.w, w, atol=1e-9)


def test_visits_need_an_anchor():
    model, _, _ = problem()
    loss = ChainSmoothLoss(model, SmoothedHinge())
    weights = LazyWeights(model.n_weights)
    gradient = np.zeros_like(weights.w)
    loss.value_and_gradient(weights.w, gradient)
    kernel = VarianceReducedKernel(loss, weights)
    order = np.arange(5)
    with pytest.raises(ValueError, match="no anchor"):
        kernel.epoch(order, np.ones(5), gradient, 0.1, 0.1)
    with pytest.raises(ValueError, match="too long"):
        kernel.epoch(order, np.ones(5), gradient, 10.0, 0.1, False)
    with pytest.raises(ValueError, match="must be positive"):
        loss.set_smoothing(0.0)


def test_dual_value_of_expected_means():
    """expected_loss - |gradient|^2 / (2 alpha) is below the least hinge objective."""
    model, _, reference = problem()
    best = reference.optimum(0.5)
    loss = ChainSmoothLoss(model, SmoothedHinge("entropy", 0.05))
    w = np.zeros(model.n_weights)
    rng = np.random.RandomState(0)
    gradient = np.zeros_like(w)
    for scale in (0.0, 0.3, 1.0):
        rows = w.reshape(-1, model.ld)[:, :3]
        rows[...] = scale * rng.normal(size=rows.shape)
        loss.value_and_gradient(w, gradient)
        dual = loss.expected_loss - gradient @ gradient
        assert dual <= best + 1e-9
        assert 0 <= loss.expected_loss <= 1
