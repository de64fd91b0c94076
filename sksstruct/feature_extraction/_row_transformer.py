"""Wrapper that applies a scikit-learn transformer of one matrix to sequences."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags

from sksstruct.feature_extraction._dense_rows import RowsTransformer
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.typing import Labelings, Sequences


@dataclass(eq=False, repr=False)
class RowTransformer(MetaEstimatorMixin, RowsTransformer):
    """Apply a transformer of scikit-learn to the rows of sequences.

    The transformer is fitted on the stacked rows of all sequences. In a pipeline before
    a `sksstruct.ChainCRF` or a `sksstruct.SegmentCRF`, it may be a
    `sklearn.preprocessing.StandardScaler`, a `sklearn.decomposition.PCA` or a
    `sklearn.impute.SimpleImputer`.

    Parameters
    ----------
    transformer : transformer object
        A transformer that takes a matrix of shape (n_rows, n_features), dense or
        sparse, and returns a matrix with as many rows. `fit` clones it.

    Attributes
    ----------
    transformer_ : transformer object
        The fitted transformer.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if all sequences are data frames with these columns.

    See Also
    --------
    SeriesFeatures : Features that depend on several rows.

    Notes
    -----
    A transformer that reads labels, such as `sklearn.feature_selection.SelectKBest`,
    gets the labels of all rows as a list. Missing values are NaN, and are allowed if
    the transformer allows them.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sksstruct.feature_extraction import RowTransformer
    >>> X = [[[0.0], [4.0]], [[2.0]]]
    >>> scaler = RowTransformer(StandardScaler(with_std=False)).fit(X)
    >>> scaler.transform(X)[0].tolist()
    [[-2.0], [2.0]]
    """

    transformer: Any

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.transformer)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.target_tags.required = inner.target_tags.required
        return tags

    def _allows_nan(self):
        return self.__sklearn_tags__().input_tags.allow_nan

    def fit(self, X: Sequences, y: Labelings | None = None) -> Self:
        """Fit the transformer on the rows of all sequences.

        Parameters
        ----------
        X : list of {array-like, CSR matrix, data frame} of shape (n_positions, \
n_features)
            The sequences.
        y : list of array-like of shape (n_positions,), default=None
            Labels of the sequences, for a transformer that needs labels.

        Returns
        -------
        self : RowTransformer
            The fitted transformer.
        """
        if not hasattr(self.transformer, "fit") or not hasattr(
            self.transformer, "transform"
        ):
            raise TypeError(
                "transformer must have the methods fit and transform, got "
                f"{self.transformer!r:.80}"
            )
        packed = self._fit_rows(X).in_one_form()
        labels = None if y is None else [label for row in y for label in row]
        self.transformer_ = clone(self.transformer).fit(packed.values, labels)
        return self

    def transform(self, X: Sequences) -> PackedSequences:
        """Apply the fitted transformer to the rows of all sequences.

        Parameters
        ----------
        X : list of {array-like, CSR matrix, data frame} of shape (n_positions, \
n_features)
            The sequences.

        Returns
        -------
        X_new : PackedSequences
            The transformed rows, with names if the columns of X had names in fit.
        """
        packed = self._rows(X).in_one_form()
        n_rows, values = packed.offsets[-1], packed.values
        # transformers of scikit-learn refuse a matrix without rows
        rows = self.transformer_.transform(
            values if n_rows else np.zeros((1, packed.n_features))
        )
        rows = (rows.tocsr() if sparse.issparse(rows) else np.asarray(rows))[:n_rows]
        names = None
        has_names = hasattr(self.transformer_, "get_feature_names_out")
        if hasattr(self, "feature_names_in_") and has_names:
            names = self.get_feature_names_out()
        return PackedSequences(rows, packed.offsets, names)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names that the transformer gives to its columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the input. None: those seen in fit, or else ``x0``,
            ``x1`` and so on.

        Returns
        -------
        names : ndarray of shape (n_features_out,), object
            The names.
        """
        return self.transformer_.get_feature_names_out(self._names_in(input_features))
