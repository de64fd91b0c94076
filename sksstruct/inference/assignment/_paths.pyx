"""Longest paths in dense graphs without cycles of positive gain."""

import numpy as np

from libc.math cimport INFINITY

from sksstruct.utils._simd cimport sks_raise

from sksstruct.utils._layout import pad_rows


def longest_paths(gains):
    """Gain of the best path between every two nodes (Floyd and Warshall).

    gains (n, n) has those of single arcs, -inf where there is none. Rounding may make
    a cycle gain a little: the way from a node to itself counts as 0.
    """
    cdef Py_ssize_t n = len(gains), i, k
    cdef double[:, ::1] paths = pad_rows(gains)
    cdef Py_ssize_t ld = paths.shape[1]
    cdef double gain
    with nogil:
        for i in range(n):
            paths[i, i] = 0.0
        for k in range(n):
            for i in range(n):
                gain = paths[i, k]
                if i != k and gain > -INFINITY:
                    sks_raise(ld, gain, &paths[k, 0], &paths[i, 0])
        for i in range(n):
            paths[i, i] = 0.0
    return np.asarray(paths)[:, :n]


def potentials(gains):
    """Least prices >= 0 with price[s] >= price[r] + gains[r, s] (Bellman and Ford)."""
    cdef Py_ssize_t n = len(gains), r, s, _
    cdef const double[:, ::1] arcs = pad_rows(gains)
    cdef double[:, ::1] prices = pad_rows([[0.0] * n])
    cdef Py_ssize_t ld = arcs.shape[1]
    cdef double total, last = 0.0
    with nogil:
        for _ in range(n):
            for r in range(n):
                sks_raise(ld, prices[0, r], &arcs[r, 0], &prices[0, 0])
            total = 0.0
            for s in range(n):
                total += prices[0, s]
            if total == last:
                break
            last = total
    return np.asarray(prices)[0, :n]
