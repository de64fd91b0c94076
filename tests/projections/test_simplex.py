import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sksstruct.projections import project_simplex


@settings(max_examples=100)
@given(
    hnp.arrays(
        np.float64,
        st.integers(1, 12),
        elements=st.sampled_from([-np.inf, -1e6, -1.0, 0.0, 0.25, 0.5, 1.0, 1e6]),
    ),
    st.sampled_from(["partition", "drop", "sort"]),
)
def test_optimality_conditions(z, method):
    """u >= 0, sum 1, and z - u is constant where u > 0, no larger elsewhere."""
    if not np.isfinite(z.max()):
        with pytest.raises(ValueError, match="finite entry"):
            project_simplex(z, method=method)
        return
    u = project_simplex(z, method=method)
    assert (u >= 0).all() and u.sum() == pytest.approx(1.0)
    multiplier = (z - u)[u > 0]
    np.testing.assert_allclose(multiplier, multiplier[0], atol=1e-9)
    assert (z[u == 0] <= multiplier[0] + 1e-9).all()


def test_large_scores_keep_their_digits():
    z = np.array([0.25, 0.125, -0.25])
    np.testing.assert_array_equal(project_simplex(z + 2.0**48), project_simplex(z))


@pytest.mark.parametrize("z", [[], [[1.0]], [np.nan, 1.0], [np.inf, 1.0]])
def test_bad_points(z):
    with pytest.raises(ValueError, match="z must"):
        project_simplex(z)


@pytest.mark.parametrize("n", [1, 4, 5, 1000, 100_000])
def test_methods_agree(n):
    rng = np.random.RandomState(n)
    for z in (rng.normal(size=n), np.round(rng.normal(size=n), 1), np.zeros(n)):
        u = project_simplex(z)
        for method in ("sort", "drop"):
            other = project_simplex(z, method=method)
            np.testing.assert_allclose(u, other, atol=1e-13)
        assert u.sum() == pytest.approx(1.0, abs=1e-12)


def test_unknown_method():
    with pytest.raises(ValueError, match="method must be"):
        project_simplex([1.0], method="quick")
