"""Multilabel classification with scores of pairs of labels."""

import copy
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from sksstruct.estimators._multilabel import (
    check_pairs,
    columns_of,
    decode,
    restore,
    training_problem,
)
from sksstruct.estimators._problem import Problem, input_attributes, run_solver
from sksstruct.estimators._report import report_result
from sksstruct.estimators.ssvm import positive
from sksstruct.solvers import resolve_solver
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params

# Labelings of so many labels are enumerated by inference="auto".
FEW_LABELS = 12


class MultilabelPairwise(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Multilabel classifier whose labels interact in pairs.

    The score of a set of labels y, as an indicator, for features x is

        ``sum_j y_j (coef_[j] . x + intercept_[j])
        + sum_(j<k) interactions_[j, k] y_j y_k``

    and training minimises ``alpha/2 |w|^2`` plus the mean over the samples of the
    structured hinge with Hamming's loss, the number of labels that are wrong. Without
    pairs this is one linear support vector machine for each label, that of
    ``OneVsRestClassifier(LinearSVC(loss="hinge", C=1 / (n_samples * alpha)))`` with a
    regularised intercept.

    Parameters
    ----------
    alpha : float, default=1e-3
        Regularisation, as in `sklearn.linear_model.SGDClassifier`: 1 / (n C).
    pairs : {"all", "cooccurring"} or array-like of shape (n_pairs, 2), default="all"
        Pairs of labels that interact: all; those that some training sample has both
        of, which cannot learn that labels exclude each other; or these, as numbers of
        columns of y.
    interaction_scaling : float, default=1.0
        Value of the feature of a pair: larger values regularise interactions less.
    inference : {"auto", "exact", "lp", "gdmm"}, default="auto"
        How labels are found. "exact": all sets of labels are tried, in training as
        well. "lp": by the LP relaxation, one minimum cut for each sample, which is
        exact where labels attract each other only; labels that it leaves open are
        settled in prediction. "gdmm": predictions by Algorithm 2 of [2]_. "auto" is
        "exact" for up to twelve labels, else "lp".
    solver : str or solver object, default="auto"
        Optimiser, an object of `sksstruct.solvers` or the name of one: "bcfw", "ssg",
        "gdmm", "soft_bcfw" and others. "auto" is the configuration of
        `sksstruct.solvers.BCFW` that reaches a given duality gap soonest where sets of
        labels are enumerated, else `sksstruct.solvers.GDMM` by block-greedy coordinate
        descent (Algorithm 3 of [1]_).
    max_iter : int, default=1000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=5e-4
        Training stops at a duality gap of ``tol`` times the objective at w = 0, the
        number of labels, where `solver` is a name.
    fit_intercept : bool, default=True
        Whether labels have a bias; it is regularised like the other weights.
    n_jobs : int, default=None
        Threads for computing the objective and for prediction. The result is the same
        for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the samples.
    verbose : int, default=0
        Print a line whenever the duality gap is computed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,), or (2,)
        Numbers of the labels; the two values where y was 1-D.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the labels.
    intercept_ : ndarray of shape (n_labels,)
        Bias of each label; zeros without `fit_intercept`.
    label_pairs_ : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact.
    interactions_ : ndarray of shape (n_labels, n_labels)
        Score of each pair of labels, symmetric; zero for pairs that do not interact.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names.
    n_iter_ : int
        Passes over the data.
    objective_ : float
        Primal objective at the fitted weights, with the LP relaxation of the structured
        hinge unless sets of labels were enumerated.
    dual_gap_ : float
        The objective is at most this much above the optimum.
    history_ : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``,
        and those of the solver.
    solver_ : solver object
        The solver used.

    See Also
    --------
    sksstruct.plotting.InteractionsDisplay : The interactions as a heat map.
    sksstruct.solvers.GDMM : The solver and its options.

    References
    ----------
    .. [1] I. E.-H. Yen, X. Huang, K. Zhong, R. Zhang, P. Ravikumar and I. S. Dhillon,
       "Dual decomposed learning with factorwise oracle for structural SVM of large
       output domain", NIPS 2016.
    .. [2] X. Huang, I. E.-H. Yen, R. Zhang, Q. Huang, P. Ravikumar and I. S. Dhillon,
       "Greedy direction method of multiplier for MAP inference of large output
       domain", AISTATS 2017.
    .. [3] T. Finley and T. Joachims, "Training structural SVMs when exact inference is
       intractable", ICML 2008.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    >>> classifier = MultilabelPairwise(alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([[0.1, 0.9]])
    array([[0, 1, 1]])
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "pairs": [StrOptions({"all", "cooccurring"}), "array-like"],
        "interaction_scaling": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions({"auto", "exact", "lp", "gdmm"})],
        "solver": [str, object],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        alpha=1e-3,
        *,
        pairs="all",
        interaction_scaling=1.0,
        inference="auto",
        solver="auto",
        max_iter=1000,
        tol=5e-4,
        fit_intercept=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.pairs = pairs
        self.interaction_scaling = interaction_scaling
        self.inference = inference
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    # ---- training ----

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on label sets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator: a column for each label, 1 where a sample has it. A 1-D
            array of two values is a single label.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors of the losses.

        Returns
        -------
        self : MultilabelPairwise
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
        result = run_solver(self, solver, problem, X, y)
        report_result(result, "classifier")
        return self

    def _prepare(self, X, y, sample_weight=None):
        """Check everything; the solver, and the problem for it."""
        validate_params(self)
        check_random_state(self.random_state)
        # what is learned of X goes into a copy: a fit that fails changes nothing
        seen = copy.copy(self)
        for name in input_attributes(seen):
            delattr(seen, name)
        X, y = validate_data(
            seen,
            X,
            y,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            multi_output=True,
        )
        if sparse.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        Y, values = columns_of(y)
        n_labels = Y.shape[1]
        pairs = check_pairs(self.pairs, Y)
        exact = self._is_exact(n_labels)
        solver = self._solver(exact)
        weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        total = float(weight.sum())
        keep = positive(weight, total)
        weight = weight[keep] / total
        if len(keep) < len(Y):
            X, Y = X[keep], Y[keep]
            if values is not None and len(np.unique(Y)) < 2:
                raise ValueError(
                    "y has 1 class where sample_weight is positive: training needs 2"
                )
        bound = training_problem(self, solver, X, Y, pairs, weight, exact)
        constant = {
            **input_attributes(seen),
            "classes_": np.arange(n_labels) if values is None else values,
            "_values": values,
            "label_pairs_": pairs,
            "_sparse_output": sparse.issparse(y),
        }
        return solver, Problem(bound, partial(self._attributes, constant, bound))

    def _is_exact(self, n_labels):
        if self.inference == "auto":
            return n_labels <= FEW_LABELS
        if self.inference == "exact" and n_labels > 20:
            raise ValueError(
                f"inference='exact' tries all sets of labels, which is for at most 20 "
                f"labels; y has {n_labels}"
            )
        return self.inference == "exact"

    def _solver(self, exact):
        solver = self.solver
        if isinstance(solver, str) and solver == "auto" and not exact:
            solver = "gdmm"
        solver = resolve_solver(
            solver,
            max_iter=self.max_iter,
            tol=self.tol,
            oracles=("max", "factors"),
        )
        solver.check()
        return solver

    def _attributes(self, constant, bound, weights):
        views = bound.views(weights)
        coef, pairs = views["coef"], constant["label_pairs_"]
        table = np.zeros((len(coef), len(coef)))
        if len(pairs):
            scores = self.interaction_scaling * views["pair_coef"]
            table[pairs[:, 0], pairs[:, 1]] = scores
            table[pairs[:, 1], pairs[:, 0]] = scores
        bias = self.fit_intercept
        return {
            **constant,
            "coef_": np.ascontiguousarray(coef[:, :-1] if bias else coef),
            "intercept_": coef[:, -1].copy() if bias else np.zeros(len(coef)),
            "interactions_": table,
        }

    # ---- prediction ----

    def _unaries(self, X):
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _labels(self, unaries):
        """Best labels as 0 and 1."""
        return decode(
            unaries,
            self.label_pairs_,
            self.interactions_,
            exact=self._is_exact(unaries.shape[1]),
            by_gdmm=self.inference == "gdmm",
            n_jobs=self.n_jobs,
        )

    def predict(self, X):
        """Predict label sets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray or CSR array of shape (n_samples, n_labels) or (n_samples,)
            Label indicator, of the kind of the training data: sparse, or 1-D.
        """
        labels = self._labels(self._unaries(X))
        return restore(labels, self._values, self._sparse_output)

    def decision_function(self, X):
        """Score of each label given the other labels that are predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
            What a label would add to the score of the other predicted labels, or does
            add where it is predicted: not negative there, and not positive elsewhere.
        """
        unaries = self._unaries(X)
        scores = unaries + self._labels(unaries) @ self.interactions_
        return scores if self._values is None else scores[:, 0]

    def score(self, X, y, sample_weight=None):
        """Subset accuracy: share of the samples whose labels are all predicted.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        score : float
            Accuracy.
        """
        predicted = self.predict(X)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
