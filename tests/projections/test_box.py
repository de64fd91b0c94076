import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import minimize

from sksstruct.projections import project_box_equality

WIDTHS = st.sampled_from([0.0, 0.5, 2.0, np.inf])
NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 1.5, 3.0])


@st.composite
def problems(draw):
    n = draw(st.integers(1, 8))
    z, a, x = (draw(hnp.arrays(np.float64, n, elements=NUMBERS)) for _ in range(3))
    below, above = (
        draw(
            hnp.arrays(np.float64, n, elements=st.sampled_from([0.0, 0.5, 2.0, np.inf]))
        )
        for _ in range(2)
    )
    # a point of the set makes sure that there is one
    return z, x - below, x + above, a, float(a @ x)


def is_projection(x, z, lower, upper, a, c):
    """The conditions of Karush, Kuhn and Tucker, which are sufficient."""
    assert (x >= lower - 1e-12).all() and (x <= upper + 1e-12).all()
    assert a @ x == pytest.approx(c, abs=1e-11)
    step = z - x
    inside = (x > lower + 1e-9) & (x < upper - 1e-9) & (a != 0)
    if inside.any():
        ratio = -step[inside] / a[inside]
        rho = ratio[0]
        assert np.ptp(ratio) < 1e-9
    else:
        # any multiplier between the kinks will do
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.where(a != 0, -step / a, np.nan)
        rising = ((x <= lower + 1e-9) & (a > 0)) | ((x >= upper - 1e-9) & (a < 0))
        falling = ((x >= upper - 1e-9) & (a > 0)) | ((x <= lower + 1e-9) & (a < 0))
        free = rising & falling  # an interval of length zero
        high = np.min(at[rising & ~free], initial=np.inf)
        low = np.max(at[falling & ~free], initial=-np.inf)
        assert low <= high + 1e-9
        return
    moved = z + rho * a
    np.testing.assert_allclose(x, np.clip(moved, lower, upper), atol=1e-9)


@pytest.mark.slow
@settings(max_examples=100)
@given(problems(), st.sampled_from(["median", "sort"]))
def test_conditions_hold(problem, method):
    z, lower, upper, a, c = problem
    is_projection(project_box_equality(z, lower, upper, a, c, method=method), *problem)


@pytest.mark.parametrize("n", [3, 40, 10_000, 300_000])
def test_both_methods_agree(n):
    rng = np.random.RandomState(n)
    z, a = rng.normal(size=n), rng.choice([-1.0, 1.0, 0.5, 0.0], size=n)
    upper = rng.uniform(0.1, 1.0, size=n)
    c = float(a @ rng.uniform(0, upper))
    x, y = (
        project_box_equality(z, 0.0, upper, a, c, method=method)
        for method in ("median", "sort")
    )
    np.testing.assert_allclose(x, y, atol=1e-12)
    assert a @ x == pytest.approx(c, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_quadratic_program(seed):
    """Exact to 1e-12: the multiplier of scipy's solution, polished, gives the same."""
    rng = np.random.RandomState(seed)
    n = 12
    z, a = rng.normal(size=n), rng.normal(size=n)
    lower, upper = -rng.uniform(0.1, 1, size=n), rng.uniform(0.1, 1, size=n)
    c = float(a @ rng.uniform(lower, upper))
    rough = minimize(
        lambda x: 0.5 * (x - z) @ (x - z),
        np.clip(z, lower, upper),
        jac=lambda x: x - z,
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda x: a @ x - c, "jac": lambda x: a},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    ).x
    inside = (rough > lower + 1e-6) & (rough < upper - 1e-6)
    rest = c - a[~inside] @ np.where(rough > 0, upper, lower)[~inside]
    rho = (rest - a[inside] @ z[inside]) / (a[inside] @ a[inside])
    exact = np.where(rough > 0, upper, lower)
    exact[inside] = (z + rho * a)[inside]
    x = project_box_equality(z, lower, upper, a, c)
    np.testing.assert_allclose(x, rough, atol=1e-6)
    np.testing.assert_allclose(x, exact, atol=1e-12)


@settings(max_examples=60)
@given(problems(), st.data(), st.sampled_from(["median", "sort"]))
def test_weights(problem, data, method):
    """Of the points that meet the conditions with a multiplier, no other is closer."""
    z, lower, upper, a, c = problem
    d = data.draw(hnp.arrays(np.float64, len(z), elements=st.sampled_from([0.5, 1, 3])))
    x = project_box_equality(*problem, d=d, method=method)
    # x = clip(z + rho a / d^2): the multipliers of all entries have one in common
    assert (x >= lower).all() and (x <= upper).all()
    assert a @ x == pytest.approx(c, abs=1e-10)
    is_projection(d * x, d * z, d * lower, d * upper, a / d, c)


@pytest.mark.parametrize("seed", range(5))
def test_weighted_quadratic_program(seed):
    rng = np.random.RandomState(seed)
    n = 10
    z, a, d = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.2, 5.0, size=n)
    lower, upper = -rng.uniform(0.1, 1, size=n), rng.uniform(0.1, 1, size=n)
    c = float(a @ rng.uniform(lower, upper))

    def distance(x):
        return 0.5 * (d**2 * (x - z)) @ (x - z)

    rough = minimize(
        distance,
        np.clip(z, lower, upper),
        jac=lambda x: d**2 * (x - z),
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda x: a @ x - c, "jac": lambda x: a},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    ).x
    x = project_box_equality(z, lower, upper, a, c, d=d)
    np.testing.assert_allclose(x, rough, atol=1e-3)
    # how near the answer of SLSQP is depends on the processor
    assert distance(x) <= distance(rough) + 1e-9
    assert a @ x == pytest.approx(c, abs=1e-9)
    assert ((lower <= x) & (x <= upper)).all()
    # one weight for all entries changes nothing
    plain = project_box_equality(z, lower, upper, a, c)
    same = project_box_equality(z, lower, upper, a, c, d=2.0)
    np.testing.assert_allclose(same, plain, atol=1e-12)
    assert np.abs(x - plain).max() > 1e-3


@pytest.mark.parametrize("d", [0.0, -1.0, [1.0, np.nan], [1.0, np.inf]])
def test_bad_weights(d):
    with pytest.raises(ValueError, match=r"^d(\[1\])? must be positive"):
        project_box_equality([1.0, 2.0], 0, 1, 1, 1, d=d)


@pytest.mark.parametrize("method", ["median", "sort"])
def test_normals_of_different_size(method):
    x = project_box_equality(
        [-0.119, 0.98], [0, -np.inf], [0, 0], [1e4, -1e-6], 4.8e-7, method=method
    )
    np.testing.assert_allclose(x, [0, -0.48], rtol=1e-9)
    rng = np.random.RandomState(0)
    for n in (50, 9000):
        z, a = rng.normal(size=n), rng.normal(size=n)
        c = np.maximum(0.0, a).sum() * (1 - 1e-9)
        x = project_box_equality(z, 0.0, 1.0, a, c, method=method)
        assert a @ x == pytest.approx(c, rel=1e-12)


def test_many_equal_kinks_and_data_made_against_samples():
    x = project_box_equality(np.zeros(5000), 0.0, 1.0, 1.0, 2500.0)
    np.testing.assert_allclose(x, 0.5, atol=1e-14)
    z = -np.exp(np.linspace(0, 30, 5001))  # the sample's median is far off
    x = project_box_equality(z, 0.0, 1.0, 1.0, 1.0)
    np.testing.assert_allclose(x.sum(), 1.0, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([], 0, 1, 1, 0), "not empty"),
        (([[1.0]], 0, 1, 1, 0), "1-D"),
        (([1.0, 2.0], 0, [1.0], 1, 0), "upper must be a number or of shape"),
        (([np.nan], 0, 1, 1, 0), "finite"),
        (([1.0], 0, 1, [np.inf], 0), "finite"),
        (([1.0], 1, 0, 1, 0), "lower must not exceed upper"),
        (([1.0], np.nan, 0, 1, 0), "lower must not exceed upper"),
        (([1.0, 1.0], 0, 1, 1, 3), "no such point: <a, x> is between 0 and 2, not 3"),
        (([1.0], 0, 1, 0, 1), "no such point"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        project_box_equality(*arguments)
    with pytest.raises(ValueError, match="method must be"):
        project_box_equality([1.0], 0, 1, 1, 0.5, method="bisect")


@pytest.mark.parametrize("method", ["median", "sort"])
@pytest.mark.parametrize(
    ("z", "lower", "upper", "a", "c"),
    [
        ([-0.3], [-1e20], [np.inf], [2.0], 2.5),
        ([0.0, 0.1], [-np.inf, -1.5], [1e20, 1e15], [2.0, 0.0], -1.25),
        ([1.0, 2.0, 3.0], [-1e20, 0.0, -1.0], [1e15, 1.0, 1e20], [1.0, -1.0, 1.0], 0.5),
    ],
)
def test_bounds_far_away(method, z, lower, upper, a, c):
    """They must not drown what is near in rounding errors."""
    vectors = (np.array(v) for v in (z, lower, upper, a))
    z, lower, upper, a = vectors
    x = project_box_equality(z, lower, upper, a, c, method=method)
    is_projection(x, z, lower, upper, a, c)


@pytest.mark.parametrize("c", [-3.0, -1.001])
def test_infeasible_beside_a_bound_far_away(c):
    with pytest.raises(ValueError, match="there is no such point"):
        project_box_equality([1.34], -1.0, 1e15, 1.0, c)
