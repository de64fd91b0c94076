"""Pointers to the entries of NumPy arrays, checked once, where a kernel is set up."""

from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_WRITABLE, PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.string cimport strchr


cdef const void* address(object array, char kind, Py_ssize_t itemsize,
                         bint writable) except? NULL:
    """Return the address of the first entry; the caller keeps the array alive.

    `kind` is a kind of NumPy types: "f", "i" or "u".
    """
    cdef Py_buffer view
    cdef const char* codes = "bhilqn"
    cdef const char* letter
    cdef const void* entries
    cdef bint fits
    PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT
                       | (PyBUF_WRITABLE if writable else 0))
    if kind == c"f":
        codes = "fd"
    elif kind == c"u":
        codes = "BHILQN?"
    # A type in native byte order has a single letter, perhaps after "@", "=" or "^".
    # Other signs mean sizes or byte orders of other machines.
    letter = view.format
    if letter[0] != 0 and strchr("@=^", letter[0]) != NULL:
        letter += 1
    fits = (view.itemsize == itemsize and letter[0] != 0 and letter[1] == 0
            and strchr(codes, letter[0]) != NULL)
    entries = view.buf
    PyBuffer_Release(&view)
    if not fits:
        raise TypeError(f"a kernel takes entries of kind '{chr(kind)}' with {itemsize} "
                        f"bytes, got {array.dtype}")
    return entries


def checked(array, str kind, Py_ssize_t itemsize, bint writable=False):
    """Return the address of an array's entries, or raise the error that kernels raise.

    Parameters
    ----------
    array : ndarray
        The array.
    kind : str
        Kind of NumPy types: "f", "i" or "u".
    itemsize : int
        Size of an entry in bytes.
    writable : bool, default=False
        Whether the entries must be writable.

    Returns
    -------
    address : int
        As ``array.ctypes.data``.
    """
    return <size_t> address(array, ord(kind), itemsize, writable)
