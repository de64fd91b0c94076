"""Word vectors of tokens as dense features."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import KW_ONLY, dataclass
from itertools import repeat
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._helpers import _check_tokens
from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.feature_extraction._vector_files import read_word_vectors
from sksstruct.feature_extraction._vectorizer import check_iterable
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._param_validation import (
    Constrained,
    Interval,
    Positive,
    validate_params,
)
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Integers


@dataclass(eq=False, repr=False)
class WordVectors(
    Constrained,
    SequenceTransformer,
    Versioned,
    BaseEstimator,
):
    """Turn tokens into rows of word vectors, also called word embeddings.

    Parameters
    ----------
    vectors : str, path-like, mapping, tuple or KeyedVectors
        The vectors of words: the name of a text file of word2vec, fastText or GloVe, as
        `read_word_vectors` reads it; a mapping from words to vectors; a tuple of the
        words and an array of shape (n_words, n_dimensions); or gensim's
        ``KeyedVectors``. `sklearn.base.clone` does not copy the vectors, which must not
        change.
    column : int or str, default=0
        Column of the words, if tokens have several columns: the index, or the name if
        positions are dicts.
    normalize : "lower", callable or None, default="lower"
        Function from a word without a vector to the form that is looked up next;
        "lower" is `str.lower`. None: only the word itself is looked up.
    window : sequence of int, default=(0,)
        Offsets of the tokens whose vectors a row has. With ``(-1, 0, 1)`` a row is the
        concatenation of three vectors. Beyond the ends of a sentence vectors are zero.
    unknown : {"zeros", "mean"}, default="zeros"
        Vector of a word that is not in `vectors`: zeros, or the mean of all vectors.
    norm : float or None, default=1.0
        Norm of the vectors after scaling. All vectors are multiplied by the same
        factor, so that the root mean square of the norms over the training tokens is
        `norm`. A vector of norm 1 counts as much in the penalty as one indicator. None:
        no scaling.

    Attributes
    ----------
    vocabulary_ : dict of {str: int}
        Row of each word in `vectors_`.
    vectors_ : ndarray of shape (n_words, n_dimensions), float32
        The vectors, before scaling.
    scale_ : float
        Factor of the vectors.
    coverage_ : float
        Share of the training tokens that have a vector.

    See Also
    --------
    SequenceVectorizer : Indicators of words and other attributes, as sparse features.
    read_word_vectors : Reads text files.

    Notes
    -----
    `sklearn.pipeline.FeatureUnion` joins these features with those of a
    `SequenceVectorizer`. The vectors stay dense there, see `PackedSequences.hstack`. A
    fitted transformer contains the vectors: a saved tagger needs neither the file nor
    gensim. After loading, `vectors` is a tuple, unless it was the name of a file.

    References
    ----------
    J. Turian, L. Ratinov and Y. Bengio, "Word representations: a simple and general
    method for semi-supervised learning", ACL 2010. Section 7.2 is about scaling.

    Examples
    --------
    >>> from sksstruct.feature_extraction import WordVectors
    >>> vectors = {"the": [0.0, 2.0], "cat": [1.0, 0.0], "dog": [1.0, 0.5]}
    >>> transformer = WordVectors(vectors, norm=None)
    >>> transformer.fit_transform([["The", "cat"], ["A", "dog"]])
    PackedSequences(2 sequences, 4 rows, 2 features, dense float32)
    >>> transformer.transform([["The", "bird"]])[0].tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    >>> transformer.get_feature_names_out().tolist()
    ['vector[0][0]', 'vector[0][1]']
    """

    vectors: Any
    _: KW_ONLY
    column: int | str = 0
    normalize: Literal["lower"] | Callable[[str], str] | None = "lower"
    window: Integers = (0,)
    unknown: Literal["zeros", "mean"] = "zeros"
    norm: Positive | None = 1.0

    _parameter_constraints = {
        "column": [Interval(Integral, 0, None, closed="left"), str],
        "window": ["array-like"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = True
        return tags

    def __sklearn_clone__(self):
        # the vectors are not copied, as they may take a gigabyte, and parameter
        # searches clone the estimator for each fit
        return type(self)(**self.get_params(deep=False))

    def fit(self, X: Sequence[Any], y: object = None) -> Self:
        """Read the vectors, and compute the factor of scaling.

        Parameters
        ----------
        X : list of {list of str, list of dict, tuple of list of str}
            For each sentence its words, its positions as dicts with the names and
            values of the columns, or a tuple of its columns.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : WordVectors
            The fitted transformer.

        Raises
        ------
        ValueError
            If no token has a vector; if `vectors` are not finite, differ in length, or
            are more or fewer than the words; if the file is damaged, see
            `read_word_vectors`.
        """
        validate_params(self)
        window = _checked_window(self.window)
        words, table = _read_table(self.vectors)
        self.vectors_ = table
        self.vocabulary_ = {word: row for row, word in enumerate(words)}
        tokens, _ = _tokens(X, self.column)
        places = self._places(tokens)
        known = places[places >= 0]
        if not len(known):
            raise ValueError(
                f"none of the {len(tokens)} tokens of X has a vector; the first words "
                f"with vectors are {words[:3]!r:.80}"
            )
        self.coverage_ = len(known) / len(tokens)
        self.scale_ = 1.0 if self.norm is None else _scale(table, known, self.norm)
        if self.unknown == "mean":
            self._mean = table.mean(axis=0, dtype=np.float64).astype(np.float32)
        size = table.shape[1]
        self._names = FeatureNames(
            f"vector[{offset}][{k}]" for offset in window for k in range(size)
        )
        return self

    def transform(self, X: Sequence[Any]) -> PackedSequences:
        """Look up the vectors of tokens.

        Parameters
        ----------
        X : list of {list of str, list of dict, tuple of list of str}
            Sentences, as in `fit`.

        Returns
        -------
        X_new : PackedSequences
            Dense rows in single precision.
        """
        check_is_fitted(self, "vectors_")
        tokens, lengths = _tokens(X, self.column)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.intp)])
        places = self._places(tokens)
        rows = self.vectors_[places]
        rows[places < 0] = self._mean if self.unknown == "mean" else 0.0
        rows *= np.float32(self.scale_)
        window = _checked_window(self.window)
        if window != [0]:
            rows = _neighbors(rows, offsets, window)
        return PackedSequences(rows, offsets, self._names)

    def _places(self, tokens):
        """Return the row in `vectors_` of each token, -1 if a token has no vector."""
        find = self.vocabulary_.get
        # the parameter is "lower" and not str.lower, which skops cannot load
        normalize = str.lower if self.normalize == "lower" else self.normalize
        places = np.fromiter(map(find, tokens, repeat(-1)), np.intp, len(tokens))
        if normalize is not None:
            for t in np.flatnonzero(places < 0).tolist():
                places[t] = find(normalize(tokens[t]), -1)
        return places

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of shape (n_features,), object
            ``vector[offset][dimension]`` for each column.
        """
        check_is_fitted(self, "vectors_")
        return np.array(self._names.to_list(), dtype=object)

    def _state(self):
        state = dict(super()._state())
        if "vectors_" in state:
            # store words and table once: `_restore` makes `vectors` of them
            state["vocabulary_"] = FeatureNames(self.vocabulary_)
            if not isinstance(self.vectors, str | os.PathLike):
                state["vectors"] = None
        return state

    def _restore(self, state):
        if "vectors_" in state:
            words = state["vocabulary_"].to_list()
            words, table = _checked_table(words, state["vectors_"])
            state["vocabulary_"] = {word: row for row, word in enumerate(words)}
            if state["vectors"] is None:
                state["vectors"] = words, table
        super()._restore(state)


def _scale(table, places, norm):
    """Return the factor with which the root mean square norm over tokens is `norm`."""
    used, counts = np.unique(places, return_counts=True)
    squares = np.einsum("ij,ij->i", table[used], table[used], dtype=np.float64)
    mean = np.average(squares, weights=counts)
    return float(norm / np.sqrt(mean)) if mean > 0.0 else 1.0


def _neighbors(rows, offsets, window):
    """Concatenate the vectors at all offsets from each token, zero beyond sentences."""
    lengths = np.diff(offsets)
    first, stop = np.repeat(offsets[:-1], lengths), np.repeat(offsets[1:], lengths)
    out = np.zeros((len(rows), len(window), rows.shape[1]), rows.dtype)
    for k, offset in enumerate(window):
        source = np.arange(len(rows)) + offset
        is_inside = (first <= source) & (source < stop)
        out[is_inside, k] = rows[source[is_inside]]
    return out.reshape(len(rows), -1)


def _checked_window(window):
    """Check that `window` has distinct integers, and return them as a list."""
    offsets = np.asarray(window)
    if offsets.ndim != 1 or not len(offsets) or offsets.dtype.kind not in "iu":
        raise ValueError(f"window must be a list of whole numbers, got {window!r:.80}")
    if len(np.unique(offsets)) < len(offsets):
        raise ValueError(f"window has an offset twice: {window!r:.80}")
    return offsets.tolist()


def _tokens(X, column):
    """The words of all sentences, and the number of words of each sentence."""
    check_iterable(X)
    tokens, lengths = [], []
    for i, sentence in enumerate(X):
        words = _words(sentence, column, f"X[{i}]")
        tokens.extend(words)
        lengths.append(len(words))
    return tokens, lengths


def _words(sentence, column, name):
    """The words of one sentence."""
    if isinstance(sentence, tuple):
        if isinstance(column, str) or column >= len(sentence):
            raise ValueError(
                f"{name} has {len(sentence)} columns, numbered from 0, and column="
                f"{column!r:.80} is not among them"
            )
        sentence, name = sentence[column], f"{name}[{column}]"
    elif (
        isinstance(sentence, Sized) and len(sentence) and not isinstance(sentence, str)
    ):
        first = sentence[0]
        if isinstance(first, Mapping):
            if not isinstance(column, str):
                if column >= len(first):
                    raise ValueError(
                        f"{name}[0] has {len(first)} columns, numbered from 0, and "
                        f"column={column!r} is not among them"
                    )
                column = list(first)[column]
            for t, row in enumerate(sentence):
                if not isinstance(row, Mapping) or column not in row:
                    raise ValueError(f"{name}[{t}] has no column {column!r:.80}")
            sentence, name = (
                [row[column] for row in sentence],
                f"{name}[{column!r:.80}]",
            )
    _check_tokens(name, sentence)
    return sentence


def _read_table(vectors):
    """Read `vectors` of any form; return the words and the array of vectors."""
    if isinstance(vectors, str | os.PathLike):
        return read_word_vectors(vectors)
    if isinstance(vectors, Mapping):
        return _checked_table(list(vectors), list(vectors.values()))
    if hasattr(vectors, "index_to_key") and hasattr(vectors, "vectors"):
        return _checked_table(list(vectors.index_to_key), vectors.vectors)
    if isinstance(vectors, tuple | list) and len(vectors) == 2:
        return _checked_table(list(vectors[0]), vectors[1])
    raise TypeError(
        "vectors must be the name of a file, a mapping, a tuple (words, array) or "
        f"KeyedVectors, got a {type(vectors).__name__}"
    )


def _checked_table(words, rows):
    """Check words and vectors; return them with the vectors in single precision."""
    for k, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"vectors: word {k} must be a string, got {word!r:.80}")
    if len(set(words)) < len(words):
        ((word, _),) = Counter(words).most_common(1)
        raise ValueError(f"vectors has the word {word!r:.80} twice")
    if not words:
        raise ValueError("vectors is empty: at least one word is required")
    try:
        table = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        raise ValueError("vectors must be numbers, and of the same length") from None
    if table.ndim != 2 or len(table) != len(words) or not table.shape[1]:
        raise ValueError(
            f"vectors has {len(words)} words and an array of shape {table.shape}: one "
            "row for each word is required"
        )
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise ValueError(
            f"the vector of {words[np.argmax(bad)]!r:.80} is not finite in "
            "single precision"
        )
    return words, table
