"""Models of one matrix of features, with a row for each example."""

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y

from sksstruct.models.facts import part_weight
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.spec import (
    FACTOR_OF_SQUARE,
    ROW_ALPHA,
    ROW_LOG_ALPHA,
    ModelSpec,
)
from sksstruct.utils.labels import refuse_missing
from sksstruct.utils.sparse_input import sound_csr, validate_rows
from sksstruct.utils.validation import check_example_weight, check_weight, label_costs

# Options for scikit-learn's validation of a matrix of samples.
ROWS = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}


class RowsModel(ModelSpec):
    """Base of the models whose X is one matrix: reads data, whole or in parts.

    Subclasses define ``_learn(X, y)``, which learns from all data and returns the
    outputs as numbers.
    """

    # Options of scikit-learn's validation.
    _options = ROWS

    def _read(self, X, y, sample_weight, seen):
        refuse_missing(y)
        X, y = validate_rows(seen, X, y, **self._options)
        X, Y = _canonical(X), self._learn(X, y)
        n_samples = len(Y)
        keep, weight = check_example_weight(
            sample_weight, n_samples, lambda weight: self._factors_of(Y, weight)
        )
        if len(keep) < n_samples:
            X, Y = X[keep], Y[keep]
        self._weigh(Y, weight)
        # weights as given, without costs of classes; a sample of weight two counts
        # twice
        given = check_weight(sample_weight, n_samples)[keep]
        self._total = float(given.sum())
        if self.follows_scale:
            self._learn_scale(ColumnMoments.of(X, given))
            X = self._over_scale(X)
        return X, Y, weight

    @property
    def auto_alpha(self) -> float:  # type: ignore[override]
        if not self.follows_scale:
            return super().auto_alpha
        factor = ROW_LOG_ALPHA if self.is_likelihood else ROW_ALPHA
        return factor / FACTOR_OF_SQUARE / self._total

    def _learn(self, X, y):
        """Learn classes or labels, and sizes, from checked data; return outputs as
        numbers.
        """
        raise NotImplementedError

    def _factors_of(self, Y, weight):
        """Factors of the weights of examples, which depend on their outputs."""
        return np.ones(len(Y))

    def _weigh(self, Y, weight):
        """Learn from the examples of positive weight; the default does nothing."""

    def _checked_part(self, X, y, sample_weight):
        """A checked part of the data, and its weights as given."""
        refuse_missing(y)
        X = sound_csr(X) if sparse.issparse(X) else X
        X, y = check_X_y(X, y, **self._options)
        return _canonical(X), y, part_weight(sample_weight, len(y))[0]

    def _examples_of_part(self, X, Y, weight, total):
        """The examples of positive weight of a part, with the p_i of all data."""
        keep = np.flatnonzero(weight)
        if len(keep) < len(Y):
            X, Y = X[keep], Y[keep]
        if self.follows_scale:
            X = self._over_scale(X)
        return X, Y, weight[keep] / total


class ClassesModel(RowsModel):
    """Base of the models of one class for each row.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    """

    def _learn(self, X, y):
        """Learn the classes; return the class of each sample as a number."""
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has 1 class, {self.classes_.tolist()[0]!r:.80}: training needs 2"
            )
        return labels

    def _factors_of(self, Y, weight):
        counts = np.bincount(Y, weight, len(self.classes_))
        costs = label_costs(self._class_weight, self.classes_, counts)
        return np.ones(len(Y)) if costs is None else costs[Y]


def _canonical(X):
    """Features with sorted columns, without duplicates, if they are sparse."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
