"""Attributes from lists of phrases, and the places of phrases as candidate spans."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._clusters import NAME
from sksstruct.feature_extraction._lexical import TEXTS, LexicalFeatures, Memo, words_of
from sksstruct.feature_extraction._phrases import find_phrases, longest
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._files import lines_of
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.labels import encode_choices
from sksstruct.utils.state import required
from sksstruct.utils.typing import Integers, Items, PathLike

_ARRAYS = "_phrase_words", "_phrase_offsets", "_lists", "_counts"


@fill_doc({**TEXTS, "name": NAME.format("gazetteer")})
@dataclass(eq=False, repr=False)
class GazetteerFeatures(LexicalFeatures):
    """Add attributes to tokens that are part of phrases of gazetteers (dictionaries).

    The longest phrases of each list are matched from left to right. A token of a match
    gets an attribute of the list and of its position in the phrase: ``B-``, ``I-`` and
    ``E-`` for the first, inner and last word, and ``S-`` for a phrase of one word.
    Phrases of two lists may overlap. For a `SegmentCRF`, `spans` returns all matches as
    candidate spans.

    Use the transformer before a `SequenceVectorizer`.

    Parameters
    ----------
    lists : mapping of {str: file or iterable of phrases} or None, default=None
        Phrases by the name of the list. A file has one phrase in each line, and is
        gzip-compressed if its name ends in ``.gz``. A phrase is a string, or a list of
        words. None: `fit` makes a list of the entities of each kind in the training
        data. `fit_transform` then leaves out, for each sentence, the entities that no
        other sentence has; see Notes.
    window : sequence of int, default=()
        Offsets of the neighbors whose attributes a token gets, too. On tweets, the
        attributes of neighbors lowered F1.
    %(normalize_and_word)s
    split : callable or None, default=None
        Function from a phrase to its words; None is `str.split`. Phrases should be
        split like the sentences: if the sentences have tokens such as ``St. John 's``,
        pass the tokenizer of the sentences.
    %(name)s

    Attributes
    ----------
    list_names_ : list of str
        Names of the lists.
    n_phrases_ : int
        Number of phrases in all lists.

    See Also
    --------
    ClusterFeatures : Attributes from clusters of words.
    sksstruct.SegmentCRF : Takes candidate spans.

    Notes
    -----
    With a `normalize` function, normalized words are compared: by default upper and
    lower case are the same. With None, words are compared as they are.

    Do not make `lists` of the entities of the training data. In training all entities
    would be in the lists, and in new sentences few: the tagger would rely on matches
    that new sentences lack. With None, a training sentence has only the matches that it
    would have if it were new, as with the cross fitting of
    `sklearn.preprocessing.TargetEncoder`. The result of `fit_transform` therefore
    differs from that of `fit` and `transform`.

    Examples
    --------
    >>> from sksstruct.feature_extraction import GazetteerFeatures
    >>> gazetteer = GazetteerFeatures({"city": ["New York", "York"]})
    >>> gazetteer.fit_transform([["in", "New", "York"]])[0][2:]
    [{'w': 'York', 'gazetteer[0]': ['E-city']}]
    >>> spans, features = gazetteer.spans([["in", "New", "York"]])[0]
    >>> spans.tolist()
    [[1, 3], [2, 3]]
    """

    lists: Mapping[str, PathLike | Iterable[Any]] | None = None
    _: KW_ONLY
    window: Integers = ()
    split: Callable[[str], list[str]] | None = None
    name: str = "gazetteer"

    _parameter_constraints = {"lists": [Mapping, None]}
    _result = "list_names_"

    def fit(self, X: Items, y: Any = None) -> Self:
        """Read the lists, or make them of the entities in the training data.

        Parameters
        ----------
        %(tokens)s
        y : list of sequences of str, default=None
            Labels in a scheme of spans, such as ``B-city``. Used only without `lists`.

        Returns
        -------
        self : GazetteerFeatures
            Itself.

        Raises
        ------
        ValueError
            If a phrase is empty, or no list has a phrase; if a file is not UTF-8, or
            cut short. The error says where.
        """
        self._check_parameters()
        if self.lists is None:
            words, offsets = words_of(X, self.word)
            starts, stops, kinds, names = self._entities(y, offsets)
            number = np.searchsorted(offsets, starts, "right")
            # a set: several occurrences in one sentence count once
            phrases = {
                (self._form(words[a:b]), k, i)
                for a, b, k, i in zip(starts, stops, kinds, number, strict=True)
            }
            counts = Counter((phrase, int(k)) for phrase, k, _ in phrases)
        else:
            names = list(self.lists)
            for name in names:
                if not isinstance(name, str):
                    raise TypeError(f"names of lists must be strings, got {name!r:.80}")
            counts = {
                (self._form(phrase), k): 0
                for k, name in enumerate(names)
                for phrase in self._phrases(name)
            }
        if not counts:
            raise ValueError(
                "there is no phrase in lists, or with lists=None no entity in y: at "
                "least one is required"
            )
        self._keep(names, counts)
        return self

    def fit_transform(self, X: Items, y: Any = None) -> list[list[Any]]:
        """Fit, and add attributes to tokens.

        Without `lists`, phrases that are entities of no other sentence are left out.

        Parameters
        ----------
        %(tokens)s
        y : list of sequences of str, default=None
            Labels in a scheme of spans. Used only without `lists`.

        Returns
        -------
        %(with_attributes)s
        """
        self.fit(X, y)
        words, offsets = words_of(X, self.word)
        return self._add(X, words, offsets, self._values(words, offsets, y))

    def spans(self, X: Items, y: Any = None) -> list[tuple[np.ndarray, np.ndarray]]:
        """Find all matches of phrases, as candidate spans for a `SegmentCRF`.

        Parameters
        ----------
        %(tokens)s
        y : list of sequences of str, default=None
            Labels of the sentences, if `fit` made the lists of these sentences: phrases
            that are entities of no other sentence are then left out.

        Returns
        -------
        spans : list of tuple of (ndarray, ndarray)
            For each sentence an array of shape (n_spans, 2) with the first position of
            each span and the position after its last; and an array of features, of
            shape (n_spans, n_lists), with 1 for each list that has the phrase.
        """
        check_is_fitted(self, self._result)
        words, offsets = words_of(X, self.word)
        starts, stops, kinds = self._places(words, offsets, y)
        # matches of one span in several lists are adjacent
        places = np.column_stack([starts, stops])
        is_new = np.ones(len(places), dtype=bool)
        is_new[1:] = (places[1:] != places[:-1]).any(axis=1)
        places = places[is_new]
        features = np.zeros((len(places), len(self.list_names_)))
        features[np.cumsum(is_new) - 1, kinds] = 1.0
        ends = np.searchsorted(places[:, 0], offsets)
        return [
            (places[a:b] - start, features[a:b])
            for a, b, start in zip(ends, ends[1:], offsets, strict=False)
        ]

    def _values(self, words, offsets, y=None):
        starts, stops, kinds = self._places(words, offsets, y)
        keep = longest(starts, stops, kinds, len(self.list_names_))
        starts, stops, kinds = starts[keep], stops[keep], kinds[keep]
        # indices of the words of all matches, in the order of the matches
        lengths = stops - starts
        shift = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        at = np.arange(len(shift)) + shift
        is_first = at == np.repeat(starts, lengths)
        is_last = at == np.repeat(stops - 1, lengths)
        codes = 4 * np.repeat(kinds, lengths) + 2 * is_first + is_last
        attributes = [(f"{a}-{name}",) for name in self.list_names_ for a in "IEBS"]
        values = [None] * len(words)
        for t, code in zip(at.tolist(), codes.tolist(), strict=True):
            value = values[t]
            values[t] = attributes[code] if value is None else value + attributes[code]
        return values

    def _places(self, words, offsets, y):
        """Return the first word, the end and the list of each match of a phrase.

        With y, matches of phrases that are entities of no other sentence are left out.
        """
        numbers = self._looked_up(self._numbers)
        codes = [numbers[word] for word in words]
        codes = np.array([-1 if k is None else k for k in codes], np.int32)
        ends = np.array(offsets, np.int64)
        starts, found = find_phrases(
            codes, ends, self._phrase_words, self._phrase_offsets, self._by_word
        )
        stops = starts + np.diff(self._phrase_offsets)[found]
        kinds = self._lists[found]
        if self.lists is None and y is not None:
            is_own = self._is_own(y, offsets, starts, stops, kinds, found)
            starts, stops, kinds = starts[~is_own], stops[~is_own], kinds[~is_own]
        return starts, stops, kinds

    def _is_own(self, y, offsets, starts, stops, kinds, found):
        """Whether the phrase of each match is an entity in its own sentence only."""
        *entities, names = self._entities(y, offsets)
        if names != self.list_names_:
            raise ValueError(
                f"y must have the kinds of entities seen in fit, {self.list_names_}, "
                f"got {names}"
            )
        entities = set(zip(*(part.tolist() for part in entities), strict=True))
        places = zip(starts.tolist(), stops.tolist(), kinds.tolist(), strict=True)
        labeled = np.array([place in entities for place in places], dtype=bool)
        sentence = np.searchsorted(offsets, starts, "right")
        owner = np.zeros(self.n_phrases_, np.int64)
        owner[found[labeled]] = sentence[labeled]
        return (self._counts[found] == 1) & (owner[found] == sentence)

    def _entities(self, y, offsets):
        """Return starts, stops and kinds of the entities in y, and names of kinds."""
        if y is None:
            raise ValueError(
                "y must be given if lists=None: its entities are the lists"
            )
        lengths = np.diff(offsets)
        # `known` is False at positions with None or a set
        classes, codes, known, _ = encode_choices(y, lengths)
        if known is not None:
            t = int(np.argmin(known))
            i = int(np.searchsorted(offsets, t, "right")) - 1
            raise ValueError(
                "every label in y must be known if lists=None, and "
                f"y[{i}][{t - offsets[i]}] is not"
            )
        first = np.zeros(len(codes), dtype=bool)
        first[np.array(offsets[:-1])[lengths > 0]] = True
        labels = SpanLabels(classes.tolist(), lambda label: "y has the label")
        starts, stops = SpanSequence(labels, codes, first).read()
        return starts, stops, labels.kinds[codes[starts]], labels.names

    def _phrases(self, name):
        """Yield the phrases of a gazetteer, each as a list of words."""
        phrases, where = self.lists[name], f"lists[{name!r:.80}][{{}}]".format
        first, split = 0, self.split or str.split
        if isinstance(phrases, str | os.PathLike):
            path, first = phrases, 1
            phrases, where = lines_of(path), f"{path}, line {{}}".format
        elif isinstance(phrases, Mapping) or not isinstance(phrases, Iterable):
            raise TypeError(
                f"lists[{name!r:.80}] must be a file or a list of phrases, got "
                f"{phrases!r:.80}"
            )
        for number, phrase in enumerate(phrases, first):
            words = split(phrase) if isinstance(phrase, str) else phrase
            if not isinstance(words, Sequence) or not all(
                isinstance(word, str) for word in words
            ):
                raise TypeError(
                    f"{where(number)} must be a phrase, a string or a list of words, "
                    f"got {phrase!r:.80}"
                )
            if not words:
                raise ValueError(f"{where(number)} has no words: {phrase!r:.80}")
            yield words

    def _form(self, words):
        """Return the normalized words of a phrase."""
        normalize = self._normalize
        return tuple(words if normalize is None else map(normalize, words))

    def _keep(self, names, counts):
        """Set the phrases, and the number of sentences in which each is an entity."""
        numbers = {word: None for phrase, _ in counts for word in phrase}
        numbers = {word: k for k, word in enumerate(numbers)}
        rows = sorted(
            (tuple(numbers[word] for word in phrase), k, count)
            for (phrase, k), count in counts.items()
        )
        self.list_names_ = names
        self._phrase_words = np.array([w for row in rows for w in row[0]], np.int32)
        lengths = [len(row[0]) for row in rows]
        self._phrase_offsets = np.concatenate([[0], np.cumsum(lengths)], dtype=np.int64)
        self._lists = np.array([row[1] for row in rows], np.int32)
        self._counts = np.array([row[2] for row in rows], np.int32)
        self._index(numbers)

    def _index(self, numbers):
        """Set the index of phrases by first word, and the numbers of words."""
        self._numbers, self.n_phrases_ = numbers, len(self._lists)
        first = self._phrase_words[self._phrase_offsets[:-1]]
        self._by_word = np.searchsorted(first, np.arange(len(numbers) + 1))
        self._by_word = self._by_word.astype(np.int64)

    def _looked_up(self, known):
        # phrases are normalized already, so only the normalized word is looked up
        normalize = self._normalize
        if normalize is None:
            return Memo(known.get)
        return Memo(lambda word: known.get(normalize(word)))

    def _state(self):
        state = dict(super()._state())
        numbers = state.pop("_numbers", None)
        if numbers is not None:
            state.pop("_by_word")
            state["_words"] = FeatureNames(numbers)
        return state

    def _restore(self, state):
        if "_words" not in state:
            return super()._restore(state)
        words, *arrays = required(state, ("_words", *_ARRAYS), type(self).__name__)
        super()._restore({k: v for k, v in state.items() if k != "_words"})
        flat, offsets, lists, counts = (array.tolist() for array in arrays)
        words, known = words.to_list(), range(len(self.list_names_))
        phrases = [tuple(words[w] for w in flat[a:b]) for a, b in pairwise(offsets)]
        if not all(phrases) or not all(k in known for k in lists):
            raise ValueError(
                "the state of a GazetteerFeatures must have phrases with words, each "
                "of one of list_names_"
            )
        # `_keep` sorts the phrases, as the binary search requires
        pairs = zip(phrases, lists, strict=True)
        self._keep(self.list_names_, dict(zip(pairs, counts, strict=True)))
