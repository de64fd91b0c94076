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

# Templates of features, each a tuple of parts. A part is an end of the arc, "h" (head)
# or "m" (modifier), or "b" for a word between, followed by a kind, "w" (word) or "t"
# (tag), and in some parts by an offset. The templates are from McDonald, Crammer and
# Pereira (2005), without prefixes of long words. The last five templates have kinds of
# attributes of which a word may have several: morphological features ("f") and affixes
# ("a").
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
# Kinds of attributes of which a word may have several.
_SEVERAL = ("f", "a")


def _part_of(k):
    """Return an earlier template whose parts are a subset of those of template k.

    Only arcs with a known feature of the earlier template can have a known feature of
    template k. Of several such templates, the one with the most words has the fewest
    arcs. Returns None if there is no such template.
    """
    parts = [t for t in _TEMPLATES[:k] if set(t) < set(_TEMPLATES[k])]
    # for a template with several features of an arc, the arc would be listed repeatedly
    parts = [t for t in parts if not any(p[1] in _SEVERAL for p in t)]
    return max(parts, key=lambda t: (sum(p[1] == "w" for p in t), len(t)), default=None)


_PARTS_OF = {names: _part_of(k) for k, names in enumerate(_TEMPLATES)}
# Smallest distance of each bin. Bins 0 to 5 are for modifiers to the right of their
# heads, bins 6 to 11 for modifiers to the left.
_DISTANCES = (1, 2, 3, 4, 5, 10)
_BINS = [f"{sign}{distance}" for sign in "+-" for distance in _DISTANCES]
# Number of bins in each set of bins; a set is a number with a bit for each bin.
_N_BINS = np.array([k.bit_count() for k in range(1 << len(_BINS))], dtype=np.int32)
# The strings of each kind of part are numbered. These are the names of the first
# numbers: 0 stands for strings not seen in fit, which occur in no known key. Words and
# tags then have a number for the root, and tags one for the end of the sentence.
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
    of (word, tag) pairs, or of triples (word, tag, morphological features), with the
    features in the format of CoNLL-U, such as ``"Case=Nom|Number=Sing"``, or ``"_"``
    for none. A sentence of n words has (n + 1) n rows, one for each arc: row
    ``head * n + modifier - 1``, where head 0 is the root and words are 1 to n. Rows of
    arcs from a word to itself are empty.

    All features have the value 1. They are combinations of the words and the tags of
    the head and of the modifier, of the tags of their neighbors, and of the tags of the
    words between them, as in [1]_. With both tags, they also combine each morphological
    feature and each affix of the head or of the modifier, and each pair of
    morphological features. Each combination is a feature, and the combination with
    direction and distance is another feature. Distances are 1, 2, 3, 4, 5 to 9, and 10
    or more.

    Parameters
    ----------
    min_count : int, default=1
        Minimum number of arcs in the training data that must have a feature. Other
        features are dropped. If `fit` gets trees, only the arcs of the trees count.
    affixes : list or tuple of int, default=()
        Lengths of the prefixes and suffixes of words, such as ``(2, 3)``, as in
        `affix_features`.

    Attributes
    ----------
    counts_ : ndarray of shape (n_features,), int64
        Number of arcs that have each feature, counted as for `min_count`.
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
    Most pairs of words are not arcs of trees. Without trees, `fit` learns many times
    more features than with trees, and most features occur on a single arc.

    Combinations of the modifier alone are the same for all of its heads, and are
    therefore used only with direction and distance.

    In the names of features, "hw", "ht", "mw" and "mt" are words and tags of head and
    modifier, "ht-1" to "mt+1" are tags of neighbors, "bt" is the tag of a word between,
    "hf" and "mf" are morphological features, and "ha" and "ma" affixes. "arc" is the
    smallest distance of the bin, positive if the modifier is to the right of its head.

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
    >>> arcs[0].shape[0]  # (3 + 1) * 3 arcs
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
            Sentences: words with their tags and, optionally, morphological features.
        y : list of array-like of shape (n_words,), default=None
            Trees of the sentences: the head of each word, 0 for the root. Only features
            of the arcs of these trees are learned. None: features of all arcs.

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
                f"X has {len(self.words_)} words and {len(self.tags_)} tags, too many "
                "for keys of 64 bits: replace rare words by a common one"
            )
        arcs = [_Arcs(*self._encode(*each)) for each in sentences]
        counted = [slice(None)] * len(arcs) if y is None else _observed(arcs, y)
        self._keys, self._sets, self._starts, counts = [], [], [], []
        n_columns = 0
        for names in _TEMPLATES:
            # one template at a time, to limit the memory of the keys
            keys, bins = [], []
            for sentence, keep in zip(arcs, counted, strict=True):
                chosen, arc_keys = sentence.keys(names, sizes, keep)
                keys.append(arc_keys)
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
            # new indices of the frequent keys
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
            # first column of each key's features with direction and distance
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
            Sentences: words with their tags and, optionally, morphological features.

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
            # a stable sort keeps the ascending order of columns within a row
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
        """Names of the columns, which each call builds anew.

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
            # the empty template has one key
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
        """Return the numbers of words, tags and attributes seen in fit, by kind."""
        return {
            "w": self.words_,
            "t": self.tags_,
            "f": self.morphology_,
            "a": self.affixes_,
        }

    def _sizes(self):
        """Return for each kind of part how many numbers its strings have."""
        known = self._known()
        return {kind: len(_SPECIAL[kind]) + len(known[kind]) for kind in known}

    def _columns(self, X):
        """Return words, tags, morphological features and affixes of each sentence."""
        out = []
        for words, tags, features in _columns(X):
            affixes = [affixes_of(word, self.affixes, "w") for word in words]
            out.append((words, tags, features, affixes))
        return out

    def _encode(self, words, tags, features, affixes):
        """Return the numbers of the words, tags and attributes of a sentence.

        Positions of the root and of the ends of the sentence are added.
        """
        words = [self.words_.get(word, 0) for word in words]
        tags = [self.tags_.get(tag, 0) for tag in tags]
        # a position before the root and one after the last word: every position that
        # can be in an arc has two neighbors
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
        """Return row and column of each known feature of the arcs of a sentence."""
        rows, columns, sizes = [], [], self._sizes()
        # for each template, the indices of the arcs that have a known feature of the
        # template
        known = {}
        for names, keys, sets, starts in zip(
            _TEMPLATES, self._keys, self._sets, self._starts, strict=True
        ):
            within = _PARTS_OF[names]
            keep = slice(None) if within is None else known[within]
            chosen, wanted = arcs.keys(names, sizes, keep)
            is_known, where = _look_up(keys, wanted)
            chosen = known[names] = chosen[is_known]
            if not len(chosen):
                continue
            if _has_alone(names):
                rows.append(chosen)
                # a template has its columns without distance before its columns with
                # distance
                columns.append(where + (starts[0] - len(keys)))
            bins, key_bins = arcs.bins[chosen], sets[where]
            is_known = key_bins >> bins & 1 > 0
            rows.append(chosen[is_known])
            below = _N_BINS[key_bins & (1 << bins) - 1]
            columns.append((starts[where] + below)[is_known])
        if not rows:
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)
        columns = np.concatenate(columns).astype(np.int32)
        return arcs.rows[np.concatenate(rows)], columns


class _Several:
    """Numbers of the known attributes of each position, of which there may be several.

    Parameters
    ----------
    rows : list of list of str
        Attributes of each position.
    known : dict of {str: int}
        Numbers of the attributes seen in fit.
    """

    def __init__(self, rows, known):
        # sorted, so that the columns of a row ascend
        rows = [sorted({known[x] for x in row if x in known}) for row in rows]
        self.values = np.array([k for row in rows for k in row], dtype=np.int64)
        self.sizes = np.array(list(map(len, rows)))
        self.starts = np.cumsum(self.sizes) - self.sizes

    def at(self, places):
        """Return the attributes at the given places, as two arrays.

        The first array has the index in `places` of each attribute, the second the
        number of the attribute.
        """
        sizes = self.sizes[places]
        which = np.repeat(np.arange(len(places)), sizes)
        first = self.starts[places] - (np.cumsum(sizes) - sizes)
        return which, self.values[np.arange(len(which)) + first[which]]


class _Arcs:
    """The arcs of a sentence, without arcs from a word to itself.

    Parameters
    ----------
    words, tags : ndarray of shape (n + 3,), int64
        Numbers for a position before the root, the root, the n words, and the end.
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
        """Return the arcs that have features of a template, and each feature's key.

        An arc has one feature of most templates. A template with a tag between or an
        attribute has a feature for each such tag, or each attribute: the arc repeats.
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
                # index 0 is the position before the root
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
        """Return two arrays: arcs, and the distinct tags between the words of an arc.

        An arc is repeated for each tag.
        """
        tags = self._given["t"][1:-1]
        kinds = np.unique(tags[1:])
        # number of occurrences of each tag before a position
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
    """Return the number of possible keys of a template."""
    return prod(sizes[name[1]] for name in names)


def _look_up(known, keys):
    """Return whether each key is in `known`, and the indices in `known` of those keys.

    `known` must be sorted.
    """
    if not len(known):
        return np.zeros(len(keys), dtype=bool), np.zeros(0, dtype=np.intp)
    where = np.searchsorted(known, keys)
    where[where == len(known)] = 0
    is_known = known[where] == keys
    return is_known, where[is_known]


def _numbers(columns, kind):
    """Return the number of each distinct string of a kind in all sentences."""
    different = dict.fromkeys(text for column in columns for text in column)
    return {text: k for k, text in enumerate(different, start=len(_SPECIAL[kind]))}


def _columns(X):
    """Check sentences; return the words, tags and morphological features of each."""
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
    """Return for each sentence a mask of its arcs: True for the arcs of its tree."""
    if len(y) != len(arcs):
        raise ValueError(
            f"y must have a tree for each of the {len(arcs)} sentences of X, got "
            f"{len(y)}"
        )
    masks = []
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
        masks.append(heads[sentence.modifiers - 1] == sentence.heads)
    return masks
