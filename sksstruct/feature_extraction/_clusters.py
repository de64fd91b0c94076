"""Attributes from clusters of words that are given in a file or a mapping."""

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np

from sksstruct.feature_extraction._lexical import TEXTS, LexicalFeatures
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._files import lines_of
from sksstruct.utils._names import FeatureNames
from sksstruct.utils.state import required
from sksstruct.utils.typing import Integers, Items, PathLike

# Descriptions of the parameters that given and learned clusters share.
PREFIXES = """
prefixes : sequence of int, default=(4, 6, 8, 10, 12)
    Lengths of the prefixes of a path that are attributes, besides the whole path. Short
    prefixes are large clusters.
"""
NAME = """
name : str, default="{}"
    Name of the attributes. Two transformers in a pipeline need two names.
"""


@dataclass(eq=False, repr=False)
class PathFeatures(LexicalFeatures):
    """Base of the transformers with a path for each word, `paths_`."""

    _result = "paths_"

    _: KW_ONLY
    prefixes: Integers = (4, 6, 8, 10, 12)

    _parameter_constraints = {"prefixes": ["array-like"]}

    def _check_parameters(self):
        super()._check_parameters()
        if any(not isinstance(k, Integral) or k < 1 for k in self.prefixes):
            raise ValueError(
                f"prefixes must be positive integers, got {self.prefixes!r:.80}"
            )

    def _keep_paths(self, paths):
        """Set the path of each word, and the attributes of each path."""
        self.paths_ = paths
        # a prefix length beyond the end gives the whole path: duplicates are removed
        lengths = sorted(set(map(int, self.prefixes)))
        self._parts = {
            path: tuple(dict.fromkeys([*(path[:k] for k in lengths), path]))
            for path in set(paths.values())
        }

    def _values(self, words, offsets):
        paths = self._looked_up(self.paths_)
        return [self._parts.get(paths[word]) for word in words]

    def _state(self):
        state = dict(super()._state())
        state.pop("_parts", None)
        # many small strings take long to unpickle: store packed names and indices
        paths = state.pop("paths_", None)
        if paths is not None:
            distinct = {path: k for k, path in enumerate(dict.fromkeys(paths.values()))}
            state["_words"], state["_paths"] = map(FeatureNames, (paths, distinct))
            state["_numbers"] = np.array([distinct[p] for p in paths.values()])
        return state

    def _restore(self, state):
        if "_words" not in state:
            return super()._restore(state)
        names = "_words", "_paths", "_numbers"
        words, paths, numbers = required(state, names, type(self).__name__)
        super()._restore({k: v for k, v in state.items() if k not in names})
        if len(words) != len(numbers) or not np.isin(numbers, range(len(paths))).all():
            raise ValueError(
                f"the state of a {type(self).__name__} must have a path for each of "
                f"its {len(words)} words"
            )
        paths = paths.to_list()
        self._keep_paths(
            {w: paths[k] for w, k in zip(words.to_list(), numbers, strict=True)}
        )


@fill_doc({**TEXTS, "prefixes": PREFIXES, "name": NAME.format("cluster")})
@dataclass(eq=False, repr=False)
class ClusterFeatures(PathFeatures):
    """Add the clusters of words to tokens, as prefixes of bit paths.

    Words that occur in similar contexts are in one cluster. A hierarchy of clusters
    gives each word a path of bits, and a prefix of the path is a larger cluster. These
    attributes [1]_ let a tagger treat a word that its training data do not have like
    other words of the cluster.

    Use the transformer before a `SequenceVectorizer`.

    Parameters
    ----------
    paths : str, path-like or mapping of {str: str}
        A file with the lines ``path<TAB>word<TAB>count``, as the tool for Brown
        clusters writes it, gzip-compressed if its name ends in ``.gz``. Or the path of
        each word, such as the attribute ``paths_`` of `WordClusters`. In a mapping,
        any strings are paths: for clusters without a hierarchy, pass their names and
        ``prefixes=()``.
    %(window)s
    %(normalize_and_word)s
    %(prefixes)s
    %(name)s

    Attributes
    ----------
    paths_ : dict of {str: str}
        Path of each word.

    See Also
    --------
    WordClusters : Learns the clusters from sentences.
    GazetteerFeatures : Attributes from lists of phrases.

    References
    ----------
    .. [1] S. Miller, J. Guinness and A. Zamanian, "Name tagging with word clusters and
       discriminative training", HLT-NAACL 2004.

    Examples
    --------
    >>> from sksstruct.feature_extraction import ClusterFeatures
    >>> clusters = ClusterFeatures({"paris": "0110", "in": "10"}, prefixes=[2])
    >>> X = clusters.fit_transform([["in", "Paris"]])
    >>> X[0][1]
    {'w': 'Paris', 'cluster[-1]': ['10'], 'cluster[0]': ['01', '0110']}
    """

    paths: PathLike | Mapping[str, str]
    _: KW_ONLY
    name: str = "cluster"

    _parameter_constraints = {"paths": [str, os.PathLike, Mapping]}

    def fit(self, X: Items, y: Any = None) -> Self:
        """Read the path of each word.

        Parameters
        ----------
        X : list of sequences
            Ignored.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : ClusterFeatures
            Itself.

        Raises
        ------
        ValueError
            If a line of the file is not a path of bits, a word and a count, or repeats
            a word; if the file is not UTF-8, or cut short. The error gives the line
            number.
        """
        self._check_parameters()
        if isinstance(self.paths, Mapping):
            for word, path in self.paths.items():
                if not isinstance(word, str) or not isinstance(path, str) or not path:
                    raise ValueError(
                        "paths must map words to paths, strings that are not empty, "
                        f"got {word!r:.80}: {path!r:.80}"
                    )
            self._keep_paths(dict(self.paths))
        else:
            self._keep_paths(_read(self.paths))
        return self


def _read(path):
    """Read the paths of words from a file."""
    paths = {}
    for number, line in enumerate(lines_of(path), start=1):
        bits, *rest = columns = line.rstrip("\r\n").split("\t")
        if len(rest) != 2 or not bits or bits.strip("01") or not rest[1].isdecimal():
            raise ValueError(
                f"{path}, line {number}: expected a path of bits, a word and a count "
                f"with tabs between them, got {line!r:.80}"
            )
        word = columns[1]
        if word in paths:
            raise ValueError(
                f"{path}, line {number}: an earlier line has the word {word!r:.80}, "
                "which must have one path"
            )
        paths[word] = bits
    if not paths:
        raise ValueError(
            f"{path} is empty: expected lines of a path of bits, a word and a count"
        )
    return paths
