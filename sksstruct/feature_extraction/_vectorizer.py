"""Sparse feature rows from sequences of dicts and strings."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._collect import collect
from sksstruct.feature_extraction._vocabulary import Vocabulary
from sksstruct.utils._param_validation import Interval, validate_params
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.state import Versioned

# Callbacks hear of so many sequences at a time.
_BLOCK = 1000


@dataclass(eq=False, repr=False)
class SequenceVectorizer(
    CallbackSupportMixin,
    TransformerMixin,
    Versioned,
    BaseEstimator,
    auto_wrap_output_keys=None,
):
    """Turn sequences of feature dicts or strings into sparse feature rows.

    The features of a position are a mapping from names to values, or an iterable of
    strings. As for `sklearn.feature_extraction.DictVectorizer` and CRFsuite,

    - a number is the value of the feature of that name, and so is a bool;
    - a string ``v`` under the name ``f`` is the feature ``f=v`` with value 1;
    - a list, tuple or set of strings under a name is several such features;
    - a mapping ``{"g": value}`` under the name ``f`` is the feature ``f=g`` of that
      value, which may be anything of this list;
    - a string in an iterable is the feature of that name with value 1.

    Values of a feature that a position has more than once add up.

    Parameters
    ----------
    min_count : int, default=1
        Features are left out that have a value other than zero at fewer positions of
        the training data; 1 keeps all. CRFsuite's ``feature.minfreq`` applies to the
        sum of the values for each label by itself.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Type of the values.
    separator : str, default="="
        String between a name and a string or another name below it; CRFsuite's is
        ":".

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

    @with_callbacks
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
        _check_sequences(X)
        known = len(X) if hasattr(X, "__len__") else None
        context = self._init_callback_context(
            max_subtasks=None if known is None else -(-known // _BLOCK)
        )
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        table = Vocabulary()
        values, offsets = self._rows(self._in_blocks(X, context), table, grow=True)
        names = list(table.names)
        if not names:
            raise ValueError("X has no features at all")
        if self.min_count > 1:
            given = values.indices[values.data != 0]
            counts = np.bincount(given, minlength=len(names))
            keep = np.flatnonzero(counts >= self.min_count)
            if not len(keep):
                raise ValueError(
                    f"no feature occurs on min_count={self.min_count} positions"
                )
            values = values[:, keep]
            names = [names[j] for j in keep]
            table = Vocabulary(names)
        self.vocabulary_ = {name: j for j, name in enumerate(names)}
        self.feature_names_ = names
        # One array for all results of this fit, as it may be long.
        self._names_out = np.array(names, dtype=object)
        self._table = self.vocabulary_, table
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=dict, X=X, y=y
        )
        return PackedSequences(values, offsets, self._names_out)

    def _in_blocks(self, X, context):
        """The sequences, blocks of which are tasks of the callbacks.

        That a callback asks to stop has no effect: there would be no rows of the
        sequences that are left.
        """
        task = None
        for number, sequence in enumerate(X):
            if number % _BLOCK == 0:
                if task is not None:
                    task.call_on_fit_task_end(estimator=self)
                task = context.subcontext(task_name="block")
                task.call_on_fit_task_begin(estimator=self)
            yield sequence
        if task is not None:
            task.call_on_fit_task_end(estimator=self)

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
        _check_sequences(X)
        # not the table of another vocabulary, where that was replaced
        vocabulary, table = getattr(self, "_table", (None, None))
        if vocabulary is not self.vocabulary_:
            table = Vocabulary(self.feature_names_)
            self._table = self.vocabulary_, table
        values, offsets = self._rows(X, table, grow=False)
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

    def _state(self):
        # the table is made again from the names when it is needed
        state = super()._state()
        return {name: value for name, value in state.items() if name != "_table"}

    def _check_parameters(self):
        validate_params(self)
        if self.dtype not in (np.float32, np.float64, "float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")

    def _rows(self, X, vocabulary, grow):
        """The rows of all sequences in one CSR array, and where each sequence begins.

        With grow, new features are added to the vocabulary; else they are left out.
        """
        data, indices, indptr, offsets = collect(
            X, vocabulary, grow, self.separator, np.dtype(self.dtype) == np.float32
        )
        values = sparse.csr_array(
            (data, indices, indptr), shape=(len(indptr) - 1, len(vocabulary))
        )
        # as the rows are made; scipy would look at all of them
        values.has_canonical_format = True
        return values, offsets


def _check_sequences(X):
    if isinstance(X, str | bytes | Mapping) or not hasattr(X, "__iter__"):
        raise TypeError(
            f"X is a single {type(X).__name__}: pass a list of sequences, each a list "
            "of dicts or of lists of strings"
        )
