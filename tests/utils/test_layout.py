import numpy as np
import pytest

from sksstruct.utils import _layout
from sksstruct.utils._layout import (
    aligned_zeros,
    file_zeros,
    is_mapped,
    pad_rows,
    padded_length,
)


@pytest.mark.parametrize(
    ("n", "expected"), [(1, 4), (4, 4), (5, 8), (8, 8), (22, 24), (26, 32), (33, 40)]
)
def test_padded_length(n, expected):
    assert padded_length(n) == expected


def test_rows_are_aligned_and_padded_with_zeros():
    table = pad_rows(np.ones((3, 5)))
    assert table.shape == (3, 8) and table.sum() == 15
    assert aligned_zeros(100).ctypes.data % 64 == 0


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_large_arrays_are_in_files(dtype):
    n = _layout._FEW_BYTES // np.dtype(dtype).itemsize
    assert file_zeros(0, dtype).shape == (0,)
    for size, in_file in ((3, False), (n - 1, False), (n, True)):
        array = file_zeros(size, dtype)
        assert array.shape == (size,) and array.dtype == dtype and not array.any()
        assert array.ctypes.data % 64 == 0
        array[:] = 1
        assert is_mapped(array) == is_mapped(array[1:][:5]) == in_file
