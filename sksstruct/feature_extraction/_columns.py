"""Attributes of tokens from the columns of a file: by a template, or by default."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._column_rules import expand, parse, usual
from sksstruct.feature_extraction._helpers import _check_tokens, columns_of
from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.feature_extraction._vectorizer import check_iterable
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.state import Versioned

# A sentence: its columns, its words, or the dicts of `sequences_from_table`.
Sentence: TypeAlias = tuple[list[str], ...] | list[str] | list[dict[str, str]]


@dataclass(eq=False, repr=False)
class ColumnFeatures(SequenceTransformer, Versioned, BaseEstimator):
    """Turn the columns of tokens into lists of attributes.

    Use the transformer before a `SequenceVectorizer`, for data in the format of
    `sksstruct.datasets.read_conll` without the column of labels, or of
    `sequences_from_table`.

    Parameters
    ----------
    template : str or None, default=None
        Lines of a template of CRF++ or Wapiti: ``U01:%x[-1,0]/%x[0,1]`` makes an
        attribute of a token from column 0 of the token before and column 1 of its own.
        Lines that begin with ``B`` and have a macro make attributes whose names begin
        with ``B``, for ``ChainCRF(transition_features="B")``. A line ``B`` without a
        macro has no effect, because a `ChainCRF` always has weights of pairs of labels.
        As in Wapiti, ``u`` and ``b`` mean ``U`` and ``B``; a line that begins with
        ``*`` makes attributes whose names begin with ``B*``; and ``%X`` is the text of
        ``%x`` in lower case.
        None: words and their shapes up to two tokens away, affixes of two and three
        letters, and the other columns up to one token away.

    Attributes
    ----------
    n_columns_ : int
        Number of columns.
    column_names_ : list of str or None
        Names of the columns, if positions are dicts, in the order of the first position
        in fit, in which the columns are numbered.
    has_pairs_ : bool
        Whether the template has attributes for pairs of labels.

    See Also
    --------
    sksstruct.feature_extraction.window_features : Attributes of one sentence.
    sksstruct.datasets.read_conll : Reads columns.
    sequences_from_table : Sequences from a table, such as a data frame.

    Notes
    -----
    If the row of a macro is outside the sentence, the value is ``_B-1``, ``_B-2`` and
    so on before the first token, and ``_B+1``, ``_B+2`` after the last, as in CRF++.

    Examples
    --------
    >>> from sksstruct.feature_extraction import ColumnFeatures
    >>> X = [(["He", "ran"], ["PRP", "VBD"])]
    >>> ColumnFeatures("U0:%x[0,0]\\nU1:%x[-1,1]").fit_transform(X)
    [[['U0:He', 'U1:_B-1'], ['U0:ran', 'U1:PRP']]]
    """

    template: str | None = None

    _parameter_constraints = {"template": [str, None]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fit(self, X: Sequence[Sentence], y: Any = None) -> Self:
        """Check the template and count columns.

        Parameters
        ----------
        X : list of {tuple of list of str, list of dict of str, list of str}
            For each sentence its columns, its positions as dicts with the names and
            values of the columns, or its words.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : ColumnFeatures
            Itself.
        """
        validate_params(self)
        check_iterable(X)
        if len(X) == 0:
            raise ValueError("X is empty: at least one sentence is required")
        rules = [] if self.template is None else parse(self.template)
        names = _names(X)
        n_columns = _check_columns(_columns(X, names), None)
        for number, line, parts in rules:
            for _, column, _ in parts[1::2]:
                if column >= n_columns:
                    raise ValueError(
                        f"template, line {number}: the line names column {column}, and "
                        f"X has {n_columns}, numbered from 0: {line!r:.80}"
                    )
        self.n_columns_, self.column_names_ = n_columns, names
        self.has_pairs_ = any(parts[0][0] == "B" for _, _, parts in rules)
        return self

    def transform(self, X: Sequence[Sentence]) -> list[list[list[str]]]:
        """Make the attributes of all tokens.

        Parameters
        ----------
        X : list of {tuple of list of str, list of dict of str, list of str}
            Sentences, as in `fit`.

        Returns
        -------
        features : list of list of list of str
            Attributes of the tokens of each sentence.
        """
        # check_is_fitted alone would take a fifth of the time to transform a sentence
        if "n_columns_" not in vars(self):
            check_is_fitted(self)
        check_iterable(X)
        X = _columns(X, self.column_names_)
        _check_columns(X, self.n_columns_)
        if self.template is None:
            return [usual(columns) for columns in X]
        rules = [parts for _, _, parts in parse(self.template)]
        return [expand(rules, columns) for columns in X]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the input: the next vectorizer of the pipeline names the features.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        input_features : object
            The argument.
        """
        return input_features


def _names(X):
    """Names of the columns if positions are dicts, otherwise None."""
    for sentence in X:
        if isinstance(sentence, list) and sentence:
            return list(sentence[0]) if isinstance(sentence[0], Mapping) else None
    return None


def _columns(X, names):
    """Convert sentences of any form to tuples of columns."""
    columns = []
    for i, sentence in enumerate(X):
        if names is not None and isinstance(sentence, list):
            named = columns_of(f"X[{i}]", sentence, names)
            for name, column in named.items():
                _check_tokens(f"X[{i}][{name!r:.80}]", column)
            sentence = tuple(named.values())
        elif isinstance(sentence, list) and _are_words(sentence):
            _check_tokens(f"X[{i}]", sentence)
            sentence = (sentence,)
        columns.append(sentence)
    return columns


def _are_words(entries):
    """Whether a list has words, not columns; a word that is missing may be None."""
    return not entries or any(
        isinstance(entry, str | bytes) or not isinstance(entry, Sized)
        for entry in entries
    )


def _check_columns(X, n_columns):
    """Refuse sentences without equally long columns; return the number of columns."""
    for i, columns in enumerate(X):
        if isinstance(columns, str) or not isinstance(columns, Sized):
            raise TypeError(f"X[{i}] must be a tuple of columns, got {columns!r:.80}")
        n_columns = len(columns) if n_columns is None else n_columns
        if len(columns) != n_columns or not n_columns:
            raise ValueError(
                f"X[{i}] must have {n_columns or 'at least 1'} columns, got "
                f"{len(columns)}"
            )
        for k, column in enumerate(columns):
            _check_tokens(f"X[{i}][{k}]", column)
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"X[{i}][{k}] must have {len(columns[0])} tokens as X[{i}][0], got "
                    f"{len(column)}"
                )
    return n_columns
