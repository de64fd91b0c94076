"""Base of the transformers that look up words: clusters and gazetteers."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Constrained, validate_params
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Integers, Items

# Descriptions of the parameters and inputs that all these transformers share.
TEXTS = {
    "window": """
window : sequence of int, default=(-1, 1)
    Offsets of the neighbors whose attributes a token gets, too.
""",
    "normalize_and_word": """
normalize : "lower", callable or None, default="lower"
    Function from a word to the form that is looked up if the word itself is unknown;
    "lower" is `str.lower`. None: only the word itself is looked up.
word : str, default="w"
    Name of the attribute that is the word of a token.
""",
    "tokens": """
X : list of sequences of {str, dict, list of str}
    Sentences. A token is its word, or a dict with the word under the name `word`, or
    a list of strings one of which is this name, "=" and the word.
""",
    "with_attributes": """
X_new : list of list of {dict, list of str}
    The tokens with the new attributes: lists of strings if the tokens were lists,
    otherwise dicts. A token that was a word is a dict with the word under the name
    `word`. Values are lists of strings, as in CRFsuite, and several tokens may share
    one list.
""",
}


class Memo(dict):
    """Dict that computes a missing value by a function of the key, once per key."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, key):
        value = self[key] = self._function(key)
        return value


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class LexicalFeatures(Constrained, SequenceTransformer, Versioned, BaseEstimator):
    """Base of transformers that add attributes of known words to tokens.

    Subclasses have the parameter `name`, the class attribute `_result` with the name of
    a fitted attribute, and the method ``_values(words, offsets)``, which returns a
    tuple of strings, or None, for each word of all sentences.
    """

    _result: ClassVar[str]

    _: KW_ONLY
    window: Integers = (-1, 1)
    normalize: Literal["lower"] | Callable[[str], str] | None = "lower"
    word: str = "w"

    _parameter_constraints = {"window": ["array-like"]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.dict = True
        tags.requires_fit = True
        return tags

    def _check_parameters(self):
        validate_params(self)
        if any(not isinstance(d, Integral) or d == 0 for d in self.window):
            raise ValueError(
                f"window must be integers other than 0, got {self.window!r:.80}"
            )

    @property
    def _normalize(self):
        """The function from words to their forms, or None."""
        # the parameter is "lower" and not str.lower, which skops cannot load
        return str.lower if self.normalize == "lower" else self.normalize

    def _looked_up(self, known):
        """Return a dict that finds a word, or else its normalized form, in `known`."""
        normalize = self._normalize

        def look_up(word):
            value = known.get(word)
            if value is None and normalize is not None:
                value = known.get(normalize(word))
            return value

        return Memo(look_up)

    def _add(self, X, words, offsets, values):
        """Return sentences whose tokens have their own and their neighbors' values.

        `values` has, for each word of all sentences, the strings to add, or None.
        """
        names = [(f"{self.name}[{d}]", d) for d in sorted({0, *map(int, self.window)})]
        # for tokens that are lists of strings, values are joined with the name
        joined = [
            Memo(lambda value, name=name: [f"{name}={part}" for part in value])
            for name, _ in names
        ]
        lists = Memo(list)
        new_names, out = {name for name, _ in names}, []
        for sentence, start, stop in zip(X, offsets, offsets[1:], strict=False):
            rows = [
                dict(token)
                if isinstance(token, Mapping)
                else {self.word: token}
                if isinstance(token, str)
                else [*token]
                for token in sentence
            ]
            for row in rows:
                if type(row) is dict and not new_names.isdisjoint(row):
                    raise ValueError(
                        f"X[{len(out)}] has attributes {self.name!r} already: pass "
                        "another name to one of the transformers"
                    )
            for (name, d), strings in zip(names, joined, strict=True):
                of_neighbors = values[start + max(0, d) : max(start, stop + min(0, d))]
                for row, value in zip(rows[max(0, -d) :], of_neighbors, strict=False):
                    if value is None:
                        continue
                    if type(row) is dict:
                        row[name] = lists[value]
                    else:
                        row += strings[value]
            out.append(rows)
        return out

    def transform(self, X: Items) -> list[list[Any]]:
        """Add attributes to tokens.

        Parameters
        ----------
        %(tokens)s

        Returns
        -------
        %(with_attributes)s
        """
        # check_is_fitted alone takes longer than to transform a short sentence
        if self._result not in vars(self):
            check_is_fitted(self, self._result)
        words, offsets = words_of(X, self.word)
        return self._add(X, words, offsets, self._values(words, offsets))

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the attributes that tokens get.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of object
            Names, before a vectorizer joins them with values.
        """
        offsets = sorted({0, *map(int, self.window)})
        return np.array([f"{self.name}[{d}]" for d in offsets], dtype=object)


def words_of(X, name):
    """Return the words of all sentences, concatenated, and the sentences' offsets.

    Parameters
    ----------
    X : list
        Sentences.
    name : str
        Name of the attribute that is the word.

    Returns
    -------
    words : list of str
        The words.
    offsets : list of int
        Index of the first word of each sentence, and the number of words.
    """
    if isinstance(X, str | Mapping) or not hasattr(X, "__len__"):
        raise TypeError(f"X must be a list of sentences, got {X!r:.80}")
    words, offsets = [], [0]
    start = f"{name}="
    for i, sentence in enumerate(X):
        if isinstance(sentence, str | bytes | Mapping):
            raise TypeError(
                f"X[{i}] is a single {type(sentence).__name__}: a sentence is a list "
                "of tokens; for one sentence pass [X]"
            )
        for t, token in enumerate(sentence):
            word = token if type(token) is str else _word(token, name, start)
            if not isinstance(word, str):
                raise _no_word(token, name, f"X[{i}][{t}]")
            words.append(word)
        offsets.append(len(words))
    return words, offsets


def _word(token, name, start):
    """Return the word of a token, or None if the token has no word."""
    if type(token) is dict or isinstance(token, str | Mapping):
        return token if isinstance(token, str) else token.get(name)
    if isinstance(token, list | tuple):
        for text in token:
            if isinstance(text, str) and text.startswith(start):
                return text[len(start) :]
    return None


def _no_word(token, name, where):
    """Return the error for a token whose word is missing, or is not a string."""
    if isinstance(token, Mapping) and name in token:
        return TypeError(f"{where}[{name!r}] must be a string, got {token[name]!r:.80}")
    if isinstance(token, Mapping):
        wanted = f"a string under the name {name!r:.80}"
    elif isinstance(token, list | tuple):
        wanted = f"a string that begins with '{name}='"
    else:
        return TypeError(
            f"{where} must be a word, a dict or a list of strings, got {token!r:.80}"
        )
    return ValueError(
        f"{where} has no word: expected {wanted}, got {token!r:.80}. Pass the name of "
        "the attribute that is the word as word="
    )
