"""Base class of compiled models whose X is a list of inputs, such as graphs."""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from sksstruct.models.protocols.decoding import best_labelings
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.scores.score import fitted_score, score_rows
from sksstruct.models.scores.scored import ScoredLoss, identity_rows, join_weights
from sksstruct.models.structured import StructuredModel, as_list
from sksstruct.models.tables.completion import TableCompletion, agreeing, known_of
from sksstruct.utils._param_validation import Constrained
from sksstruct.utils._ragged import frame_values
from sksstruct.utils.parallel import run_in_chunks


class CompiledModel(Constrained, StructuredModel):
    """Base class of compiled models whose X is a list of inputs, such as graphs.

    Subclasses define ``_input(x, name)``, which checks an input, ``_output(x, y,
    name)``, which checks an output, and ``_learn(X, y, weight)``, which learns from
    training data; ``_labeling(x, y)``, which turns a checked output into integers, and
    ``_shown(x, labeling)``, which turns integers into an output; and ``_bound(X,
    y_true, example_weights, rows)``, which binds the model: ``rows``, if given, replace
    the features of the first block of weights, and its bias. ``_rows(X)`` stacks the
    features, ``_offsets(X)`` returns each example's first row, and ``_n_columns`` is
    the number of scores of a row; this class defines them for inputs that are arrays
    with a last axis of features, or whose ``_features(x)`` is such an array. For
    marginal probabilities, ``_marginals_of(structure, i, means)`` turns the means of
    the exp oracle for the i-th example into an array for the user.
    """

    # Number of features, and labels, once learned; None if the model has none.
    n_features_: int | None = None
    classes_: np.ndarray | None = None

    def prepare(self, X: Any, Y: Any) -> None:
        X, Y = self._pairs(X, Y)
        self._learn_from(X, Y, np.ones(len(X)))

    def _learn_from(self, X, y, weight):
        X, y = self._learn_from_part(X, y, weight)
        self._settle()
        return self._at_scale(X), y

    def _learn_from_part(self, X, y, weight):
        self._forget()
        X = self._check_input(X, None)
        y = self._learn(X, y, weight)
        self._learn_moments(X, weight)
        return X, y

    # ---- the scale of features, which alpha="auto" follows ----

    # ``_with_rows(X, rows)`` returns checked inputs with other rows of features; None
    # in models that do not follow the scale.
    _with_rows: Any = None

    @property
    def intercept_scaling_(self) -> float:
        is_scaled = self.follows_scale and self._with_rows is not None
        return super().intercept_scaling_ if is_scaled else 1.0

    def _learn_moments(self, X, weight):
        """Learn the moments of the features of a part of the data."""
        if self.follows_scale and self._with_rows is not None:
            sizes = np.diff(self._offsets(X))
            self.moments_ = ColumnMoments.of(self._rows(X), np.repeat(weight, sizes))

    def _at_scale(self, X):
        """Checked inputs with centered and scaled features, once all data were read."""
        if not self.follows_scale or self._with_rows is None:
            return X
        return self._with_rows(X, self._over_scale(self._rows(X)))

    def _own_units(self, weights):
        weights = weights.copy()
        if self.follows_scale and self._with_rows is not None:
            views = self._empty().views(weights)
            views["coef"][...] /= self.intercept_scaling_
            if self.centers_ is not None:
                views["intercept"][...] -= self._off_centers(views["coef"])
        return weights

    # ---- the bound model ----

    def _empty(self):
        """The model bound to the smallest possible input, whose layout of weights is
        used.
        """
        return self._bound([self._smallest()], None, None)

    def _smallest(self):
        """The smallest possible input, checked and with features of zero; called once
        the numbers of features are known.
        """
        raise NotImplementedError(f"{type(self).__name__} has no _smallest")

    def _learn_facts(self, facts):
        super()._learn_facts(facts)
        self._settle()

    def _settle(self):
        """Learn attributes that depend on all data, once all parts were read."""
        moments = vars(self).pop("moments_", None)
        if moments is not None:
            self._learn_scale(moments)
        if self._score_function is None:
            self.n_weights_ = self._empty().n_weights

    def _read_part(self, X, y, sample_weight):
        X, y, weight = super()._read_part(X, y, sample_weight)
        X = self._check_input(X, None)
        return self._at_scale(X), self._outputs(X, y), weight

    def _forget(self):
        """Delete the attributes that an earlier training set left."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _learn(self, X, y, weight):
        """Learn classes, numbers of features and other attributes that end in `_` from
        checked inputs and outputs; return checked outputs.
        """
        raise NotImplementedError

    def _learn_size(self, sizes, what):
        """Learn the number of features, which must be the same for all inputs."""
        sizes = set(sizes)
        if len(sizes) > 1:
            raise ValueError(
                f"X has {what} of {sorted(sizes)} features: all inputs must have the "
                "same number"
            )
        self.n_features_ = sizes.pop()

    def _features(self, x):
        """The features of a checked input."""
        return x

    def _rows(self, X):
        rows = [self._features(x) for x in X]
        return np.concatenate([each.reshape(-1, each.shape[-1]) for each in rows])

    def _rows_of_score(self, X):
        """Rows of features in the form that a score function takes."""
        return self._rows(X)

    def _offsets(self, X):
        sizes = [math.prod(self._features(x).shape[:-1]) for x in X]
        return np.concatenate([[0], np.cumsum(sizes)])

    def _outputs(self, X, y):
        return [
            self._output(a, b, f"y[{i}]")
            for i, (a, b) in enumerate(zip(X, y, strict=True))
        ]

    def _check_input(self, X, estimator):
        return [self._input(x, f"X[{i}]") for i, x in enumerate(as_list("X", X))]

    def _bind(self, examples):
        X, y, weight = examples
        known = known_of(y)
        if known is not None and self._score_function is not None:
            raise ValueError("score_function needs every label of y to be known")
        if self._score_function is None:
            if known is not None:
                return self._bind_partial(X, y, weight, known)
            return self._at_feature_scale(self._bound(X, y, weight))

        def bind(numbers, rows, example_weights):
            X_part, y_part = self._chosen(X, numbers), self._chosen(y, numbers)
            return self._bound(X_part, y_part, example_weights, rows)

        return ScoredLoss(
            self._score_function,
            self._rows_of_score(X),
            self._offsets(X),
            self._n_columns,
            weight,
            bind,
            None,
        )

    def _at_feature_scale(self, model):
        model.feature_scale = 1.0 / self.intercept_scaling_
        return model

    # ---- outputs that were observed in part, each a `Partial` ----

    # Models without sums define ``_known_parts(X, y, weight)``, which returns the
    # labels that are known for certain, as separate examples.

    # Reason in the error message if no labeling agrees with an output.
    _disagreement = "no labeling agrees with its known labels"

    def _bind_partial(self, X, y, weight, known):
        """The model bound to examples, some of which were observed in part.

        The hinge losses complete the labelings of these examples; the likelihood sums
        over all labelings that agree with the observed parts.
        """
        free = self._bound(X, None, None, known=known)
        labelings = agreeing(free, y, self._disagreement)

        def bind(flat):
            rows = np.split(flat, free.starts[1:-1])
            return self._at_feature_scale(self._bound(X, rows, weight))

        def bind_parts():
            bound = self._bound(X, labelings, weight, known=known)
            return self._at_feature_scale(bound)

        def bind_first():
            if "exp" in model.oracles:
                return bind_parts()
            return self._at_feature_scale(self._bound(*self._known_parts(X, y, weight)))

        model = bind_parts()
        model.completion = TableCompletion(model, free, bind, bind_first)
        return model

    # Number of scores of a row; None for models that a score function cannot score.
    _n_columns: Any = None

    def _set_score(self, score_function):
        if type(self)._n_columns is None:
            super()._set_score(score_function)
        self._score_function = score_function

    def _ready(self, X, weights, y=None):
        """The model bound to checked inputs, and weights in its layout."""
        if self._score_function is None:
            model = self._bound(X, y, None)
            return model, np.ascontiguousarray(weights, dtype=np.float64)
        offsets = self._offsets(X)
        model = self._bound(X, y, None, identity_rows(offsets[-1]))
        parameters, rest = self._split(model, weights)
        scores = score_rows(
            self._score_function,
            parameters,
            self._rows_of_score(X),
            self._n_columns,
            offsets,
        )
        return model, join_weights(model, scores, rest)

    def _split(self, model, weights):
        """Parameters of the score function, and weights beyond the first block."""
        n_parameters = len(weights) - (model.n_weights - model.first_other)
        return weights[:n_parameters], weights[n_parameters:]

    def _predict(self, X, weights, n_jobs=None, **constraints):
        model, weights = self._ready(X, weights, **constraints)
        labelings, scores = best_labelings(model, weights, model.starts, n_jobs)
        return self._shown_all(X, labelings, model.starts), scores

    def _shown_all(self, X, labelings, offsets):
        """Consecutive labelings as outputs in the form that users see."""
        return [
            self._shown(x, labelings[a:b])
            for x, (a, b) in zip(X, pairwise(offsets.tolist()), strict=True)
        ]

    # None for models without marginals
    _marginals_of = None

    @property
    def _has_marginals(self):
        return self._marginals_of is not None

    def _predict_marginals(self, X, weights, n_jobs=None):
        model, weights = self._ready(X, weights)
        marginals = [None] * len(X)

        def expect(first, last):
            workspace = model.workspace(weights, training=False)
            for i in range(first, last):
                means, _ = model.expectation(workspace, i)
                marginals[i] = self._marginals_of(model.structure, i, means)

        run_in_chunks(expect, len(X), n_jobs)
        return marginals

    def _views(self, model, weights):
        """Fitted attributes: the named blocks of flat weights."""
        if self._score_function is None:
            return {f"{k}_": v.copy() for k, v in model.views(weights).items()}
        parameters, rest = self._split(model, weights)
        views = model.views(join_weights(model, 0.0, rest))
        # the score function replaces the first block
        named = {k: v for k, v in views.items() if k not in ("coef", "intercept")}
        return {
            **{f"{k}_": v.copy() for k, v in named.items()},
            **fitted_score(self._score_function, parameters),
        }

    def _attributes(self, weights, views=None):
        classes = {} if self.classes_ is None else {"classes_": self.classes_}
        return {**classes, **self._views(self._empty(), weights)}

    def _predict_topk(self, X, weights, k):
        found = [self._topk(x, weights, k) for x in X]
        return [outputs for outputs, _ in found], [scores for _, scores in found]

    def _topk(self, x, weights, k):
        model, weights = self._ready([x], weights)
        if not self._finds_best(model):
            raise ValueError(f"{type(self).__name__} does not find the k best outputs")
        workspace = model.workspace(weights, training=False)
        labelings, scores = model.topk(workspace, 0, k)
        return [self._shown(x, labeling) for labeling in labelings], scores

    def _finds_best(self, model):
        """Whether a bound model finds the k best outputs as users see them."""
        return "topk" in model.oracles

    # ---- methods of all models, for one example ----

    def joint_feature(self, x: Any, y: Any) -> Any:
        if self._score_function is not None:
            raise ValueError(
                "the joint feature map needs linear scores: a model with a "
                "score_function has none"
            )
        x = self._input(x, "x")
        model = self._bound([x], None, None)
        labeling = self._labeling(x, self._output(x, y, "y"))
        workspace = model.workspace(np.zeros(model.n_weights))
        return model.joint_feature(workspace, 0, labeling)

    def decode(self, x: Any, w: np.ndarray) -> Any:
        w = np.asarray(w, dtype=np.float64)
        return self._predict([self._input(x, "x")], w)[0][0]

    def loss_augmented_decode(self, x: Any, y: Any, w: np.ndarray) -> Any:
        x = self._input(x, "x")
        model, w = self._ready([x], w, [self._output(x, y, "y")])
        return self._shown(x, model.labeling(model.workspace(w), 0)[0])

    def decode_topk(self, x: Any, w: np.ndarray, k: int) -> list:
        return self._topk(self._input(x, "x"), np.asarray(w, dtype=np.float64), k)[0]


def check_features(values, name, ndim, n_features=None, axes=None):
    """Features as an array of float64, after checks of its axes and its numbers.

    The array must have `ndim` axes, the last of length `n_features` if given. `axes`
    describes the shape of an input in error messages.
    """
    if hasattr(values, "columns"):
        values = frame_values(values, name)
    try:
        values = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if values.ndim != ndim:
        text = f"{name} must be {ndim}-D, got {values.ndim}-D"
        if axes is not None:
            text += f": an input has the shape {axes}; for one input pass [x]"
        raise ValueError(text)
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has an entry that is NaN or infinite")
    if n_features is not None and values.shape[-1] != n_features:
        raise ValueError(
            f"{name} has {values.shape[-1]} features, {n_features} were expected"
        )
    return values
