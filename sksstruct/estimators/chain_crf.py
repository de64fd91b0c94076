"""Sequence tagging with a first-order chain."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Literal, Self

from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.callback import CallbackSupportMixin

from sksstruct.estimators._chain_prediction import ChainPrediction
from sksstruct.estimators._parameters import TEXTS, TRAINING
from sksstruct.estimators._stream import train_on_batch
from sksstruct.estimators._train import train
from sksstruct.estimators._weights_by_name import WeightsByName
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ScoreFunction
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain.chain import ChainModel
from sksstruct.solvers import SOLVERS
from sksstruct.solvers.core.base import Solver
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import Interval, StrOptions
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Labelings, Sequences, Transitions, with_callbacks

# Parameters that say what the model is; the others say how it is trained.
_OF_THE_MODEL = (
    "loss",
    "loss_normalization",
    "score_function",
    "transition_features",
    "fit_intercept",
    "boundary",
    "forbidden_transitions",
    "all_possible_states",
    "all_possible_transitions",
    "class_weight",
)


@fill_doc(
    {
        **TEXTS,
        "hinge_solvers": listing(SOLVERS.names(*BoundChain.oracles, losses=("hinge",))),
        "smooth_solvers": listing(SOLVERS.names("exp", "topk", losses=("smooth",))),
        "nonlinear_solvers": listing(SOLVERS.names("nonlinear")),
    }
)
@dataclass(eq=False, repr=False)
class ChainCRF(
    ChainPrediction, WeightsByName, CallbackSupportMixin, Versioned, BaseEstimator
):
    """Tagger for sequences: a linear-chain model with discriminative training.

    The score of labels y for a sequence with feature rows F is

        ``sum_t F_t . coef_[y_t] + intercept_[y_t]  +  start_[y_1] + end_[y_T]
        + sum_t transitions_[y_t, y_{t+1}]``

    plus, with `transition_features`, weights of features on pairs of labels, and
    training minimizes ``alpha/2 |w|^2`` plus the mean over the sequences of a loss:
    the structured hinge (a structured SVM, or maximum-margin Markov network [1]_) with
    the Hamming loss divided by the mean length of the sequences, or the negative
    logarithm of the conditional likelihood (a conditional random field [3]_). All
    weights are regularized.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization, as in `sklearn.linear_model.SGDClassifier`: the papers' lambda,
        1 / (n C). CRFsuite's c2 is ``alpha * n / 2``. "auto" is 0.02 for the hinge
        losses and ``0.06 / n`` for the likelihood, n being the number, or total weight,
        of the sequences; see the user guide. 0: none, for solvers along gradients; they
        stop when the gradient is small, and `dual_gap_` is ``inf``.
    l1_ratio : float, default=0.0
        Share of the sum of the absolute weights in the penalty, which is
        ``alpha * (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)``, less than 1. Many weights
        are zero then. Values near 1 converge slowly. Only for ``loss="log"`` and hinges
        smoothed by the entropy.
    loss : {"hinge", "log", "smoothed_hinge"} or SmoothedHinge, default="hinge"
        Training loss. "smoothed_hinge" is `sksstruct.losses.SmoothedHinge` with its
        defaults.
    loss_normalization : {"mean", "sequence"} or None, default="mean"
        What the number of wrong positions of a sequence, the Hamming loss, is divided
        by: the mean length of the training sequences, the own length of the sequence,
        or nothing. With "mean" a wrong position costs the same in all sequences, which
        suits sequences of very different length; "sequence" is what papers use. Has no
        effect with ``loss="log"``.
    score_function : ScoreFunction or None, default=None
        Nonlinear score of the labels in place of ``coef_`` and ``intercept_``, for
        instance `sksstruct.models.ELUScore`. Training is not convex then, and is done
        by `sksstruct.solvers.ProxLinear` or `sksstruct.solvers.SGD`.
    transition_features : str, array-like or None, default=None
        Features that also have weights on pairs of labels, so that transitions depend
        on the observations (the B templates of CRF++ and Wapiti): all whose name begins
        with a string, or the names, column indices or mask of some. A feature of
        position t, from the second on, has a weight for each pair of labels that it was
        seen with in training, that at t - 1 and that at t; its weight in ``coef_``
        stays. Not with `score_function`, and not with the solvers that decompose into
        factors, "gdmm" and "soft_bcfw".
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults. For the hinge
        %(hinge_solvers)s;
        "auto" is the configuration of `sksstruct.solvers.BCFW` that reaches a given
        duality gap soonest, also with thousands of labels. For the other losses
        %(smooth_solvers)s;
        "auto" is "sdca" for 500 sequences and 20,000 weights or more, and with an l1
        penalty. It is "lbfgs" for fewer, for an l2-smoothed hinge, and for a likelihood
        with labels that were not observed. With `score_function`
        %(nonlinear_solvers)s;
        "auto" is "prox_linear".
    max_iter : int, default=1000
        Largest number of passes over the data, or of iterations, where `solver` is a
        name.
    tol : float, default=3e-3
        Where `solver` is a name, training stops at a duality gap of ``tol`` times an
        objective: for the hinge the objective at w = 0, which is 1 without class
        weights; for the other losses the objective reached.
    max_seconds : float, default=None
        Training ends after the first pass that ends later than so many seconds after
        the first one began.
    early_stopping : bool, default=False
        Whether to set a part of the sequences aside and stop when their `score` has not
        risen for `n_iter_no_change` passes, as in `sklearn.linear_model.SGDClassifier`.
        The weights are those of the lowest objective until then. Needs every label.
    validation_fraction : float, default=0.1
        Share of the sequences that is set aside.
    n_iter_no_change : int, default=5
        Passes without a better score.
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
        Cost of a wrong position, by its true label; 1 for labels not in the dict.
        Labels that are not in y, as in some folds of a cross-validation, are ignored.
        Not for ``loss="log"``, which has no cost of an error.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit. With the hinge, `BCFW`
        and `CuttingPlane` start from its dual variables, which suit any training set
        with the same sequence lengths and labels, even with other features or another
        alpha; so does `GDMM`, from its own. `SDCA` starts from its dual variables too,
        which suit the same sequences with the same labels. The other solvers of losses
        with a gradient start from its weights. Where neither is possible fit starts
        afresh, with a warning; where labels are completed, without one.
    n_jobs : int, default=None
        Threads for computing the duality gap, for sweeps of losses with a gradient, and
        for prediction. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the sequences.
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features)
        Emission weights.
    intercept_ : ndarray of shape (n_classes,)
        Bias of each label; zeros without `fit_intercept`.
    transitions_ : ndarray or CSR array of shape (n_classes, n_classes)
        Weight of each pair of neighboring labels, from -> to. Sparse with the hinge
        and many labels, and with `sksstruct.solvers.GDMM`; see the user guide.
    transition_coef_ : CSR array of shape (n_features, n_classes ** 2)
        With `transition_features`, weights of features on pairs of labels, in column
        ``from * n_classes + to``. What is not stored was not seen in training, and has
        no weight.
    start_, end_ : ndarray of shape (n_classes,)
        Weights of labels at the first and last position; zeros without `boundary`.
    score_parameters_ : ndarray of shape (n_parameters,)
        Parameters of `score_function_`. ``coef_`` is the identity then.
    score_function_ : ScoreFunction
        The score function that was fitted, where there is one.
    %(features_seen)s
    alpha_ : float
        The regularization that was used.
    validation_scores_ : ndarray of shape (n_passes,)
        With `early_stopping`, the score of the sequences set aside after each pass.
    n_iter_ : int
        Passes over the data, or iterations, in all.
    objective_ : float
        Primal objective at the fitted weights; a lower estimate of it where
        `topk_exact_` is less than 1.
    dual_gap_ : float
        The objective is at most this much above the optimum; ``inf`` where that is not
        known, because labels were not observed or `topk_exact_` is less than 1.
    dual_loss_ : float
        Linear term of the dual objective, which is ``dual_loss_ - alpha/2 |w|^2`` with
        ``alpha_ * (1 - l1_ratio)`` for alpha; ``-inf`` where there is no dual.
    %(history_)s
        Where labels are completed, it is the history of the last round.
    forbidden_transitions_ : list of tuple
        Pairs of labels that must not follow each other.
    topk_exact_ : float
        With an l2-smoothed hinge, share of the sequences for which the k best
        labelings were enough (see `sksstruct.losses.SmoothedHinge`).
    %(solver_)s
    n_seen_ : float
        Number, or total weight, of the sequences trained on.

    See Also
    --------
    make_tagger : Tagger that takes dicts or strings.
    sksstruct.feature_extraction.SequenceVectorizer : Features from dicts and strings.
    sksstruct.solvers.BCFW : The solver and its options.

    Notes
    -----
    X is a list with one array of shape (n_positions, n_features), or one CSR matrix,
    for each sequence, a 3-D array of sequences of equal length, or a
    `sksstruct.utils.packed.PackedSequences`; y is a list with the labels of each
    sequence. Empty sequences do not count in training, and neither do their weights.

    A label that was not observed is given as None; every sequence needs at least one
    that was. With ``loss="log"`` the likelihood is that of the observed labels. With
    the hinge losses, decoding completes the labels and training follows, in turns until
    nothing changes [4]_: at most ten rounds, each of up to `max_iter` passes. The first
    weights come from the runs of observed labels. Unobserved positions have no loss.

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

    alpha: float | Literal["auto"] = "auto"
    _: KW_ONLY
    l1_ratio: float = 0.0
    loss: Literal["hinge", "log", "smoothed_hinge"] | SmoothedHinge = "hinge"
    loss_normalization: Literal["mean", "sequence"] | None = "mean"
    score_function: ScoreFunction | None = None
    transition_features: str | ArrayLike | None = None
    solver: str | Solver = "auto"
    max_iter: int = 1000
    tol: float = 3e-3
    max_seconds: float | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    fit_intercept: bool = True
    boundary: bool = True
    forbidden_transitions: Transitions | None = None
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    class_weight: dict | Literal["balanced"] | None = None
    warm_start: bool = False
    n_jobs: int | None = None
    random_state: int | RandomState | None = None
    verbose: int = 0

    _parameter_constraints = {
        **TRAINING,
        "alpha": [*TRAINING["alpha"], StrOptions({"auto"})],
        "l1_ratio": [Interval(Real, 0, 1, closed="left")],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "loss": [StrOptions({"hinge", "log", "smoothed_hinge"}), SmoothedHinge],
        "loss_normalization": [StrOptions({"mean", "sequence"}), None],
        "score_function": [ScoreFunction, None],
        "transition_features": [str, "array-like", None],
        "fit_intercept": ["boolean"],
        "boundary": ["boolean"],
        "forbidden_transitions": [object],
        "all_possible_states": ["boolean"],
        "all_possible_transitions": ["boolean"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # ---- training ----

    @with_callbacks
    def fit(
        self, X: Sequences, y: Labelings, sample_weight: ArrayLike | None = None
    ) -> Self:
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

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "tagger")

    def _model(self):
        model = ChainModel(**{name: getattr(self, name) for name in _OF_THE_MODEL})
        solver = SOLVERS.resolve(self.solver, max_iter=self.max_iter, tol=self.tol)
        # sparse transitions are for solvers that ask for nothing else
        if self.solver != "auto":
            asked = set(solver.required_oracles)
            model.tables_only = solver.in_parts or not asked & {"max", "factors"}
        return model

    def _further(self, problem, result):
        """Attributes that only taggers have, besides weights and certificate."""
        # what partial_fit needs to go on: the attributes are the iterate
        spec = problem.spec
        stream = {"visits": spec.n_sequences_, "alpha": problem.alpha}
        stream["mean_length"] = spec.mean_length_
        further = {
            "alpha_": problem.alpha,
            "dual_loss_": result.dual_loss,
            "_stream": stream,
        }
        surrogate = spec.surrogate_
        if surrogate is not None and surrogate.smoothing == "l2":
            further["topk_exact_"] = result.exact
        return further

    def partial_fit(
        self,
        X: Sequences,
        y: Labelings,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on a mini-batch of a stream of sequences.

        Every sequence is visited once by the solver's block step on the objective of
        all sequences seen so far; the dual variables of earlier ones are not changed
        any more, and are not stored. Where the solver averages, the fitted attributes
        hold the average of the iterates. May follow `fit`.

        Parameters
        ----------
        %(sequences)s
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
        return train_on_batch(self, X, y, classes, sample_weight)
