"""Sequences in which one interval is marked, as a structure.

Score of an interval y = (start, stop) of a sequence with rows of features F:

    sum_{start <= t < stop} F_t . w + bias

One block of weights of one column scores every position; the keys of an interval are
its positions. The loss is the number of positions on which y and the observed interval
y_i differ, divided by the length |y_i|. It is a sum over positions as well,

    |y_i| L(y) = |y_i| + sum_{t in y} (1 - 2 [t in y_i]),

so that the oracle is the same with and without the loss.

The exp oracle sums over the intervals that contain a position: over where they start,
from the left, and over where they stop, from the right.
"""

import numpy as np

from libc.math cimport INFINITY, exp, log
from libc.stdint cimport int32_t

from afternoon._interval cimport Interval, find_interval
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure


cdef class Intervals(Structure):
    """Intervals of sequences.

    Parameters
    ----------
    sizes, y_true, max_keys : objects
        As of `Structure`: two positions, and a key for each position.
    lengths : ndarray of shape (n_examples,), intp
        Lengths of the sequences.
    """

    # What solvers may ask for.
    oracles = ("max", "topk", "exp")
    cdef const Py_ssize_t[::1] _lengths

    def __init__(self, sizes, y_true, max_keys, lengths):
        self._lengths = lengths
        # logarithms of sums over where intervals start, and over where they stop
        self.memory_size = 2 * (lengths.max() + 1)

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return 0 <= y[0] < y[1] <= self._lengths[i]

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        """Keys of an interval, and how many there are."""
        cdef int32_t t
        for t in range(y[0], y[1]):
            keys[t - y[0]] = t
        return y[1] - y[0]

    cdef int add_loss(self, Potentials* at, Py_ssize_t i,
                      double scale) except -1 nogil:
        """Add `scale` times the loss to the scores of positions and the constant."""
        cdef Py_ssize_t start = self._y_true[2 * i], stop = self._y_true[2 * i + 1], t
        cdef double cost = scale / (stop - start)
        for t in range(self._lengths[i]):
            at.theta[t] += -cost if start <= t < stop else cost
        at.constant += scale
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        """Loss of an interval."""
        cdef int32_t start = self._y_true[2 * i], stop = self._y_true[2 * i + 1]
        cdef int32_t both = max(min(stop, y[1]) - max(start, y[0]), 0)
        value[0] = <double> (stop - start + y[1] - y[0] - 2 * both) / (stop - start)
        return 0

    cdef int decode(self, Potentials* at, OracleMemory own, Py_ssize_t i,
                    int32_t* y) except -1 nogil:
        """The best interval."""
        cdef Interval best = find_interval(self._lengths[i], at.theta)
        y[0], y[1] = <int32_t> best.start, <int32_t> best.stop
        return 0

    def find_topk(self, i, theta, others, k):
        """The k best intervals: all of them are few enough to be sorted."""
        sums = np.concatenate([[0.0], np.cumsum(theta)])
        start, stop = np.triu_indices(len(sums), 1)
        order = np.argsort(sums[start] - sums[stop], kind="stable")[:k]
        return np.column_stack([start[order], stop[order]])

    cdef int expect(self, Potentials* at, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        """The probability that each position is in the interval."""
        cdef Py_ssize_t n_positions = self._lengths[i], t
        cdef double* started = at.memory
        cdef double* stops = at.memory + n_positions + 1
        cdef double total, score
        # intervals that contain position t - 1, up to there, and that stop there or
        # earlier, by the scores of their positions
        started[0] = total = -INFINITY
        for t in range(1, n_positions + 1):
            score = at.theta[t - 1] / mu
            started[t] = score + add(0.0, started[t - 1])
            total = add(total, started[t])
        # what follows position t - 1, if the interval does
        stops[n_positions] = 0.0
        for t in range(n_positions - 1, 0, -1):
            stops[t] = add(0.0, at.theta[t] / mu + stops[t + 1])
        for t in range(1, n_positions + 1):
            means[t - 1] = exp(started[t] + stops[t] - total)
        value[0] = at.constant + mu * total
        return 0


cdef inline double add(double a, double b) noexcept nogil:
    """Return log(exp(a) + exp(b))."""
    cdef double high = max(a, b)
    if high == -INFINITY:
        return high
    return high + log(exp(a - high) + exp(b - high))
