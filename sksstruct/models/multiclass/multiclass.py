"""Multiclass classification as a structured model."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_array, check_X_y

from sksstruct.models.facts import Facts
from sksstruct.models.multiclass._multiclass import Classes
from sksstruct.models.rows import ClassesModel
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.scores.score import fitted_score, score_rows
from sksstruct.models.scores.scored import ScoredLoss
from sksstruct.models.structured import StructuredModel
from sksstruct.models.tables._table import BoundTable, block_ld
from sksstruct.utils._param_validation import Array, Constrained
from sksstruct.utils.labels import shown
from sksstruct.utils.packed import compact_rows
from sksstruct.utils.sparse_input import validate_rows

# Dual ascent is chosen if the mean squared norm of the features of an example, divided
# by n alpha mu, is at most this number.
MOST_STEEP = 200.0


class BoundClasses(BoundTable):
    """Classes bound to data: one block, in which each example has one row."""

    def quick_ascent(self, alpha):
        # The number of passes of dual ascent grows with the mean squared norm of the
        # features over n alpha mu, and that of L-BFGS grows far less. The limit was
        # measured on digits and letters.
        X = self.features[0]
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        square = squares.sum() / len(self.sizes) + self.has_bias[0]
        room = MOST_STEEP * self.n_examples * alpha * self.surrogate.mu
        return bool(square <= room)

    def flatten_bounds(self, bounds):
        raise ValueError("bounds are not available for a multiclass model")


@dataclass(eq=False, repr=False)
class MulticlassModel(ClassesModel, Constrained, StructuredModel):
    """One class for each row of a 2-D array of features.

    The score of class k is ``coef_[k] . x + intercept_[k]``. The structured hinge of
    this model is the multiclass support vector machine of [1]_.

    Parameters
    ----------
    costs : array-like of shape (n_classes, n_classes), default=None
        Entry (i, j) is the loss of predicting class j where class i was observed, in
        the order of `classes_`; zero on the diagonal. None: 1 for each error.
    fit_intercept : bool, default=True
        Whether classes have a bias; it is regularized like the other weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.

    References
    ----------
    .. [1] K. Crammer and Y. Singer, "On the algorithmic implementation of multiclass
       kernel-based vector machines", JMLR 2, 2001.

    Examples
    --------
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import MulticlassModel
    >>> model = MulticlassModel(costs=[[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    >>> classifier = SSVMClassifier(model, alpha=0.01, random_state=0)
    >>> classifier.fit([[0.0], [1.0], [2.0]], [0, 1, 2]).predict([[0.1]]).tolist()
    [0]
    """

    costs: Array | None = None
    _: KW_ONLY
    fit_intercept: bool = True

    is_flat = True
    _loss_parameters = ("costs",)

    def _facts(self, X, y, sample_weight, number):
        X, y, weight = self._checked_part(X, y, sample_weight)
        classes, labels = np.unique(y, return_inverse=True)
        counts = np.bincount(labels, weights=weight)
        return Facts(
            {number: int(np.count_nonzero(weight))},
            X.shape[1],
            counts=dict(zip(classes.tolist(), counts.tolist(), strict=True)),
            total=float(weight.sum()),
            learned={"moments": ("moments", ColumnMoments.of(X, weight))},
        )

    def _learn_facts(self, facts):
        classes = np.array(sorted(facts.counts))
        self._learn(np.empty((0, facts.n_features)), classes)
        self._total = facts.total
        self._factors = self._factors_of(
            np.arange(len(classes)),
            np.array([facts.counts[label] for label in classes.tolist()]),
        )
        # samples are counted before factors change their weights: no factor may be zero
        wrong = ~(np.isfinite(self._factors) & (self._factors > 0.0))
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(
                f"class_weight[{self.classes_.tolist()[k]!r:.80}] must be finite, and "
                f"positive with parts, got {self._factors[k]}"
            )
        if self.follows_scale:
            self._learn_scale(facts.learned["moments"][1])

    def _read_part(self, X, y, sample_weight):
        X, y, weight = self._checked_part(X, y, sample_weight)
        labels = np.searchsorted(self.classes_, y)
        weight = weight * self._factors[labels]
        return self._examples_of_part(X, labels, weight, self._total)

    def prepare(self, X: Any, Y: Any) -> None:
        self._learn(*check_X_y(X, Y, dtype=np.float64))

    def _learn(self, X, y):
        labels = super()._learn(X, y)
        self._learn_costs()
        self.n_features_ = X.shape[1]
        return labels

    def _learn_costs(self):
        n_classes, self.costs_ = len(self.classes_), None
        if self.costs is None:
            return
        costs = check_array(self.costs, dtype=np.float64, input_name="costs")
        if costs.shape != (n_classes, n_classes):
            raise ValueError(
                f"costs has shape {costs.shape}, y has {n_classes} classes"
            )
        if (costs < 0).any() or np.diag(costs).any():
            raise ValueError(
                "costs must not be negative, and must be zero on the diagonal"
            )
        self.costs_ = costs

    def _check_input(self, X, estimator):
        return validate_rows(
            estimator, X, accept_sparse="csr", dtype=np.float64, reset=False
        )

    def _bind(self, examples):
        X, labels, weight = examples
        if self._score_function is None:
            model = self._bound(compact_rows(X), labels, weight, self.fit_intercept)
            model.feature_scale = 1.0 / self.intercept_scaling_
            return model

        def bind(numbers, rows, example_weights):
            return self._bound(rows, labels[numbers], example_weights, False)

        offsets, n_classes = np.arange(len(labels) + 1), len(self.classes_)
        return ScoredLoss(
            self._score_function, X, offsets, n_classes, weight, bind, None
        )

    def _bound(self, X, labels, example_weights, has_bias):
        n_examples, n_classes = X.shape[0], len(self.classes_)
        sizes = np.ones(n_examples, dtype=np.intp)
        structure = Classes(sizes, labels, 1, n_classes, self.costs_)
        block = X, np.arange(n_examples + 1), n_classes, has_bias
        return BoundClasses([block], structure, example_weights)

    def _set_score(self, score_function):
        self._score_function = score_function

    def _blocks(self, weights):
        """Weights (n_classes, n_features) and biases, as views of flat weights."""
        n_rows, ld = self.n_features_ + self.fit_intercept, block_ld(len(self.classes_))
        rows = weights[: n_rows * ld].reshape(n_rows, ld)[:, : len(self.classes_)]
        if self.fit_intercept:
            return rows[:-1].T, rows[-1]
        return rows.T, np.zeros(len(self.classes_))

    def _own_units(self, weights):
        weights = weights.copy()
        if self.follows_scale:
            coef, intercept = self._blocks(weights)
            coef /= self.intercept_scaling_
            intercept -= self._off_centers(coef)
        return weights

    def _attributes(self, weights, views=None):
        if self._score_function is not None:
            score = fitted_score(self._score_function, weights)
            return {"classes_": self.classes_, **score}
        coef, intercept = self._blocks(weights)
        return {
            "classes_": self.classes_,
            "coef_": coef.copy(),
            "intercept_": intercept.copy(),
        }

    def _scores(self, X, weights):
        if self._score_function is not None:
            offsets = np.arange(X.shape[0] + 1)
            return score_rows(
                self._score_function, weights, X, len(self.classes_), offsets
            )
        coef, intercept = self._blocks(weights)
        return np.asarray(X @ coef.T) + intercept

    def _decision_function(self, X, weights):
        """Scores of the classes; of two, the second score minus the first."""
        scores = self._scores(X, weights)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _predict(self, X, weights, n_jobs=None):
        scores = self._scores(X, weights)
        best = scores.argmax(axis=1)
        return self.classes_[best], scores[np.arange(len(best)), best]

    def _predict_topk(self, X, weights, k):
        scores = self._scores(X, weights)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.classes_[order], np.take_along_axis(scores, order, axis=1)

    def _predict_marginals(self, X, weights, n_jobs=None):
        return softmax(self._scores(X, weights), axis=1)

    def _score(self, X, y, predicted, sample_weight=None):
        """Accuracy of predicted classes."""
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    # ---- methods of all models, for one sample ----

    def joint_feature(self, x: Any, y: Any) -> Any:
        k = self._number(y)
        x = np.append(x, 1.0) if self.fit_intercept else np.asarray(x, dtype=np.float64)
        out = np.zeros((len(x), block_ld(len(self.classes_))))
        out[:, k] = x
        return _padded(out.ravel())

    def loss(self, y: Any, y_hat: Any) -> float:
        if self.costs_ is None:
            return float(y != y_hat)
        return float(self.costs_[self._number(y), self._number(y_hat)])

    def decode(self, x: Any, w: np.ndarray) -> Any:
        return self.classes_[self._scores(np.asarray(x)[None], w)[0].argmax()]

    def loss_augmented_decode(self, x: Any, y: Any, w: np.ndarray) -> Any:
        scores = self._scores(np.asarray(x)[None], w)[0]
        scores = scores + [self.loss(y, k) for k in self.classes_]
        return self.classes_[scores.argmax()]

    def decode_topk(self, x: Any, w: np.ndarray, k: int) -> list:
        return list(self._predict_topk(np.asarray(x)[None], w, k)[0][0])

    def labelings(self, x: Any) -> Iterable:
        return list(self.classes_)

    def _number(self, y):
        places = np.flatnonzero(self.classes_ == y)
        if not len(places):
            raise ValueError(
                f"{shown(y)!r:.80} is not one of the classes {self.classes_}"
            )
        return int(places[0])


def _padded(values):
    """Values padded by zeros to whole cache lines, as flat weights are."""
    return np.concatenate([values, np.zeros(-len(values) % 8)])
