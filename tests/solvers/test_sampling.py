import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sksstruct.solvers.frank_wolfe._sampling import SumTree


@settings(max_examples=200)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_draws_by_inversion(weights, uniform):
    """Dyadic weights: partial sums are exact, so the drawn index is known."""
    tree = SumTree(len(weights))
    tree.fill(np.array(weights, dtype=np.float64))
    (drawn,) = tree.draw(np.array([uniform]))
    expected = np.searchsorted(np.cumsum(weights), uniform * sum(weights), "right")
    assert drawn == expected
    assert weights[drawn] > 0


def test_never_draws_a_zero():
    tree = SumTree(5)
    tree.fill(np.array([0.0, 1e-300, 0.0, 1e300, 0.0]))
    drawn = tree.draw(np.linspace(0, 1, 1001, endpoint=False))
    assert set(drawn) <= {1, 3}
