"""Probabilities for taggers trained by a hinge, by temperature scaling."""

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _num_samples, check_is_fitted

from sksstruct.estimators._fitted import Calibrated
from sksstruct.estimators._tagger_methods import TaggerInside
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.estimators.tagger import Tagger
from sksstruct.models.chain.constraints import forbidden_others
from sksstruct.utils._param_validation import Threads, validate_params
from sksstruct.utils.state import Versioned, required
from sksstruct.utils.typing import Items, Labelings
from sksstruct.utils.validation import check_sequence_weight

# Range of the search for the temperature. The margin of the hinge makes differences of
# scores about 1.
_RANGE = 1e-4, 1e4
# Attributes of a chain that `_with_temperature` changes.
_OF_CALIBRATION = "_temperature", "_fitted_names"


@dataclass(eq=False, repr=False)
class CalibratedTagger(
    Calibrated, TaggerInside, MetaEstimatorMixin, Versioned, BaseEstimator
):
    """Tagger with calibrated probabilities: scores are divided by a temperature.

    The scores of the hinge losses rank labelings. Differences of these scores are far
    too small to be differences of log-probabilities: all labelings would have nearly
    the same probability. With probabilities proportional to ``exp(score / T)``, the
    temperature T maximizes the likelihood of the observed labelings of held-out
    sequences [1]_. A single number hardly overfits. The temperature changes no
    prediction, except those of a `ChainCRF` with ``risk="hamming"``.

    Parameters
    ----------
    estimator : ChainCRF, Tagger or Pipeline, default=None
        The tagger. It may also be a search such as `sklearn.model_selection.
        GridSearchCV`, or a fitted tagger in a `sklearn.frozen.FrozenEstimator`. A
        frozen tagger is not trained again, and must not have been trained on the data
        given to `fit`. None: a `ChainCRF` with its defaults.
    cv : int, cross-validation generator or iterable, default=None
        Folds, each of which is held out once, as in `sklearn.calibration.
        CalibratedClassifierCV` with ``ensemble=False``. None: 5 folds. A frozen
        tagger needs no folds.
    n_jobs : int, default=None
        Number of folds that are trained at the same time, in threads. None: one.

    Attributes
    ----------
    estimator_ : ChainCRF or Tagger
        The tagger, trained on all data, with the temperature.
    temperature_ : float
        The temperature T.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Number of features of the chain.

    See Also
    --------
    ChainCRF : Has probabilities without calibration if trained with ``loss="log"``.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun and K. Weinberger, "On calibration of modern neural
       networks", ICML 2017, Section 4.2. Here the likelihood is that of whole
       labelings.

    Examples
    --------
    >>> from sksstruct import CalibratedTagger, make_tagger
    >>> X = [[{"w": "Ada"}, {"w": "ran"}], [{"w": "he"}, {"w": "ran"}]] * 5
    >>> y = [["B-PER", "O"], ["O", "O"]] * 4 + [["O", "O"], ["O", "O"]]
    >>> tagger = CalibratedTagger(make_tagger(random_state=0)).fit(X, y)
    >>> [(start, stop, label, p)] = tagger.predict_entities([[{"w": "Ada"}]])[0]
    >>> start, stop, label, bool(0.5 < p < 1)
    (0, 1, 'PER', True)
    """

    estimator: BaseEstimator | None = None
    cv: Annotated[object, "cv_object"] = None
    n_jobs: Threads | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    def fit(
        self, X: Items, y: Labelings, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train the tagger, and find the temperature.

        Parameters
        ----------
        X : list of sequences
            Input of the tagger.
        y : list of array-like of shape (n_positions,)
            Labels, with None or sets as for `ChainCRF`.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence, in training and for the temperature.

        Returns
        -------
        self : CalibratedTagger
            The fitted tagger.

        Raises
        ------
        TypeError
            If the estimator is not a tagger.
        ValueError
            If in every fold, each held-out sequence has a label that the training data
            lack.

        Warns
        -----
        UserWarning
            If held-out labelings are predicted nearly without error: the likelihood
            then favors a temperature near 0, with probabilities near 1. The temperature
            is chosen so that the mean log-probability of the n held-out labelings is
            ``-1 / n``, because n labelings without an error support a probability of
            about ``n / (n + 1)`` at most.
        """
        validate_params(self)
        X, y = indexable(X, y)
        weight = check_sequence_weight(sample_weight, _num_samples(X))
        estimator = ChainCRF() if self.estimator is None else self.estimator
        if isinstance(estimator, FrozenEstimator):
            tagger = _copied(estimator.estimator)
            held_out = [_held_out(tagger, X, y, weight)]
        else:
            folds = check_cv(self.cv, y, classifier=False).split(X, y)
            # threads, as kernels release the GIL
            held_out = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
                delayed(_fold)(estimator, X, y, weight, *fold) for fold in folds
            )
            tagger = _fit(estimator, X, y, weight)
        temperature = _temperature(held_out)
        self.temperature_ = temperature
        self.estimator_ = _with_temperature(tagger, temperature)
        return self

    def _state(self):
        state = super()._state()
        if not self._shares_weights():
            return state
        # `_restore` builds the fitted tagger from the frozen one and the temperature
        return {name: value for name, value in state.items() if name != "estimator_"}

    def _restore(self, state):
        super()._restore(state)
        if "temperature_" in state and "estimator_" not in state:
            (frozen,) = required(state, ["estimator"], type(self).__name__)
            if not isinstance(frozen, FrozenEstimator):
                raise ValueError(
                    "the state of a CalibratedTagger must have estimator_, or a "
                    f"FrozenEstimator as estimator, got {frozen!r:.80}"
                )
            tagger = _copied(frozen.estimator)
            self.estimator_ = _with_temperature(tagger, self.temperature_)

    def _shares_weights(self):
        """Whether the fitted tagger equals the frozen one, except for the temperature.

        Methods such as `Tagger.prune` change only one of the two.
        """
        fitted = vars(self).get("estimator_")
        if fitted is None or not isinstance(self.estimator, FrozenEstimator):
            return False
        fitted, frozen = map(_named_steps, (fitted, _copied(self.estimator.estimator)))
        return fitted.keys() == frozen.keys() and all(
            map(_is_twin, fitted.values(), frozen.values())
        )

    @property
    def classes_(self) -> np.ndarray:
        """ndarray of shape (n_classes,): the labels."""
        if "estimator_" not in vars(self):
            raise AttributeError("classes_: this CalibratedTagger is not fitted")
        return _last(self.estimator_).classes_

    @property
    def n_features_in_(self) -> int:
        """int: number of features of the chain."""
        if "estimator_" not in vars(self):
            raise AttributeError("n_features_in_: this CalibratedTagger is not fitted")
        return _last(self.estimator_).n_features_in_

    def _answering(self):
        # before a fit, all methods exist and raise NotFittedError
        return self.estimator_ if "estimator_" in vars(self) else ChainCRF(loss="log")

    def _answer(self, name, X, *args, **params):
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, name)(X, *args, **params)

    def predict(self, X: Items, **params: Any) -> np.ndarray:
        """Labels of each sequence, as the tagger predicts them.

        Parameters
        ----------
        X : list of sequences
            Input of the tagger.
        **params : dict
            Constraints, as for `ChainCRF.predict`.

        Returns
        -------
        y : ndarray of shape (n_sequences,), of ndarrays of shape (n_positions,)
            Labels.
        """
        return self._answer("predict", X, **params)

    def decision_function(self, X: Items) -> np.ndarray:
        """Score of the best labeling of each sequence, not divided by the temperature.

        Parameters
        ----------
        X : list of sequences
            Input of the tagger.

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Scores.
        """
        return self._answer("decision_function", X)

    def score(
        self, X: Items, y: Labelings, sample_weight: ArrayLike | None = None
    ) -> float:
        """Token accuracy: share of the positions labeled correctly.

        Parameters
        ----------
        X : list of sequences
            Input of the tagger.
        y : list of array-like of shape (n_positions,)
            True labels. Positions with None are left out; at a position with a set, any
            label of the set is right.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of the positions of each sequence.

        Returns
        -------
        score : float
            Accuracy, from 0 to 1.
        """
        return self._answer("score", X, y, sample_weight=sample_weight)


def _named_steps(tagger):
    """Steps of a pipeline by name, or the tagger as the only one."""
    steps = tagger.steps if isinstance(tagger, Pipeline) else [("chaincrf", tagger)]
    return dict(steps)


def _copied(fitted):
    """A new `Tagger` or `ChainCRF` that shares the weights and the vocabulary."""
    fitted = getattr(fitted, "best_estimator_", fitted)
    steps = _named_steps(fitted)
    last = list(steps.values())[-1]
    if not isinstance(last, ChainCRF):
        raise TypeError(
            "estimator must be a ChainCRF, or a pipeline whose last step is one, got "
            f"{fitted!r:.80}"
        )
    check_is_fitted(last, "coef_")
    if len(steps) == 1:
        return _twin(last)
    return Tagger([(name, _twin(step)) for name, step in steps.items()])


def _twin(step):
    """A shallow copy of a step: its attributes are the same objects."""
    if not hasattr(step, "__dict__"):  # "passthrough"
        return step
    twin = type(step).__new__(type(step))
    vars(twin).update(vars(step))
    return twin


def _is_twin(step, other):
    """Whether two steps have the same attributes, except for the temperature."""
    if not hasattr(step, "__dict__"):
        return step is other
    own, others = (
        {name: x for name, x in vars(each).items() if name not in _OF_CALIBRATION}
        for each in (step, other)
    )
    same = type(step) is type(other) and own.keys() == others.keys()
    return same and all(own[name] is others[name] for name in own)


def _with_temperature(tagger, temperature):
    """Set the temperature by which the chain of a tagger divides scores."""
    chain = _last(tagger)
    chain._temperature = temperature
    # a later fit of the chain deletes the temperature
    chain._fitted_names += ("_temperature",)
    return tagger


def _last(tagger):
    return tagger[-1] if isinstance(tagger, Pipeline) else tagger


def _fit(estimator, X, y, weight):
    """Fit a clone of the estimator, and return its tagger."""
    inner = getattr(estimator, "estimator", estimator)
    name = "sample_weight"
    if isinstance(inner, Pipeline):
        name = f"{inner.steps[-1][0]}__{name}"
    params = {} if weight is None else {name: weight}
    return _copied(clone(estimator).fit(X, y, **params))


def _fold(estimator, X, y, weight, train, test):
    parts = [
        [
            None if each is None else _safe_indexing(each, rows)
            for each in (X, y, weight)
        ]
        for rows in (train, test)
    ]
    return _held_out(_fit(estimator, *parts[0]), *parts[1])


def _held_out(tagger, X, y, weight):
    """The chain of a fitted tagger, and its input, labels and weights to score."""
    if isinstance(tagger, Tagger):
        X = tagger._transformed(X)
    return _last(tagger), X, y, weight


def _log_proba(chain, X, y):
    """A function that maps the temperature to the log-probabilities of `y`."""
    bound = chain._fitted(X, dense=True)
    others = forbidden_others(y, bound.classes, bound.packed.lengths)

    def log_proba(temperature):
        bound.temperature = temperature
        return bound.log_proba(others)

    return log_proba


def _temperature(held_out):
    """The temperature that maximizes the likelihood of held-out labelings."""
    functions = [_log_proba(*each[:3]) for each in held_out]
    # a labeling with a label that the training data of its fold lack has probability 0
    # at any temperature
    weights = [np.isfinite(log_proba(1.0)).astype(float) for log_proba in functions]
    for each, (*_, given) in zip(weights, held_out, strict=True):
        each *= 1.0 if given is None else given
    n_possible = sum(map(np.count_nonzero, weights))
    if not n_possible:
        raise ValueError(
            "each held-out sequence of y has a label that the training data of its "
            "fold lack: use more data, or another cv"
        )
    total_weight = sum(map(np.sum, weights))

    def loss(log_temperature):
        temperature, total = np.exp(log_temperature), 0.0
        for log_proba, weight in zip(functions, weights, strict=True):
            positive = weight > 0
            total -= weight[positive] @ log_proba(temperature)[positive]
        return total / total_weight

    # the loss is convex in 1 / T, and so has one minimum in log T, too
    bounds = np.log(_RANGE)
    minimum = minimize_scalar(
        loss, bounds=bounds, method="bounded", options={"xatol": 1e-4}
    )
    best, least = minimum.x, 1.0 / n_possible
    if minimum.fun < least:
        warnings.warn(
            f"the {n_possible} held-out labelings are predicted nearly without error, "
            "which leaves the temperature undetermined: it is chosen for a mean "
            "log-probability of -1 / n; use more data",
            UserWarning,
            stacklevel=3,
        )
        # if few labelings are possible, even the largest temperature may leave the loss
        # below `least`
        best = bounds[1]
        if loss(best) > least:
            best = brentq(lambda x: loss(x) - least, minimum.x, best)
    return float(np.exp(best))
