"""Linear support vector classification of two classes by the structured solvers."""

from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from sksstruct.estimators._problem import Problem, input_attributes, run_solver
from sksstruct.estimators._report import report_result
from sksstruct.models.binary._binary import BoundBinary
from sksstruct.solvers import resolve_solver
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params


class LinearSSVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classifier for two classes.

    Minimises ``alpha/2 |w|^2`` plus the mean of the hinge losses
    ``max(0, 1 - y (<w, x> + b))``, y being -1 or 1, by the solvers for structured
    problems: what the experiments of [1]_ compare.

    Parameters
    ----------
    alpha : float, default=1e-4
        Regularisation, as in `sklearn.linear_model.SGDClassifier`;
        ``1 / (n_samples * C)`` in terms of `sklearn.svm.LinearSVC`.
    solver : str or solver object, default="auto"
        Optimiser: "pragam", "bmrm", "bcfw", "ssg", "cutting_plane", "fw", or an object
        of `sksstruct.solvers`. "auto" is the configuration of
        `sksstruct.solvers.BCFW` that reaches a given gap soonest, or
        `sksstruct.solvers.Pragam` where the intercept is not regularised.
    max_iter : int, default=10000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=1e-3
        Training stops at a duality gap of ``tol`` times the objective at w = 0, which
        is 1 without weights, where `solver` is a name.
    fit_intercept : bool, default=True
        Whether there is a bias b.
    penalize_intercept : bool, default=True
        Whether the bias is regularised as one of the weights, as in
        `sklearn.svm.LinearSVC`; else b is free, which only Pragam can do.
    class_weight : dict or "balanced", default=None
        Factors of the losses of each class, as in scikit-learn.
    n_jobs : int, default=None
        Threads for sweeps over all samples. Does not change the result.
    random_state : int, RandomState instance or None, default=None
        Order in which samples are visited.
    verbose : int, default=0
        Print a line whenever the duality gap is computed.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes.
    coef_ : ndarray of shape (1, n_features)
        Weights.
    intercept_ : ndarray of shape (1,)
        Bias; 0 without `fit_intercept`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names.
    n_iter_ : int
        Passes.
    objective_ : float
        Primal objective at the weights.
    dual_gap_ : float
        The objective is at most this much above the optimum; ``inf`` where that is not
        known.
    history_ : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``.
    solver_ : solver object
        The solver used.

    See Also
    --------
    ChainCRF : The same for sequences.
    sklearn.svm.LinearSVC : By coordinate descent.

    References
    ----------
    .. [1] A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and
       faster rates for training SVMs", 2009.

    Examples
    --------
    >>> from sksstruct import LinearSSVC
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], ["low", "low", "high", "high"]
    >>> classifier = LinearSSVC(alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([[0.5], [3.5]]).tolist()
    ['low', 'high']
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "solver": [str, object],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "penalize_intercept": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        alpha=1e-4,
        *,
        solver="auto",
        max_iter=10000,
        tol=1e-3,
        fit_intercept=True,
        penalize_intercept=True,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on labeled samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Classes, of which there are two.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the losses.

        Returns
        -------
        self : LinearSSVC
            The fitted classifier.

        Raises
        ------
        KeyboardInterrupt
            When interrupted, after the attributes were set from the work done so far.

        Warns
        -----
        ConvergenceWarning
            If the tolerance was not reached in `max_iter` passes.
        """
        solver, problem = self._prepare(X, y, sample_weight)
        result = run_solver(self, solver, problem, X, y)
        report_result(result, "classifier")
        return self

    def _prepare(self, X, y, sample_weight=None):
        """Check everything; the solver, and the problem for it."""
        solver = self._check_parameters()
        X, y = validate_data(
            self,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            accept_large_sparse=False,
        )
        check_classification_targets(y)
        classes, labels = np.unique(y, return_inverse=True)
        if len(classes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is "
                f"{type_of_target(y)}."
            )
        if len(classes) < 2:
            raise ValueError(
                f"y has 1 class, {classes.tolist()[0]!r}: training needs 2"
            )
        weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        total = float(weight.sum())
        factors = compute_class_weight(
            self.class_weight, classes=classes, y=y, sample_weight=weight
        )
        if not (np.isfinite(factors).all() and (factors >= 0.0).all()):
            raise ValueError("class_weight must be finite and not negative")
        if not np.isfinite(total):
            raise ValueError("sample_weight is too large: its sum overflows")
        weight = weight * factors[labels] / total
        keep = weight > 0.0
        if not keep.any():
            raise ValueError("class_weight and sample_weight leave no sample")
        if not keep.all():
            X, labels, weight = X[keep], labels[keep], weight[keep]
        if sparse.issparse(X) and not X.has_sorted_indices:
            X = X.sorted_indices()
        free = self.fit_intercept and not self.penalize_intercept
        model = BoundBinary(
            X, labels, weight, self.fit_intercept and not free, free_bias=free
        )

        space = model.dual_space() if free else None
        constant = {**input_attributes(self), "classes_": classes}
        return solver, Problem(model, partial(_attributes, constant, space))

    def _check_parameters(self):
        validate_params(self)
        free = self.fit_intercept and not self.penalize_intercept
        solver = self.solver
        if isinstance(solver, str) and solver == "auto" and free:
            solver = "pragam"
        try:
            solver = resolve_solver(
                solver,
                max_iter=self.max_iter,
                tol=self.tol,
                oracles=("projection",) if free else ("max", "projection"),
            )
        except ValueError as error:
            if free:
                error.add_note("penalize_intercept=False leaves Pragam only")
            raise
        solver.check()
        check_random_state(self.random_state)
        return solver

    def decision_function(self, X):
        """Scores of the second class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Positive where the second class is predicted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return safe_sparse_dot(X, self.coef_[0]) + self.intercept_[0]

    def predict(self, X):
        """Predict classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.
        """
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def score(self, X, y, sample_weight=None):
        """Accuracy of the predicted classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,)
            Classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        score : float
            Accuracy.
        """
        return super().score(X, y, sample_weight)


def _attributes(constant, space, weights):
    """Fitted attributes for flat weights; a free bias comes from the dual space."""
    bias = weights[-1:].copy()
    if space is not None:
        bias[0] = space.bias(space.slopes(weights))
    return {
        **constant,
        "coef_": weights[None, :-1].copy(),
        "intercept_": bias,
    }
