import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sksstruct.projections import project_simplex


@settings(max_examples=500, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.integers(1, 12),
        elements=st.sampled_from([-np.inf, -1e6, -1.0, 0.0, 0.25, 0.5, 1.0, 1e6]),
    )
)
def test_optimality_conditions(z):
    """u >= 0, sum 1, and z - u is constant where u > 0, no larger elsewhere."""
    if not np.isfinite(z.max()):
        with pytest.raises(ValueError, match="finite entry"):
            project_simplex(z)
        return
    u = project_simplex(z)
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
