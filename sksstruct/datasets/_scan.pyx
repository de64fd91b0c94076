"""Readers of the scopes and tables of factors from the tokens of a file."""

from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.datasets._tokens cimport Tokens
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._pointers cimport (
    const_int64s, doubles, int32s, int64s, intps, uint8s,
)

from numpy import empty, zeros

# Largest number of variables of a factor: NumPy arrays have at most 64 dimensions.
cdef Py_ssize_t MAX_ARITY = 64


def read_scopes(Tokens tokens, sizes, Py_ssize_t m):
    """Read the scopes of the factors of a UAI file.

    An error is raised before memory is allocated if the file is too short for the
    tables.

    Parameters
    ----------
    tokens : Tokens
        The file, up to the first scope.
    sizes : ndarray of shape (n_variables,), int64
        Number of states of each variable.
    m : int
        Number of factors.

    Returns
    -------
    first : ndarray of shape (m + 1,), intp
        Offsets of the scopes.
    scopes : ndarray of int32
        All scopes, concatenated.
    entries : ndarray of shape (m,), int64
        Number of entries of each table.
    used : ndarray of shape (n_variables,), uint8
        1 if the variable is in a scope, plus 2 for each scope in which it is last; at
        most 5.
    """
    first, entries = zeros(m + 1, dtype="p"), zeros(m, dtype="i8")
    used = zeros(len(sizes), dtype="u1")
    cdef ScopeReader reader = ScopeReader(tokens, sizes)
    reader.read(m, intps(first), int64s(entries), uint8s(used))
    scopes = empty(first[m], dtype="i4")
    if len(scopes):
        memcpy(int32s(scopes), reader.scopes, len(scopes) * sizeof(int32_t))
    return first, scopes, entries, used


cdef class ScopeReader:
    """Reader of scopes into a growing buffer."""

    cdef Tokens tokens
    cdef Py_ssize_t n_variables, capacity
    cdef object _sizes
    cdef const int64_t* sizes
    cdef int32_t* scopes

    def __cinit__(self, Tokens tokens, sizes):
        self.tokens, self._sizes, self.n_variables = tokens, sizes, len(sizes)
        self.sizes = const_int64s(sizes)

    def __dealloc__(self):
        free(self.scopes)

    cdef int read(self, Py_ssize_t m, Py_ssize_t* first, int64_t* entries,
                  uint8_t* used) except -1:
        """Read m scopes; see `read_scopes`."""
        cdef Tokens tokens = self.tokens
        cdef Py_ssize_t f, i, size = 0
        cdef int64_t arity, variable = 0, total, needed = 0
        for f in range(m):
            tokens.read_integer(0, min(self.n_variables, tokens.left, MAX_ARITY),
                                f"the size of the scope of factor {f}", &arity)
            what, total = f"a variable of factor {f}", 1
            reserve(<void**> &self.scopes, &self.capacity, size + arity,
                    sizeof(int32_t))
            for _ in range(arity):
                tokens.read_integer(0, self.n_variables - 1, what, &variable)
                for i in range(first[f], size):
                    if self.scopes[i] == variable:
                        tokens.fail(f"factor {f} names a variable twice")
                self.scopes[size] = <int32_t> variable
                size += 1
                used[variable] |= 1
                # stop at a product above the length of the file, before it overflows
                if total <= tokens._size:
                    total *= self.sizes[variable]
            if arity:
                used[variable] = min(used[variable] + 2, 5)
            first[f + 1] = size
            entries[f] = total
            needed += total + 1
            if needed > tokens.left:
                tokens.fail(
                    f"the tables up to factor {f} have {needed - f - 1} entries, which "
                    "do not fit into the file"
                )
        return 0


def read_tables(Tokens tokens, entries, Py_ssize_t f, block, bint infinite):
    """Read the size and the entries of as many tables of a UAI file as fit a block.

    Parameters
    ----------
    tokens : Tokens
        The file, up to the size of table f.
    entries : ndarray of int64
        Number of entries of each table.
    f : int
        The first table to read.
    block : ndarray of float64
        Receives the entries.
    infinite : bool
        Whether -inf is allowed.

    Returns
    -------
    next, size : int
        Number of the first table that was not read, and number of entries read.
    """
    cdef Py_ssize_t at = 0, m = len(entries), room = len(block)
    cdef const int64_t* size = const_int64s(entries)
    cdef double* values = doubles(block)
    cdef int64_t stated
    while f < m and at + size[f] <= room:
        what = f"the table of factor {f}"
        tokens.read_integer(-INT64_MAX, INT64_MAX, f"the size of {what}", &stated)
        if stated != size[f]:
            tokens.fail(f"{what} has {size[f]} entries, not {stated}")
        tokens._fill(size[f], values + at, what, infinite)
        at += size[f]
        f += 1
    return f, at


def read_tuples(Tokens tokens, shape, Py_ssize_t count, top, scores, Py_ssize_t f):
    """Read tuples of states with their costs from a WCSP file.

    Parameters
    ----------
    tokens : Tokens
        The file, up to the first tuple.
    shape : ndarray of shape (n_scope,), int64
        Number of states of each variable.
    count : int
        Number of tuples.
    top : int
        Cost that forbids a tuple.
    scores : ndarray of float64
        The flattened table, which receives minus the costs.
    f : int
        Number of the cost function, for errors.
    """
    cdef Py_ssize_t i, at, n = len(shape)
    cdef const int64_t* sizes = const_int64s(shape)
    cdef double* values = doubles(scores)
    cdef int64_t state = 0
    cdef int64_t cost = 0
    # costs are compared as integers: beyond 2 ** 53 floats have gaps
    cdef int64_t limit = min(top, INT64_MAX)
    flags = bytearray(len(scores))
    cdef uint8_t* seen = <uint8_t*> <char*> flags
    what_state, what_cost = f"a state of cost function {f}", f"a cost of function {f}"
    for _ in range(count):
        at = 0
        for i in range(n):
            tokens.read_integer(0, sizes[i] - 1, what_state, &state)
            at = at * sizes[i] + state
        if seen[at]:
            tokens.fail(f"cost function {f} has a tuple twice")
        seen[at] = 1
        if tokens._advance() and tokens._read_small(&cost):
            if cost < 0:
                tokens.fail(f"{what_cost} must be at least 0, got {cost}")
            values[at] = -INFINITY if cost >= limit else -<double>cost
        else:
            large = tokens.integer(what_cost, 0)
            values[at] = -INFINITY if large >= top else -float(large)
