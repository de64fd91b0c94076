"""One marked interval in each sequence, as a model for `sksstruct.SSVMClassifier`."""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from afternoon._interval_model import Intervals
from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.tables._table import BoundTable


@dataclass(eq=False, repr=False)
class IntervalModel(CompiledModel):
    """The interval of a sequence in which something happens.

    An input is an array of shape (n_positions, n_features), an output a tuple
    ``(start, stop)`` of the first position and the one after the last. The loss is the
    number of positions on which two intervals differ, divided by the length of the
    observed one.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether positions have a bias.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` (1, n_features) and
    ``intercept_`` (1,).
    """

    _: KW_ONLY
    fit_intercept: bool = True

    # ---- what users give, checked ----

    def _learn(self, X, y, weight):
        self._learn_size((x.shape[1] for x in X), "sequences")
        return self._outputs(X, y)

    def _input(self, x, name):
        x = check_features(x, name, 2, self.n_features_)
        if not len(x):
            raise ValueError(f"{name} has no positions")
        return x

    def _output(self, x, y, name):
        interval = np.asarray(y)
        if interval.shape != (2,) or interval.dtype.kind not in "iu":
            raise ValueError(f"{name} must be a tuple (start, stop), got {y!r}")
        if not 0 <= interval[0] < interval[1] <= len(x):
            raise ValueError(
                f"{name} must be an interval of {len(x)} positions, got {y!r}"
            )
        return interval.astype(np.int32)

    # ---- what is compiled, and back ----

    _n_columns = 1

    def _bound(self, X, y_true, example_weights, rows=None):
        offsets, labels = self._offsets(X), None
        if y_true is not None:
            labels = np.concatenate(y_true)
        sizes, lengths = np.full(len(X), 2), np.diff(offsets)
        structure = Intervals(sizes, labels, lengths.max(), lengths)
        has_bias = self.fit_intercept and rows is None
        block = self._rows(X) if rows is None else rows, offsets, 1, has_bias
        return BoundTable([block], structure, example_weights)

    def _labeling(self, x, y):
        return y

    def _shown(self, x, labeling):
        return tuple(labeling.tolist())

    def _smallest(self):
        return np.zeros((1, self.n_features_))

    def _marginals_of(self, structure, i, means):
        """Probability that each position is in the interval."""
        return means

    # ---- what any model has ----

    def loss(self, y, y_hat):
        (start, stop), (first, last) = y, y_hat
        both = max(min(stop, last) - max(start, first), 0)
        return (stop - start + last - first - 2 * both) / (stop - start)

    def labelings(self, x):
        n = len(x)
        return ((a, b) for a in range(n) for b in range(a + 1, n + 1))
