"""Layout of score tables: rows padded to whole vectors, as `_simd.h` expects."""

import mmap
import os
import tempfile
from typing import NamedTuple

import numpy as np

# Arrays of fewer bytes are kept in memory by `file_zeros`.
_FEW_BYTES = 2**18


class StoredRows(NamedTuple):
    """The three arrays of a canonical CSR matrix, without a SciPy object."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


def padded_length(n):
    """Return the padded length of rows of n entries: 4, or a multiple of 8 if n > 4."""
    return 4 if n <= 4 else -(-n // 8) * 8


def address(array):
    """Return the address of an array's entries, faster than `ndarray.ctypes` does."""
    return array.__array_interface__["data"][0]


def aligned_zeros(size, dtype=np.float64):
    """Return an array of `size` zeros that starts on a cache line."""
    width = np.dtype(dtype).itemsize
    raw = np.zeros(size + 64 // width, dtype)
    shift = -address(raw) // width % (64 // width)
    return raw[shift : shift + size]


def pad_rows(table):
    """Return a copy of a 2-D table with zero columns up to `padded_length`."""
    table = np.asarray(table, dtype=np.float64)
    out = aligned_zeros(len(table) * padded_length(table.shape[1]))
    out = out.reshape(len(table), -1)
    out[:, : table.shape[1]] = table
    return out


def object_array(items):
    """Return items as a 1-D array of objects, whatever their shapes.

    `np.array` would make lists of arrays of equal length 2-D.
    """
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def in_form_of(X, rows):
    """Return rows of labels: a 2-D array if X is 3-D, else an array of objects."""
    if isinstance(X, np.ndarray) and X.ndim == 3:
        return np.stack(rows)
    # an array rather than a list, as cross_val_predict concatenates the folds' results
    return object_array(rows)


def is_mapped(array):
    """Whether an array is part of a file that is mapped into memory."""
    base, seen = array, set()
    # an array of Cython may be its own base
    while base is not None and id(base) not in seen:
        if isinstance(base, mmap.mmap):
            return True
        seen.add(id(base))
        # the base of an array made from a buffer is a memoryview of the buffer
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return False


def file_zeros(size, dtype=np.float64):
    """Return an array of zeros in a file without a name, removed with the array.

    The system can write the file's pages to disk when memory is short. Small arrays
    stay in memory, as a process can open only a limited number of files.
    """
    n_bytes = np.dtype(dtype).itemsize * size
    if n_bytes < _FEW_BYTES:
        return aligned_zeros(size, dtype)
    try:
        with tempfile.TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                # reserve disk space now, or fail: a later write to a full disk would
                # end the process
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            memory = mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        raise no_room() from error
    return np.frombuffer(memory, dtype=dtype, count=size)


def no_room():
    """Return the error for a temporary file that cannot be made."""
    return MemoryError(
        "no room for what training keeps of mapped features in "
        f"{tempfile.gettempdir()}: set TMPDIR to a larger folder"
    )
