"""Features on pairs of labels: their columns, and the weights that exist.

A feature j of position t that is named in `transition_features` adds its value times a
weight of (j, y_{t-1}, y_t) to the score. A weight exists if the training data contain
its triple.
"""

import numpy as np
from scipy import sparse

from sksstruct.utils._mixed import MixedRows


class PairSupport:
    """The triples (feature, from, to) that have a weight.

    Parameters
    ----------
    keys : ndarray of int64
        ``(feature * n_labels + from) * n_labels + to``, ascending.
    n_features, n_labels : int
        Numbers of features and of labels.

    Attributes
    ----------
    n_weights : int
        Number of triples.
    """

    def __init__(self, keys, n_features, n_labels):
        self.keys, self.n_features, self.n_labels = keys, n_features, n_labels
        self.n_weights = len(keys)

    @classmethod
    def seen(cls, data, columns):
        """Return the triples (feature, label before, label) that training data contain.

        Parameters
        ----------
        data : TrainingData
            Sequences with labels.
        columns : ndarray of int
            The features that have weights on pairs of labels.
        """
        n_features, n_labels = data.packed.n_features, len(data.classes)
        rows = pair_rows(data.packed.values, columns).tocoo()
        later = np.ones(len(data.labels), dtype=bool)
        later[data.packed.offsets[:-1]] = False
        if data.known is not None:
            later &= data.known
            later[1:] &= data.known[:-1]
        seen = later[rows.row]
        position, feature = rows.row[seen], columns[rows.col[seen]].astype(np.int64)
        labels = data.labels.astype(np.int64)
        pair = labels[position - 1] * n_labels + labels[position]
        keys = np.unique(feature * n_labels**2 + pair)
        return cls(keys, n_features, n_labels)

    @classmethod
    def stored(cls, coef):
        """Return the triples that a CSR array of shape (n_features, n_labels**2)
        stores."""
        n_features, n_pairs = coef.shape
        feature = np.repeat(np.arange(n_features, dtype=np.int64), np.diff(coef.indptr))
        return cls(feature * n_pairs + coef.indices, n_features, round(n_pairs**0.5))

    def coef(self, weights):
        """Return the weights as a CSR array of shape (n_features, n_labels**2)."""
        shape = self.n_features, self.n_labels**2
        feature, pair = np.divmod(self.keys, shape[1])
        indptr = np.searchsorted(feature, np.arange(self.n_features + 1))
        return sparse.csr_array((np.array(weights), pair, indptr), shape=shape)

    def union(self, other):
        """Return the triples of both supports."""
        keys = np.union1d(self.keys, other.keys)
        return PairSupport(keys, self.n_features, self.n_labels)

    def places_in(self, other):
        """Return the indices of the weights in a support that contains this support."""
        return np.searchsorted(other.keys, self.keys)

    def tables(self, ld):
        """Return features with weights, the first weight of each, and table cells.

        There is a cell ``from * ld + to`` for each weight. The list of first weights
        ends with the number of weights.
        """
        feature, pair = np.divmod(self.keys, self.n_labels**2)
        columns, starts = np.unique(feature, return_index=True)
        before, after = np.divmod(pair, self.n_labels)
        return columns, np.append(starts, self.n_weights), before * ld + after


def no_support(n_features, n_labels):
    """Return a support without any weight."""
    return PairSupport(np.zeros(0, dtype=np.int64), n_features, n_labels)


def seen_triples(data):
    """Return the triples of consecutive labels in training data, as a `PairSupport`.

    The feature of a triple is its first label.
    """
    n, labels = len(data.classes), data.labels.astype(np.int64)
    known = np.ones(len(labels), dtype=bool) if data.known is None else data.known
    inside = known[:-2] & known[1:-1] & known[2:]
    # no triple crosses the boundary of two sequences
    for before in (1, 2):
        ends = data.packed.offsets[1:-1] - before
        inside[ends[(ends >= 0) & (ends < len(inside))]] = False
    keys = (labels[:-2] * n + labels[1:-1]) * n + labels[2:]
    return PairSupport(np.unique(keys[inside]), n, n)


def all_triples(n_labels):
    """Return all triples of labels, as a `PairSupport`."""
    return PairSupport(np.arange(n_labels**3, dtype=np.int64), n_labels, n_labels)


def pair_rows(values, columns):
    """Return some columns of stacked features as CSR in float64, without zeros."""
    mixed = isinstance(values, MixedRows)
    chosen = values.select(columns) if mixed else values[:, columns]
    rows = sparse.csr_array(chosen, dtype=np.float64)
    # an explicit zero would count as an occurrence of the feature, and get a weight
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def pair_columns(chosen, n_features, names):
    """Return the columns that `transition_features` chooses, ascending.

    Parameters
    ----------
    chosen : str or array-like
        As in `sksstruct.ChainCRF`.
    n_features : int
        Number of columns.
    names : sequence of str or None
        Names of the columns.
    """
    argument = "transition_features"
    if isinstance(chosen, str):
        columns = [
            j
            for j, name in enumerate(_names(names, chosen))
            if str(name).startswith(chosen)
        ]
        if not columns:
            raise ValueError(f"{argument}: no feature of X begins with {chosen!r:.80}")
        return np.array(columns, dtype=np.intp)
    array = np.asarray(chosen)
    if array.ndim != 1:
        raise ValueError(f"{argument} must be one-dimensional, got {array.ndim}-D")
    if array.dtype == bool:
        if len(array) != n_features:
            raise ValueError(
                f"{argument} is a mask of {len(array)} columns, but X has {n_features} "
                "features"
            )
        return np.flatnonzero(array)
    if array.dtype.kind in "iu":
        wrong = (array < 0) | (array >= n_features)
        if wrong.any():
            raise ValueError(
                f"{argument} has the column {array[wrong][0]}, but X has {n_features} "
                "features"
            )
        return np.unique(array).astype(np.intp)
    if array.size and not all(isinstance(name, str) for name in array.tolist()):
        raise TypeError(
            f"{argument} must hold names of features, column indices, or a mask, got "
            f"{array.tolist()[0]!r:.80}"
        )
    places = {name: j for j, name in enumerate(_names(names, array.tolist()))}
    for name in array.tolist():
        if name not in places:
            raise ValueError(f"{argument} has {name!r:.80}, which X has no feature of")
    return np.unique(np.array([places[name] for name in array.tolist()], dtype=np.intp))


def _names(names, chosen):
    """Return the names of the columns, or raise an error if there are none."""
    if names is None:
        raise ValueError(
            f"transition_features={chosen!r:.80} names features, but those of X have "
            "no names: pass column indices, or the result of SequenceVectorizer"
        )
    return names
