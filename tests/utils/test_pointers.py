"""What kernels take as arrays of numbers, and what they refuse."""

import numpy as np
import pytest

from sksstruct.utils._pointers import checked

TYPES = ("f4", "f8", "i1", "i4", "i8", "u1", "u8")


@pytest.mark.parametrize("given", TYPES)
@pytest.mark.parametrize("taken", TYPES)
def test_only_the_same_type_is_taken(given, taken):
    array = np.zeros((2, 3), dtype=given)
    kind, itemsize = taken[0], int(taken[1])
    if given == taken:
        assert checked(array, kind, itemsize, True) == array.ctypes.data
    else:
        with pytest.raises(TypeError, match=f"got {array.dtype}"):
            checked(array, kind, itemsize)


def test_types_with_several_names():
    assert checked(np.zeros(2, dtype=np.intp), "i", np.intp().itemsize)
    assert checked(np.zeros(2, dtype=np.longlong), "i", 8)
    assert checked(np.zeros(2, dtype=bool), "u", 1)
    with pytest.raises(TypeError):
        checked(np.zeros(2, dtype=">f8" if np.little_endian else "<f8"), "f", 8)
    with pytest.raises(TypeError):
        checked(np.zeros(2, dtype=np.complex64), "f", 8)


def test_entries_at_odd_addresses():
    """As in messages between processes: NumPy's name of the type is another then."""
    for offset in range(1, 8):
        array = np.frombuffer(bytes(8 * 3 + offset), dtype=np.float64, offset=offset)
        assert not array.flags.aligned
        assert checked(array, "f", 8) == array.ctypes.data


def test_layout_and_writing():
    array = np.zeros((4, 4))
    with pytest.raises(ValueError, match="contiguous"):
        checked(array.T[:2], "f", 8)
    array.flags.writeable = False
    assert checked(array, "f", 8) == array.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        checked(array, "f", 8, True)
    with pytest.raises(TypeError):
        checked([0.0], "f", 8)
    assert checked(np.zeros((0, 3)), "f", 8)
