import numpy as np
import pytest

from sksstruct.utils._layout import aligned_zeros, pad_rows, padded_length


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 4), (4, 4), (5, 8), (8, 8), (22, 24), (26, 32), (33, 40)]
)
def test_padded_length(n, expected):
    assert padded_length(n) == expected


def test_rows_are_aligned_and_padded_with_zeros():
    table = pad_rows(np.ones((3, 5)))
    assert table.shape == (3, 8) and table.sum() == 15
    assert aligned_zeros(100).ctypes.data % 64 == 0
