"""Bipartite matchings, as in word alignment and the matching of keypoints."""

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linear_sum_assignment

from sksstruct.models._compiled import CompiledModel, check_features
from sksstruct.models.matching._matching import Matchings
from sksstruct.models.normalization import TEXTS, divisor
from sksstruct.models.tables._table import BoundTable
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import NonNegative


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class MatchingModel(CompiledModel):
    """Matching of rows to columns, each to at most one.

    An input is an array of features of all pairs, of shape (n_rows, n_columns,
    n_features). An output is an array of the column of each row, -1 where it has none.
    An observed output may also be an integer array of shape (n_rows, n_columns): 1 for
    a link, 0 for no link, and -1 if both are correct. Training then uses a maximum
    matching of the links [1]_. The sum over all matchings is a permanent, so
    ``loss="log"`` is not available. ``loss="smoothed_hinge"`` uses the k best
    matchings.

    Parameters
    ----------
    complete : bool, default=False
        Whether every row must be matched, which needs at least as many columns as rows.
        Otherwise rows can stay unmatched, with score 0.
    fit_intercept : bool, default=True
        Whether the score of a pair has a bias. Without it, a pair is matched only if
        its features alone score above 0. No effect with `complete`, as all complete
        matchings have the same number of pairs.
    false_cost : float, default=0.5
        Cost of a matched pair that is no link.
    miss_cost : float, default=0.5
        Cost of a missed link. The loss is the sum of the costs, divided according to
        `loss_normalization`, by default by the number of links. For complete matchings
        with both costs at 0.5, it is the fraction of rows with a wrong column.
    %(loss_normalization)s
        The size of an output is its number of links, and at least 1.

    Attributes
    ----------
    mean_size_ : float
        Mean size of the outputs of the training data.

    Notes
    -----
    A fitted `sksstruct.SSVMClassifier` has ``coef_`` of shape (n_features,) and
    ``intercept_`` of shape (1,), zero without `fit_intercept`.

    References
    ----------
    .. [1] B. Taskar, S. Lacoste-Julien and D. Klein, "A discriminative matching
       approach to word alignment", EMNLP 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> X = [np.array([[[1.0], [-0.5]], [[-0.5], [-1.0]]])]
    >>> classifier = SSVMClassifier("matching", alpha=0.1, random_state=0)
    >>> classifier.fit(X, [[0, -1]]).predict(X)[0].tolist()
    [0, -1]
    """

    complete: bool = False
    _: KW_ONLY
    fit_intercept: bool = True
    false_cost: NonNegative = 0.5
    miss_cost: NonNegative = 0.5
    loss_normalization: Literal["mean", "example"] | None = "example"

    _from_parts = {"mean_size_": "mean"}
    mean_size_ = None

    def _input(self, x, name):
        axes = "(n_rows, n_columns, n_features)"
        x = check_features(x, name, 3, self.n_features_, axes)
        if self.complete and x.shape[0] > x.shape[1]:
            raise ValueError(
                f"{name} has {x.shape[0]} rows and {x.shape[1]} columns: complete=True "
                "needs a column for each row"
            )
        if not x.shape[0] or not x.shape[1]:
            raise ValueError(
                f"{name} must have at least one row and one column, got shape {x.shape}"
            )
        return x

    def _learn(self, X, y, weight):
        self._learn_size((x.shape[2] for x in X), "pairs")
        links = self._outputs(X, y)
        sizes = [
            _size(self._labeling(x, each)) for x, each in zip(X, links, strict=True)
        ]
        self.mean_size_ = float(np.average(sizes, weights=weight))
        return links

    def _output(self, x, y, name):
        """Links as an integer array (n_rows, n_columns)."""
        links = _links(y, x.shape[:2], name)
        if self.complete:
            target = self._labeling(x, links)
            if (links[np.arange(len(target)), target] != 1).any():
                raise ValueError(f"{name} must link every row, as complete=True says")
        return links

    def _labeling(self, x, links):
        n = len(links)
        rows, columns = linear_sum_assignment(
            (links == 1).astype(np.float64), maximize=True
        )
        labels = np.full(n, -1, dtype=np.int32)
        if not self.complete:
            keep = links[rows, columns] == 1
            rows, columns = rows[keep], columns[keep]
        labels[rows] = columns
        return labels

    def _shown(self, x, labeling):
        return labeling.astype(np.intp)

    _n_columns = 1

    def _bound(self, X, y_true, example_weights, rows=None):
        shapes = np.array([x.shape[:2] for x in X], dtype=np.intp)
        labels = costs = constants = None
        if y_true is not None:
            chosen = [self._labeling(x, y) for x, y in zip(X, y_true, strict=True)]
            both = [
                self._costs(links, target)
                for links, target in zip(y_true, chosen, strict=True)
            ]
            labels = np.concatenate(chosen)
            costs = np.concatenate([pairs.ravel() for pairs, _ in both])
            constants = np.array([constant for _, constant in both])
        has_bias = self.fit_intercept and not self.complete and rows is None
        rows = self._rows(X) if rows is None else rows
        offsets = self._offsets(X)
        structure = Matchings(
            shapes[:, 0],
            labels,
            int(shapes[:, 0].max()),
            shapes,
            offsets,
            costs,
            constants,
            self.complete,
        )
        block = rows, offsets, 1, has_bias
        return BoundTable([block], structure, example_weights, _named)

    def _costs(self, links, target):
        """Change of the loss by each matched pair, and the loss of matching nothing."""
        rows = np.flatnonzero(target >= 0)
        size = divisor(self.loss_normalization, _size(target), self.mean_size_)
        pairs = np.where(links == 0, self.false_cost / size, 0.0)
        pairs[rows, target[rows]] = -self.miss_cost / size
        return pairs, self.miss_cost * len(rows) / size

    def _predict(self, X, weights, n_jobs=None):
        outputs, scores = super()._predict(X, weights, n_jobs)
        # a single input may well have no links, but hardly all of several inputs
        if len(X) > 1 and not any((y >= 0).any() for y in outputs):
            warnings.warn(
                "all predicted matchings are empty: no pair of X has a score above 0. "
                "Use a smaller alpha, a larger miss_cost, fit_intercept=True, or "
                "complete=True if every row has a column",
                UserWarning,
                stacklevel=3,  # the caller of predict
            )
        return outputs, scores

    # ---- methods of all models ----

    def loss(self, y: Any, y_hat: Any) -> float:
        y_hat = np.asarray(y_hat)
        if y_hat.ndim == 2:
            y_hat = self._labeling(None, y_hat)
        shape = np.shape(y)
        if len(shape) != 2:
            shape = len(y_hat), 1 + max(_most(y), _most(y_hat))
        links = _links(y, shape, "y")
        if y_hat.shape != links.shape[:1] or (y_hat >= links.shape[1]).any():
            raise ValueError(f"y_hat must be a matching of {links.shape} pairs")
        target = self._labeling(None, links)
        pairs, constant = self._costs(links, target)
        rows = np.flatnonzero(y_hat >= 0)
        return max(float(constant + pairs[rows, y_hat[rows]].sum()), 0.0)

    def labelings(self, x: Any) -> Iterable:
        n, m = np.shape(x)[:2]
        for columns in itertools.product(range(-1 + self.complete, m), repeat=n):
            matched = [c for c in columns if c >= 0]
            if len(set(matched)) == len(matched):
                yield np.array(columns, dtype=np.intp)

    def _smallest(self):
        return np.zeros((1, 1, self.n_features_))


def _named(blocks, others):
    """Named weights: a vector, as the block has one column."""
    coef, intercept = blocks[0]
    return {"coef": coef[:, 0], "intercept": intercept}


def _size(target):
    """Size of a matching: its number of links, at least 1."""
    return max(int((target >= 0).sum()), 1)


def _most(columns):
    return int(np.max(columns, initial=0))


def _links(y, shape, name):
    """Observed links: 1, 0, or -1 for pairs that are right with or without a link."""
    try:
        y = np.asarray(y)
    except ValueError:
        y = np.zeros(0)
    if y.dtype.kind not in "iub" or y.ndim not in (1, 2):
        raise ValueError(
            f"{name} must be integers: the column of each row, -1 where it has none, "
            "or an array of links"
        )
    if y.ndim == 2:
        if y.shape != tuple(shape) or y.min() < -1 or y.max() > 1:
            raise ValueError(
                f"{name} must be an array of links of shape {tuple(shape)} with "
                f"entries 1, 0 and -1, got shape {y.shape}"
            )
        return y.astype(np.int8)
    n, m = shape
    matched = y[y >= 0]
    if len(y) != n or y.min() < -1 or y.max() >= m or len(set(matched)) < len(matched):
        raise ValueError(
            f"{name} must give each of {n} rows a different column below {m}, or -1"
        )
    links = np.zeros((n, m), dtype=np.int8)
    rows = np.flatnonzero(y >= 0)
    links[rows, y[rows]] = 1
    return links
