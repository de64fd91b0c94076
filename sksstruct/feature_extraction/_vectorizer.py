"""Sparse feature rows from sequences of dicts and strings."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._collect import collect
from sksstruct.utils._param_validation import Interval, validate_params
from sksstruct.utils.packed import PackedSequences


@dataclass(eq=False, repr=False)
class SequenceVectorizer(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    """Turn sequences of feature dicts or strings into sparse feature rows.

    The features of a position are a mapping from names to values, or an iterable of
    strings. As for `sklearn.feature_extraction.DictVectorizer` and CRFsuite,

    - a number is the value of the feature of that name, and so is a bool;
    - a string ``v`` under the name ``f`` is the feature ``f=v`` with value 1;
    - a string in an iterable is the feature of that name with value 1.

    Parameters
    ----------
    min_count : int, default=1
        Features that occur at fewer positions of the training data are left out.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Type of the values.
    separator : str, default="="
        String between the name and the value of a feature with string values.

    Attributes
    ----------
    vocabulary_ : dict of {str: int}
        Column of each feature, in the order of first appearance.
    feature_names_ : list of str
        Names of the columns.

    See Also
    --------
    sksstruct.feature_extraction.window_features : Attributes from a window of tokens.

    Examples
    --------
    >>> from sksstruct.feature_extraction import SequenceVectorizer
    >>> vectorizer = SequenceVectorizer()
    >>> X = vectorizer.fit_transform([[{"w": "the", "size": 3.0}, {"w": "cat"}]])
    >>> vectorizer.get_feature_names_out().tolist()
    ['w=the', 'size', 'w=cat']
    >>> X[0].toarray().tolist()
    [[1.0, 3.0, 0.0], [0.0, 0.0, 1.0]]
    """

    _: KW_ONLY
    min_count: int = 1
    dtype: str = np.float64
    separator: str = "="

    _parameter_constraints = {
        "min_count": [Interval(Real, 1, None, closed="left")],
        "dtype": "no_validation",
        "separator": [str],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.requires_fit = True
        return tags

    def fit(self, X, y=None):
        """Learn the features that occur.

        Parameters
        ----------
        X : iterable of sequences of {mapping, iterable of str}
            Sequences.
        y : None
            Ignored.

        Returns
        -------
        self : SequenceVectorizer
            The fitted transformer.
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X, y=None):
        """Learn the features that occur and transform X.

        Parameters
        ----------
        X : iterable of sequences of {mapping, iterable of str}
            Sequences.
        y : None
            Ignored.

        Returns
        -------
        X_new : PackedSequences
            One CSR array for each sequence, all stored in one array.
        """
        self._check_parameters()
        vocabulary = {}
        values, offsets = self._rows(X, vocabulary, grow=True)
        names = list(vocabulary)
        if not names:
            raise ValueError("X has no features at all")
        if self.min_count > 1:
            counts = np.bincount(values.indices, minlength=len(names))
            keep = np.flatnonzero(counts >= self.min_count)
            if not len(keep):
                raise ValueError(
                    f"no feature occurs on min_count={self.min_count} positions"
                )
            values = values[:, keep]
            names = [names[j] for j in keep]
            vocabulary = {name: j for j, name in enumerate(names)}
        self.vocabulary_ = vocabulary
        self.feature_names_ = names
        # One array for all results of this fit, as it may be long.
        self._names_out = np.array(names, dtype=object)
        return PackedSequences(values, offsets, self._names_out)

    def transform(self, X):
        """Transform sequences; features not seen in fit are left out.

        Parameters
        ----------
        X : iterable of sequences of {mapping, iterable of str}
            Sequences.

        Returns
        -------
        X_new : PackedSequences
            One CSR array for each sequence, all stored in one array.
        """
        check_is_fitted(self, "vocabulary_")
        self._check_parameters()
        values, offsets = self._rows(X, self.vocabulary_, grow=False)
        return PackedSequences(values, offsets, self._names_out)

    def get_feature_names_out(self, input_features=None):
        """Names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of shape (n_features,), object
            Names.
        """
        check_is_fitted(self, "vocabulary_")
        return np.array(self.feature_names_, dtype=object)

    def _check_parameters(self):
        validate_params(self)
        if self.dtype not in (np.float32, np.float64, "float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")

    def _rows(self, X, vocabulary, grow):
        """The rows of all sequences in one CSR array, and where each sequence begins.

        With grow, new features are added to the vocabulary; else they are left out.
        """
        if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
            raise TypeError(
                f"X is a single {type(X).__name__}: pass a list of sequences, each a "
                "list of dicts or of lists of strings"
            )
        data, indices, indptr, offsets = collect(X, vocabulary, grow, self.separator)
        values = sparse.csr_array(
            (data.astype(self.dtype, copy=False), indices, indptr),
            shape=(len(indptr) - 1, len(vocabulary)),
        )
        # a feature that occurs twice at a position counts twice
        values.sum_duplicates()
        return values, offsets
