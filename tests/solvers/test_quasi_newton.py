"""L-BFGS of our own: directions, steps, memory, and scipy's as its peer."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from sksstruct import ChainCRF
from sksstruct.solvers import LBFGS
from sksstruct.solvers.core.quasi_newton import Pairs, _cubic, descend, line_search
from sksstruct.utils._layout import padded_length


def inverse_hessian(pairs):
    """The dense matrix, by the update of Nocedal and Wright (2006), eq. (6.17).

    It begins with a diagonal, which all pairs have updated, by eq. (6.19).
    """
    b = np.ones(len(pairs[0][0]))
    for s, y in pairs:
        b *= y @ (y / b) / (s @ y)
        b = np.diag(np.diag(b) - np.outer(b * s, b * s) / (s @ (b * s))) + y**2 / (
            s @ y
        )
    matrix = np.diag(1.0 / b)
    for s, y in pairs[-4:]:
        rest = np.eye(len(s)) - np.outer(s, y) / (s @ y)
        matrix = rest @ matrix @ rest.T + np.outer(s, s) / (s @ y)
    return matrix


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("n_pairs", [1, 3, 4, 9])
def test_directions(n_pairs, scale):
    rng = np.random.RandomState(n_pairs)
    # more than one batch, and nothing but a few coordinates in each
    size, used = 5000, np.r_[0:5, 4090:4100]
    root = rng.normal(size=(15, 15))
    hessian = root @ root.T + np.eye(15)
    pairs, kept = Pairs(4, size), []
    for _ in range(n_pairs):
        s, change, direction = rng.normal(size=15), np.zeros(size), np.zeros(size)
        y = hessian @ s
        kept.append((s, y))
        direction[used], change[used] = s * scale / 0.3, y
        pairs.append(0.3, direction, change, scale * (s @ y))
        # asked for at times only, as with steps that fail
        if rng.uniform() < 0.5:
            pairs.direct(change, direction)
    assert len(pairs) == min(n_pairs, 4)
    gradient, found = np.zeros(size), np.empty(size)
    gradient[used] = rng.normal(size=15)
    pairs.direct(gradient, found)
    expected = -scale * inverse_hessian(kept) @ gradient[used]
    error = np.abs(found[used] - expected).max()
    # as exact as pairs in single precision are
    assert error <= 1e-4 * np.abs(expected).max()
    pairs.clear()
    pairs.direct(gradient, found)
    np.testing.assert_array_equal(found, -gradient)


def test_a_pair_without_curvature_is_no_pair():
    pairs = Pairs(3, 2)
    for curvature in (-1.0, 0.0, 1e-9, np.nan):
        pairs.append(1.0, np.array([1.0, 0.0]), np.array([curvature, 1.0]), curvature)
    assert len(pairs) == 0


@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=3),
    st.floats(0.1, 5),
    st.floats(-3, 3),
)
def test_steps_fulfill_the_wolfe_conditions(coefficients, quartic, exponent):
    def f(t):
        a, b, c = coefficients
        value = a * t + b * t**2 + c * t**3 + quartic * t**4
        return value, a + 2 * b * t + 3 * c * t**2 + 4 * quartic * t**3

    value, slope = f(0.0)
    if slope > -1e-3:
        return
    step, reached, new_slope = line_search(f, value, slope, 10.0**exponent)
    assert (reached, new_slope) == f(step)
    assert reached <= value + 1e-4 * step * slope
    assert new_slope >= 0.9 * slope


def test_no_step_where_the_function_only_rises():
    assert line_search(lambda t: (t, -1.0), 0.0, -1.0, 1.0) is None


class Quartic:
    """sum_k c_k (x_k - 1)^2 / 2 + (x_k - x_{k+1})^4, counting its calls."""

    def __init__(self, size, condition):
        self.scale = np.geomspace(1.0, condition, size)
        self.start, self.calls = np.zeros(size), 0

    def at(self, x):
        self.calls += 1
        step = np.diff(x)
        value = self.scale @ (x - 1.0) ** 2 / 2 + (step**4).sum()
        gradient = self.scale * (x - 1.0)
        gradient[1:] += 4 * step**3
        gradient[:-1] -= 4 * step**3
        return value, gradient

    def first_step(self, value, slope):
        return 1.0 / np.linalg.norm(slope)

    def keep(self, x):
        self.last = x


class Enough(Exception):
    pass


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4])
def test_as_many_calls_as_scipy(condition):
    objective = Quartic(50, condition)

    def stop_when_small():
        if np.abs(objective.at(objective.last)[1]).max() < 1e-7 * condition:
            raise Enough
        objective.calls -= 1

    with pytest.raises(Enough):
        descend(objective, *objective.at(objective.start), 10, stop_when_small)
    np.testing.assert_allclose(objective.last, 1.0, atol=1e-7 * condition)
    peer = Quartic(50, condition)
    options = {"ftol": 0.0, "gtol": 1e-7 * condition, "maxcor": 10}
    minimize(peer.at, peer.start, jac=True, method="L-BFGS-B", options=options)
    assert objective.calls <= 1.3 * peer.calls + 5


def test_ends_where_rounding_errors_hide_every_descent():
    objective = Quartic(20, 1e4)
    descend(objective, *objective.at(objective.start), 5, lambda: None)
    np.testing.assert_allclose(objective.last, 1.0, atol=1e-6)


@pytest.mark.slow
def test_memory_of_a_fit():
    """Fifteen vectors of weights with ten pairs, and little else."""
    rng = np.random.RandomState(0)
    n_features, n_labels, n_positions = 8_000, 20, 200
    X = sparse.random(n_positions, n_features, 1e-3, format="csr", random_state=rng)
    y = np.r_[np.arange(n_labels), rng.randint(n_labels, size=n_positions - n_labels)]
    X = [X[first : first + 20] for first in range(0, n_positions, 20)]
    tagger = ChainCRF(1e-4, loss="log", solver=LBFGS(tol=1e-6))
    tracemalloc.start()
    tagger.fit(X, y.reshape(-1, 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tagger.n_iter_ > 10
    assert peak < 17 * 8 * n_features * padded_length(n_labels)


def test_slopes_whose_squares_overflow():
    found = _cubic((0.0, 0.0, -1e200), (1.0, 1e200, 3e200))
    expected = _cubic((0.0, 0.0, -1.0), (1.0, 1.0, 3.0))
    assert found == pytest.approx(expected) and 0.0 < found < 1.0
    assert _cubic((0.0, 0.0, -np.inf), (1.0, 1.0, 3.0)) == np.inf


def test_the_same_bits_for_any_number_of_threads():
    rng = np.random.RandomState(0)
    X = [sparse.random_array((4, 3000), density=0.01, rng=rng) for _ in range(60)]
    y = [rng.randint(5, size=4) for _ in X]
    one, two = (
        ChainCRF(0.01, loss="log", solver="lbfgs", n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert np.array_equal(one.coef_, two.coef_)
    assert one.dual_gap_ == two.dual_gap_
