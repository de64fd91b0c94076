"""The binary model and the dual spaces against NumPy."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.roles import coordinate_dual, dual_space, fits_coordinate_dual
from sksstruct.solvers import DCD
from sksstruct.solvers.core.risk import Risk
from sksstruct.utils.packed import PackedSequences


def binary(form="dense", free_bias=False, intercept=True, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(15, 4)) * (rng.uniform(size=(15, 4)) < 0.6)
    X[3] = 0.0
    y = rng.randint(2, size=15)
    p = rng.uniform(0.5, 1.5, size=15)
    p /= p.sum()
    given = sparse.csr_array(X) if form == "csr" else X
    model = BoundBinary(given, y, p, intercept and not free_bias, free_bias=free_bias)
    return model, X, 2 * y - 1, p


def chain(seed=0, n_labels=3):
    rng = np.random.RandomState(seed)
    sizes = [1, 3, 4, 1, 2]
    X = rng.normal(size=(sum(sizes), 2))
    labels = rng.randint(n_labels, size=sum(sizes)).astype(np.int32)
    p = rng.uniform(0.5, 1.5, size=5)
    packed = PackedSequences.from_lengths(X, sizes)
    costs = rng.uniform(0.5, 2.0, size=n_labels)
    return BoundChain(packed, n_labels, labels, p / p.sum(), costs)


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
def test_risk_and_plane(form, intercept):
    model, X, s, p = binary(form, intercept=intercept)
    w = np.random.RandomState(1).normal(size=5)
    w[-1] *= intercept
    value, gradient, offset = Risk(model).plane(w)
    margins = s * (X @ w[:-1] + w[-1])
    wrong = margins < 1
    assert value == pytest.approx(p @ np.maximum(0, 1 - margins))
    expected = -(p * s * wrong) @ np.column_stack([X, np.full(15, float(intercept))])
    np.testing.assert_allclose(gradient, expected, atol=1e-14)
    assert offset == pytest.approx(p @ wrong)
    assert gradient @ w + offset == pytest.approx(value)


def spaces():
    yield "box", dual_space(binary()[0])
    yield "csr", dual_space(binary("csr", intercept=False)[0])
    yield "equality", dual_space(binary(free_bias=True)[0])
    yield "chain", dual_space(chain())


@pytest.mark.parametrize(("name", "space"), list(spaces()), ids=lambda x: str(x)[:8])
def test_dual_spaces(name, space):
    """D is concave with the gradient `slopes`; risk and D are dual to each other."""
    rng = np.random.RandomState(0)
    alpha = 0.3

    def dual(x):
        u = space.combine(x)
        return space.loss(x) - u @ u / (2 * alpha)

    assert not space.combine(space.center).any() and space.loss(space.center) == 0.0
    x = space.project(space.center + 0.1 * rng.normal(size=space.center.shape))
    # the projection leaves points of the set where they are
    np.testing.assert_allclose(space.project(x), x, atol=1e-12)
    gradient = space.slopes(space.combine(x) / alpha)
    for _ in range(5):
        direction = rng.normal(size=x.shape)
        h = 1e-5
        slope = (dual(x + h * direction) - dual(x - h * direction)) / (2 * h)
        assert slope == pytest.approx(np.vdot(gradient, direction), rel=1e-6, abs=1e-9)
    # weak duality, and equality of the linear parts at the maximizer of the risk
    for _ in range(5):
        other = space.project(rng.normal(size=x.shape))
        w = space.combine(other) / alpha
        slopes = space.slopes(w)
        primal = space.risk(w, slopes) + alpha / 2 * w @ w
        assert primal >= dual(x) - 1e-12
        best = space.project(space.center + 1e7 * slopes)
        value = space.loss(best) - space.combine(best) @ w
        assert space.risk(w, slopes) == pytest.approx(value, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("free_bias", [False, True])
def test_restriction_is_the_same_problem(free_bias):
    model, *_ = binary(free_bias=free_bias)
    space = dual_space(model)
    rng = np.random.RandomState(2)
    x = space.project(rng.uniform(-0.05, 0.15, size=15))
    w = space.combine(x)
    slopes = space.slopes(w)
    part, index = space.restrict(x, slopes, 0.01)
    assert 0 < len(index) < 15
    np.testing.assert_allclose(part.combine(x[index]), space.combine(x), atol=1e-14)
    assert part.loss(x[index]) == pytest.approx(space.loss(x))
    np.testing.assert_allclose(part.slopes(w), slopes[index])
    # at these weights the fixed variables are what maximizes their part of the risk
    assert part.risk(w, part.slopes(w)) == pytest.approx(space.risk(w, slopes))
    assert space.restrict(np.zeros(15), np.full(15, -1.0), 0.1) is None or free_bias


def test_lazy_scaling_gives_the_same_labelings():
    """Weights s w with the loss, or w with the loss divided by s."""
    model = chain()
    rng = np.random.RandomState(3)
    w = np.zeros(model.n_weights)
    rows = w.reshape(-1, model.ld)[:, : model.n_labels]
    rows[...] = rng.normal(size=rows.shape)
    found = []
    for weights, scale in ((0.2 * w, 1.0), (w, 1 / 0.2)):
        workspace = model.workspace(weights)
        workspace.loss_scale = scale
        labelings = np.empty(model.starts[-1], dtype=np.int32)
        hinge, losses = np.empty(model.n_examples), np.empty(model.n_examples)
        model.decode_all(workspace, 0, model.n_examples, labelings, hinge, losses)
        found.append((labelings, hinge / scale))
        assert Risk(model).value(weights, scale) / scale == pytest.approx(
            model.example_weights @ hinge / scale
        )
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1])


# ---- one dual variable after the other ----


def slow_descent(X, s, p, alpha, passes):
    """Coordinate descent without shrinking, as its formula stands."""
    b, w = np.zeros(len(s)), np.zeros(X.shape[1])
    for _ in range(passes):
        for i in range(len(s)):
            curvature = p[i] / alpha * (X[i] @ X[i])
            slack = 1.0 - s[i] * (X[i] @ w)
            best = b[i] + slack / curvature if curvature else float(slack > 0)
            best = min(max(best, 0.0), 1.0)
            w += p[i] / alpha * s[i] * (best - b[i]) * X[i]
            b[i] = best
    return w


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("alpha", [1.0, 1e-3])
def test_coordinates_with_shrinking_find_the_optimum(form, intercept, alpha):
    model, X, s, p = binary(form, intercept=intercept)
    ones = np.column_stack([X, np.full(15, float(intercept))])
    dual = coordinate_dual(model, alpha)
    rng, visited = np.random.RandomState(0), []
    for _ in range(4000):
        visited.append(dual.steps.n_active)
        n_changed = dual.visit(rng)
        if not dual.end_pass() and not n_changed:
            break
    gap = dual.primal() - dual.value()
    assert 0 <= gap + 1e-15 and gap < 1e-10
    # all are at a bound after two passes, or some were left out
    assert min(visited) < 15 or len(visited) <= 3
    np.testing.assert_allclose(
        dual.w, slow_descent(ones, s, p, alpha, 1000), atol=1e-6 / alpha**0.5
    )
    # the estimate of a pass over all examples is the gap, once nothing moves
    dual.expand()
    dual.visit(rng)
    assert dual.gap == pytest.approx(gap, abs=1e-10)
    again = coordinate_dual(model, alpha, dual.state())
    assert again.primal() - again.value() == pytest.approx(gap, abs=1e-12)
    assert fits_coordinate_dual(model, dual.state())


def test_a_pass_can_be_made_in_parts():
    whole, parts = (coordinate_dual(binary()[0], 0.01) for _ in range(2))
    parts._visits_of_a_call = 2
    a, b = np.random.RandomState(0), np.random.RandomState(0)
    for _ in range(20):
        assert whole.visit(a) == parts.visit(b)
        assert whole.steps.n_active == parts.steps.n_active
    assert np.array_equal(whole.w, parts.w) and whole.gap == parts.gap


def test_an_estimate_of_the_gap_calls_for_a_check():
    model = binary(seed=1)[0]
    result = DCD(tol=1e-3, check_every=1000).solve(model, 0.01, random_state=0)
    assert result.status == "converged"
    assert result.n_iter < 1000
