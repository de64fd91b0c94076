"""Which pairs of labels interact."""

import numpy as np
from scipy import sparse
from scipy.special import xlogy

# Up to so many labels, pairs="auto" is every pair.
FEW_LABELS = 100
# Counts of independent labels exceed this G statistic once in a thousand pairs: the
# quantile of the chi-squared distribution with one degree of freedom.
SIGNIFICANT = 10.83
# Most pairs of pairs="significant", for each label.
PAIRS_PER_LABEL = 20
# Tables of counts are formed for so many labels at a time.
BLOCK = 256


def check_pairs(pairs, Y):
    """Pairs of labels that interact, each once, the smaller number first.

    Parameters
    ----------
    pairs : str or array-like
        Parameter of `sksstruct.MultilabelPairwise`.
    Y : ndarray of shape (n_samples, n_labels)
        Label indicator.

    Returns
    -------
    pairs : ndarray of shape (n_pairs, 2)
        The pairs.
    """
    n = Y.shape[1]
    if isinstance(pairs, str):
        if pairs == "auto":
            pairs = "all" if n <= FEW_LABELS else "significant"
        if pairs == "all":
            found = np.column_stack(np.triu_indices(n, 1))
        elif pairs == "significant":
            found = significant_pairs(Y)
        else:
            both = sparse.csr_array(Y)
            found = np.column_stack(sparse.triu(both.T @ both, 1).nonzero())
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
    if pairs.min() < 0 or pairs.max() >= n or (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(f"pairs must name two different ones of the {n} labels")
    pairs = np.sort(pairs, axis=1).astype(np.intp)
    if len(np.unique(pairs, axis=0)) < len(pairs):
        raise ValueError("pairs names a pair of labels twice")
    return pairs


def significant_pairs(Y):
    """Pairs of labels that come together, or exclude each other, not by chance.

    These are the pairs whose counts have the largest G statistic, the likelihood-ratio
    test of independence (Dunning, 1993): of a probability below one in a thousand, and
    at most so many for each label.
    """
    n_labels = Y.shape[1]
    Y = sparse.csr_array(Y, dtype=np.float64)
    columns, counts = sparse.csc_array(Y), Y.sum(axis=0)
    found, values = [], []
    for first in range(0, n_labels, BLOCK):
        last = min(first + BLOCK, n_labels)
        both = (columns[:, first:last].T @ Y).toarray()
        G = independence(both, counts[first:last, None], counts[None, :], Y.shape[0])
        # each pair once
        numbers = np.arange(first, last)
        G[np.arange(n_labels)[None, :] <= numbers[:, None]] = 0.0
        rows, others = np.nonzero(G > SIGNIFICANT)
        found.append(np.column_stack([numbers[rows], others]))
        values.append(G[rows, others])
    found, values = np.concatenate(found), np.concatenate(values)
    most = PAIRS_PER_LABEL * n_labels
    if len(found) > most:
        # ties by their order, so that the choice is the same everywhere
        found = found[np.sort(np.argsort(-values, kind="stable")[:most])]
    return found


def independence(both, first, second, n):
    """The G statistic of two labels.

    Parameters
    ----------
    both, first, second : ndarray of float
        How many samples have both labels, the first, and the second.
    n : int
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
