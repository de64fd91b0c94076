"""Sequence tagging with a linear chain: the parameters, `fit` and `partial_fit`."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Annotated, Literal, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from sksstruct.estimators._chain_probabilities import ChainProbabilities
from sksstruct.estimators._export import Exported
from sksstruct.estimators._json import held_by_json
from sksstruct.estimators._parameters import TEXTS, AnyLoss, AnySolver
from sksstruct.estimators._stream import train_on_batch
from sksstruct.estimators._train import named_solver, train
from sksstruct.estimators._weights_by_name import WeightsByName
from sksstruct.models import ScoreFunction
from sksstruct.models.chain._chain import ORACLES
from sksstruct.models.chain.chain import ChainModel
from sksstruct.solvers import SOLVERS
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import (
    Array,
    Count,
    Fraction,
    Interval,
    NonNegative,
    Positive,
    Seed,
    Threads,
    Verbosity,
)
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.entries import taken
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import (
    Labelings,
    Sequences,
    TrainedTransitions,
)

Share = Annotated[float, Interval(Real, 0, 1, closed="both")]
# Parameters of `ChainCRF` that are also parameters of `ChainModel`.
_OF_THE_MODEL = (
    "loss",
    "loss_normalization",
    "score_function",
    "transition_features",
    "order",
    "fit_intercept",
    "intercept_scaling",
    "boundary",
    "forbidden_transitions",
    "all_possible_states",
    "all_possible_transitions",
    "all_possible_triples",
    "class_weight",
)


@held_by_json
@fill_doc(
    {
        **TEXTS,
        "hinge_solvers": listing(SOLVERS.names(*ORACLES, losses=("hinge",))),
        "smooth_solvers": listing(SOLVERS.names("exp", "topk", losses=("smooth",))),
        "nonlinear_solvers": listing(SOLVERS.names("nonlinear")),
    }
)
@dataclass(eq=False, repr=False)
class ChainCRF(
    ChainProbabilities,
    WeightsByName,
    Exported,
    CallbackSupportMixin,
    Versioned,
    BaseEstimator,
):
    """Tagger for sequences: a linear-chain model with discriminative training.

    The label of each position depends on its features and on the neighboring labels:

    >>> from sksstruct import ChainCRF
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> tagger = ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0], [0.0]]])[0].tolist()
    ['high', 'high', 'low']

    `loss` and `alpha` are the parameters to choose first. All are listed below in
    these groups:

    * Model and objective: `alpha`, `loss`, `l1_ratio`, `class_weight`, `order`,
      `transition_features` and `score_function`.
    * Model and objective, with defaults that suit nearly all data: `fit_intercept`,
      `boundary`, `intercept_scaling` and `loss_normalization`. Other values train the
      model of another program or of a paper.
    * Constraints: `forbidden_transitions`; and `all_possible_states`,
      `all_possible_transitions` and `all_possible_triples`, whose defaults also suit
      nearly all data.
    * Prediction: `risk`.
    * Training: `solver`, `tol`, `max_iter`, `max_seconds`, `early_stopping` with
      `validation_fraction` and `n_iter_no_change`, `warm_start`, `n_jobs`,
      `random_state` and `verbose`. The defaults suit most data. To train more or less
      precisely, set `tol`, and not `max_iter`.

    The score of labels y for a sequence with feature rows F is

        ``sum_t F_t . coef_[y_t] + intercept_[y_t]  +  start_[y_1] + end_[y_T]
        + sum_t transitions_[y_t, y_{t+1}]``

    With `transition_features`, weights of features on pairs of labels are added, and
    with ``order=2`` weights of triples y_{t-2}, y_{t-1}, y_t.
    Training minimizes ``alpha/2 |w|^2`` plus the mean loss of the sequences. The
    default loss is the structured hinge (a structured SVM, or maximum-margin Markov
    network [1]_). Its task loss is the Hamming loss divided by the mean length of the
    sequences.
    With ``loss="log"``, the loss is the negative conditional log-likelihood (a
    conditional random field [3]_). All weights are regularized, including the bias.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, as in `sklearn.linear_model.SGDClassifier`: the lambda
        of the papers, or 1 / (n C). CRFsuite's c2 is ``alpha * n / 2``. "auto"
        is ``0.002 * m * max(1, 50 * T / n)`` for the hinge losses and ``0.0015 * m /
        n`` for the likelihood. m is the sum of the variances of the features over all
        positions, n is the number, or total weight, of the sequences, and T is their
        mean length, or 0 without `loss_normalization`; see the user guide. With "auto",
        predictions stay the same if X is multiplied by a number, and change little if a
        number is added. With `score_function`, m is 10. 0 means no regularization,
        which only solvers that use gradients support. These solvers then stop when the
        gradient is small, and `dual_gap_` is ``inf``.
    loss : {"hinge", "log", "smoothed_hinge"} or Surrogate, default="hinge"
        Training loss: the structured hinge "hinge", the negative log-likelihood "log",
        or "smoothed_hinge", which is `sksstruct.losses.SmoothedHinge` with its
        defaults. The objects of `sksstruct.losses` have a parameter for the task loss:
        ``Hinge(cost="boundaries")`` lets wrong boundaries of entities cost more.
    l1_ratio : float, default=0.0
        Share of the l1 penalty. The penalty is ``alpha * (l1_ratio |w|_1 +
        (1 - l1_ratio)/2 |w|^2)``, where the l1 term is divided by `intercept_scaling`.
        A positive value makes many weights zero. Only for ``loss="log"`` and hinges
        smoothed by the entropy. The solver "sdca" is slow for values near 1; 1 needs
        "lbfgs".
    class_weight : dict or "balanced", default=None
        Cost of a wrong position, by its true label. The cost of labels that are not in
        the dict is 1. As in scikit-learn, the dict may name a label that is not in y
        only if it names all labels in y. Not available with ``loss="log"``, which has
        no cost of errors.
    order : {1, 2}, default=1
        Order of the chain. With 2, triples of consecutive labels have weights, too, in
        ``triples_``. Inference stays exact. Training takes several times as long; see
        the user guide. Not available with `score_function`, or with the solvers "gdmm",
        "soft_bcfw" and "pragam".
    transition_features : str, array-like or None, default=None
        Features that also have weights on pairs of labels, so that transitions depend
        on the observations (the B templates of CRF++ and Wapiti). A string selects all
        features whose names begin with it. Otherwise pass a list of names, a list of
        column indices, or a mask. A feature at position t, from the second position on,
        has a weight for each pair of labels at t - 1 and t with which it occurs in the
        training data, besides its weights in ``coef_``. Not available with
        `score_function`, or with the solvers "gdmm" and "soft_bcfw".
    score_function : ScoreFunction or None, default=None
        Nonlinear score of the labels that replaces ``coef_`` and ``intercept_``, for
        example `sksstruct.models.ELUScore`. Training is then not convex, and needs the
        solver `sksstruct.solvers.ProxLinear` or `sksstruct.solvers.SGD`.
    fit_intercept : bool, default=True
        Whether labels have a bias.
    boundary : bool, default=True
        Whether labels have weights for the first and the last position.
    intercept_scaling : float or "auto", default="auto"
        Value of the constant features: of the biases, of the first and the last
        position, and of the transitions. Larger values regularize the weights of these
        features less, as in `sklearn.svm.LinearSVC`. "auto" is ``sqrt(0.1 * m)`` with
        ``alpha="auto"``, and 1 otherwise. `intercept_`, `start_`, `end_` and
        `transitions_` contain the value as a factor: they are added to the score as
        they are.
    loss_normalization : {"mean", "sequence"} or None, default="mean"
        Divisor of the task loss, by default the number of wrong positions of a
        sequence. "mean": the mean length of the training sequences, so that a wrong
        position costs the same in all sequences. This suits sequences of very different
        lengths. "sequence": the length of the sequence, as in papers. None: no
        division. Has no effect with ``loss="log"``.
    forbidden_transitions : list of tuple, "auto", "bio", "iob1", "iobes" or \
"bilou", default=None
        Pairs (from, to) of labels that must not follow each other. None in a pair
        stands for the start or the end of a sequence. The name of a scheme of spans
        selects the pairs of `sksstruct.inference.scheme_transitions`; "auto" finds the
        scheme of y. Training and prediction consider only allowed labelings. Labels
        that are not in y are ignored. A forbidden pair in y is an error;
        `sksstruct.metrics.convert_labels` repairs labelings.
    all_possible_states : bool, default=True
        Whether every pair of a feature and a label has a weight. If False, only pairs
        that occur in the training data have one, as is the default in CRFsuite. A zero
        that is stored in a sparse row, such as that of a False in a dict, occurs; a
        zero in a dense row does not. The hinge needs True.
    all_possible_transitions : bool, default=True
        Whether every pair of labels has a weight. If False, only pairs that occur in
        the training data have one. The hinge needs True.
    all_possible_triples : bool, default=False
        With ``order=2``, whether all triples of labels have a weight. If False, only
        triples that occur in the training data have one; other triples are allowed,
        and have only the scores of their pairs of labels.
    risk : {"sequence", "hamming"}, default="sequence"
        The expected loss that `predict` minimizes. "sequence": the probability that the
        labeling is wrong, which is least for the labeling with the highest score.
        "hamming": the expected number of wrong labels, which is least for the most
        probable label of each position; with constraints, for the allowed labeling with
        the largest sum of these probabilities. "hamming" needs ``loss="log"`` or a
        `CalibratedTagger`, and prediction takes two to five times as long; see the user
        guide for when it helps. Training does not depend on `risk`, which can be set on
        a fitted tagger.
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults. For the hinge
        %(hinge_solvers)s;
        "auto" is "bcfw", also with thousands of labels, and "continuation" for few
        long sequences. For the other losses
        %(smooth_solvers)s;
        "auto" is "sdca" with an l1 penalty, and if its passes are expected to take less
        time, as with text. "auto" is "lbfgs" for few features or for many labels of
        short sequences; if the dual variables of "sdca" would take more than 512 MiB;
        for an l2-smoothed hinge; and for a likelihood with missing labels. With
        `score_function`
        %(nonlinear_solvers)s;
        "auto" is "prox_linear".
    tol : float or None, default=None
        Tolerance of the duality gap, used only if `solver` is a name. With the hinge,
        training stops at a gap of ``tol`` times the objective at w = 0, which is 1
        without class weights; None is 3e-3, or a tenth of the share of positions
        without the commonest label if this is less, as if entities are rare. With other
        losses, training stops at a gap of ``tol`` times the current objective; None is
        1e-2.
    max_iter : int, default=1000
        Maximum number of passes over the data, or of iterations. Used only if `solver`
        is a name.
    %(max_seconds)s
    early_stopping : bool, default=False
        Whether to hold out a part of the sequences and stop training when their `score`
        has not improved for `n_iter_no_change` passes, as in
        `sklearn.linear_model.SGDClassifier`. The fitted weights have the lowest
        objective, not the highest score, of all passes. Missing labels are not scored;
        see `score`.
    validation_fraction : float, default=0.1
        Fraction of the sequences to hold out for early stopping.
    n_iter_no_change : int, default=5
        Number of passes without improvement before training stops.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit. With the hinge, `BCFW`,
        `CuttingPlane` and `GDMM` start from the dual variables of the last fit, and
        need the same sequence lengths and labels; the features and alpha may change.
        `SDCA` also starts from the dual variables, and needs the same sequences with
        the same labels. The other solvers of losses with a gradient start from the
        weights. If a warm start is not possible, `fit` starts from zero and warns. With
        the hinge and missing labels, `fit` starts from zero without a warning.
    n_jobs : int, default=None
        Number of threads for computing the duality gap and gradients, and for
        prediction. The result does not depend on the number.
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
        Weight of each pair of neighboring labels, from -> to. It is a sparse array with
        the hinge and many labels, and with `sksstruct.solvers.GDMM`; see the user
        guide.
    transition_coef_ : CSR array of shape (n_features, n_classes ** 2)
        With `transition_features`, weights of features on pairs of labels, in column
        ``from * n_classes + to``. Combinations that do not occur in the training data
        are not stored and have no weight.
    triples_ : CSR array of shape (n_classes, n_classes ** 2)
        With ``order=2``, weights of three consecutive labels: the row is that of the
        first label, and the column is ``second * n_classes + third``. Triples without a
        weight are not stored.
    start_, end_ : ndarray of shape (n_classes,)
        Weights of labels at the first and last position; zeros without `boundary`.
    score_parameters_ : ndarray of shape (n_parameters,)
        Parameters of `score_function_`. With a score function, ``coef_`` is the
        identity.
    score_function_ : ScoreFunction
        The fitted score function, if `score_function` is not None.
    %(features_seen)s
    alpha_ : float
        The regularization that was used.
    intercept_scaling_ : float
        The value of the constant features.
    validation_scores_ : ndarray of shape (n_passes,)
        With `early_stopping`, the score of the held-out sequences after each pass.
    n_iter_ : int
        Total number of passes over the data, or of iterations.
    objective_ : float
        Primal objective at the fitted weights. If `topk_exact_` is less than 1, the
        value is a lower bound.
    dual_gap_ : float
        Duality gap: an upper bound on the difference between the objective and its
        minimum. ``inf`` if there is no bound, because labels are missing or
        `topk_exact_` is less than 1.
    dual_loss_ : float
        Linear term of the dual objective, which is ``dual_loss_ - alpha/2 |w|^2`` with
        ``alpha_ * (1 - l1_ratio)`` for alpha. Weights of constant features in w are the
        attributes divided by `intercept_scaling_`. ``-inf`` without a dual problem.
    %(history_)s
        If missing labels are completed by decoding, the history is that of the last
        round.
    forbidden_transitions_ : list of tuple
        Pairs of labels that must not follow each other.
    topk_exact_ : float
        With an l2-smoothed hinge, fraction of the sequences for which the k best
        labelings were enough (see `sksstruct.losses.SmoothedHinge`).
    %(solver_)s
    n_seen_ : float
        Number, or total weight, of the training sequences.

    See Also
    --------
    make_tagger : Tagger that takes dicts or strings.
    sksstruct.feature_extraction.SequenceVectorizer : Features from dicts and strings.
    sksstruct.solvers.BCFW : The default solver of the hinge, with its options.

    Notes
    -----
    X is a list with one array of shape (n_positions, n_features), or one CSR matrix,
    for each sequence, a 3-D array of sequences of equal length, or a
    `sksstruct.utils.packed.PackedSequences`; y is a list with the labels of each
    sequence. Training ignores empty sequences and their weights.

    Use None for a missing label. Every sequence needs at least one known label. With
    ``loss="log"``, training maximizes the likelihood of the known labels. With the
    hinge losses, training alternates between completing the labels by decoding and
    training on them, until the labels no longer change [4]_. There are at most ten
    rounds, each of up to `max_iter` passes. The first weights are trained on the runs
    of known labels. Positions with missing labels have no loss.

    Use a set, or a frozenset, if one of several labels is right: ``["DET", {"NOUN",
    "VERB"}]``. The label counts as missing, with the labels of the set as candidates:
    the likelihood is that of all labelings that agree with the sets, and the hinge
    losses complete labels from them.

    For scikit-learn a tagger has no estimator type: `sklearn.base.is_classifier` is
    false. scikit-learn stratifies the folds of classifiers by y, which is an error for
    lists of labels. ``cv=3`` therefore means three plain folds of the sequences.

    If several labelings have the best score, `predict` returns the labeling whose last
    label comes first in `classes_`. Remaining ties are decided by the last label but
    one, and so on. ``risk="hamming"`` breaks ties of the expected loss by the same
    rule.

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
    Probabilities, with a constraint on labels in training and in prediction:

    >>> from sksstruct import ChainCRF
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["O", "B-X", "I-X"], ["B-X", "O"]]
    >>> tagger = ChainCRF(
    ...     loss="log", forbidden_transitions="bio", random_state=0
    ... ).fit(X, y)
    >>> tagger.predict_marginals([[[1.0], [0.0]]])[0][0]["I-X"]  # forbidden as first
    0.0
    >>> tagger.predict([[[0.0]]], known=[["B-X"]])[0].tolist()
    ['B-X']
    """

    alpha: NonNegative | Literal["auto"] = "auto"
    _: KW_ONLY
    loss: AnyLoss = "hinge"
    l1_ratio: Share = 0.0
    class_weight: dict | Literal["balanced"] | None = None
    order: Literal[1, 2] = 1
    transition_features: str | Array | None = None
    score_function: ScoreFunction | None = None
    fit_intercept: bool = True
    boundary: bool = True
    intercept_scaling: Positive | Literal["auto"] = "auto"
    loss_normalization: Literal["mean", "sequence"] | None = "mean"
    forbidden_transitions: TrainedTransitions | None = None
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    all_possible_triples: bool = False
    risk: Literal["sequence", "hamming"] = "sequence"
    solver: AnySolver = "auto"
    tol: NonNegative | None = None
    max_iter: Count = 1000
    max_seconds: Positive | None = None
    early_stopping: bool = False
    validation_fraction: Fraction = 0.1
    n_iter_no_change: Count = 5
    warm_start: bool = False
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0

    def __sklearn_tags__(self):
        # no estimator type: see the notes of the class
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
            Labels: integers, strings or any hashable values. None for a missing label,
            and a set where one of several is right.
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
        model = ChainModel(**taken(self, _OF_THE_MODEL))
        # with a given alpha, the model does not learn the scale of the features
        if model.intercept_scaling == "auto" and self.alpha != "auto":
            model.intercept_scaling = 1.0
        solver = named_solver(self)
        # transitions may be sparse if the solver needs the oracle "max" or "factors",
        # and does not bind the model to parts of the data
        if self.solver != "auto":
            asked = set(solver.required_oracles)
            model.tables_only = solver.in_parts or not asked & {"max", "factors"}
        return model

    def _further(self, problem, result):
        """Fitted attributes of taggers besides weights, objective and duality gap."""
        # `stream` is the state from which partial_fit continues, with the fitted
        # weights as first iterate
        spec = problem.spec
        stream = {"visits": spec.n_sequences_, "alpha": problem.alpha}
        stream["mean_length"] = spec.mean_length_
        stream["mean_square"] = spec.mean_square_
        stream["intercept_scaling"] = spec.intercept_scaling_
        stream["centers"] = spec.centers_
        return {
            **super()._further(problem, result),
            "dual_loss_": result.dual_loss,
            "_stream": stream,
        }

    def partial_fit(
        self,
        X: Sequences,
        y: Labelings,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on a mini-batch of a stream of sequences.

        The solver visits every sequence once, and makes a block step on the objective
        of all sequences seen so far. The dual variables of earlier sequences stay
        fixed, and are not stored. If the solver averages, the fitted attributes hold
        the average of the iterates. You can call `partial_fit` after `fit`. The first
        mini-batch, or `fit`, determines the scale and the center of the features for
        all later mini-batches. Missing labels of a mini-batch are completed once: by
        the tagger so far, or in the first mini-batch by a short training on its runs of
        known labels.

        Parameters
        ----------
        %(sequences)s
        y : list of array-like of shape (n_positions,)
            Labels, with None or sets as in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels of the stream. Required on the first call; None or the same
            labels later.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence.

        Returns
        -------
        self : ChainCRF
            The tagger.
        """
        return train_on_batch(self, X, y, classes, sample_weight)
