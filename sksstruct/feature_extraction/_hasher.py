"""Sparse feature rows from sequences of dicts and strings, by feature hashing."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Self

import numpy as np

from sksstruct.feature_extraction._hashed import HashedColumns
from sksstruct.feature_extraction._vectorizer import SequenceFeatures, check_iterable
from sksstruct.utils._param_validation import Interval
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.typing import FeatureSequences, Strings


@dataclass(eq=False, repr=False)
class SequenceHasher(SequenceFeatures):
    """Turn sequences of feature dicts or strings into rows without a vocabulary.

    Features are those of `SequenceVectorizer`. The column of a feature is a hash of its
    name: `fit` needs no pass over the data, and different processes can transform parts
    of the data. Columns and signs are those of
    `sklearn.feature_extraction.FeatureHasher`.

    Parameters
    ----------
    n_features : int, default=2**20
        Number of columns, at most ``2**31 - 1``; powers of two spread features evenly.
    alternate_sign : bool, default=True
        Whether the values of half of the features are negated, depending on the hash.
        The effect of collisions on a weight is then zero on average.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Type of the values.
    separator : str, default="="
        String between a name and a string, or a nested name, under this name.

    See Also
    --------
    SequenceVectorizer : The same features, with a vocabulary of their names.

    Notes
    -----
    Features that share a column share their weights. With m features, the probability
    that a feature shares its column with another feature is about ``1 - exp(-m /
    n_features)``. This is 9 % for 100,000 features and the default. Features that do
    not occur in the training data are also hashed and affect predictions.

    Examples
    --------
    >>> from sksstruct.feature_extraction import SequenceHasher
    >>> hasher = SequenceHasher(n_features=16)
    >>> X = hasher.transform([[{"w": "the", "size": 3.0}, {"w": "cat"}]])
    >>> X
    PackedSequences(1 sequences, 2 rows, 16 features, CSR float64)
    >>> columns, signs = hasher.places(["size"])
    >>> float(X[0][0, columns[0]] * signs[0])
    3.0
    """

    _: KW_ONLY
    n_features: int = 2**20
    alternate_sign: bool = True
    dtype: type[np.float32] | type[np.float64] = np.float64
    separator: str = "="

    _parameter_constraints = {
        "n_features": [Interval(Integral, 1, 2**31 - 1, closed="both")]
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def fit(self, X: object = None, y: object = None) -> Self:
        """Check the parameters; a hasher learns nothing from X.

        Parameters
        ----------
        X : None
            Ignored.
        y : None
            Ignored.

        Returns
        -------
        self : SequenceHasher
            The same object.
        """
        self._check_parameters()
        return self

    def transform(self, X: FeatureSequences) -> PackedSequences:
        """Turn sequences of features into rows.

        Parameters
        ----------
        X : iterable of sequences of {mapping, iterable of str}
            Sequences.

        Returns
        -------
        X_new : PackedSequences
            One CSR array for each sequence, all stored in one array.
        """
        self._check_parameters()
        check_iterable(X)
        columns = HashedColumns(self.n_features, self.alternate_sign)
        return self._packed(X, columns)

    def places(self, names: Strings) -> tuple[np.ndarray, np.ndarray]:
        """Columns of features: their weights are ``coef_[:, columns] * signs``.

        Parameters
        ----------
        names : sequence of str
            Full names of features, such as ``"w=the"``.

        Returns
        -------
        columns : ndarray of shape (n_names,), intp
            Columns of the features.
        signs : ndarray of shape (n_names,)
            Factors of the values of the features, 1 or -1.
        """
        self._check_parameters()
        for k, name in enumerate(names):
            if not isinstance(name, str):
                raise TypeError(f"names[{k}] must be a string, got {name!r:.80}")
        return HashedColumns(self.n_features, self.alternate_sign).places(list(names))
