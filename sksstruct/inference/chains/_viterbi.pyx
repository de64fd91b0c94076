"""Max-product on chains (Viterbi, 1967).

    max over y of  sum_t unary[t, y_t] + sum_t pairwise[y_t, y_{t+1}]

over labels y_t < n_states at positions t < size. With delta_0 = unary[0] the recursion
is

    delta_t(b) = unary[t, b] + max_a delta_{t-1}(a) + pairwise[a, b]

The forward pass keeps the maxima only, so that it runs over whole vectors; the
maximizers are found again while going back, which costs one column per position.
Ties: the last label is the lowest maximizer, and so is every label before it given
the one after it.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._simd cimport sks_maxplus

from sksstruct.inference._checks import check_chain
from sksstruct.inference.chains._sparse_viterbi import viterbi_sparse
from sksstruct.utils._layout import pad_rows, padded_length


cdef void max_product_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step
) noexcept nogil:
    """The forward pass of `viterbi_padded`."""
    cdef Py_ssize_t t
    # in place: delta_t needs delta_{t-1} and its own unary scores only
    for t in range(1, size):
        sks_maxplus(n_states, ld, delta + (t - 1) * ld,
                    table + (t - 1) * table_step, delta + t * ld)


cdef double viterbi_padded(
    Py_ssize_t size, Py_ssize_t n_states, Py_ssize_t ld, double* delta,
    const double* table, Py_ssize_t table_step, int32_t* labeling
) noexcept nogil:
    """Best labeling of a chain whose tables have rows padded to ld.

    delta (size x ld) holds the unary scores on entry and the best score of a prefix
    that ends in each label on return; table is (n_states x ld) from -> to, and
    position t uses table + t * table_step (0: one table for all).
    """
    cdef Py_ssize_t t, label
    max_product_padded(size, n_states, ld, delta, table, table_step)
    # nothing follows the last label: the best prefix that ends in it is the labeling
    label = best_state(n_states, delta + (size - 1) * ld)
    labeling[size - 1] = <int32_t> label
    # The label after t fixes a column of the table: the best prefix up to t is the one
    # that goes best with it.
    for t in range(size - 2, -1, -1):
        label = best_state_given(n_states, delta + t * ld,
                                 table + t * table_step + label, ld)
        labeling[t] = <int32_t> label
    return delta[(size - 1) * ld + labeling[size - 1]]


def viterbi(unary, pairwise):
    """Find the best labeling of a chain (max-product).

    Parameters
    ----------
    unary : array-like of shape (T, K)
        Score of each of K labels at each of T >= 1 positions; ``-inf`` forbids a
        label.
    pairwise : array-like of shape (K, K) or (T - 1, K, K), or sparse (K, K)
        Score of each pair of neighboring labels, from -> to: one table for all
        positions, or one for each pair of neighbors. ``-inf`` forbids a pair. Pairs
        that a sparse table does not store have the score zero, and take no time.

    Returns
    -------
    labeling : ndarray of shape (T,), int32
        A labeling with the highest score. If several have it, the one with the lowest
        last label. The second to last label breaks remaining ties, and so on.
    score : float
        Its score. If every labeling is forbidden, the score is ``-inf`` and the
        labeling is arbitrary.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, sums of scores could
        overflow, or an index of a sparse table is out of range.

    References
    ----------
    A. J. Viterbi, "Error bounds for convolutional codes and an asymptotically optimum
    decoding algorithm", IEEE Transactions on Information Theory 13(2), 1967.

    Examples
    --------
    >>> from sksstruct.inference import viterbi
    >>> labeling, score = viterbi([[1, 0], [0, 0.5]], [[1, 0], [0, 1]])
    >>> labeling.tolist(), score
    ([0, 0], 2.0)
    """
    # its checks differ, since nothing of size K x K may be made
    if sparse.issparse(pairwise):
        return viterbi_sparse(unary, pairwise)
    unary, pairwise = check_chain(unary, pairwise)
    cdef Py_ssize_t size = unary.shape[0], n_states = unary.shape[1]
    cdef Py_ssize_t ld = padded_length(n_states)
    cdef double[:, ::1] delta = pad_rows(unary)
    # A single position has no pairs, and tables may be missing; there must be one to
    # point at.
    cdef double[:, ::1] tables = pad_rows(
        pairwise.reshape(-1, n_states) if pairwise.size
        else np.zeros((n_states, n_states))
    )
    cdef Py_ssize_t step = n_states * ld if pairwise.ndim == 3 else 0
    labeling = np.empty(size, dtype=np.int32)
    cdef int32_t[::1] labels = labeling
    cdef double score
    with nogil:
        score = viterbi_padded(size, n_states, ld, &delta[0, 0], &tables[0, 0], step,
                               &labels[0])
    return labeling, score


def viterbi_group(unary, starts, tables, table_begins, table_steps):
    """Find the best labelings of many chains with K labels each, without checks.

    Parameters
    ----------
    unary : ndarray of shape (n_positions, K)
        Scores of all chains, one after the other.
    starts : ndarray of shape (n_chains + 1,), intp
        First position of each chain, and the end of the last one.
    tables : ndarray of shape (n_tables, K, K)
        Tables of all chains; at least one.
    table_begins : ndarray of shape (n_chains,), intp
        First table of each chain.
    table_steps : ndarray of shape (n_chains,), intp
        1 if each pair of neighbors has its own table, 0 if they share one.

    Returns
    -------
    labeling : ndarray of shape (n_positions,), int32
        What `viterbi` finds for each chain.
    scores : ndarray of shape (n_chains,)
        Their scores.
    """
    cdef Py_ssize_t n_states = unary.shape[1], ld = padded_length(n_states)
    cdef Py_ssize_t n_chains = len(table_begins), i, table_size = n_states * ld
    cdef double[:, ::1] delta = pad_rows(unary)
    cdef double[:, ::1] rows = pad_rows(tables.reshape(-1, n_states))
    cdef const Py_ssize_t[::1] first = starts
    cdef const Py_ssize_t[::1] begin = table_begins, step = table_steps
    labeling = np.empty(len(unary), dtype=np.int32)
    scores = np.empty(n_chains)
    cdef int32_t[::1] labels = labeling
    cdef double[::1] best = scores
    with nogil:
        for i in range(n_chains):
            best[i] = viterbi_padded(
                first[i + 1] - first[i], n_states, ld, &delta[first[i], 0],
                &rows[0, 0] + begin[i] * table_size, step[i] * table_size,
                &labels[first[i]])
    return labeling, scores
