"""Dependency trees: parsing of sentences by features of arcs."""

import itertools
from collections.abc import Callable, Iterable, Sized
from dataclasses import KW_ONLY, dataclass
from math import isqrt
from typing import Any, Literal

import numpy as np

from sksstruct.models._compiled import CompiledModel
from sksstruct.models.dependencies._dependencies import DependencyTrees, find_flaw
from sksstruct.models.graph.inputs import feature_rows, stack
from sksstruct.models.normalization import divisor
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.spec import HINGE_ALPHA
from sksstruct.models.structured import as_list
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils.validation import check_heads, check_weight

# Constant of alpha="auto" with loss="log". It is larger than `LIKELIHOOD_C2` of chains:
# most features of new sentences occur only in arcs that are in no training tree, so
# that large weights predict new sentences badly. Chosen from a few values on two
# treebanks.
_LIKELIHOOD_C2 = 0.9


@dataclass(eq=False, repr=False)
class DependencyModel(CompiledModel):
    """Dependency trees of sentences, whose score is the sum of the scores of arcs.

    A tree has an arc to each word from its head, which is another word or the root.
    The score of an arc is linear in its features: first-order, or arc-factored, parsing
    [1]_. The best projective tree is found by Eisner's algorithm, the best tree without
    this constraint by the algorithm of Chu, Liu and Edmonds. ``loss="log"`` is the
    conditional likelihood, with sums over trees by the inside-outside algorithm, or by
    the matrix-tree theorem [2]_.

    An input has the features of all arcs of a sentence of n words, an array or CSR
    matrix of shape ((n + 1) n, n_features). Rows are ordered by head, and then by
    modifier: row ``head * n + modifier - 1``, where head 0 is the root and words are 1
    to n. Rows of arcs from a word to itself are ignored, and may be zero. This is the
    order of `sksstruct.inference.dependency_tree` and of
    `sksstruct.feature_extraction.ArcVectorizer`. With `arc_features`, an input is any
    object that this function turns into such features.

    An output is an integer array of shape (n,): the head of each word, 0 for the root.

    Sentences without words, also as ``[]``, have one output, which is empty. Training
    and scores leave them out.

    Parameters
    ----------
    projective : bool, default=True
        Whether arcs must not cross: each word and the words below it are contiguous in
        the sentence. Observed trees that are not projective are an error.
    single_root : bool, default=True
        Whether the root is the head of exactly one word.
    arc_features : callable or None, default=None
        Function from an input to the features of its arcs.
    loss_normalization : {"mean", "example"} or None, default="mean"
        Divisor of the number of wrong heads, which is the loss. "mean": the mean number
        of words in the training data. "example": the number of words of the example.
        None: no division.

    Attributes
    ----------
    mean_size_ : float
        Mean number of words of the training data.

    See Also
    --------
    sksstruct.feature_extraction.ArcVectorizer : Features of arcs from words and tags.
    sksstruct.inference.dependency_tree : The oracle, for any scores.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` of shape (n_features,).
    ``predict_marginals`` returns the probability of each arc, (n + 1, n), head by head.
    `sksstruct.metrics.token_accuracy_score` of heads is the unlabeled attachment score.

    ``alpha="auto"`` is 0.002 times m, the sum of the variances of the features over the
    arcs of the training trees. With ``loss="log"``, it is 0.18 times m, divided by the
    number of sentences, or their total weight.

    References
    ----------
    .. [1] R. McDonald, K. Crammer and F. Pereira, "Online large-margin training of
       dependency parsers", ACL 2005.
    .. [2] T. Koo, A. Globerson, X. Carreras and M. Collins, "Structured prediction
       models via the matrix-tree theorem", EMNLP-CoNLL 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> def arcs(tags):
    ...     # features: the head of a verb, of a noun and of an article
    ...     kinds = ["root", *tags]
    ...     pairs = [("root", "verb"), ("verb", "noun"), ("noun", "article")]
    ...     rows = [[(h, m) == p for p in pairs] for h in kinds for m in tags]
    ...     return np.array(rows, dtype=float)
    >>> X, y = [["article", "noun", "verb"]], [[2, 3, 0]]
    >>> classifier = SSVMClassifier("dependencies", alpha=0.1, random_state=0)
    >>> classifier.fit([arcs(x) for x in X], y)
    SSVMClassifier(alpha=0.1, model='dependencies', random_state=0)
    >>> classifier.predict([arcs(["verb", "article", "noun"])])[0].tolist()
    [0, 3, 1]
    """

    projective: bool = True
    single_root: bool = True
    _: KW_ONLY
    arc_features: Callable[[Any], Any] | None = None
    loss_normalization: Literal["mean", "example"] | None = "mean"

    _from_parts = {"mean_size_": "mean"}
    mean_size_ = None
    _n_columns = 1
    # all trees have equally many arcs, so that an offset of features has no effect
    _absorbs_centers = False

    def _read(self, X, y, sample_weight, seen):
        if all(map(_is_empty, as_list("X", X))):
            raise ValueError("X has no words: every sentence is empty")
        examples = super()._read(X, y, sample_weight, seen)
        weight = self._weights_of(*self._pairs(X, y), sample_weight)
        self._total = float(check_weight(weight, len(y)).sum())
        return examples

    @property
    def auto_alpha(self) -> float:  # type: ignore[override]
        # as in chains, with another constant of the likelihood
        if self.is_likelihood:
            return 2.0 * _LIKELIHOOD_C2 / self._total
        return HINGE_ALPHA

    def _weights_of(self, X, y, sample_weight):
        empty = [i for i, x in enumerate(X) if _is_empty(x)]
        for i in empty:
            check_heads(y[i], 0, f"y[{i}]")
        if not empty:
            return sample_weight
        # copied, as the array may be the caller's
        weight = check_weight(sample_weight, len(X)).copy()
        weight[empty] = 0.0
        return weight

    def _input(self, x, name):
        if _is_empty(x) and (self.arc_features is not None or np.ndim(x) < 2):
            return np.zeros((0, self.n_features_ or 0))
        if self.arc_features is not None:
            x = self.arc_features(x)
        x = feature_rows(x, name, self.n_features_)
        n = _n_words(x)
        if n * (n + 1) != x.shape[0]:
            raise ValueError(
                f"{name} has {x.shape[0]} rows of features, and must have (n + 1) n: "
                "a row for each arc to one of n words, from the root or a word"
            )
        return x

    def _rows(self, X):
        return stack(X)

    def _offsets(self, X):
        return np.concatenate([[0], np.cumsum([x.shape[0] for x in X])])

    def _learn(self, X, y, weight):
        self._learn_size((x.shape[1] for x in X), "arcs")
        sizes = [_n_words(x) for x in X]
        self.mean_size_ = float(np.average(sizes, weights=weight))
        trees = self._outputs(X, y)
        if self.follows_scale:
            # only arcs of observed trees, as most other arcs have features that never
            # occur in an observed tree
            arcs = stack(list(map(_arcs, X, trees)))
            self.moments_ = ColumnMoments.of(arcs, np.repeat(weight, sizes))
        return trees

    def _output(self, x, y, name):
        n = _n_words(x)
        heads = check_heads(y, n, name)
        # heads outside 0, ..., n become -1 or n + 1, which `find_flaw` rejects
        heads = np.clip(heads, -1, n + 1).astype(np.int32)
        flaw = find_flaw(heads, self.projective, self.single_root) if n else None
        if flaw is not None:
            raise ValueError(f"{name} {flaw}")
        return heads

    def _labeling(self, x, y):
        return y

    def _shown(self, x, labeling):
        return labeling.astype(np.intp)

    def _bound(self, X, y_true, example_weights, rows=None):
        sizes = np.array([_n_words(x) for x in X], dtype=np.intp)
        labels = costs = None
        if y_true is not None:
            labels = np.concatenate(y_true)
            costs = 1.0 / divisor(self.loss_normalization, sizes, self.mean_size_)
            costs = np.broadcast_to(costs, len(X)).astype(np.float64)
        rows = self._rows(X) if rows is None else rows
        structure = DependencyTrees(
            sizes, labels, int(sizes.max()), self.projective, self.single_root, costs
        )
        block = rows, self._offsets(X), 1, False
        return BoundTable([block], structure, example_weights, _named)

    def _marginals_of(self, structure, i, means):
        """Probability of each arc, (n + 1, n)."""
        return means.reshape(structure.sizes[i] + 1, structure.sizes[i])

    # ---- methods of all models ----

    def loss(self, y: Any, y_hat: Any) -> float:
        y, y_hat = np.asarray(y), np.asarray(y_hat)
        if y.shape != y_hat.shape:
            raise ValueError(f"y has {len(y)} heads, and y_hat has {len(y_hat)}")
        if not len(y):
            return 0.0
        size = divisor(self.loss_normalization, len(y), self.mean_size_)
        return float((y != y_hat).sum() / size)

    def labelings(self, x: Any) -> Iterable:
        n = _n_words(self._input(x, "x"))
        for heads in itertools.product(range(n + 1), repeat=n):
            heads = np.array(heads, dtype=np.int32)
            if find_flaw(heads, self.projective, self.single_root) is None:
                yield heads.astype(np.intp)

    def _smallest(self):
        return np.zeros((2, self.n_features_))


def _arcs(x, heads):
    """Features of the arcs of a tree."""
    n = len(heads)
    return x[heads.astype(np.intp) * n + np.arange(n)]


def _named(blocks, others):
    """Named weights: a vector, as the block has one column."""
    return {"coef": blocks[0][0][:, 0]}


def _is_empty(x):
    """Whether a sentence has no words."""
    if hasattr(x, "shape"):
        return bool(x.shape) and x.shape[0] == 0
    return isinstance(x, Sized) and len(x) == 0


def _n_words(x):
    """Number of words n of an input, which has (n + 1) n rows of features."""
    return isqrt(x.shape[0])
