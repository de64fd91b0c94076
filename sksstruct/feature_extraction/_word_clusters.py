"""Clusters of words, learned from sentences without labels."""

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state

from sksstruct.feature_extraction._clusters import NAME, PREFIXES, PathFeatures
from sksstruct.feature_extraction._lexical import TEXTS, words_of
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count, Interval, Seed
from sksstruct.utils.typing import Items


@fill_doc({**TEXTS, "prefixes": PREFIXES, "name": NAME.format("word_cluster")})
@dataclass(eq=False, repr=False)
class WordClusters(PathFeatures):
    """Learn clusters of words from sentences, and add them to tokens.

    Words with similar neighbors are in one cluster. `fit` needs no labels. To use more
    text than the labeled sentences, fit a `WordClusters` to all text, and pass its
    `paths_` to `ClusterFeatures`.

    The neighbors of a word are counted on the left and on the right, weighted by their
    positive pointwise mutual information [1]_, and reduced to a few dimensions by a
    truncated SVD. K-means clusters the words, and Ward's method joins the clusters to a
    tree, in which each cluster has a path of bits.

    Use the transformer before a `SequenceVectorizer`.

    Parameters
    ----------
    n_clusters : int, default=300
        Number of clusters.
    %(window)s
    %(normalize_and_word)s
    %(prefixes)s
    n_components : int, default=50
        Number of dimensions of the SVD; at most the number of words that are clustered.
    min_count : int, default=2
        Minimum number of occurrences of a word: rarer words are in no cluster.
    random_state : int, RandomState instance or None, default=None
        Seed of the SVD and of k-means.
    %(name)s

    Attributes
    ----------
    paths_ : dict of {str: str}
        Path of bits of each word, the most frequent first.

    See Also
    --------
    ClusterFeatures : Takes clusters of words from a file or a mapping.

    Notes
    -----
    Words are counted after `normalize`.

    Brown clusters [2]_ use the same counts, and merge one pair of clusters after the
    other, which takes hours for large texts.

    References
    ----------
    .. [1] O. Levy and Y. Goldberg, "Neural word embedding as implicit matrix
       factorization", NIPS 2014, equation 8.
    .. [2] P. F. Brown et al., "Class-based n-gram models of natural language",
       Computational Linguistics 18(4), 1992.

    Examples
    --------
    >>> from sksstruct.feature_extraction import WordClusters
    >>> pairs = [["red", "car"], ["blue", "car"], ["red", "hat"], ["blue", "hat"]]
    >>> clusters = WordClusters(2, min_count=1, random_state=0).fit(pairs)
    >>> paths = clusters.paths_
    >>> paths["red"] == paths["blue"] != paths["car"] == paths["hat"]
    True
    """

    n_clusters: Annotated[int, Interval(Integral, 2, None, closed="left")] = 300
    _: KW_ONLY
    n_components: Count = 50
    min_count: Count = 2
    random_state: Seed = None
    name: str = "word_cluster"

    _parameter_constraints = {
        "n_clusters": [Interval(Integral, 2, None, closed="left")]
    }

    def fit(self, X: Items, y: Any = None) -> Self:
        """Learn the clusters.

        Parameters
        ----------
        %(tokens)s
        y : object, default=None
            Ignored.

        Returns
        -------
        self : WordClusters
            Itself.

        Raises
        ------
        ValueError
            If fewer words than `n_clusters` occur `min_count` times.
        """
        self._check_parameters()
        words, offsets = words_of(X, self.word)
        if self._normalize is not None:
            words = list(map(self._normalize, words))
        known = [w for w, n in Counter(words).most_common() if n >= self.min_count]
        if len(known) < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} must be at most {len(known)}, the "
                f"number of words that occur min_count={self.min_count} times in X"
            )
        random = check_random_state(self.random_state)
        counts = _neighbors(words, offsets, known)
        # imported here, as these modules take longer to import than all taggers
        from sklearn.cluster import KMeans
        from sklearn.decomposition import TruncatedSVD

        svd = TruncatedSVD(
            min(self.n_components, len(known)), n_iter=5, random_state=random
        )
        vectors = normalize(svd.fit_transform(_information(counts)))
        k_means = KMeans(self.n_clusters, n_init=1, max_iter=50, random_state=random)
        k_means.fit(vectors)
        paths = _tree_paths(k_means.cluster_centers_)
        self._keep_paths(
            {w: paths[k] for w, k in zip(known, k_means.labels_, strict=True)}
        )
        return self


def _neighbors(words, offsets, known):
    """Count the left and the right neighbors of each known word.

    Each side has a column for every known word, one for all other words, and one for
    the ends of sentences.
    """
    n = len(known)
    numbers = {word: k for k, word in enumerate(known)}
    codes = np.array([numbers.get(word, n) for word in words], np.intp)
    # insert an end before each sentence, and after the last one
    codes = np.insert(codes, offsets, n + 1)
    sides = []
    for word, other in ((codes[1:], codes[:-1]), (codes[:-1], codes[1:])):
        at = np.flatnonzero(word < n)
        entries = np.ones(len(at)), (word[at], other[at])
        sides.append(sparse.coo_array(entries, shape=(n, n + 2)))
    return sparse.hstack(sides).tocsr()


def _information(counts):
    """Return the positive pointwise mutual information of words and neighbors."""
    rows, columns = (np.asarray(counts.sum(axis)).ravel() for axis in (1, 0))
    counts = counts.tocoo()
    expected = rows[counts.row] * (columns[counts.col] / rows.sum())
    values = np.maximum(np.log(counts.data / expected), 0)
    return sparse.csr_array((values, (counts.row, counts.col)), shape=counts.shape)


def _tree_paths(centers):
    """Return each cluster's path of bits from the root of the tree of Ward's method."""
    from sklearn.cluster import AgglomerativeClustering

    tree = AgglomerativeClustering(n_clusters=None, distance_threshold=0).fit(centers)
    paths = {2 * len(centers) - 2: ""}
    for node in range(2 * len(centers) - 2, len(centers) - 1, -1):
        path = paths[node]
        left, right = tree.children_[node - len(centers)]
        paths[left], paths[right] = path + "0", path + "1"
    return [paths[k] for k in range(len(centers))]
