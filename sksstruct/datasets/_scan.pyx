"""Scopes and tables of factors, as files list them one after the other."""

import numpy as np

from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.math cimport INFINITY

from sksstruct.datasets._tokens cimport Tokens

# Largest number of variables of a factor, as of dimensions of an array.
cdef Py_ssize_t MAX_ARITY = 64


def read_scopes(Tokens tokens, const int64_t[::1] sizes, Py_ssize_t m):
    """Read the scopes of the factors of a UAI file.

    Checks that the file is long enough for the tables before memory is allocated.

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
        Where each scope begins.
    scopes : ndarray of int32
        All scopes, one after the other.
    entries : ndarray of shape (m,), int64
        Number of entries of each table.
    used : ndarray of shape (n_variables,), uint8
        1 if the variable is in a scope, plus 2 for each scope in which it is last, up
        to 5 in all.
    """
    cdef Py_ssize_t n = sizes.shape[0], f, i, size = 0
    cdef int64_t arity, variable = 0, total, needed = 0
    # no scope is longer than the file
    cdef Py_ssize_t[::1] first = np.zeros(m + 1, dtype=np.intp)
    cdef int64_t[::1] entries = np.zeros(m, dtype=np.int64)
    cdef unsigned char[::1] used = np.zeros(n, dtype=np.uint8)
    cdef int32_t[::1] scopes = np.empty(2 * m, dtype=np.int32)
    for f in range(m):
        tokens.read_integer(0, min(n, tokens.left, MAX_ARITY),
                            f"the size of the scope of factor {f}", &arity)
        what, total = f"a variable of factor {f}", 1
        if size + arity > scopes.shape[0]:
            longer = np.empty(2 * (size + arity), dtype=np.int32)
            longer[:size] = scopes[:size]
            scopes = longer
        for _ in range(arity):
            tokens.read_integer(0, n - 1, what, &variable)
            for i in range(first[f], size):
                if scopes[i] == variable:
                    tokens.fail(f"factor {f} names a variable twice")
            scopes[size] = variable
            size += 1
            used[variable] |= 1
            # beyond the length of the file it no longer matters by how much
            if total <= tokens._size:
                total *= sizes[variable]
        if arity:
            used[variable] = min(used[variable] + 2, 5)
        first[f + 1] = size
        entries[f] = total
        needed += total + 1
        if needed > tokens.left:
            tokens.fail(
                f"the tables up to factor {f} have {needed - f - 1} entries, which do "
                "not fit into the file"
            )
    return (np.asarray(first), np.array(scopes[:size]), np.asarray(entries),
            np.asarray(used))


def read_tables(Tokens tokens, const int64_t[::1] entries, Py_ssize_t f,
                double[::1] block, bint infinite):
    """Read as many tables of a UAI file as fit into a block, each after its size.

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
        The first table that was not read, and the number of entries that were read.
    """
    cdef Py_ssize_t at = 0
    cdef int64_t given
    while f < entries.shape[0] and at + entries[f] <= block.shape[0]:
        what = f"the table of factor {f}"
        tokens.read_integer(-INT64_MAX, INT64_MAX, f"the size of {what}", &given)
        if given != entries[f]:
            tokens.fail(f"{what} has {entries[f]} entries, not {given}")
        tokens.fill(block[at:at + entries[f]], what, infinite)
        at += entries[f]
        f += 1
    return f, at


def read_tuples(Tokens tokens, const int64_t[::1] shape, Py_ssize_t count, top,
                double[::1] scores, Py_ssize_t f):
    """Read tuples of states with their costs, as a WCSP file lists them.

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
        The flat table; receives minus the costs.
    f : int
        Number of the cost function, for errors.
    """
    cdef Py_ssize_t i, at
    cdef int64_t state = 0
    cdef int64_t cost = 0
    # costs are compared as integers: beyond 2 ** 53 floats have gaps
    cdef int64_t limit = min(top, INT64_MAX)
    cdef unsigned char[::1] seen = np.zeros(scores.shape[0], dtype=np.uint8)
    what_state, what_cost = f"a state of cost function {f}", f"a cost of function {f}"
    for _ in range(count):
        at = 0
        for i in range(shape.shape[0]):
            tokens.read_integer(0, shape[i] - 1, what_state, &state)
            at = at * shape[i] + state
        if seen[at]:
            tokens.fail(f"cost function {f} has a tuple twice")
        seen[at] = 1
        if tokens._advance() and tokens._read_small(&cost):
            if cost < 0:
                tokens.fail(f"{what_cost} must be at least 0, got {cost}")
            scores[at] = -INFINITY if cost >= limit else -<double>cost
        else:
            large = tokens.integer(what_cost, 0)
            scores[at] = -np.inf if large >= top else -float(large)
