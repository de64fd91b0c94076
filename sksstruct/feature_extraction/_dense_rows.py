"""Base of the transformers of sequences of numbers: checks and names of columns."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.utils._param_validation import Constrained, validate_params
from sksstruct.utils.packed import PackedSequences, check_sequences
from sksstruct.utils.state import Versioned


class RowsTransformer(
    Constrained,
    SequenceTransformer,
    Versioned,
    BaseEstimator,
):
    """Base of transformers whose input has a matrix of numbers for each sequence."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags

    def _fit_rows(self, X) -> PackedSequences:
        """Check the sequences to fit; set the number and the names of the columns."""
        validate_params(self)
        packed = check_sequences(X, allow_nan=self._allows_nan())
        self.n_features_in_ = packed.n_features
        vars(self).pop("feature_names_in_", None)
        if packed.feature_names is not None:
            self.feature_names_in_ = np.array(packed.feature_names, dtype=object)
        return packed

    def _rows(self, X) -> PackedSequences:
        """Check that sequences to transform have the columns seen in fit."""
        check_is_fitted(self)
        packed = check_sequences(
            X,
            n_features=self.n_features_in_,
            all_empty=True,
            allow_nan=self._allows_nan(),
        )
        names = getattr(self, "feature_names_in_", None)
        if names is not None and packed.feature_names is not None:
            if packed.feature_names != names.tolist():
                raise ValueError("X has other feature names than those seen in fit")
        return packed

    def _names_in(self, input_features=None):
        """Names of the columns of the input, as a list."""
        check_is_fitted(self)
        seen = getattr(self, "feature_names_in_", None)
        if input_features is None:
            numbers = range(self.n_features_in_)
            return [f"x{k}" for k in numbers] if seen is None else seen.tolist()
        names = list(input_features)
        if seen is not None and names != seen.tolist():
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise ValueError(
                f"input_features has {len(names)} names, and {self.n_features_in_} "
                "features were seen in fit"
            )
        return names

    def _allows_nan(self):
        return False
