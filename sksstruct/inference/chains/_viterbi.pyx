"""Max-product on chains (Viterbi, 1967).

    max over y of  sum_t unary[t, y_t] + sum_t pairwise[y_t, y_{t+1}]

over labels y_t < n_states at positions t < size. With delta_0 = unary[0] the recursion
is

    delta_t(b) = unary[t, b] + max_a delta_{t-1}(a) + pairwise[a, b]

The forward pass stores the maxima only, so that its loop is vectorized over b. The
backward pass finds the maximizers again, which reads one column of the table per
position. Ties: the last label is the lowest maximizer, and so is every label before it,
given the label after it.
"""

from libc.stdint cimport int32_t

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._pointers cimport const_doubles, const_intps, doubles, int32s
from sksstruct.utils._simd cimport sks_maxplus


cdef void max_product_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step
) noexcept nogil:
    """Replace unary scores by best scores of prefixes: the forward pass of Viterbi."""
    cdef Py_ssize_t t
    # in place: delta_t needs only delta_{t-1} and its own unary scores
    for t in range(1, size):
        sks_maxplus(n_states, ld, delta + (t - 1) * ld,
                    table + (t - 1) * table_step, delta + t * ld)


cdef double viterbi_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step, int32_t* labeling
) noexcept nogil:
    """Write the best labeling of a chain with padded rows, and return its score.

    delta (size x ld) holds the unary scores on entry and the best score of a prefix
    that ends in each label on return; table is (n_states x ld) from -> to, and
    positions t and t + 1 use table + t * table_step (0: one table for all).
    """
    cdef Py_ssize_t t, label
    max_product_padded(size, n_states, ld, delta, table, table_step)
    # a best labeling is a best prefix of full length
    label = best_state(n_states, delta + (size - 1) * ld)
    labeling[size - 1] = <int32_t> label
    # The label after t selects a column of the table; the label at t maximizes the best
    # prefix score up to t plus the column's entry.
    for t in range(size - 2, -1, -1):
        label = best_state_given(n_states, delta + t * ld,
                                 table + t * table_step + label, ld)
        labeling[t] = <int32_t> label
    return delta[(size - 1) * ld + labeling[size - 1]]


def find_labeling(Py_ssize_t n_states, delta, tables, Py_ssize_t step, labeling):
    """Write a best labeling of a chain, and return its score.

    Parameters
    ----------
    n_states : int
        Number of labels.
    delta : ndarray of shape (size, ld)
        Padded unary scores, replaced by the best scores of prefixes.
    tables : ndarray of shape (n_tables * n_states, ld)
        Padded tables.
    step : int
        Distance in memory from the table of one pair of neighbors to the next; 0 for
        one table for all.
    labeling : ndarray of shape (size,), int32
        Output: the labels.
    """
    cdef Py_ssize_t size = len(labeling), ld = delta.shape[1]
    cdef double* values = doubles(delta)
    cdef const double* table = const_doubles(tables)
    cdef int32_t* labels = int32s(labeling)
    cdef double score
    with nogil:
        score = viterbi_padded(size, n_states, ld, values, table, step, labels)
    return score


def find_each(Py_ssize_t n_states, delta, starts, tables, begins, steps, labeling,
              scores):
    """Write a best labeling of each of many chains, and their scores.

    Rows of chain i of `delta` are starts[i] to starts[i + 1]; its first table is number
    begins[i], and steps[i] is 1 if each pair of neighbors has its own table, else 0.
    """
    cdef Py_ssize_t n_chains = len(scores), ld = delta.shape[1], i
    cdef Py_ssize_t table_size = n_states * ld
    cdef double* values = doubles(delta)
    cdef const Py_ssize_t* first = const_intps(starts)
    cdef const double* table = const_doubles(tables)
    cdef const Py_ssize_t* begin = const_intps(begins)
    cdef const Py_ssize_t* step = const_intps(steps)
    cdef int32_t* labels = int32s(labeling)
    cdef double* best = doubles(scores)
    with nogil:
        for i in range(n_chains):
            best[i] = viterbi_padded(
                first[i + 1] - first[i], n_states, ld, values + first[i] * ld,
                table + begin[i] * table_size, step[i] * table_size,
                labels + first[i])
