"""Structured support vector machine for any model."""

import copy
import warnings
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from sksstruct.estimators._problem import Problem, input_attributes, run_solver
from sksstruct.estimators._report import report_result
from sksstruct.inference._checks import check_k
from sksstruct.models import StructuredModel, resolve_model
from sksstruct.models.protocols._topk_hinge import OracleLoss
from sksstruct.models.structured import as_list
from sksstruct.solvers import resolve_solver
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params


class SSVMClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Structured support vector machine.

    Minimises ``alpha/2 |w|^2`` plus the mean over the examples of the structured hinge

        ``max_y loss(y_i, y) + <w, phi(x_i, y) - phi(x_i, y_i)>``

    where a model gives the joint feature map phi, the loss, and the oracle that finds
    the maximum [1]_.

    Parameters
    ----------
    model : str or StructuredModel, default="multiclass"
        What outputs are and how they are scored: "multiclass", "graph", "matching",
        "candidates", or an object of `sksstruct.models`, or one of your own that
        derives from `sksstruct.models.StructuredModel`. It also holds the loss, for
        instance the cost matrix of `sksstruct.models.MulticlassModel`.
    alpha : float, default=1e-3
        Regularisation, as in `sklearn.linear_model.SGDClassifier`: the papers' lambda,
        1 / (n C).
    solver : str or solver object, default="auto"
        Optimiser: "bcfw", "fw", "ssg", "bmrm", "cutting_plane", "casimir" (on the k
        best outputs, where the model has them), or an object of `sksstruct.solvers`.
        "auto" is the configuration of `sksstruct.solvers.BCFW`
        that reaches a given duality gap soonest.
    max_iter : int, default=1000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=3e-3
        Training stops at a duality gap of ``tol`` times the objective at w = 0, where
        `solver` is a name.
    class_weight : dict or "balanced", default=None
        Factors of the losses of the samples of each class, as in scikit-learn; for
        multiclass models.
    warm_start : bool, default=False
        Whether `fit` starts from the dual variables of the last one, where the solver
        can and where the data has as many examples, of the same sizes. Not for models
        that are written in Python.
    n_jobs : int, default=None
        Threads for computing the duality gap. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the examples.
    verbose : int, default=0
        Print a line whenever the duality gap is computed.

    Attributes
    ----------
    model_ : StructuredModel
        The model that was fitted; its attributes say what it learned from the data.
    weights_ : ndarray of shape (n_weights,)
        All weights in the order of the model.
    classes_, coef_, intercept_ : ndarray
        With "multiclass": the classes, weights of shape (n_classes, n_features), and
        biases. Other models have other attributes, which their documentation names;
        ``coef_`` holds all weights of a model of your own.
    n_features_in_ : int
        Number of features, where X is one 2-D array.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names.
    n_iter_ : int
        Passes.
    objective_ : float
        Primal objective at the weights.
    dual_gap_ : float
        The objective is at most this much above the optimum, if the oracles of the
        model are exact; ``inf`` where that is not known.
    history_ : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``.
    solver_ : solver object
        The solver used.

    See Also
    --------
    ChainCRF : For sequences.
    SSVMPathCV : Chooses `alpha` by cross-validation.
    sksstruct.models.StructuredModel : How to write a model.

    References
    ----------
    .. [1] I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large margin
       methods for structured and interdependent output variables", JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksstruct import SSVMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = SSVMClassifier(alpha=1e-3, random_state=0).fit(X, y)
    >>> classifier.score(X, y) > 0.95
    True
    """

    _parameter_constraints = {
        "model": [str, StructuredModel],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "solver": [str, object],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        model="multiclass",
        *,
        alpha=1e-3,
        solver="auto",
        max_iter=1000,
        tol=3e-3,
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.model = model
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def _is_flat(self):
        return self.model == "multiclass" or getattr(self.model, "is_flat", False)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        if not self._is_flat:
            # structured outputs are not classes to stratify by
            tags.estimator_type = None
            tags.classifier_tags = None
            tags.input_tags.two_d_array = False
        return tags

    # ---- training ----

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on labeled examples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
            Inputs, as the model takes them.
        y : array-like of shape (n_samples,) or list
            Outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the losses.

        Returns
        -------
        self : SSVMClassifier
            The fitted classifier.

        Raises
        ------
        ValueError, TypeError
            If a parameter or the data are not valid; nothing is changed then.
        KeyboardInterrupt
            When interrupted, after the attributes were set from the work done so far.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached in `max_iter` passes.
        """
        solver, problem = self._prepare(X, y, sample_weight)
        state = self._warm_state(solver, problem.model)
        result = run_solver(self, solver, problem, X, y, state)
        if self.warm_start:
            self._warm = result.dual_state
        else:
            self.__dict__.pop("_warm", None)
        report_result(result, "classifier")
        return self

    def _prepare(self, X, y, sample_weight=None):
        """Check everything; the solver, and the problem for it."""
        validate_params(self)
        model = resolve_model(self.model)
        model.check()
        check_random_state(self.random_state)
        solver = self._solver(model)
        if self.class_weight is not None and not model.is_flat:
            raise ValueError(
                f"class_weight is for multiclass models; the loss of {model!r} is its "
                "own parameter"
            )
        # what is learned of X goes into a copy: a fit that fails changes nothing
        seen = copy.copy(self)
        for name in input_attributes(seen):
            delattr(seen, name)
        if model.is_flat:
            X, y = model._check_training_data(X, y, seen)
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            total = float(weight.sum())
            weight = weight * model._sample_factors(self.class_weight, y, weight)
            keep = positive(weight, total)
            weight = weight[keep] / total
            if len(keep) < len(y):
                X, y = X[keep], y[keep]
        else:
            X, y = as_list("X", X), as_list("y", y)
            if len(X) != len(y):
                raise ValueError(f"X has {len(X)} examples, y has {len(y)}")
            weight = _check_sample_weight(
                sample_weight, np.zeros((len(X), 1)), ensure_non_negative=True
            )
            keep = positive(weight, float(weight.sum()))
            weight = weight[keep] / float(weight.sum())
            X, y = [X[i] for i in keep], [y[i] for i in keep]
            X, y = model._check_training_data(X, y, seen, weight)
        if model.bounds() is not None:
            self._solver(model, bounded=True)
        bound = model._bind(X, y, weight)
        if solver.smooths:
            bound = OracleLoss(bound, solver.k)
        return solver, Problem(
            bound, partial(_attributes, input_attributes(seen), model)
        )

    def _solver(self, model, bounded=False):
        solver = resolve_solver(
            self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            oracles=("max", "topk") if model._has_topk else ("max",),
            bounded=bounded,
        )
        if solver.smooths and solver.smoothing != "l2":
            if not isinstance(self.solver, str):
                raise ValueError(
                    f"{type(solver).__name__} needs smoothing='l2': the oracle of "
                    "these models is the k best"
                )
            solver.set_params(smoothing="l2")
        solver.check()
        return solver

    def _warm_state(self, solver, model):
        state = getattr(self, "_warm", None)
        if not self.warm_start or state is None:
            return None
        if not solver.accepts(state, model):
            warnings.warn(
                "warm_start: the last fit was on other examples, or by another kind of "
                f"solver, or {type(solver).__name__} or the model cannot go on from an "
                "earlier fit; starting afresh",
                UserWarning,
                stacklevel=4,
            )
            return None
        return state

    # ---- prediction ----

    def _checked(self, X):
        check_is_fitted(self, "weights_")
        return self.model_._check_input(X, self)

    def predict(self, X):
        """Predict outputs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
            Inputs.

        Returns
        -------
        y : ndarray of shape (n_samples,) or list
            An output of highest score for each input.
        """
        X = self._checked(X)
        return self.model_._predict(X, self.weights_, self.n_jobs)[0]

    def decision_function(self, X):
        """Scores of the classes, or of the predicted outputs.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
            Inputs.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            With a multiclass model the scores of all classes, of the second over the
            first where there are two; else the score of the output that is predicted.
        """
        X = self._checked(X)
        if self.model_.is_flat:
            return self.model_._decision_function(X, self.weights_)
        return self.model_._predict(X, self.weights_, self.n_jobs)[1]

    def predict_topk(self, X, k):
        """The k best outputs of each input, and their scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
            Inputs.
        k : int
            Number of outputs.

        Returns
        -------
        y : ndarray of shape (n_samples, k) or list
            Different outputs for each input, the best first; fewer where there are no
            more.
        scores : ndarray of shape (n_samples, k) or list of ndarray
            Their scores.
        """
        k = check_k(k)
        X = self._checked(X)
        return self.model_._predict_topk(X, self.weights_, k)

    def score(self, X, y, sample_weight=None):
        """Accuracy, or one minus the mean loss of the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or list
            Inputs.
        y : array-like of shape (n_samples,) or list
            Outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        score : float
            Accuracy with a multiclass model, else one minus the mean loss.
        """
        predicted = self.predict(X)
        return self.model_._score(y, predicted, sample_weight)


def positive(weight, total):
    """Examples that count."""
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large: its sum overflows")
    keep = np.flatnonzero(weight > 0.0)
    if not len(keep):
        raise ValueError("class_weight and sample_weight leave no sample")
    return keep


def _attributes(constant, model, weights):
    """Fitted attributes for flat weights."""
    return {
        **constant,
        "model_": model,
        "weights_": weights.copy(),
        **model._attributes(weights),
    }
