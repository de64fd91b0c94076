"""Sequence tagging with a first-order chain."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._callbacks import PassCallbacks
from sksstruct.models._chain import ChainModel
from sksstruct.solvers import resolve_solver
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils._param_validation import Interval, StrOptions, validate_params
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequence_weight,
    check_sequences,
)


class ChainCRF(CallbackSupportMixin, BaseEstimator):
    """Tagger for sequences: a linear-chain model with discriminative training.

    The score of labels y for a sequence with feature rows F is

        ``sum_t F_t . coef_[y_t] + intercept_[y_t]  +  start_[y_1] + end_[y_T]
        + sum_t transitions_[y_t, y_{t+1}]``

    and training minimises ``alpha/2 |w|^2`` plus the mean structured hinge loss over
    the sequences (a structured SVM, or maximum-margin Markov network) with the Hamming
    loss divided by the length of the sequence. All weights are regularised.

    Parameters
    ----------
    alpha : float, default=0.01
        Regularisation, as in `sklearn.linear_model.SGDClassifier`: the papers' lambda,
        1 / (n C).
    loss : {"hinge"}, default="hinge"
        Training loss. ``"log"``, the conditional likelihood of a CRF, is not part of
        this version.
    solver : {"auto", "bcfw"} or solver object, default="auto"
        Optimiser. "auto" is the configuration of `sksstruct.solvers.BCFW` that reaches
        a given duality gap soonest; "bcfw" is `BCFW` as published.
    max_iter : int, default=1000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=3e-3
        Training stops at a duality gap of ``tol`` times the objective at w = 0, which
        is 1 without class weights; where `solver` is a name.
    fit_intercept : bool, default=True
        Whether labels have a bias.
    boundary : bool, default=True
        Whether labels have weights for the first and the last position.
    class_weight : dict or "balanced", default=None
        Loss of missing each label; 1 where a dict does not name it. Labels that are
        not in y, as in some folds of a cross-validation, are ignored.
    warm_start : bool, default=False
        Whether `fit` starts from the dual variables of the last call. They fit any
        training set with the same sequence lengths and labels, other features and
        another alpha included; else fit starts afresh, with a warning.
    n_jobs : int, default=None
        Threads for computing the duality gap and for prediction. The result is the
        same for any number.
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
    transitions_ : ndarray of shape (n_classes, n_classes)
        Weight of each pair of neighbouring labels, from -> to.
    start_, end_ : ndarray of shape (n_classes,)
        Weights of labels at the first and last position; zeros without `boundary`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, where X has names.
    n_iter_ : int
        Passes over the data.
    objective_ : float
        Primal objective at the fitted weights.
    dual_gap_ : float
        The objective is at most this much above the optimum.
    dual_loss_ : float
        Linear term of the dual objective, which is ``dual_loss_ - alpha/2 |w|^2``.
    history_ : dict of ndarray
        Columns ``pass``, ``oracle_calls``, ``seconds``, ``primal``, ``dual``, ``gap``,
        a row for each computation of the gap.
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

    Among labelings of equal score `predict` returns the one whose last label comes
    first in `classes_`, then the last but one, and so on.

    References
    ----------
    .. [1] B. Taskar, C. Guestrin and D. Koller, "Max-margin Markov networks",
       NIPS 2003.
    .. [2] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016.

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
        "loss": [StrOptions({"hinge", "log"})],
        "solver": [str, object],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "boundary": ["boolean"],
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
        solver="auto",
        max_iter=1000,
        tol=3e-3,
        fit_intercept=True,
        boundary=True,
        class_weight=None,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.loss = loss
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.boundary = boundary
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

    def __setstate__(self, state):
        super().__setstate__(state)
        # Arrays travel without the padding that prediction reads: put it back once.
        if "coef_" in state:
            n_classes = len(self.coef_)
            rows = _padded_rows(self.coef_, padded_length(n_classes))
            self.coef_ = rows[:, :n_classes].T

    # ---- training ----

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on labeled sequences.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features; see the Notes of the class.
        y : list of array-like of shape (n_positions,)
            Labels: integers, strings or any hashable values.
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
        solver = self._check_parameters()
        packed = check_sequences(X)
        flat = check_labels(y, packed.lengths)
        weight = check_sequence_weight(sample_weight, len(packed))
        encoder = LabelEncoder.from_labels(flat)
        n_classes = len(encoder.classes_)
        if n_classes < 2:
            raise ValueError(
                f"y has a single class, {encoder.classes_.tolist()[0]!r}: "
                "training needs at least 2"
            )
        labels = encoder.encode(flat)
        costs = self._label_costs(encoder.classes_, labels, packed.lengths, weight)
        names, total = packed.feature_names, float(len(packed))
        if weight is not None:
            packed, labels, weight, total = _without_zeros(packed, labels, weight)
        model = ChainModel(
            packed.compact(),
            n_classes,
            labels,
            weight,
            costs,
            fit_intercept=self.fit_intercept,
            boundary=self.boundary,
        )
        state = self._warm_state(model, encoder.classes_, solver)

        def attributes(weights):
            return {
                "classes_": encoder.classes_,
                "n_features_in_": packed.n_features,
                **_weight_attributes(model, weights),
            }

        callbacks = PassCallbacks(
            self, getattr(solver, "max_iter", None), attributes, X, y
        )
        result = solver.solve(
            model,
            self.alpha,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
            verbose=self.verbose,
            callback=callbacks,
            dual_state=state,
        )
        self._set_feature_names(names)
        for name, value in attributes(result.weights).items():
            setattr(self, name, value)
        self.n_iter_ = result.n_iter
        self.objective_ = result.objective
        self.dual_gap_ = result.dual_gap
        self.dual_loss_ = result.dual_loss
        self.history_ = result.history
        self.solver_ = solver
        self.n_seen_ = total
        self.__dict__.pop("_warm", None)
        # What partial_fit needs to go on: the attributes are the iterate.
        self._stream = {"visits": len(packed), "alpha": self.alpha}
        if self.warm_start:
            self._warm = {"classes": encoder.classes_, "state": result.dual_state}
        callbacks.close()
        if result.status == "interrupted":
            raise KeyboardInterrupt(
                f"training was interrupted after {result.n_iter} passes; the tagger "
                "can be used"
            )
        if result.status == "max_iter":
            warnings.warn(
                f"training did not converge in {result.n_iter} passes: the duality gap "
                f"is {result.dual_gap:.3g}, the tolerance {result.target:.3g}. "
                "Increase max_iter, tol or alpha.",
                ConvergenceWarning,
                stacklevel=3,  # past the decorator
            )
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train on a mini-batch of a stream of sequences.

        Every sequence is visited once by the solver's block step on the objective of
        all sequences seen so far; the dual variables of earlier ones are not changed
        any more, and are not stored. Where the solver averages, the fitted attributes
        hold the average of the iterates. May follow `fit`.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        y : list of array-like of shape (n_positions,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels of the stream. Required on the first call.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence.

        Returns
        -------
        self : ChainCRF
            The tagger.
        """
        solver = self._check_parameters()
        if not hasattr(solver, "solve_stream"):
            raise ValueError(f"solver {solver!r} cannot train on mini-batches")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict"
            )
        fresh = not hasattr(self, "classes_")
        packed = check_sequences(X, n_features=None if fresh else self.n_features_in_)
        flat = check_labels(y, packed.lengths)
        weight = check_sequence_weight(sample_weight, len(packed))
        if fresh:
            if classes is None:
                raise ValueError("classes must be given on the first partial_fit")
            if not hasattr(classes, "__len__"):
                raise TypeError(f"classes must be a list of labels, got {classes!r}")
            encoder = LabelEncoder.from_labels(
                check_labels([list(classes)], [len(classes)], name="classes")
            )
            if len(encoder.classes_) < 2:
                raise ValueError("classes must name at least 2 labels")
        else:
            encoder = LabelEncoder(self.classes_)
            if classes is not None and set(classes) != set(self.classes_.tolist()):
                raise ValueError("classes differ from those of the first call")
        labels = encoder.encode(flat, default=-1)
        if (labels < 0).any():
            k = int(np.flatnonzero(labels < 0)[0])
            i = int(np.searchsorted(packed.offsets, k, "right")) - 1
            raise ValueError(f"y[{i}] has the label {flat[k]!r}, which classes lacks")
        costs = self._label_costs(encoder.classes_)
        names, total = packed.feature_names, float(len(packed))
        share = np.ones(len(packed))
        if weight is not None:
            packed, labels, share, total = _without_zeros(packed, labels, weight)
            share = share * total
        if not fresh:
            self._check_feature_names(packed)
        seen = 0.0 if fresh else self.n_seen_
        model = ChainModel(
            packed.compact(),
            len(encoder.classes_),
            labels,
            share / (seen + total),
            costs,
            fit_intercept=self.fit_intercept,
            boundary=self.boundary,
        )
        averaged = aligned_zeros(model.n_weights)
        if not fresh:
            blocks = model.blocks(averaged)
            for name, value in self._blocks().items():
                blocks[name][...] = value
        # The iterate goes on from where it was, the attributes hold the average.
        stream = {"iterate": averaged, "visits": seen, "alpha": self.alpha}
        stream.update(getattr(self, "_stream", {}))
        # The mean over more sequences gives each of the earlier ones less weight, and
        # the weights of given dual variables go by 1 / alpha.
        rescale = stream["alpha"] / self.alpha
        iterate = stream["iterate"] * (rescale * seen / (seen + total))
        averaged *= rescale
        iterate, weights = solver.solve_stream(
            model,
            self.alpha,
            iterate,
            averaged,
            stream["visits"],
            random_state=self.random_state,
        )
        self._stream = {
            "iterate": iterate,
            "visits": stream["visits"] + len(packed),
            "alpha": self.alpha,
        }
        if fresh:
            self._set_feature_names(names)
            self.classes_ = encoder.classes_
            self.n_features_in_ = packed.n_features
        for name, value in _weight_attributes(model, weights).items():
            setattr(self, name, value)
        self.n_seen_ = seen + total
        self.solver_ = solver
        # The certificate of an earlier fit is not one of these weights.
        for name in ("n_iter_", "objective_", "dual_gap_", "dual_loss_", "history_"):
            self.__dict__.pop(name, None)
        self.__dict__.pop("_warm", None)
        return self

    def _check_parameters(self):
        validate_params(self)
        if not np.isfinite(self.alpha):
            raise ValueError(f"alpha must be finite, got {self.alpha!r}")
        if self.loss == "log":
            raise ValueError(
                "loss='log' (a conditional random field) is not available in this "
                "version of sksstruct; use loss='hinge'"
            )
        solver = resolve_solver(self.solver, max_iter=self.max_iter, tol=self.tol)
        solver.check()
        check_random_state(self.random_state)
        return solver

    def _label_costs(self, classes, labels=None, lengths=None, weight=None):
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, dict):
            names = classes.tolist()
            values = [self.class_weight.get(name, 1.0) for name in names]
            if not all(isinstance(value, Real) for value in values):
                raise ValueError("class_weight must map labels to numbers")
            costs = np.array(values)
        else:
            if weight is None:
                weight = np.ones(len(lengths))
            counts = np.bincount(
                labels, weights=np.repeat(weight, lengths), minlength=len(classes)
            )
            # As in scikit-learn; labels of weight zero cost nothing.
            costs = np.divide(
                counts.sum() / len(classes),
                counts,
                out=np.zeros(len(classes)),
                where=counts > 0,
            )
        costs = costs.astype(np.float64)
        if not np.isfinite(costs).all() or (costs < 0).any() or not costs.any():
            raise ValueError("class_weight must be finite, not negative and not all 0")
        return costs

    def _warm_state(self, model, classes, solver):
        """Dual variables of the last fit, where asked for and where they fit."""
        warm = getattr(self, "_warm", None)
        if not self.warm_start or warm is None:
            return None
        if not np.array_equal(warm["classes"], classes) or not solver.accepts(
            warm["state"], model
        ):
            warnings.warn(
                "warm_start: the last fit was on sequences of other lengths or labels, "
                "or by another kind of solver; starting afresh",
                UserWarning,
                stacklevel=4,
            )
            return None
        return warm["state"]

    def _set_feature_names(self, names):
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names

    def _check_feature_names(self, packed):
        if packed.feature_names is not None and hasattr(self, "feature_names_in_"):
            if not np.array_equal(packed.feature_names, self.feature_names_in_):
                raise ValueError("X has other feature names than those seen in fit")

    # ---- prediction ----

    def predict(self, X):
        """Best labeling of each sequence.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.

        Returns
        -------
        y : list of ndarray of shape (n_positions,)
            Labels.
        """
        codes, _, offsets = self._decode(X)
        flat = self.classes_[codes]
        bounds = offsets.tolist()
        return [flat[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

    def decision_function(self, X):
        """Score of the best labeling of each sequence.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Scores.
        """
        return self._decode(X)[1]

    def score(self, X, y, sample_weight=None):
        """Token accuracy: share of the positions labeled correctly.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        y : list of array-like of shape (n_positions,)
            True labels. Labels never seen in training count as errors.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence's positions.

        Returns
        -------
        score : float
            Accuracy.
        """
        codes, _, offsets = self._decode(X)
        lengths = np.diff(offsets)
        flat = check_labels(y, lengths)
        weight = check_sequence_weight(sample_weight, len(lengths))
        truth = LabelEncoder(self.classes_).encode(flat, default=-1)
        if weight is not None:
            weight = np.repeat(weight, lengths)
        return float(np.average(codes == truth, weights=weight))

    def _decode(self, X):
        """Flat codes of the labels, scores, and offsets of the sequences."""
        check_is_fitted(self, "coef_")
        packed = check_sequences(X, n_features=self.n_features_in_)
        self._check_feature_names(packed)
        n_classes = len(self.classes_)
        model = ChainModel(packed, n_classes)
        ld = padded_length(n_classes)
        tail = aligned_zeros((3 + n_classes) * ld).reshape(-1, ld)
        tail[:, :n_classes] = np.vstack(
            [self.intercept_, self.start_, self.end_, self.transitions_]
        )
        model.use_weights(_padded_rows(self.coef_, ld), tail)
        codes = np.empty(packed.offsets[-1], dtype=np.int32)
        scores = np.empty(len(packed))
        run_in_chunks(
            lambda a, b: model.predict(
                model.workspace(training=False), a, b, codes, scores
            ),
            len(packed),
            self.n_jobs,
        )
        return codes, scores, packed.offsets

    # ---- inspection ----

    def _blocks(self):
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "start": self.start_,
            "end": self.end_,
            "transitions": self.transitions_,
        }

    @property
    def transition_features_(self):
        """dict: weight of each pair of labels (from, to)."""
        check_is_fitted(self, "transitions_")
        names = self.classes_.tolist()
        return {
            (a, b): float(self.transitions_[i, j])
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        }

    @property
    def state_features_(self):
        """dict: weight of each (feature, label) with a weight that is not zero.

        Features go by ``feature_names_in_``, or by ``x0``, ``x1``, ...
        """
        check_is_fitted(self, "coef_")
        features = getattr(self, "feature_names_in_", None)
        if features is None:
            features = [f"x{j}" for j in range(self.n_features_in_)]
        names = self.classes_.tolist()
        rows, columns = np.nonzero(self.coef_)
        values = self.coef_[rows, columns]
        return {
            (features[j], names[k]): float(value)
            for k, j, value in zip(rows, columns, values, strict=True)
        }


def _without_zeros(packed, labels, weight):
    """Drop sequences of weight zero; normalise the rest. Also the total weight."""
    keep = np.flatnonzero(weight)
    if len(keep) < len(weight):
        lengths = packed.lengths
        rows = np.repeat(weight > 0, lengths)
        values = packed.values[rows]
        if sparse.issparse(values):
            values = sparse.csr_array(values)
        labels = labels[rows]
        packed = PackedSequences.from_lengths(values, lengths[keep])
    total = float(weight.sum())
    return packed, labels, weight[keep] / total, total


def _weight_attributes(model, weights):
    blocks = model.blocks(weights)
    # coef_ stays a view of the padded rows, which prediction reads as they are.
    return {
        "coef_": blocks["coef"],
        "intercept_": blocks["intercept"].copy(),
        "transitions_": blocks["transitions"].copy(),
        "start_": blocks["start"].copy(),
        "end_": blocks["end"].copy(),
    }


def _padded_rows(coef, ld):
    """coef_ as rows of ld, one for each feature; a view where it was made as one."""
    n_classes, n_features = coef.shape
    rows, base = coef.T, coef.base
    if (
        isinstance(base, np.ndarray)
        and base.dtype == np.float64
        and base.ndim == 1
        and base.flags.c_contiguous
        and rows.strides == (8 * ld, 8)
    ):
        first = (rows.ctypes.data - base.ctypes.data) // 8
        if first + n_features * ld <= base.size:
            return base[first : first + n_features * ld].reshape(n_features, ld)
    out = aligned_zeros(n_features * ld).reshape(n_features, ld)
    out[:, :n_classes] = rows
    return out
