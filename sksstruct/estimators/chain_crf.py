"""Sequence tagging with a first-order chain."""

import warnings
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import check_random_state

from sksstruct.estimators._callbacks import PassCallbacks
from sksstruct.estimators._chain_fit import ChainFit
from sksstruct.estimators._chain_prediction import ChainPrediction
from sksstruct.estimators._chain_stream import ChainStream
from sksstruct.estimators._chain_training import (
    check_factors,
    check_training_data,
    label_costs,
    without_zeros,
)
from sksstruct.estimators._constraints import (
    check_forbidden,
    check_permitted,
    transition_mask,
)
from sksstruct.estimators._problem import Problem
from sksstruct.estimators._report import report_result
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ScoreFunction
from sksstruct.solvers import resolve_solver
from sksstruct.utils._layout import padded_length
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params


class ChainCRF(ChainStream, ChainPrediction, CallbackSupportMixin, BaseEstimator):
    """Tagger for sequences: a linear-chain model with discriminative training.

    The score of labels y for a sequence with feature rows F is

        ``sum_t F_t . coef_[y_t] + intercept_[y_t]  +  start_[y_1] + end_[y_T]
        + sum_t transitions_[y_t, y_{t+1}]``

    and training minimises ``alpha/2 |w|^2`` plus the mean over the sequences of a loss:
    the structured hinge (a structured SVM, or maximum-margin Markov network [1]_) with
    the Hamming loss divided by the length of the sequence, or the negative logarithm
    of the conditional likelihood (a conditional random field [3]_). All weights are
    regularised.

    Parameters
    ----------
    alpha : float, default=0.01
        Regularisation, as in `sklearn.linear_model.SGDClassifier`: the papers' lambda,
        1 / (n C). CRFsuite's c2 is ``alpha * n / 2``.
    loss : {"hinge", "log", "smoothed_hinge"} or SmoothedHinge, default="hinge"
        Training loss. "smoothed_hinge" is `sksstruct.losses.SmoothedHinge` with its
        defaults.
    score_function : ScoreFunction or None, default=None
        Nonlinear score of the labels in place of ``coef_`` and ``intercept_``, for
        instance `sksstruct.models.ELUScore`. Training is not convex then, and is done
        by `sksstruct.solvers.ProxLinear`.
    solver : str or solver object, default="auto"
        Optimiser, an object of `sksstruct.solvers` or the name of one with its
        defaults. For the hinge "bcfw", "cutting_plane", "bmrm", "fw", "ssg",
        "pragam", "casimir", "casimir_constant", or "gdmm" and "soft_bcfw", which are
        for thousands of labels; "auto" is the configuration of
        `sksstruct.solvers.BCFW` that reaches a given duality gap soonest. For the
        other losses "lbfgs", which is "auto", "svrg", "casimir" or
        "casimir_constant". With `score_function` "prox_linear".
    max_iter : int, default=1000
        Largest number of passes over the data, or of iterations, where `solver` is a
        name.
    tol : float, default=3e-3
        Training stops at a duality gap of ``tol`` times the objective, where `solver`
        is a name: the objective at w = 0 for the hinge, which is 1 without class
        weights, the objective reached for the other losses.
    fit_intercept : bool, default=True
        Whether labels have a bias.
    boundary : bool, default=True
        Whether labels have weights for the first and the last position.
    forbidden_transitions : list of tuple or "bio", default=None
        Pairs (from, to) of labels that must not follow each other, None standing for
        the start or the end of a sequence; "bio" for those of
        `sksstruct.inference.bio_transitions`. They hold in training, where only the
        other labelings compete, and in prediction. Labels that are not in y are
        ignored.
    all_possible_states : bool, default=True
        Whether every pair of a feature and a label has a weight, or only those that
        were seen together, which is CRFsuite's default. Not for the hinge.
    all_possible_transitions : bool, default=True
        The same for pairs of labels. Not for the hinge.
    class_weight : dict or "balanced", default=None
        Loss of missing each label; 1 where a dict does not name it. Labels that are
        not in y, as in some folds of a cross-validation, are ignored. Not for
        ``loss="log"``, which has no cost of an error.
    warm_start : bool, default=False
        Whether `fit` starts from the last one: from its dual variables with the hinge
        by `BCFW` and `CuttingPlane`, which fit any training set with the same sequence
        lengths and labels, other features and another alpha included; from its weights
        with the other losses and `Casimir`. The other solvers cannot.
        Else fit starts afresh, with a warning; without one where labels are completed.
    n_jobs : int, default=None
        Threads for computing the duality gap, for sweeps of losses with a gradient, and
        for prediction. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the sequences.
    verbose : int, default=0
        Print a line whenever the duality gap is computed.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features)
        Emission weights.
    intercept_ : ndarray of shape (n_classes,)
        Bias of each label; zeros without `fit_intercept`.
    transitions_ : ndarray or CSR array of shape (n_classes, n_classes)
        Weight of each pair of neighbouring labels, from -> to. Sparse with
        `sksstruct.solvers.GDMM`.
    start_, end_ : ndarray of shape (n_classes,)
        Weights of labels at the first and last position; zeros without `boundary`.
    score_parameters_ : ndarray of shape (n_parameters,)
        Parameters of `score_function_`. ``coef_`` is the identity then.
    score_function_ : ScoreFunction
        The score function that was fitted, where there is one.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names.
    n_iter_ : int
        Passes over the data, or iterations, in all.
    objective_ : float
        Primal objective at the fitted weights; a lower estimate of it where
        `topk_exact_` is less than 1.
    dual_gap_ : float
        The objective is at most this much above the optimum; ``inf`` where that is not
        known, because labels were not observed or `topk_exact_` is less than 1.
    dual_loss_ : float
        Linear term of the dual objective, which is ``dual_loss_ - alpha/2 |w|^2``;
        ``-inf`` where there is no dual.
    history_ : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``,
        a row for each computation of the gap, of the last round where labels are
        completed.
    forbidden_transitions_ : list of tuple
        Pairs of labels that must not follow each other.
    topk_exact_ : float
        With an l2-smoothed hinge, share of the sequences whose best labelings were
        enough (see `sksstruct.losses.SmoothedHinge`).
    solver_ : solver object
        The solver used.
    n_seen_ : float
        Number, or total weight, of the sequences trained on.

    See Also
    --------
    sksstruct.feature_extraction.SequenceVectorizer : Features from dicts and strings.
    sksstruct.solvers.BCFW : The solver and its options.

    Notes
    -----
    X is a list with one array of shape (n_positions, n_features), or one CSR matrix,
    for each sequence, a 3-D array of sequences of equal length, or a
    `sksstruct.utils.packed.PackedSequences`; y is a list with the labels of each
    sequence.

    A label that was not observed is given as None, in sequences with at least one that
    was. With ``loss="log"`` the likelihood is that of the observed labels. The hinge
    losses are trained on labels completed by decoding, in turns until nothing changes,
    ten times at most [4]_ and each to `max_iter`; the first weights come from the runs
    of observed labels. Unobserved positions have no loss.

    Among labelings of equal score `predict` returns the one whose last label comes
    first in `classes_`, then the last but one, and so on.

    References
    ----------
    .. [1] B. Taskar, C. Guestrin and D. Koller, "Max-margin Markov networks",
       NIPS 2003.
    .. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016.
    .. [3] J. Lafferty, A. McCallum and F. Pereira, "Conditional random fields:
       probabilistic models for segmenting and labeling sequence data", ICML 2001.
    .. [4] C.-N. Yu and T. Joachims, "Learning structural SVMs with latent variables",
       ICML 2009.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> tagger = ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0], [0.0]]])[0].tolist()
    ['high', 'high', 'low']
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions({"hinge", "log", "smoothed_hinge"}), SmoothedHinge],
        "score_function": [ScoreFunction, None],
        "solver": [str, object],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "boundary": ["boolean"],
        "forbidden_transitions": [object],
        "all_possible_states": ["boolean"],
        "all_possible_transitions": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        alpha=0.01,
        *,
        loss="hinge",
        score_function=None,
        solver="auto",
        max_iter=1000,
        tol=3e-3,
        fit_intercept=True,
        boundary=True,
        forbidden_transitions=None,
        all_possible_states=True,
        all_possible_transitions=True,
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.loss = loss
        self.score_function = score_function
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.boundary = boundary
        self.forbidden_transitions = forbidden_transitions
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # ---- training ----

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on labeled sequences.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features; see the Notes of the class.
        y : list of array-like of shape (n_positions,)
            Labels: integers, strings or any hashable values; None where not observed.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence in the mean loss.

        Returns
        -------
        self : ChainCRF
            The fitted tagger.

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
        solver, training, attributes = self._train_on(X, y, sample_weight)
        data, loss, mask = training.data, training.loss, training.mask
        state = self._warm_state(training, solver)
        max_iter = getattr(solver, "max_iter", None)
        callbacks = PassCallbacks(
            self, None if training.in_rounds else max_iter, attributes, X, y
        )
        try:
            result = training.run(callbacks, state)
        except BaseException:
            callbacks.close()
            raise
        self._set_feature_names(data.names)
        for name in ("score_function_", "score_parameters_"):
            self.__dict__.pop(name, None)
        for name, value in attributes(result.weights).items():
            setattr(self, name, value)
        self._forget_certificate()
        if loss is not None and loss[0] == "l2":
            self.topk_exact_ = result.exact
        self.n_iter_ = result.n_iter
        self.objective_ = result.objective
        self.dual_gap_ = result.dual_gap
        self.dual_loss_ = result.dual_loss
        self.history_ = result.history
        self.solver_ = solver
        # What partial_fit needs to go on: the attributes are the iterate.
        self._stream = {"visits": len(data.packed), "alpha": self.alpha}
        if self.warm_start:
            self._warm = {
                "classes": data.classes,
                "state": result.dual_state,
                "mask": mask,
            }
        callbacks.close()
        report_result(result, "tagger")
        return self

    def _train_on(self, X, y, sample_weight):
        """Check everything; the solver, the fit, and what weights mean."""
        solver, loss = self._check_parameters()
        data = check_training_data(X, y, sample_weight)
        classes, n_features = data.classes, data.packed.n_features
        costs = np.zeros(len(classes))
        if self.loss != "log":
            costs = label_costs(self.class_weight, classes, data)
        forbidden, mask = self._forbidden(data)
        data = without_zeros(data)
        score = None
        if self.score_function is not None:
            score = clone(self.score_function)
            if data.known is not None:
                raise ValueError("score_function needs every label of y to be known")
        if "factors" in solver.required_oracles:
            check_factors(solver, data, mask)
        training = ChainFit(self, data, solver, loss, costs, mask, score)

        constant = {
            "classes_": classes,
            "n_features_in_": n_features,
            "forbidden_transitions_": forbidden,
            "n_seen_": data.total,
            "_loss": self.loss,
        }
        return solver, training, partial(training.attributes, constant)

    def _prepare(self, X, y, sample_weight=None):
        """Check everything; the solver, and the one convex problem for it."""
        solver, training, attributes = self._train_on(X, y, sample_weight)
        if self.loss != "hinge" or training.score is not None:
            raise ValueError("this needs loss='hinge' and scores that are linear")
        if training.in_rounds:
            raise ValueError("this needs every label of y to be known")
        self._set_feature_names(training.data.names)
        return solver, Problem(training.problem(), attributes)

    def _forget_certificate(self):
        """Drop what an earlier fit said of other weights."""
        for name in (
            "n_iter_",
            "objective_",
            "dual_gap_",
            "dual_loss_",
            "history_",
            "topk_exact_",
            "_warm",
        ):
            self.__dict__.pop(name, None)

    def _forbidden(self, data):
        """Forbidden transitions as pairs and as scores; observed labels are checked."""
        index = {label: k for k, label in enumerate(data.classes.tolist())}
        forbidden = check_forbidden(self.forbidden_transitions, index)
        mask = transition_mask(forbidden, index, padded_length(len(index)))
        if mask is not None:
            known = data.known
            if known is None:
                known = np.ones(len(data.labels), dtype=bool)
            offsets = data.packed.offsets
            check_permitted(mask, data.labels, known, offsets, data.classes)
        return forbidden, mask

    def _check_parameters(self):
        """Solver, and smoothing, strength and k of a smooth loss."""
        validate_params(self)
        if not np.isfinite(self.alpha):
            raise ValueError(f"alpha must be finite, got {self.alpha!r}")
        loss = None
        if self.loss == "log":
            if self.class_weight is not None:
                raise ValueError(
                    "class_weight is the cost of an error, which loss='log' does not "
                    "have; use sample_weight, or a hinge loss"
                )
            # The likelihood is smoothed by the entropy, with strength 1.
            loss = ("entropy", 1.0, 1)
        elif self.loss != "hinge":
            chosen = self.loss
            if isinstance(chosen, str):
                chosen = SmoothedHinge()
            chosen.check()
            loss = (chosen.smoothing, float(chosen.strength), chosen.k)
        elif not (self.all_possible_states and self.all_possible_transitions):
            raise ValueError(
                "all_possible_states=False and all_possible_transitions=False need "
                "loss='log' or 'smoothed_hinge'"
            )
        nonlinear = self.score_function is not None
        if nonlinear:
            self.score_function.check()
            if not (self.all_possible_states and self.all_possible_transitions):
                raise ValueError(
                    "score_function needs all possible states and transitions"
                )
        solver = resolve_solver(
            self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            smooth=loss is not None,
            nonlinear=nonlinear,
            oracles=("max", "topk", "exp", "projection", "factors"),
        )
        solver.check()
        check_random_state(self.random_state)
        return solver, loss

    def _warm_state(self, training, solver):
        """State of the last fit, where asked for and where it fits."""
        warm = getattr(self, "_warm", None)
        if not self.warm_start or warm is None or training.in_rounds:
            return None
        fits = np.array_equal(warm["classes"], training.data.classes)
        if fits and training.loss is None and training.mask is not None:
            # the labelings that have a weight must still be allowed
            before = 0.0 if warm["mask"] is None else warm["mask"]
            fits = bool((training.mask >= before).all())
        if not fits or not solver.accepts(warm["state"], training.problem()):
            warnings.warn(
                "warm_start: the last fit was on sequences of other lengths or labels, "
                "with fewer forbidden transitions, or by another kind of solver, or "
                f"{type(solver).__name__} cannot go on from an earlier fit; starting "
                "afresh",
                UserWarning,
                stacklevel=4,
            )
            return None
        return warm["state"]

    def _set_feature_names(self, names):
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
