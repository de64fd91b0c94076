"""Attributes of tokens from the columns of a file, by a template or the usual ones."""

import re
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, TypeAlias

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._helpers import (
    _check_tokens,
    affixes_of,
    columns_of,
    shape_of,
)
from sksstruct.feature_extraction._vectorizer import check_iterable
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.state import Versioned

# How far away words, and other columns, are looked at without a template.
_WORDS, _OTHERS = range(-2, 3), range(-1, 2)
_AFFIXES = (2, 3)
# The columns of a sentence, or what `sequences_from_table` makes of one.
Sentence: TypeAlias = tuple[list[str], ...] | list[str] | list[dict[str, str]]
_MACRO = re.compile(r"%([xX])\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")
# What names of attributes begin with, by the first character of a line.
_KINDS = {"U": "U", "u": "U", "B": "B", "b": "B", "*": "B*"}


@dataclass(eq=False, repr=False)
class ColumnFeatures(
    TransformerMixin, Versioned, BaseEstimator, auto_wrap_output_keys=None
):
    """Turn the columns of tokens into lists of attributes.

    Use it before a `SequenceVectorizer`, for data in the format of
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
        As in Wapiti, ``u`` and ``b`` are other forms of ``U`` and ``B``; a line that
        begins with ``*`` makes attributes whose names begin with ``B*``; and ``%X`` is
        the text that ``%x`` is in lower case.
        None: words and their shapes up to two tokens away, affixes of two and three
        letters, and the other columns up to one token away.

    Attributes
    ----------
    n_columns_ : int
        Number of columns.
    column_names_ : list of str or None
        Their names, if positions are dicts. The columns are numbered in this order,
        which is that of the first position in fit.
    has_pairs_ : bool
        Whether there are attributes for pairs of labels.

    See Also
    --------
    sksstruct.feature_extraction.window_features : The same for one sentence.
    sksstruct.datasets.read_conll : Reads columns.
    sequences_from_table : Sequences from a table, such as a data frame.

    Notes
    -----
    Where a macro of a template leaves the sentence, its value is ``_B-1``, ``_B-2`` and
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
            The columns of each sentence; or its positions, as dicts of the columns, or
            as words alone.
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
        rules = [] if self.template is None else _parse(self.template)
        names = _names(X)
        n_columns = _check_columns(_columns(X, names), None)
        for number, line, parts in rules:
            for _, column, _ in parts[1::2]:
                if column >= n_columns:
                    raise ValueError(
                        f"template, line {number}: no column {column}, there are "
                        f"{n_columns}: {line!r:.80}"
                    )
        self.n_columns_, self.column_names_ = n_columns, names
        self.has_pairs_ = any(parts[0][0] == "B" for _, _, parts in rules)
        return self

    def transform(self, X: Sequence[Sentence]) -> list[list[list[str]]]:
        """Make attributes.

        Parameters
        ----------
        X : list of {tuple of list of str, list of dict of str, list of str}
            Sentences, as in `fit`.

        Returns
        -------
        features : list of list of list of str
            Attributes of the tokens of each sentence.
        """
        # what scikit-learn looks at would take a fifth of the time of a sentence
        if "n_columns_" not in vars(self):
            check_is_fitted(self)
        check_iterable(X)
        X = _columns(X, self.column_names_)
        _check_columns(X, self.n_columns_)
        if self.template is None:
            return [_usual(columns) for columns in X]
        rules = [parts for _, _, parts in _parse(self.template)]
        return [_expand(rules, columns) for columns in X]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Leave the names of features to the vectorizer that comes next in a pipeline.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        input_features : object
            What was given.
        """
        return input_features


def _names(X):
    """Names of the columns where positions are dicts, or None."""
    for sentence in X:
        if isinstance(sentence, list) and sentence:
            return list(sentence[0]) if isinstance(sentence[0], Mapping) else None
    return None


def _columns(X, names):
    """The columns of sentences, whatever form these have."""
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
    """Whether a list has words, of which some may be missing, and not columns."""
    return not entries or any(
        isinstance(entry, str | bytes) or not isinstance(entry, Sized)
        for entry in entries
    )


def _check_columns(X, n_columns):
    """Refuse sentences that are not columns of equal length; return their number."""
    for i, columns in enumerate(X):
        if isinstance(columns, str) or not isinstance(columns, Sized):
            raise TypeError(f"X[{i}] must be a tuple of columns, got {columns!r:.80}")
        n_columns = len(columns) if n_columns is None else n_columns
        if len(columns) != n_columns or not n_columns:
            raise ValueError(
                f"X[{i}] has {len(columns)} columns, expected {n_columns or 'one'}"
            )
        for k, column in enumerate(columns):
            _check_tokens(f"X[{i}][{k}]", column)
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"X[{i}][{k}] has {len(column)} tokens, X[{i}][0] has "
                    f"{len(columns[0])}"
                )
    return n_columns


def _usual(columns):
    """Attributes of one sentence without a template.

    Those of `window_features`, `shape_features` and `affix_features`, in this order.
    Texts repeat their words: what a word gives is kept, which takes a third of the time
    of making the strings anew.
    """
    if not columns[0]:
        return []
    words = list(map(_of_word, columns[0]))
    around = zip(*[shifted for shifted, _ in words], strict=True)
    windows = list(map(_moved, around, 2 * (*_WORDS,)))
    for number, column in enumerate(columns[1:], start=1):
        around = zip(*[_of_tag(number, tag) for tag in column], strict=True)
        windows += map(_moved, around, _OTHERS)
    rows = list(map(list, zip(*windows, strict=True)))
    n, reach = len(rows), _WORDS[-1]
    for t in {*range(min(reach, n)), *range(max(0, n - reach), n)}:
        rows[t] = [attribute for attribute in rows[t] if attribute is not None]
    rows[0].append("__BOS__")
    rows[-1].append("__EOS__")
    for row, (_, affixes) in zip(rows, words, strict=True):
        row += affixes
    return rows


def _moved(column, offset):
    """Values of a column so far away, and None beyond both ends."""
    n = len(column)
    if offset < 0:
        return ((None,) * -offset + column)[:n]
    return column[offset:] + (None,) * min(offset, n)


@lru_cache(maxsize=2**14)
def _of_word(word):
    """What a word gives: attributes of the tokens around it, by offset, and affixes."""
    lower, shape = word.lower(), shape_of(word)
    around = [f"w[{offset}]={lower}" for offset in _WORDS]
    around += [f"shape[{offset}]={shape}" for offset in _WORDS]
    return tuple(around), affixes_of(word, _AFFIXES, "w")


@lru_cache(maxsize=2**14)
def _of_tag(number, tag):
    """What a value of another column gives the tokens around it, by offset."""
    return tuple(f"column{number}[{offset}]={tag}" for offset in _OTHERS)


def _parse(template):
    """Rules of a template: line number, line, and texts and macros in turns."""
    rules = []
    for number, line in enumerate(template.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        first, *pieces = _MACRO.split(line)
        texts = [first, *pieces[3::4]]
        if line[0] not in _KINDS or "%" in "".join(texts):
            text = (
                f"template, line {number}: expected U, B or * and macros "
                f"%x[row,column], got {line!r:.80}"
            )
            if re.search(r"%[mMtT]\[|%[xX]\[\s*@", line):
                text += (
                    ". Wapiti's %m, %t and positions with @ are not supported: put "
                    "what they make in a column of the data, and name that by %x"
                )
            raise ValueError(text)
        parts = [_KINDS[line[0]] + first[1:]]
        if not pieces and parts[0][0] == "B":
            continue
        for k in range(0, len(pieces), 4):
            letter, row, column, text = pieces[k : k + 4]
            parts += [(int(row), int(column), letter == "X"), text]
        rules.append((number, line, parts))
    if not rules:
        raise ValueError("the template has no line that makes an attribute")
    return rules


def _expand(rules, columns):
    """Attributes of one sentence, by rules of a template."""
    size = len(columns[0])
    rows = [[] for _ in range(size)]
    for parts in rules:
        values = []
        for part in parts:
            if isinstance(part, str):
                values.append([part] * size)
            else:
                row, column, is_lower = part
                found = columns[column]
                if is_lower:
                    found = list(map(str.lower, found))
                values.append(_shifted(found, row))
        for attributes, pieces in zip(rows, zip(*values, strict=True), strict=True):
            attributes.append("".join(pieces))
    return rows


def _shifted(column, offset):
    """Values of a column so far away, with names of their own beyond both ends."""
    size = len(column)
    return [
        column[t] if 0 <= t < size else f"_B{t if t < 0 else t - size + 1:+d}"
        for t in range(offset, offset + size)
    ]
