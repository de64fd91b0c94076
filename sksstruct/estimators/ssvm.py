"""Structured support vector machine for any model: parameters, `fit`, predictions."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from sksstruct.estimators._losses import has_probabilities
from sksstruct.estimators._model_prediction import ModelPrediction
from sksstruct.estimators._parameters import AUTO_ROWS, TEXTS, AnyLoss, AnySolver
from sksstruct.estimators._train import train
from sksstruct.models import MODELS, ScoreFunction, StructuredModel, resolve_model
from sksstruct.solvers import SOLVERS
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import (
    Count,
    NonNegative,
    Positive,
    Seed,
    Threads,
    Verbosity,
)
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Examples


@fill_doc(
    {
        **TEXTS,
        "auto_rows": AUTO_ROWS.format(
            "``0.5 * m / n``, with ``loss='log'`` ``0.1 * m / n``"
        ),
        "models": listing(sorted(MODELS)),
        "solvers": listing(SOLVERS.names("max", "topk", losses=("hinge",))),
        "smooth_solvers": listing(SOLVERS.names("exp", "topk", losses=("smooth",))),
        "nonlinear_solvers": listing(SOLVERS.names("nonlinear")),
    }
)
@dataclass(eq=False, repr=False)
class SSVMClassifier(
    ModelPrediction, CallbackSupportMixin, ClassifierMixin, Versioned, BaseEstimator
):
    """Structured support vector machine, or conditional random field.

    Training minimizes ``alpha/2 |w|^2`` plus the mean over the examples of a loss, by
    default the structured hinge

        ``max_y loss(y_i, y) + <w, phi(x_i, y) - phi(x_i, y_i)>``

    The model defines the joint feature map phi, the loss, and the oracle that finds the
    maximum [1]_. With ``loss="log"``, the loss is the negative log-likelihood of a
    conditional random field [2]_, in which the probability of an output y is
    proportional to ``exp(<w, phi(x, y)>)``. For classes this is multinomial logistic
    regression.

    Parameters
    ----------
    model : str or StructuredModel, default="multiclass"
        The kind of output and its scores: an object of `sksstruct.models`, an object of
        your own class that derives from `sksstruct.models.StructuredModel`, or the name
        of a model with its defaults:
        %(models)s.
        The model also defines the loss, for example by the cost matrix of
        `sksstruct.models.MulticlassModel`.
    alpha : float or "auto", default="auto"
        Regularization strength, as in `sklearn.linear_model.SGDClassifier`: the lambda
        of the papers, or 1 / (n C). For multiclass models,
        %(auto_rows)s
        For graphs "auto" is ``1e-4 * m``, where m is the sum of the variances of the
        features of nodes, times the square of the mean number of nodes if features are
        not divided by the number of nodes; for segments, see `SegmentCRF`. For others,
        and with `score_function`, "auto" is 1e-3.
        0 means no regularization, which only solvers that use gradients support. These
        solvers then stop when the gradient is small, and `dual_gap_` is ``inf``.
    loss : {"hinge", "log", "smoothed_hinge"} or Surrogate, default="hinge"
        "hinge": the structured hinge. "log": the negative log-likelihood, which does
        not use the loss of the model, and needs a model that can sum over all outputs:
        multiclass models, trees and forests; see the user guide for other models.
        "smoothed_hinge": the hinge with a maximum that is smoothed by sums over all
        outputs, or by the k best outputs if the model has no sums. Pass a
        `sksstruct.losses.SmoothedHinge` to set its parameters. The `cost` of such an
        object overrides the loss of a model with labels of nodes or segments.
    score_function : ScoreFunction or None, default=None
        Nonlinear scores that replace ``coef_`` and ``intercept_``, for example
        `sksstruct.models.ELUScore`. The function maps rows of features (samples, nodes
        of graphs, candidates, positions of parts, pairs of matchings) to scores; see
        the user guide. The scores of pairs of labels stay linear. Training is then not
        convex.
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults. For the hinge
        %(solvers)s;
        "auto" is "bcfw"; for few large outputs "continuation"; if the model finds no
        best output, the solver for the oracle that the model has. For the other losses
        %(smooth_solvers)s;
        "auto" is "sdca" if its passes are expected to take less time, as with classes
        and many features, or features of small values, and otherwise "lbfgs".
        Casimir needs a model with sums over all outputs, or with the k best. With
        `score_function`
        %(nonlinear_solvers)s;
        "auto" is "prox_linear".
    max_iter : int, default=1000
        Maximum number of passes over the data, or of iterations. Used only if `solver`
        is a name.
    tol : float or None, default=None
        Tolerance of the duality gap, used only if `solver` is a name. With the hinge,
        training stops at a gap of ``tol`` times the objective at w = 0; None is 3e-3.
        With other losses, training stops at a gap of ``tol`` times the current
        objective; None is 1e-2.
    %(max_seconds)s
    class_weight : dict or "balanced", default=None
        Weight of the loss of each class, as in scikit-learn. Only for multiclass
        models; models of graphs and `sksstruct.models.SegmentModel` have a parameter of
        this name, and the nodes of a `sksstruct.models.Graph` have weights.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit: from the dual variables if
        the solver supports this and the data have the same number of examples of the
        same sizes; for losses with a gradient, from the weights. Dual variables of
        models written in Python are not kept.
    n_jobs : int, default=None
        Number of threads for computing the duality gap. The result does not depend on
        the number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the examples.
    %(verbose)s

    Attributes
    ----------
    model_ : StructuredModel
        The fitted model, whose attributes hold its classes and sizes.
    weights_ : ndarray of shape (n_weights,)
        All weights in the order of the model.
    classes_, coef_, intercept_ : ndarray
        With "multiclass": the classes, weights of shape (n_classes, n_features), and
        biases. Other models have other attributes, listed in their documentation. For a
        model of your own, ``coef_`` holds all weights.
    score_parameters_ : ndarray of shape (n_parameters,)
        With `score_function`, its parameters. They are the first entries of
        ``weights_``.
    score_function_ : ScoreFunction
        The fitted score function, if `score_function` is not None.
    n_features_in_ : int
        Number of features, if X is a 2-D array.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has feature names.
    alpha_ : float
        The regularization that was used.
    n_iter_ : int
        Number of passes over the data, or of iterations.
    objective_ : float
        Primal objective at the weights.
    dual_gap_ : float
        Duality gap: an upper bound on the difference between the objective and its
        minimum, if the oracles of the model are exact. ``inf`` if there is no bound.
    %(history_)s
    topk_exact_ : float
        With a hinge smoothed by the k best outputs, fraction of the examples for which
        k outputs were enough (see `sksstruct.losses.SmoothedHinge`).
    %(solver_)s

    See Also
    --------
    ChainCRF : Tagger for sequences.
    SSVMPathCV : Chooses `alpha` by cross-validation.
    sksstruct.models.StructuredModel : How to write a model.

    References
    ----------
    .. [1] I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large margin
       methods for structured and interdependent output variables", JMLR 6, 2005.
    .. [2] J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields:
       probabilistic models for segmenting and labeling sequence data", ICML 2001.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksstruct import SSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = SSVMClassifier(alpha=1e-3, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.95
    True
    """

    model: str | StructuredModel = "multiclass"
    _: KW_ONLY
    alpha: NonNegative | Literal["auto"] = "auto"
    loss: AnyLoss = "hinge"
    score_function: ScoreFunction | None = None
    solver: AnySolver = "auto"
    max_iter: Count = 1000
    tol: NonNegative | None = None
    max_seconds: Positive | None = None
    class_weight: dict | Literal["balanced"] | None = None
    warm_start: bool = False
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0

    @property
    def _is_flat(self):
        if isinstance(self.model, StructuredModel):
            return self.model.is_flat
        return isinstance(self.model, str) and self.model == "multiclass"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if not self._is_flat:
            # scikit-learn cannot stratify folds by structured outputs
            tags.estimator_type = None
            tags.classifier_tags = None
            tags.input_tags.two_d_array = False
        return tags

    # ---- training ----

    @with_callbacks
    def fit(
        self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train on labeled examples.

        Parameters
        ----------
        %(inputs)s
        y : array-like of shape (n_samples,) or list
            Outputs.
        %(loss_weight)s

        Returns
        -------
        self : SSVMClassifier
            The fitted classifier.

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "classifier")

    def _model(self):
        model = resolve_model(self.model)
        if self.class_weight is not None and not model.is_flat:
            raise ValueError(
                f"class_weight is for multiclass models; {type(model).__name__} "
                f"{model._class_weight_note}"
            )
        model._class_weight = self.class_weight
        model._take_loss(self.loss)
        if self.score_function is not None:
            self.score_function.check()
            model._set_score(clone(self.score_function))
        # a nonlinear score function may undo any scaling of the features
        model.follows_scale = self.alpha == "auto" and self.score_function is None
        return model

    # ---- prediction ----

    def predict(self, X: Examples) -> np.ndarray | Any:
        """Predict outputs.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        y : ndarray of shape (n_samples,) or list
            An output with the highest score for each input.
        """
        X = self._checked(X)
        return self.model_._predict(X, self.weights_, self.n_jobs)[0]

    @available_if(has_probabilities(flat=True))
    def predict_proba(self, X: Examples) -> np.ndarray:
        """Probability of each class; only with ``loss="log"`` and classes.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Probabilities; columns are in the order of `classes_`.
        """
        X = self._checked(X)
        return self.model_._predict_marginals(X, self.weights_, self.n_jobs)

    @available_if(has_probabilities(flat=False))
    def predict_marginals(self, X: Examples) -> list[np.ndarray]:
        """Probabilities of the parts of the outputs; only with ``loss="log"``.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        probabilities : list of ndarray
            Marginal probabilities for each input: with a graph an array of shape
            (n_nodes, n_labels), labels in the order of `classes_`; with parts
            (n_parts, height, width); with candidates (n_candidates,), or (n_candidates,
            n_labels) if they have labels.
        """
        X = self._checked(X)
        return self.model_._predict_marginals(X, self.weights_, self.n_jobs)

    def decision_function(self, X: Examples) -> np.ndarray:
        """Scores of the classes, or of the predicted outputs.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            With a multiclass model, the scores of all classes. With two classes, the
            score of the second class minus that of the first. With other models, the
            score of the predicted output.
        """
        X = self._checked(X)
        if self.model_.is_flat:
            return self.model_._decision_function(X, self.weights_)
        return self.model_._predict(X, self.weights_, self.n_jobs)[1]

    def score(
        self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, or one minus the mean loss of the model.

        Parameters
        ----------
        %(inputs)s
        y : array-like of shape (n_samples,) or list
            Outputs.
        %(score_weight)s

        Returns
        -------
        score : float
            Accuracy for a multiclass model, otherwise one minus the mean loss.
        """
        X = self._checked(X)
        predicted = self.model_._predict(X, self.weights_, self.n_jobs)[0]
        return self.model_._score(X, y, predicted, sample_weight)
