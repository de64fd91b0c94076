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
    """Add to tokens which phrases of gazetteers, or dictionaries, they are part of.

    The longest phrases of each list are sought from left to right. A token in one gets
    an attribute of the list and of its position: ``B-``, ``I-`` and ``E-`` for the
    first, inner and last word, and ``S-`` for a phrase of one word. Phrases of two
    lists may overlap. For a `SegmentCRF`, `spans` returns the places as candidate
    spans.

    Use it before a `SequenceVectorizer`.

    Parameters
    ----------
    lists : mapping of {str: file or iterable of phrases} or None, default=None
        Phrases by the name of the list. A file has one phrase in each line, and is
        gzip-compressed if its name ends in ``.gz``. A phrase is a string, or a list of
        words. None: `fit` makes a list of the entities of each kind in the training
        data. `fit_transform` then leaves out, for each sentence, the entities that no
        other sentence has; see Notes.
    window : sequence of int, default=()
        Offsets of the neighbors whose attributes a token has, too. On tweets, those of
        neighbors lowered F1.
    %(normalize_and_word)s
    split : callable or None, default=None
        Function from a phrase to its words; None is `str.split`. They should be split
        as in the sentences: where these have ``St. John 's``, use the same tokenizer
        here.
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
    With a `normalize` function, phrases are compared in its form: by default upper and
    lower case are the same. None: they are compared as they are.

    Do not make `lists` of the entities of the training data. All entities would be in
    the lists in training and few in new sentences, so that the tagger would rely on
    what it will not find. With None, a training sentence has only matches that it would
    have if it were new, as with the cross fitting of
    `sklearn.preprocessing.TargetEncoder`. The result of `fit_transform` is therefore
    another than that of `fit` and `transform`.

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
            If a phrase is empty, or there is none; if a file is not UTF-8, or cut
            short. The error says where.
        """
        self._check_parameters()
        if self.lists is None:
            words, offsets = words_of(X, self.word)
            starts, stops, kinds, names = self._entities(y, offsets)
            number = np.searchsorted(offsets, starts, "right")
            # a sentence counts once
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
            raise ValueError("there is no phrase in any list")
        self._keep(names, counts)
        return self

    def fit_transform(self, X: Items, y: Any = None) -> list[list[Any]]:
        """Fit, and add attributes to tokens.

        Without `lists`, phrases of a sentence that are entities of no other are left
        out.

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
        """All places of phrases, as candidate spans for a `SegmentCRF`.

        Parameters
        ----------
        %(tokens)s
        y : list of sequences of str, default=None
            For the sentences that `fit` made lists of, their labels: phrases that are
            entities of no other sentence are left out.

        Returns
        -------
        spans : list of tuple of (ndarray, ndarray)
            For each sentence an array of shape (n_spans, 2), the first position of each
            span and the one after its last; and its features, of shape (n_spans,
            n_lists), 1 where the phrase is in a list.
        """
        check_is_fitted(self, self._result)
        words, offsets = words_of(X, self.word)
        starts, stops, kinds = self._places(words, offsets, y)
        # places of a phrase in several lists follow each other
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
        # the words of all places, in the order of the places
        lengths = stops - starts
        shift = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
        at = np.arange(len(shift)) + shift
        is_first = at == np.repeat(starts, lengths)
        is_last = at == np.repeat(stops - 1, lengths)
        codes = 4 * np.repeat(kinds, lengths) + 2 * is_first + is_last
        alone = [(f"{a}-{name}",) for name in self.list_names_ for a in "IEBS"]
        values = [None] * len(words)
        for t, code in zip(at.tolist(), codes.tolist(), strict=True):
            value = values[t]
            values[t] = alone[code] if value is None else value + alone[code]
        return values

    def _places(self, words, offsets, y):
        """Starts, stops and lists of phrases; with y, of those of other sentences."""
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
            own = self._own(y, offsets, starts, stops, kinds, found)
            starts, stops, kinds = starts[~own], stops[~own], kinds[~own]
        return starts, stops, kinds

    def _own(self, y, offsets, starts, stops, kinds, found):
        """Which places have phrases that are entities of their own sentence only."""
        *entities, names = self._entities(y, offsets)
        if names != self.list_names_:
            raise ValueError(f"y has entities of {names}, fit had {self.list_names_}")
        entities = set(zip(*(part.tolist() for part in entities), strict=True))
        places = zip(starts.tolist(), stops.tolist(), kinds.tolist(), strict=True)
        labeled = np.array([place in entities for place in places], dtype=bool)
        sentence = np.searchsorted(offsets, starts, "right")
        owner = np.zeros(self.n_phrases_, np.int64)
        owner[found[labeled]] = sentence[labeled]
        return (self._counts[found] == 1) & (owner[found] == sentence)

    def _entities(self, y, offsets):
        """Starts, stops and kinds of the entities in y, and the names of kinds."""
        if y is None:
            raise ValueError("without lists, fit needs labels y to make lists of")
        lengths = np.diff(offsets)
        # positions with a set are not known
        classes, codes, known, _ = encode_choices(y, lengths)
        if known is not None:
            raise ValueError("without lists, every label in y must be known")
        first = np.zeros(len(codes), dtype=bool)
        first[np.array(offsets[:-1])[lengths > 0]] = True
        labels = SpanLabels(classes.tolist(), lambda label: "y has the label")
        starts, stops = SpanSequence(labels, codes, first).read()
        return starts, stops, labels.kinds[codes[starts]], labels.names

    def _phrases(self, name):
        """Phrases of a list, each as a list of words."""
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
        """A phrase in the form in which it is compared."""
        normalize = self._normalize
        return tuple(words if normalize is None else map(normalize, words))

    def _keep(self, names, counts):
        """Set the phrases, and in how many sentences each is an entity."""
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
        """Set what follows from the phrases and the numbers of their words."""
        self._numbers, self.n_phrases_ = numbers, len(self._lists)
        first = self._phrase_words[self._phrase_offsets[:-1]]
        self._by_word = np.searchsorted(first, np.arange(len(numbers) + 1))
        self._by_word = self._by_word.astype(np.int64)

    def _looked_up(self, known):
        # phrases have been normalized
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
            raise ValueError("there are phrases without words, or of no list")
        # in order, as the search relies on it
        pairs = zip(phrases, lists, strict=True)
        self._keep(self.list_names_, dict(zip(pairs, counts, strict=True)))
