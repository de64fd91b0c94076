"""Features of the arcs between the words of sentences, for dependency trees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import chain
from math import prod
from numbers import Integral
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.feature_extraction._helpers import affixes_of, morphology_of
from sksstruct.feature_extraction._transformer import SequenceTransformer
from sksstruct.utils._layout import StoredRows
from sksstruct.utils._param_validation import Constrained, Count, validate_params
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Labelings
from sksstruct.utils.validation import check_heads

# What features are of: word and tag of the head and of the modifier, tags of their
# neighbors, and a tag between them. The templates are those of McDonald, Crammer and
# Pereira (2005), without prefixes of long words. Those at the end have attributes of
# the words, which may have several: morphological features ("f"), and affixes ("a").
_TEMPLATES = (
    (),
    ("hw",),
    ("ht",),
    ("hw", "ht"),
    ("mw",),
    ("mt",),
    ("mw", "mt"),
    ("hw", "mw"),
    ("ht", "mt"),
    ("hw", "ht", "mw"),
    ("hw", "ht", "mt"),
    ("hw", "mw", "mt"),
    ("ht", "mw", "mt"),
    ("hw", "ht", "mw", "mt"),
    ("ht", "ht+1", "mt-1", "mt"),
    ("ht-1", "ht", "mt-1", "mt"),
    ("ht", "ht+1", "mt", "mt+1"),
    ("ht-1", "ht", "mt", "mt+1"),
    ("ht", "bt", "mt"),
    ("ht", "mt", "hf"),
    ("ht", "mt", "mf"),
    ("ht", "mt", "hf", "mf"),
    ("ht", "mt", "ha"),
    ("ht", "mt", "ma"),
)
# Kinds of which a word has any number.
_SEVERAL = ("f", "a")


def _part_of(k):
    """The template that an arc with a known feature of template k has one of, too.

    Of the earlier templates with some of its parts, that with the most words has the
    fewest arcs.
    """
    parts = [t for t in _TEMPLATES[:k] if set(t) < set(_TEMPLATES[k])]
    # of a word with several attributes, an arc would come several times
    parts = [t for t in parts if not any(p[1] in _SEVERAL for p in t)]
    return max(parts, key=lambda t: (sum(p[1] == "w" for p in t), len(t)), default=None)


_PARTS_OF = {names: _part_of(k) for k, names in enumerate(_TEMPLATES)}
# Least distances of the bins, in both directions. Bins 0 to 5 are of modifiers to the
# right of their heads.
_DISTANCES = (1, 2, 3, 4, 5, 10)
_BINS = [f"{sign}{distance}" for sign in "+-" for distance in _DISTANCES]
# How many bins are in each set of bins, which is a number with a bit for each.
_N_BINS = np.array([k.bit_count() for k in range(1 << len(_BINS))], dtype=np.int32)
# Numbers 0 are for words and tags that were not seen in fit: no key that is known has
# them. Then come the names of what is not a word of the sentence.
_SPECIAL = {"w": ["", "<root>"], "t": ["", "<root>", "<end>"], "f": [""], "a": [""]}
_ROOT, _END = 1, 2
_MOST = 2**63 - 1


@dataclass(eq=False, repr=False)
class ArcVectorizer(
    Constrained,
    SequenceTransformer,
    Versioned,
    BaseEstimator,
):
    """Turn sentences of words and tags into sparse features of their arcs.

    The result is the input of `sksstruct.models.DependencyModel`. A sentence is a list
    of (word, tag) pairs, or of triples of which the last is a column of morphological
    features as CoNLL-U has it, such as ``"Case=Nom|Number=Sing"``, or ``"_"`` for none.
    A sentence of n words has (n + 1) n rows, one for each arc:
    row ``head * n + modifier - 1``, where head 0 is the root and words are 1 to n. Rows
    of arcs from a word to itself are empty.

    All features have the value 1. They are combinations of the words and the tags of
    the head and of the modifier, of the tags of their neighbors, and of the tags of the
    words between them, as in [1]_; and of each morphological feature, and each affix,
    of the head or the modifier with both tags, and of each pair of morphological
    features with both tags. There is a feature for each combination, and another
    one for the combination with direction and distance. Distances are 1, 2, 3, 4, 5 to
    9, and 10 or more.

    Parameters
    ----------
    min_count : int, default=1
        Minimum number of arcs in the training data that must have a feature. Other
        features are dropped. With trees, only arcs of the trees count.
    affixes : list or tuple of int, default=()
        Lengths of prefixes and suffixes of words that are used, such as ``(2, 3)``, as
        in `affix_features`.

    Attributes
    ----------
    counts_ : ndarray of shape (n_features,), int64
        Number of arcs that have each feature, as for `min_count`.
    words_ : dict of {str: int}
        Number of each word, from 2 on, in the order of first appearance.
    tags_ : dict of {str: int}
        Number of each tag, from 3 on.
    morphology_, affixes_ : dict of {str: int}
        Number of each morphological feature and of each affix, from 1 on.

    See Also
    --------
    sksstruct.models.DependencyModel : Learns trees from these features.
    SequenceVectorizer : Features of the positions of sequences.

    Notes
    -----
    Most pairs of words are not arcs. Without trees, there are many times more features
    than with trees, and most of them occur on a single arc.

    Combinations of the modifier alone are the same for all of its heads. They are
    therefore used only with direction and distance.

    In the names of features, "hw", "ht", "mw" and "mt" are words and tags of head and
    modifier, "ht-1" to "mt+1" are tags of neighbors, and "bt" is a tag between. "hf"
    and "mf" are morphological features, "ha" and "ma" affixes.
    "arc" is the signed lower end of the bin of the distance, which is positive if the
    modifier is to the right of its head.

    References
    ----------
    .. [1] R. McDonald, K. Crammer and F. Pereira, "Online large-margin training of
       dependency parsers", ACL 2005.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.feature_extraction import ArcVectorizer
    >>> X = [[("a", "DT"), ("cat", "NN"), ("ran", "VB")]]
    >>> y = [[2, 3, 0]]  # the head of each word, 0 for the root
    >>> vectorizer = ArcVectorizer()
    >>> arcs = vectorizer.fit_transform(X, y)
    >>> arcs[0].shape[0]  # of (3 + 1) 3 arcs
    12
    >>> vectorizer.get_feature_names_out()[:4].tolist()
    ['arc=+3', 'arc=-1', 'hw=<root>', 'hw=cat']
    >>> parser = SSVMClassifier("dependencies", alpha=0.1, random_state=0).fit(arcs, y)
    >>> new = [[("the", "DT"), ("dog", "NN"), ("ate", "VB")]]
    >>> parser.predict(vectorizer.transform(new))[0].tolist()
    [2, 3, 0]
    """

    _: KW_ONLY
    min_count: Count = 1
    affixes: list | tuple = ()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags

    def fit(
        self, X: Iterable[Sequence[tuple[str, ...]]], y: Labelings | None = None
    ) -> Self:
        """Learn the features that occur.

        Parameters
        ----------
        X : iterable of list of tuple of str
            Sentences, as words with their tag and, if wanted, morphological features.
        y : list of array-like of shape (n_words,), default=None
            Their trees, as heads of words, 0 for the root. Only features of arcs of
            these trees are learned. None: features of all arcs.

        Returns
        -------
        self : ArcVectorizer
            The fitted transformer.
        """
        validate_params(self)
        for length in self.affixes:
            if not isinstance(length, Integral) or length < 1:
                raise ValueError(
                    f"affixes must be lengths, integers from 1 on, got {length!r:.80}"
                )
        sentences = self._columns(X)
        if not sentences:
            raise ValueError("X is empty: at least one sentence is required")
        words, tags, features, affixes = zip(*sentences, strict=True)
        self.words_, self.tags_ = _numbers(words, "w"), _numbers(tags, "t")
        self.morphology_ = _numbers(chain.from_iterable(features), "f")
        self.affixes_ = _numbers(chain.from_iterable(affixes), "a")
        sizes = self._sizes()
        if max(_n_keys(names, sizes) for names in _TEMPLATES) > _MOST:
            raise ValueError(
                f"X has {len(self.words_)} words and {len(self.tags_)} tags: their "
                "combinations do not fit 64 bits"
            )
        arcs = [_Arcs(*self._encode(*each)) for each in sentences]
        kept = [slice(None)] * len(arcs) if y is None else _observed(arcs, y)
        self._keys, self._sets, self._starts, counts = [], [], [], []
        n_columns = 0
        for names in _TEMPLATES:
            # one template at a time, as there are many keys
            keys, bins = [], []
            for sentence, keep in zip(arcs, kept, strict=True):
                chosen, found = sentence.keys(names, sizes, keep)
                keys.append(found)
                bins.append(sentence.bins[chosen])
            values, where, number = np.unique(
                np.concatenate(keys), return_inverse=True, return_counts=True
            )
            pairs, pair_number = np.unique(
                where * len(_BINS) + np.concatenate(bins), return_counts=True
            )
            enough = number >= self.min_count
            pairs = pairs[pair_number >= self.min_count]
            pair_number = pair_number[pair_number >= self.min_count]
            # positions among the values that are kept
            rank = np.cumsum(enough) - 1
            values, number = values[enough], number[enough]
            sets = np.bincount(
                rank[pairs // len(_BINS)],
                weights=1 << pairs % len(_BINS),
                minlength=len(values),
            )
            sets = sets.astype(np.uint16)
            if _has_alone(names):
                counts.append(number)
                n_columns += len(values)
            counts.append(pair_number)
            self._keys.append(values)
            self._sets.append(sets)
            # the first column of each key with a bin
            self._starts.append(n_columns + np.cumsum(_N_BINS[sets]) - _N_BINS[sets])
            n_columns += len(pairs)
        if not n_columns:
            raise ValueError(f"no feature occurs on min_count={self.min_count} arcs")
        self.counts_ = np.concatenate(counts).astype(np.int64)
        return self

    def transform(self, X: Iterable[Sequence[tuple[str, ...]]]) -> PackedSequences:
        """Transform sentences; features not seen in fit are left out.

        Parameters
        ----------
        X : iterable of list of tuple of str
            Sentences, as words with their tag and, if wanted, morphological features.

        Returns
        -------
        X_new : PackedSequences
            One CSR array for each sentence, all stored in one array.
        """
        check_is_fitted(self, "counts_")
        indices, lengths, sizes = [np.zeros(0, np.int32)], [], []
        for sentence in self._columns(X):
            n = len(sentence[0])
            rows, columns = self._find(_Arcs(*self._encode(*sentence)))
            # columns ascend from template to template
            indices.append(columns[np.argsort(rows, kind="stable")])
            lengths.append(np.bincount(rows, minlength=(n + 1) * n))
            sizes.append((n + 1) * n)
        columns = np.concatenate(indices)
        indptr = np.cumsum(np.concatenate([[0], *lengths]), dtype=np.int64)
        if len(columns) < 2**31:
            indptr = indptr.astype(np.int32)
        else:
            columns = columns.astype(np.int64)
        offsets = np.cumsum([0, *sizes], dtype=np.intp)
        stored = StoredRows(np.ones(len(columns)), columns, indptr)
        return PackedSequences.of_stored(stored, len(self.counts_), offsets)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Names of the columns, which are made in each call.

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
        sizes, out = self._sizes(), []
        texts = {
            kind: np.array([*_SPECIAL[kind], *known], dtype=object)
            for kind, known in self._known().items()
        }
        for names, keys, sets in zip(_TEMPLATES, self._keys, self._sets, strict=True):
            parts = []
            for name in reversed(names):
                keys, part = np.divmod(keys, sizes[name[1]])
                parts.insert(0, texts[name[1]][part])
            # the template of nothing has one key
            joined = list(map("|".join, zip(*parts, strict=True))) if parts else [""]
            title = "|".join(names)
            if _has_alone(names):
                out += [f"{title}={text}" for text in joined]
            title += "|arc=" if names else "arc="
            end = "|" if names else ""
            for text, bins in zip(joined, sets.tolist(), strict=True):
                for k, distance in enumerate(_BINS):
                    if bins >> k & 1:
                        out.append(f"{title}{text}{end}{distance}")
        return np.array(out, dtype=object)

    def _known(self):
        """Numbers of what was seen in fit, by the letter of each kind."""
        return {
            "w": self.words_,
            "t": self.tags_,
            "f": self.morphology_,
            "a": self.affixes_,
        }

    def _sizes(self):
        """How many numbers each kind has."""
        known = self._known()
        return {kind: len(_SPECIAL[kind]) + len(known[kind]) for kind in known}

    def _columns(self, X):
        """Columns of the sentences: words, tags, morphological features, affixes."""
        out = []
        for words, tags, features in _columns(X):
            affixes = [affixes_of(word, self.affixes, "w") for word in words]
            out.append((words, tags, features, affixes))
        return out

    def _encode(self, words, tags, features, affixes):
        """Numbers of all that words of a sentence have, with root and ends."""
        words = [self.words_.get(word, 0) for word in words]
        tags = [self.tags_.get(tag, 0) for tag in tags]
        # so that the root, and each word, has a neighbor on both sides
        words, tags = [0, _ROOT, *words, 0], [_END, _ROOT, *tags, _END]
        words, tags = np.array(words, dtype=np.int64), np.array(tags, dtype=np.int64)
        several = (
            _Several([[], [], *column, []], known)
            for column, known in (
                (features, self.morphology_),
                (affixes, self.affixes_),
            )
        )
        return words, tags, *several

    def _find(self, arcs):
        """Rows and columns of the features of a sentence."""
        rows, columns, sizes = [], [], self._sizes()
        # arcs that have a known feature of each template
        known = {}
        for names, keys, sets, starts in zip(
            _TEMPLATES, self._keys, self._sets, self._starts, strict=True
        ):
            within = _PARTS_OF[names]
            keep = slice(None) if within is None else known[within]
            chosen, wanted = arcs.keys(names, sizes, keep)
            found, where = _look_up(keys, wanted)
            chosen = known[names] = chosen[found]
            if not len(chosen):
                continue
            if _has_alone(names):
                rows.append(chosen)
                # these columns are before those with bins
                columns.append(where + (starts[0] - len(keys)))
            bins, given = arcs.bins[chosen], sets[where]
            found = given >> bins & 1 > 0
            rows.append(chosen[found])
            below = _N_BINS[given & (1 << bins) - 1]
            columns.append((starts[where] + below)[found])
        if not rows:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)
        columns = np.concatenate(columns).astype(np.int32)
        return arcs.rows[np.concatenate(rows)], columns


class _Several:
    """Numbers of the known attributes of positions, which may have several.

    Parameters
    ----------
    rows : list of list of str
        Attributes of each position.
    known : dict of {str: int}
        Their numbers.
    """

    def __init__(self, rows, known):
        # numbers ascend, as columns must do
        rows = [sorted({known[x] for x in row if x in known}) for row in rows]
        self.values = np.array([k for row in rows for k in row], dtype=np.int64)
        self.sizes = np.array(list(map(len, rows)))
        self.starts = np.cumsum(self.sizes) - self.sizes

    def at(self, places):
        """Which places, each as often as it has attributes, and their numbers."""
        sizes = self.sizes[places]
        which = np.repeat(np.arange(len(places)), sizes)
        first = self.starts[places] - (np.cumsum(sizes) - sizes)
        return which, self.values[np.arange(len(which)) + first[which]]


class _Arcs:
    """The arcs of a sentence, less those from a word to itself.

    Parameters
    ----------
    words, tags : ndarray of shape (n + 3,), int64
        Numbers of the root and the words, between two positions that are neither.
    features, affixes : _Several
        Numbers of the attributes of the same positions.
    """

    def __init__(self, words, tags, features, affixes):
        self.n = n = len(words) - 3
        heads, modifiers = np.divmod(np.arange((n + 1) * n), n)
        modifiers += 1
        self.rows = np.flatnonzero(heads != modifiers)
        self.heads, self.modifiers = heads[self.rows], modifiers[self.rows]
        self._given = {"w": words, "t": tags, "f": features, "a": affixes}
        distances = self.modifiers - self.heads
        bins = np.searchsorted(_DISTANCES, np.abs(distances), side="right") - 1
        self.bins = bins + len(_DISTANCES) * (distances < 0)

    def keys(self, names, sizes, keep=slice(None)):
        """The arcs that have features of a template, and their keys.

        An arc has one feature, or one for each tag that is between its words, or for
        each attribute of a word.
        """
        chosen = np.arange(len(self.rows))[keep]
        between = None
        if "bt" in names:
            chosen, between = self._between(chosen)
        keys = np.zeros(len(chosen), dtype=np.int64)
        for name in names:
            if name == "bt":
                part = between
            else:
                ends = self.heads if name[0] == "h" else self.modifiers
                # behind the position before the root
                places = ends[chosen] + 1 + int(name[2:] or 0)
                given = self._given[name[1]]
                if name[1] in _SEVERAL:
                    which, part = given.at(places)
                    chosen, keys = chosen[which], keys[which]
                else:
                    part = given[places]
            keys = keys * sizes[name[1]] + part
        return chosen, keys

    def _between(self, chosen):
        """Arcs, each as often as there are different tags between, and these tags."""
        tags = self._given["t"][1:-1]
        kinds = np.unique(tags[1:])
        # how many of each tag are before a position
        before = np.zeros((self.n + 2, len(kinds)), dtype=np.int32)
        np.cumsum(tags[:, None] == kinds, axis=0, out=before[1:])
        heads, modifiers = self.heads[chosen], self.modifiers[chosen]
        low, high = np.minimum(heads, modifiers), np.maximum(heads, modifiers)
        arcs, which = np.nonzero(before[high] > before[low + 1])
        return chosen[arcs], kinds[which]


def _has_alone(names):
    """Whether features of a template are used without direction and distance."""
    return any(name[0] == "h" for name in names)


def _n_keys(names, sizes):
    """Number of keys that a template can have."""
    return prod(sizes[name[1]] for name in names)


def _look_up(known, keys):
    """Which keys are among sorted ones, and their places there."""
    if not len(known):
        return np.zeros(len(keys), dtype=bool), np.zeros(0, dtype=np.intp)
    where = np.searchsorted(known, keys)
    where[where == len(known)] = 0
    found = known[where] == keys
    return found, where[found]


def _numbers(columns, kind):
    """Numbers of the different strings of all sentences."""
    different = dict.fromkeys(text for column in columns for text in column)
    return {text: k for k, text in enumerate(different, start=len(_SPECIAL[kind]))}


def _columns(X):
    """Words, tags and morphological features of each sentence, which are checked."""
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise TypeError(
            f"X is a single {type(X).__name__}: pass a list of sentences, each a list "
            "of (word, tag) pairs"
        )
    columns = []
    for i, sentence in enumerate(X):
        if not isinstance(sentence, list | tuple):
            raise TypeError(
                f"X[{i}] must be a list of (word, tag) pairs, got {sentence!r:.80}"
            )
        for t, token in enumerate(sentence):
            if not _is_token(token):
                raise TypeError(
                    f"X[{i}][{t}] must be a pair (word, tag) of strings, or "
                    f"(word, tag, features), got {token!r:.80}"
                )
        features = [morphology_of(token[2]) if token[2:] else [] for token in sentence]
        words, tags = [token[0] for token in sentence], [token[1] for token in sentence]
        columns.append((words, tags, features))
    return columns


def _is_token(token):
    return (
        isinstance(token, list | tuple)
        and len(token) in (2, 3)
        and all(isinstance(part, str) for part in token)
    )


def _observed(arcs, y):
    """Which arcs of each sentence are those of its tree."""
    if len(y) != len(arcs):
        raise ValueError(f"X has {len(arcs)} sentences, and y has {len(y)} trees")
    kept = []
    for i, (sentence, heads) in enumerate(zip(arcs, y, strict=True)):
        n = sentence.n
        heads = check_heads(heads, n, f"y[{i}]")
        wrong = (heads < 0) | (heads > n) | (heads == np.arange(1, n + 1))
        if wrong.any():
            word = int(np.argmax(wrong))
            raise ValueError(
                f"y[{i}] has head {heads[word]} for word {word + 1}: heads are 0 for "
                f"the root, and other words from 1 to {n}"
            )
        kept.append(heads[sentence.modifiers - 1] == sentence.heads)
    return kept
