"""The choice of the pairs of labels that interact."""

import numpy as np
from scipy import sparse
from scipy.special import xlogy

# Up to this number of labels, pairs="auto" chooses every pair.
FEW_LABELS = 100
# Of pairs of independent labels, one in a thousand has a G statistic above this: the
# quantile of the chi-squared distribution with one degree of freedom.
SIGNIFICANT = 10.83
# Largest number of pairs with pairs="significant", divided by the number of labels.
PAIRS_PER_LABEL = 20
# Number of labels whose joint counts with all labels are formed at a time.
BLOCK = 256


def counts_pairs(pairs, n_labels):
    """Whether `pairs` are chosen by how often labels occur together."""
    if isinstance(pairs, str) and pairs == "auto":
        return n_labels > FEW_LABELS
    return isinstance(pairs, str) and pairs != "all"


def joint_counts(Y):
    """For each pair of labels, how many samples have both (CSR); number of samples."""
    Y = sparse.csr_array(Y, dtype=np.float64)
    return sparse.csr_array(Y.T @ Y), Y.shape[0]


def known_counts(Y, known):
    """Counts of the samples in which the values of both of two labels are known.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_labels)
        Label indicator.
    known : ndarray of shape (n_samples, n_labels), bool
        Which entries of Y are known.

    Returns
    -------
    together : csr_array of shape (n_labels, n_labels)
        How many of these samples have both labels.
    n_samples, first : ndarray of shape (n_labels, n_labels)
        Numbers of these samples, and of these samples with the label of the row.
    """
    on, known = ((Y == 1) & known).astype(np.float64), known.astype(np.float64)
    return joint_counts(on)[0], known.T @ known, on.T @ known


def check_pairs(pairs, n_labels, count):
    """Pairs of labels that interact, each once, the smaller number first.

    Parameters
    ----------
    pairs : str or array-like
        Parameter of `sksstruct.MultilabelPairwise`.
    n_labels : int
        Number of labels.
    count : callable
        ``count()`` returns `joint_counts` or `known_counts`; called only if needed.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2)
        The pairs.
    """
    n = n_labels
    if isinstance(pairs, str):
        if not counts_pairs(pairs, n):
            found = np.column_stack(np.triu_indices(n, 1))
        elif pairs == "cooccurring":
            found = np.column_stack(sparse.triu(count()[0], 1).nonzero())
        else:
            found = significant_pairs(*count())
        return np.ascontiguousarray(found, dtype=np.intp).reshape(-1, 2)
    try:
        pairs = np.asarray(pairs)
    except ValueError:
        raise ValueError("pairs must be rows of two labels each") from None
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.intp)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(
            "pairs must be 'auto', 'all', 'significant', 'cooccurring', or an array of "
            f"integers of shape (n_pairs, 2), got {pairs.dtype} of shape {pairs.shape}"
        )
    wrong = ((pairs < 0) | (pairs >= n)).any(axis=1) | (pairs[:, 0] == pairs[:, 1])
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"pairs[{k}] must be two different labels in [0, {n}), got "
            f"{pairs[k].tolist()}"
        )
    pairs = np.sort(pairs, axis=1).astype(np.intp)
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("pairs names a pair of labels twice")
    return pairs


def significant_pairs(together, n_samples, present=None):
    """Pairs of labels that occur together more, or less, often than by chance.

    The counts of these pairs have a G statistic, that of the likelihood-ratio test of
    independence (Dunning, 1993), above `SIGNIFICANT`. If these are more than
    `PAIRS_PER_LABEL` pairs for each label, the pairs with the largest statistics are
    chosen. Arguments are results of `joint_counts` or `known_counts`.
    """
    n_labels, counts = together.shape[0], together.diagonal()
    found, values = [], []
    for first in range(0, n_labels, BLOCK):
        last = min(first + BLOCK, n_labels)
        both = together[first:last].toarray()
        n, ends = n_samples, (counts[first:last, None], counts[None, :])
        if present is not None:
            n, ends = n[first:last], (present[first:last], present.T[first:last])
        G = independence(both, *ends, n)
        # each pair counts once
        numbers = np.arange(first, last)
        G[np.arange(n_labels)[None, :] <= numbers[:, None]] = 0.0
        rows, others = np.nonzero(G > SIGNIFICANT)
        found.append(np.column_stack([numbers[rows], others]))
        values.append(G[rows, others])
    found, values = np.concatenate(found), np.concatenate(values)
    most = PAIRS_PER_LABEL * n_labels
    if len(found) > most:
        # a stable sort breaks ties in the same way on all machines
        found = found[np.sort(np.argsort(-values, kind="stable")[:most])]
    return found


def independence(both, first, second, n):
    """The G statistic of two labels.

    Parameters
    ----------
    both, first, second : ndarray of float
        How many samples have both labels, the first, and the second.
    n : int or ndarray
        Number of samples.

    Returns
    -------
    G : ndarray
        Twice the logarithm of the likelihood ratio.
    """
    cells = both, first - both, second - both, n - first - second + both
    margins = first, second, n - first, n - second
    G = sum(xlogy(cell, cell) for cell in cells) + xlogy(n, n)
    return 2.0 * (G - sum(xlogy(margin, margin) for margin in margins))
