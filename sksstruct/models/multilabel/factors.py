"""Label sets as factors: set-up, and the objective of their training."""

import numpy as np
from scipy import sparse

from sksstruct.models.multilabel._factors import LabelKernel, PairKernel
from sksstruct.models.protocols._factors import feature_weights
from sksstruct.models.tables._feature_rows import FeatureRows
from sksstruct.utils._layout import padded_length
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks


class MultilabelFactors(LabelKernel):
    """Features of label sets, and the weights that are trained.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_examples, n_features), float64
        Features, a column of ones for the bias included.
    Y : ndarray of shape (n_examples, n_labels)
        Observed labels, 0 or 1.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    scaling : float
        Factor of the pairs' feature.
    relaxed : BoundTable
        The same problem with its LP oracle, for the objective.
    """

    def __init__(self, X, Y, pairs, example_weights, scaling, relaxed):
        self.set_factors(pairs, Y, example_weights, scaling)
        # examples are sequences of one position, whose features are one row
        rows = PackedSequences.from_lengths(X, np.ones(X.shape[0], dtype=np.intp))
        self._by_feature, self.n_features = sparse.issparse(X), X.shape[1]
        squares = X.multiply(X) if self._by_feature else X * X
        norms = np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
        self.set_rows(FeatureRows(rows), norms, padded_length(self.n_labels))
        self.observed = np.asarray(Y)
        # this model computes the objective, and has the layout of flat weights
        self._relaxed = relaxed
        self.start()

    def start(self):
        self._label_weights = feature_weights(
            self.n_features, self.n_labels, self._by_feature
        )
        # a spare entry, because a buffer must not be empty
        self.set_weights(self._label_weights, np.zeros(self.n_pairs + 1))

    def weights(self):
        """Return flat weights, in the layout of the model with the LP oracle."""
        # the padding of the layout stays zero
        out = np.zeros(self._relaxed.n_weights)
        views = self._relaxed.views(out)
        views["coef"][...] = self._label_weights[:, : self.n_labels].T
        views["pair_coef"][...] = self.pair_weights()
        return out

    def views(self, weights):
        """Return named views of flat weights."""
        return self._relaxed.views(weights)

    def graph(self):
        """Return the model as variables of two labels, and pairs of them."""
        return MultilabelGraph(self)

    def maxima(self, weights, n_jobs=None):
        """Return the mean relaxed max_y L_i(y) + <w, phi(y) - phi(y_i)>."""
        # exact oracles are NP-hard: objective and dual refer to the relaxation
        model = self._relaxed
        values = np.empty(self.n_examples)

        def sweep(start, stop):
            model.hinge(model.workspace(weights), start, stop, values)

        run_in_chunks(sweep, self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    def square_with(self, changes):
        """Return |w|^2 after changes of the pairs' weights."""
        pairs = self.pair_weights() + changes
        labels = self._label_weights[:, : self.n_labels]
        return float((labels**2).sum()) + float(pairs @ pairs)


class MultilabelGraph(PairKernel):
    """Label sets as graphs: a binary variable for each label, a factor for each pair.

    Algorithms 2 and 4, which are slow with many pairs, use this model. With L labels
    and P pairs, variable i L + j is label j of example i, and pair i P + e its pair e.
    Outcome (a, b) of pair f is the entry 4 f + 2 a + b. Only (1, 1) has a weight, which
    all examples share.

    Parameters
    ----------
    labels : MultilabelFactors
        Features, observed labels and weights.
    """

    def __init__(self, labels):
        n, L, P = labels.n_examples, labels.n_labels, labels.n_pairs
        # entries are kept as int32
        if 4 * n * P >= 2**31:
            raise ValueError(
                f"{n} examples of {P} pairs are too many for this update; use "
                "update='bgcd'"
            )
        # every example has the same pairs, whose ends are labels of the example; a
        # wrong label costs one
        firsts = np.arange(n) * L
        self.set_factors(
            np.arange(n + 1) * L,
            np.arange(n + 1) * P,
            (firsts[:, None, None] + labels.pairs[None]).reshape(-1, 2),
            labels.observed.ravel(),
            np.ones(n * L),
            labels.example_weights,
            2,
        )
        self.set_labels(labels)

    def weights(self):
        return self.labels.weights()

    def views(self, weights):
        """Return named views of flat weights."""
        return self.labels.views(weights)

    def maxima(self, weights, n_jobs=None, multipliers=None):
        return self.labels.maxima(weights, n_jobs)

    def work_of_maxima(self):
        return self.labels.work_of_maxima()

    def square_with(self, pairs, left, right, amounts):
        # only the outcome (1, 1) has a weight, which all examples share
        both = (left == 1) & (right == 1)
        changes = np.bincount(
            pairs[both] % max(self.labels.n_pairs, 1),
            self.labels.scaling * amounts[both],
            minlength=self.labels.n_pairs,
        )
        return self.labels.square_with(changes)
