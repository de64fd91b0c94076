"""Sparse feature rows from sequences of dicts and strings, by a vocabulary."""

import warnings
from collections.abc import Iterable, Mapping, Sized
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from numbers import Real
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._collect import collect
from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.feature_extraction._vocabulary import Vocabulary
from sksstruct.utils._layout import StoredRows
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._param_validation import Constrained, Interval, validate_params
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.state import Versioned, required
from sksstruct.utils.typing import FeatureSequences

# Number of sequences in each task of the callbacks.
_BLOCK = 1000
# A vectorizer that was read from a file of CRFsuite warns if at most this share of the
# features of X is in the file.
_FEW = 0.05
# Smallest number of features of X for a warning, unless another separator explains why
# features are unknown.
_SURE = 20
# Number of entries whose columns are counted in one call.
_COUNTED = 2**22


class SequenceFeatures(Constrained, SequenceTransformer, Versioned, BaseEstimator):
    """Base of the transformers of sequences of features.

    Subclasses have the parameters `dtype` and `separator`.
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        return tags

    # whether the names come from a file of CRFsuite, and were not learned by `fit`
    _is_read = False

    def _check_parameters(self):
        validate_params(self)
        if self.dtype not in (np.float32, np.float64, "float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")

    def _packed(self, X, columns, names=None, *, grow=False):
        """Return the rows of all sequences, by a mapping from features to columns.

        With `grow`, features without a column get one; otherwise they are left out.
        """
        single = self.dtype is not np.float64 and np.dtype(self.dtype) == np.float32
        *rows, offsets, counts = collect(X, columns, grow, self.separator, single)
        if self._is_read and not grow:
            self._warn_if_unknown(X, *counts)
        return PackedSequences.of_stored(
            StoredRows(*rows), len(columns), offsets, names
        )


@dataclass(eq=False, repr=False)
class SequenceVectorizer(CallbackSupportMixin, SequenceFeatures):
    """Turn sequences of feature dicts or strings into sparse feature rows.

    The features of a position are a mapping from names to values, or an iterable of
    strings. As for `sklearn.feature_extraction.DictVectorizer` and CRFsuite,

    - a number is the value of the feature of that name, and so is a bool;
    - a string ``v`` under the name ``f`` is the feature ``f=v`` with value 1;
    - a list, tuple or set of strings under a name is several such features;
    - a mapping ``{"g": value}`` under the name ``f`` is the feature ``f=g`` of that
      value, which may have any form of this list;
    - a string in an iterable is the feature of that name with value 1.

    If a position has a feature more than once, the values are summed.

    Parameters
    ----------
    min_count : int, default=1
        Minimum number of positions in the training data at which a feature must be
        nonzero. Other features are dropped. 1 keeps all features, also those that are
        always zero. ``feature.minfreq`` of CRFsuite instead applies to the sum of the
        values for each label separately.
    dtype : {numpy.float64, numpy.float32}, default=numpy.float64
        Type of the values.
    separator : str, default="="
        String between a name and a string, or a nested name, under this name. The
        separator of CRFsuite is ":".

    Attributes
    ----------
    vocabulary_ : dict of {str: int}
        Column of each feature, in the order of first appearance.
    feature_names_ : list of str
        Names of the columns.
    counts_ : ndarray of shape (n_features,), int64
        Number of positions at which each feature is nonzero.

    See Also
    --------
    SequenceHasher : The same features without a vocabulary.
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
    dtype: type[np.float32] | type[np.float64] = np.float64
    separator: str = "="

    _parameter_constraints = {"min_count": [Interval(Real, 1, None, closed="left")]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        return tags

    def fit(self, X: FeatureSequences, y: object = None) -> Self:
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
    def fit_transform(self, X: FeatureSequences, y: object = None) -> PackedSequences:
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
        check_iterable(X)
        known = len(X) if isinstance(X, Sized) else None
        context = self._init_callback_context(
            max_subtasks=None if known is None else -(-known // _BLOCK)
        )
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        table = Vocabulary()
        packed = self._packed(self._in_blocks(X, context), table, grow=True)
        if not table.names:
            raise ValueError(
                "X has no features: its positions must be dicts or lists of strings "
                "that are not all empty"
            )
        values = packed.values
        keep = self._learn(table, _counts(values))
        if keep is not None:
            values = values[:, keep]
        context.call_on_fit_task_end(
            estimator=self, reconstruction_attributes=dict, X=X, y=y
        )
        return PackedSequences(values, packed.offsets, self._names)

    def merge(self, parts: Iterable["SequenceVectorizer"]) -> Self:
        """Learn from transformers that were fitted to parts of the data.

        The result is that of `fit` on the data of all parts in this order.
        You can merge neighboring parts first, and then merge the results.

        Parameters
        ----------
        parts : iterable of SequenceVectorizer
            Transformers fitted with ``min_count=1``, because `min_count` applies to the
            counts over all parts.

        Returns
        -------
        self : SequenceVectorizer
            The fitted transformer.

        Examples
        --------
        >>> from sksstruct.feature_extraction import SequenceVectorizer
        >>> parts = [SequenceVectorizer().fit(X) for X in ([[["a", "b"]]], [[["b"]]])]
        >>> SequenceVectorizer(min_count=2).merge(parts).feature_names_
        ['b']
        """
        self._check_parameters()
        counts, spellings = {}, set()
        number = -1
        for number, part in enumerate(parts):
            check_is_fitted(part, "counts_")
            if part.min_count > 1 or part.separator != self.separator:
                raise ValueError(
                    f"parts[{number}] has min_count={part.min_count} and separator "
                    f"{part.separator!r}; parts need min_count=1 and the separator "
                    f"{self.separator!r} of the whole"
                )
            spellings |= set(part._names.spellings)
            for name, count in zip(
                part.feature_names_, part.counts_.tolist(), strict=True
            ):
                counts[name] = counts.get(name, 0) + count
        if number < 0:
            raise ValueError("parts is empty: at least one is required")
        numbers = np.fromiter(counts.values(), np.int64, len(counts))
        table = Vocabulary(counts)
        table.spellings = sorted(spellings)
        self._learn(table, numbers)
        return self

    def _learn(self, table, counts):
        """Keep the frequent features; return their old columns, or None for all."""
        keep, spellings = None, table.spellings
        if self.min_count > 1:
            keep = np.flatnonzero(counts >= self.min_count)
            if not len(keep):
                raise ValueError(
                    f"no feature occurs on min_count={self.min_count} positions"
                )
            counts, names = counts[keep], table.names
            table = Vocabulary([names[j] for j in keep])
        self.counts_ = counts
        self._keep_names(FeatureNames(table.names, spellings), table)
        return keep

    def _keep_columns(self, columns):
        """Keep only the features of some columns; return the names of the features."""
        names = [self.feature_names_[j] for j in columns.tolist()]
        self.counts_ = self.counts_[columns]
        self._keep_names(FeatureNames(names, self._names.spellings), Vocabulary(names))
        return self._names

    def _keep_names(self, names, table):
        """Set the names of the columns, and the table in which they are looked up."""
        self._names, self._table = names, table
        self._is_read = not self.counts_.any()
        self.feature_names_ = names.to_list()
        vars(self).pop("vocabulary_", None)
        # the digest of the names is cached now, so that the first prediction is fast
        names.digest()

    @cached_property
    def vocabulary_(self) -> dict[str, int]:
        """dict of {str: int}: column of each feature."""
        check_is_fitted(self, "counts_")
        return {name: j for j, name in enumerate(self.feature_names_)}

    def _in_blocks(self, X, context):
        """Yield the sequences, and report blocks of them as tasks to the callbacks.

        A callback's request to stop is ignored: the remaining sequences need rows, too.
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

    def transform(self, X: FeatureSequences) -> PackedSequences:
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
        # check_is_fitted alone would take longer than to transform a sentence
        if "counts_" not in vars(self):
            check_is_fitted(self, "counts_")
        if type(self.separator) is not str or self.dtype is not np.float64:
            self._check_parameters()
        check_iterable(X)
        return self._packed(X, self._table, self._names)

    def _warn_if_unknown(self, X, n_features, n_known):
        """Warn if nearly all features of X are unknown to the file that was read.

        `n_features` and `n_known` are pairs of numbers: of plain features, and of
        features joined from a name and a string.
        """
        number, known = sum(n_features), sum(n_known)
        few = number > 0 and known <= _FEW * number
        few_joined = n_features[1] > 0 and n_known[1] <= _FEW * n_features[1]
        if not few and not few_joined:
            return
        example, hint = self._other_name(X), "are the items those of this model?"
        if example is not None:
            hint = (
                f"the items have {example[0]!r:.80}, and the model {example[1]!r:.80}: "
                "does the separator of the vectorizer join names as the model does?"
            )
        elif not few or number < _SURE:
            return
        warnings.warn(
            f"only {known} of {number} attributes of X are known to the model, "
            f"{n_known[1]} of {n_features[1]} strings below a name; {hint}",
            stacklevel=4,
        )

    def _other_name(self, X):
        """Return a name in X and its spelling in the file with another separator.

        Returns None if no name differs only in the separator.
        """
        table = Vocabulary()
        collect(X, table, True, self.separator, False)
        pairs = {(self.separator, ":"), (self.separator, "="), ("=", ":"), (":", "=")}
        for name in table.names:
            for before, after in sorted(pairs):
                for count in (1, -1) if before else ():
                    other = name.replace(before, after, count)
                    if other != name and other in self.vocabulary_:
                        return name, other
        return None

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
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
        check_is_fitted(self, "counts_")
        return np.array(self.feature_names_, dtype=object)

    def _state(self):
        # `_restore` derives these attributes from the names
        left_out = "_table", "_is_read", "feature_names_", "vocabulary_"
        state = super()._state()
        return {name: value for name, value in state.items() if name not in left_out}

    def _restore(self, state):
        super()._restore(state)
        if "counts_" in state:
            (names,) = required(state, ["_names"], type(self).__name__)
            if not isinstance(names, FeatureNames) or len(names) != len(self.counts_):
                raise ValueError(
                    "the state of a SequenceVectorizer must have a name for each of "
                    f"its {len(self.counts_)} counts"
                )
            self._keep_names(names, Vocabulary(names.to_list()))


def _counts(values):
    """Return the number of rows in which each column of a CSR array is not zero."""
    counts = np.zeros(values.shape[1], dtype=np.int64)
    # in parts, because bincount converts indices to 64 bits
    for first in range(0, values.nnz, _COUNTED):
        part = slice(first, first + _COUNTED)
        nonzero = values.indices[part][values.data[part] != 0]
        counts += np.bincount(nonzero, minlength=len(counts))
    return counts


def check_iterable(X):
    """Raise an error if X is a single string or mapping, or not iterable."""
    if type(X) is list:
        return
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise TypeError(
            f"X is a single {type(X).__name__}: pass a list of sequences, each a list "
            "of dicts or of lists of strings"
        )
