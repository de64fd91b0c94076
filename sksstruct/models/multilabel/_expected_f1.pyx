"""The set of labels with the largest expected F1, for labels that are independent.

With probabilities p_1 >= ... >= p_n, the best set of k labels is the first k (Ye et
al., 2012, Theorem 1). Let S be the number of right labels among these k, and R the
number of right labels among the others, both sums of independent variables. Then

    f_k = E[2 S / (k + S + R)] = sum_s 2 s P(S = s) E[1 / (k + s + R)],  f_0 = P(R = 0)

where the empty set has an F1 of one if no label is right. Algorithm 1 of the paper
takes n^2 steps. Here most k are left out: as s / (k + s) is concave in s, f_k is at
most 2 m / (1 + m), where m is the mean of the first k probabilities, which falls with
k. The distribution of R is stored only where it is not rounding error, so that unlikely
labels take little time.
"""

import numpy as np

from libc.string cimport memcpy

# Probabilities below this are dropped: they are below the rounding of a sum.
cdef double ROUNDING = 1e-18


cdef Py_ssize_t _convolve(double p, Py_ssize_t last, double* mass) noexcept nogil:
    """Add an independent variable, which is 1 with probability p and else 0, to a sum.

    `mass` is the distribution of the sum on 0 <= s <= last. Returns the new `last`.
    """
    cdef Py_ssize_t s
    mass[last + 1] = p * mass[last]
    for s in range(last, 0, -1):
        mass[s] += p * (mass[s - 1] - mass[s])
    mass[0] -= p * mass[0]
    last += 1
    while last > 0 and mass[last] < ROUNDING:
        last -= 1
    return last


cdef Py_ssize_t _most(Py_ssize_t n, const double* p, double least) noexcept nogil:
    """Return a number of labels that the best set does not exceed, if some set has an
    expected F1 of `least`."""
    cdef Py_ssize_t k
    cdef double total = 0.0, mean
    for k in range(1, n + 1):
        total += p[k - 1]
        mean = total / k
        if 2.0 * mean < least * (1.0 + mean):
            return k - 1
    return n


cdef double _of_first(Py_ssize_t k, const double* right,
                      const double* inverse) noexcept nogil:
    """Return f_k, the expected F1 of k labels, from P(S = s) and E[1 / (i + R)]."""
    cdef Py_ssize_t s
    cdef double total = 0.0
    for s in range(1, k + 1):
        total += s * right[s] * inverse[k + s]
    return 2.0 * total


cdef inline double* _row(Py_ssize_t k, double* prefixes) noexcept nogil:
    """Return the distribution of S of the first k labels, of k + 1 entries."""
    return prefixes + k * (k + 1) // 2


cdef Py_ssize_t _best_size(Py_ssize_t n, const double* p, double* prefixes,
                           double* others, double* inverse) noexcept nogil:
    """Return the size of the best set of labels, whose probabilities decrease."""
    cdef Py_ssize_t k, i, r, last = 0, most, best = 0
    cdef double value, empty = 1.0 - p[0], rest = 0.0, largest
    for k in range(1, n):
        empty *= 1.0 - p[k]
        rest += p[k]
    # by Jensen's inequality f_1 is at least p_1 2 / (2 + E R)
    most = _most(n, p, max(empty, p[0] * 2.0 / (2.0 + rest)))
    # distribution of R for all labels but the first `most`, and E[1 / (i + R)]
    others[0] = 1.0
    for k in range(most, n):
        last = _convolve(p[k], last, others)
    for i in range(1, 2 * most + 1):
        inverse[i] = 0.0
        for r in range(last + 1):
            inverse[i] += others[r] / (i + r)
    # distributions of S for the first k labels
    prefixes[0] = 1.0
    for k in range(most):
        memcpy(_row(k + 1, prefixes), _row(k, prefixes), (k + 1) * sizeof(double))
        _convolve(p[k], k, _row(k + 1, prefixes))
    # from k = most down to 1: after each step, R counts label k, too
    largest = empty
    for k in range(most, 0, -1):
        value = _of_first(k, _row(k, prefixes), inverse)
        # among nonempty sets with equal values the smallest is chosen; the empty set is
        # chosen only if its value is larger
        if value >= largest:
            largest, best = value, k
        for i in range(1, 2 * k - 1):
            inverse[i] += p[k - 1] * (inverse[i + 1] - inverse[i])
    return best


def best_f1_sets(probabilities, Py_ssize_t start, Py_ssize_t stop,
                 unsigned char[:, ::1] labels):
    """Write the sets of labels with the largest expected F1.

    Parameters
    ----------
    probabilities : ndarray of shape (n_samples, n_labels), float64
        Probability of each label, independent of the others.
    start, stop : int
        Samples start <= i < stop.
    labels : ndarray of shape (n_samples, n_labels), uint8
        1 is written for labels of the set, and 0 for the others.
    """
    cdef Py_ssize_t n_labels = probabilities.shape[1], i, k, size
    order = np.argsort(-probabilities[start:stop], axis=1, kind="stable")
    falling = np.take_along_axis(probabilities[start:stop], order, axis=1)
    cdef const double[:, ::1] p = np.ascontiguousarray(falling)
    cdef const Py_ssize_t[:, ::1] label = order.astype(np.intp)
    # the loops use the rows up to `most`, the size of the largest set that they try
    cdef double[::1] prefixes = np.empty((n_labels + 1) * (n_labels + 2) // 2)
    cdef double[::1] others = np.empty(n_labels + 1), inverse = np.empty(
        2 * n_labels + 1)
    with nogil:
        for i in range(stop - start):
            size = _best_size(n_labels, &p[i, 0], &prefixes[0], &others[0], &inverse[0])
            for k in range(n_labels):
                labels[start + i, label[i, k]] = k < size
