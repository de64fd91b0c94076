"""Tagging of segments with a semi-Markov chain: parameters, `fit`, predictions."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sksstruct.estimators._fitted import TrainedSegments
from sksstruct.estimators._losses import has_probabilities
from sksstruct.estimators._model_prediction import ModelPrediction
from sksstruct.estimators._parameters import TEXTS, AnyLoss, AnySolver
from sksstruct.estimators._segment_stream import train_on_batch
from sksstruct.estimators._train import train
from sksstruct.models import SegmentModel
from sksstruct.models.segments.forms import labels_of_positions
from sksstruct.solvers import SOLVERS
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc, listing, section
from sksstruct.utils._layout import in_form_of, object_array
from sksstruct.utils._offsets import TokenOffsets
from sksstruct.utils._param_validation import (
    Count,
    NonNegative,
    Positive,
    Seed,
    Threads,
    Verbosity,
)
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.entries import taken
from sksstruct.utils.observed import share_of_right
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Examples, Items

# Parameters of `SegmentCRF` that are also parameters of `SegmentModel`.
_OF_THE_MODEL = (
    "max_length",
    "min_length",
    "length_features",
    "boundary_lengths",
    "roles",
    "loss_unit",
    "class_weight",
    "loss_normalization",
    "fit_intercept",
)
_INPUTS = """
X : list of {array-like, CSR matrix} of shape (n_positions, n_features), or of tuple
    Features, or tuples ``(features, spans, span_features)`` with candidate spans.
"""


@fill_doc(
    {
        **TEXTS,
        "sequences": _INPUTS,
        "model_parameters": section(SegmentModel, "Parameters"),
        "hinge_solvers": listing(
            SOLVERS.names("max", "topk", "exp", losses=("hinge",))
        ),
        "smooth_solvers": listing(SOLVERS.names("exp", "topk", losses=("smooth",))),
    }
)
@dataclass(eq=False, repr=False)
class SegmentCRF(
    ModelPrediction, TrainedSegments, CallbackSupportMixin, Versioned, BaseEstimator
):
    """Tagger of segments: a semi-Markov model with discriminative training.

    A labeling is a list of adjacent segments (start, stop, label) that cover the
    sequence. Its score is the sum of the weights of the features of the positions, of
    the length of each segment with its label, of consecutive labels, of the first and
    the last label, and of the features of candidate spans that are segments [1]_.
    `ChainCRF` has neither weights of lengths nor features of whole segments.

    Training minimizes ``alpha/2 |w|^2`` plus the mean loss of the sequences, as for
    `ChainCRF`. All weights are regularized.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, as for `ChainCRF`. "auto" is ``0.002 * m`` for the
        hinge losses and ``0.0015 * m / n`` for the likelihood. m is the sum of the
        variances of the features over all positions, and n the number of sequences.
    loss : {"hinge", "log", "smoothed_hinge"} or Surrogate, default="hinge"
        Training loss. "hinge": the structured hinge. "log": the negative conditional
        log-likelihood, which gives probabilities. "smoothed_hinge":
        `sksstruct.losses.SmoothedHinge` with its defaults. The `cost` of an object,
        ``Hinge(cost="segments")`` or "hamming", overrides `loss_unit`.
    %(model_parameters)s
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults. For the hinge
        %(hinge_solvers)s;
        "auto" is "bcfw", and "continuation" for few long sequences. For the other
        losses
        %(smooth_solvers)s;
        "auto" is "sdca" if its passes are expected to take less time, as with text,
        and otherwise "lbfgs".
    max_iter : int, default=1000
        Maximum number of passes over the data, or of iterations. Used only if `solver`
        is a name.
    tol : float or None, default=None
        Tolerance of the duality gap, used only if `solver` is a name. With the hinge,
        training stops at a gap of ``tol`` times the objective at w = 0; None is 3e-3,
        or a tenth of the share of the positions in segments if this is less. With other
        losses, training stops at a gap of ``tol`` times the current objective; None is
        1e-2.
    %(max_seconds)s
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit, as `SSVMClassifier` does.
    n_jobs : int, default=None
        Number of threads for computing the duality gap, and for prediction. The result
        does not depend on the number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the sequences.
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels of segments, without the outside ("O").
    coef_ : ndarray of shape (n_roles, n_labels, n_features)
        Weights of features, for the four roles of a position in its segment (first,
        inside, last, alone), or for a single role. If there is an outside, it is the
        first of the n_labels labels, here and below.
    intercept_ : ndarray of shape (n_roles, n_labels)
        Biases.
    length_coef_ : ndarray of shape (n_length_features, n_labels)
        Weights of lengths of segments. Without a limit of lengths, the last row is
        added for each further position.
    boundary_length_coef_ : ndarray of shape (n_length_features, n_labels)
        Weights of lengths of the first and the last segment, if
        ``boundary_lengths="own"``.
    transitions_ : ndarray of shape (n_labels, n_labels)
        Weights of consecutive labels, from -> to.
    start_, end_ : ndarray of shape (n_labels,)
        Weights of the first and the last label.
    span_coef_ : ndarray of shape (n_labels, n_span_features)
        Weights of the features of candidate spans, if there are any.
    model_ : SegmentModel
        The fitted model, with the lengths of segments and the form of y.
    weights_ : ndarray of shape (n_weights,)
        All weights in the order of the model.
    n_features_in_ : int
        Number of features.
    alpha_ : float
        The regularization that was used.
    n_iter_ : int
        Number of passes over the data, or of iterations.
    objective_ : float
        Primal objective at the weights.
    dual_gap_ : float
        Duality gap: an upper bound on the difference between the objective and its
        minimum. ``inf`` if there is no bound.
    %(history_)s
    topk_exact_ : float
        With an l2-smoothed hinge, fraction of the sequences for which the k best
        labelings were enough.
    %(solver_)s

    See Also
    --------
    ChainCRF : Labels positions, faster.
    sksstruct.models.SegmentModel : The same model for `SSVMClassifier`.

    Notes
    -----
    X is as for `ChainCRF`. An entry of a list may also be a tuple ``(features, spans,
    span_features)`` with candidate spans (start, stop) of shape (n_spans, 2) and their
    features, of shape (n_spans, n_span_features). A segment that is not a candidate has
    no span features.

    y has tags, segments or labels for each sequence, as outputs of
    `sksstruct.models.SegmentModel`; `predict` returns the same form. Training ignores
    sequences without positions.

    Tags and labels may be missing: None stands for any tag or label, and a set for one
    of its elements. Every sequence needs a tag, or a set, at one position at least. The
    likelihood is that of all labelings that agree with y. With the hinge losses,
    training alternates between completing the labelings by decoding and training on
    them, starting from the weights of the likelihood. Neither objective is convex, and
    `dual_gap_` is infinite. Lists of segments have no missing labels.

    ``loss="log"`` has no cost of errors: `loss_unit` and `loss_normalization` have no
    effect, and `class_weight` is an error.

    If `max_length` is a number, a run of equal labels may be divided into segments in
    several ways: different labelings then have the same labels of positions, and
    `predict_topk` returns each labeling.

    References
    ----------
    .. [1] S. Sarawagi and W. Cohen, "Semi-Markov conditional random fields for
       information extraction", NIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SegmentCRF
    >>> X = [np.array([[0.0], [1.0], [0.9], [0.0]]), np.array([[0.0], [0.0], [0.8]])]
    >>> y = [["O", "B-high", "I-high", "O"], ["O", "O", "B-high"]]
    >>> segmenter = SegmentCRF(loss="log", alpha=0.01, random_state=0).fit(X, y)
    >>> test = [np.array([[0.9], [1.0], [0.0]])]
    >>> segmenter.predict(test)[0].tolist()
    ['B-high', 'I-high', 'O']
    >>> [(start, stop, label, p)] = segmenter.predict_segments(test)[0]
    >>> start, stop, label, bool(p > 0.5)
    (0, 2, 'high', True)
    """

    alpha: NonNegative | Literal["auto"] = "auto"
    _: KW_ONLY
    loss: AnyLoss = "hinge"
    max_length: Count | dict | Literal["auto"] | None = "auto"
    min_length: Count | dict = 1
    length_features: Count | Literal["auto"] = "auto"
    boundary_lengths: Literal["same", "own", "none"] = "same"
    roles: bool | Literal["auto"] = "auto"
    loss_unit: Literal["position", "segment"] = "position"
    class_weight: dict | Literal["balanced"] | None = None
    loss_normalization: Literal["mean", "example"] | None = "mean"
    fit_intercept: bool = True
    solver: AnySolver = "auto"
    max_iter: Count = 1000
    tol: NonNegative | None = None
    max_seconds: Positive | None = None
    warm_start: bool = False
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags

    @with_callbacks
    def fit(
        self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train on labeled sequences.

        Parameters
        ----------
        %(sequences)s
        y : list
            Tags, segments or labels of each sequence. Tags and labels may be None, or a
            set of candidates.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence in the mean loss.

        Returns
        -------
        self : SegmentCRF
            The fitted tagger.

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "tagger")

    def _model(self):
        model = SegmentModel(**taken(self, _OF_THE_MODEL))
        model._take_loss(self.loss)
        model.follows_scale = self.alpha == "auto"
        return model

    def partial_fit(
        self,
        X: Examples,
        y: Examples,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on a mini-batch of a stream of sequences.

        The solver visits every sequence once, as for `ChainCRF.partial_fit`. You can
        call `partial_fit` after `fit`. The first mini-batch, or `fit`, determines the
        form of y, and with ``alpha="auto"`` the scale of the features, for all later
        mini-batches. Segments longer than `max_length` are cut into pieces, with a
        warning. Missing labels are completed once: by the tagger so far, or in the
        first mini-batch by a short training with the likelihood on the mini-batch.

        Parameters
        ----------
        %(sequences)s
        y : list
            Tags, segments or labels of each sequence, with None or sets as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels of the stream, without the outside. Required on the first call,
            for which `max_length` must be a number or None.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence.

        Returns
        -------
        self : SegmentCRF
            The tagger.
        """
        return train_on_batch(self, X, y, classes, sample_weight)

    @property
    def n_features_in_(self) -> int:  # type: ignore[override]
        """int: number of features of a position."""
        if "model_" not in vars(self):
            raise AttributeError("n_features_in_: this SegmentCRF is not fitted")
        return self.model_.n_features_

    # ---- prediction ----

    def predict(self, X: Examples, *, known: Items | None = None) -> np.ndarray:
        """Best segments of each sequence.

        Parameters
        ----------
        %(sequences)s
        known : list, default=None
            The known part of each labeling, in the form of y: a list of segments, or a
            list with the tag or label of each position, and None at positions where it
            is not known; or None for the whole sequence.

        Returns
        -------
        y : ndarray of shape (n_sequences,), of object
            Tags, segments or labels, in the form of y in `fit`. If X is a 3-D array,
            tags and labels are an array of shape (n_sequences, n_positions).

        Raises
        ------
        ValueError
            If `known` has a label not seen in fit, or leaves no labeling; or if `known`
            has segments, or tags other than "O", and `roles` are not used.
        """
        inputs = self._checked(X)
        found = self.model_._predict(inputs, self.weights_, self.n_jobs, known=known)[0]
        if self.model_.form_ == "segments":
            return object_array(found)
        return in_form_of(X, found)

    def predict_segments(
        self,
        X: Examples,
        *,
        known: Items | None = None,
        offsets: Sequence[ArrayLike] | None = None,
    ) -> list[list[tuple[int, int, Any, float]]]:
        """Best segments of each sequence, with their probabilities.

        Parameters
        ----------
        %(sequences)s
        known : list, default=None
            As in `predict`. Probabilities are conditional on the known part.
        offsets : list of array-like of shape (n_positions, 2), default=None
            For each token, the index in the text of its first character, and of the
            character after its last one, as for `sksstruct.metrics.labels_to_spans`.
            With offsets, `start` and `stop` of segments are indices of characters, and
            segments without characters are left out.

        Returns
        -------
        segments : list of list of tuple
            Tuples (start, stop, label, probability) for each sequence. The probability
            is exact: the sum over all labelings that have this segment. It is
            meaningful with ``loss="log"``; the other losses do not train scores to be
            logarithms of probabilities.
        """
        X, texts = self._checked(X), None
        if offsets is not None:
            texts = TokenOffsets(offsets, X.packed.lengths.tolist(), "positions")
        found = self.model_.predict_segments(X, self.weights_, known)
        if texts is None:
            return found
        out: list[list] = [[] for _ in found]
        for i, segments in enumerate(found):
            for start, stop, *rest in segments:
                place = texts.characters(i, start, stop)
                if place is not None:
                    out[i].append((*place, *rest))
        return out

    @available_if(has_probabilities(flat=False, name="predict_proba"))
    def predict_proba(self, X: Examples) -> list[np.ndarray]:
        """Probability of each label at each position; only with ``loss="log"``.

        Parameters
        ----------
        %(sequences)s

        Returns
        -------
        probabilities : list of ndarray of shape (n_positions, n_labels)
            Marginal probabilities. The outside comes first, if there is one, and then
            the labels in the order of `classes_`.
        """
        X = self._checked(X)
        return self.model_._predict_marginals(X, self.weights_, self.n_jobs)

    def decision_function(self, X: Examples) -> np.ndarray:
        """Score of the best labeling of each sequence.

        Parameters
        ----------
        %(sequences)s

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Scores.
        """
        X = self._checked(X)
        return self.model_._predict(X, self.weights_, self.n_jobs)[1]

    def score(
        self, X: Examples, y: Examples, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the positions that are labeled correctly.

        Parameters
        ----------
        %(sequences)s
        y : list
            True tags, segments or labels. Labels never seen in training count as
            errors. Positions with None are left out; at a position with a set, any
            element of the set is right.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence's positions.

        Returns
        -------
        score : float
            Accuracy.
        """
        X = self._checked(X)
        found = self.model_._predict(X, self.weights_, self.n_jobs)[0]
        lengths, form = X.packed.lengths, self.model_.form_
        true, found = (
            labels_of_positions(each, form, lengths, partly)
            for each, partly in ((y, True), (found, False))
        )
        return share_of_right(true, found, lengths, sample_weight)
