"""Chains as `ChainCRF` trains them: labels, constraints, losses, and bound models."""

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np
from sklearn.base import clone

from sksstruct.inference.chains._pair_index import PairIndex
from sksstruct.losses import NeighborLoss, PositionLoss, Surrogate
from sksstruct.models.chain._chain import ORACLES, BoundChain, chain_views
from sksstruct.models.chain._sparse_training import SparseBoundChain
from sksstruct.models.chain.constraints import (
    SparseMask,
    check_forbidden,
    check_permitted,
    scheme_of_labels,
    transition_mask,
)
from sksstruct.models.chain.data import (
    TrainingData,
    check_classes,
    existing_weights,
    seen_weights,
)
from sksstruct.models.chain.incomplete import IncompleteChain
from sksstruct.models.chain.neighbor_costs import NeighborCosts
from sksstruct.models.chain.pair_support import (
    PairSupport,
    all_triples,
    pair_columns,
    seen_triples,
)
from sksstruct.models.facts import Facts
from sksstruct.models.scale import centered
from sksstruct.models.scores.score import ScoreFunction
from sksstruct.models.scores.scored import ScoredLoss, rows_of_examples
from sksstruct.models.spec import HINGE_ALPHA, LIKELIHOOD_C2, ModelSpec, hinge_alpha
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.validation import LabelEncoder

# Training with the hinge stores only transitions that have a weight if there are
# FEWEST_SPARSE labels or more, unless the data have more than the share MOST_SEEN of
# all pairs, or more than a share n_labels / FORBID_ALL of all pairs is forbidden.
FEWEST_SPARSE, MOST_SEEN, FORBID_ALL = 110, 0.4, 3000


@dataclass(eq=False, repr=False)
class ChainModel(ModelSpec):
    """A chain of first or second order.

    Parameters
    ----------
    loss, loss_normalization, score_function, transition_features, order, \
fit_intercept, boundary, forbidden_transitions, all_possible_states, \
all_possible_transitions, all_possible_triples, class_weight
        As in `sksstruct.ChainCRF`.
    intercept_scaling : float or "auto", default=1.0
        As in `sksstruct.ChainCRF`; "auto" follows the scale of the features.

    Attributes
    ----------
    surrogate_ : SmoothedHinge or None
        The loss if it has a gradient; None for the hinge.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_ : int
        Number of features.
    feature_names_ : FeatureNames or None
        Names of the features.
    forbidden_ : list of tuple
        Pairs of labels that must not follow each other.
    mask_ : ndarray of shape (2 + n_classes, ld), SparseMask or None
        The forbidden pairs as scores of 0 or -inf.
    pair_index_ : PairIndex or None
        Pairs of labels that have a weight; None if all pairs have one.
    n_seen_ : float
        Total weight of the sequences; their number if they have no weights.
    n_sequences_ : int
        Number of sequences with a positive weight.
    pairs_ : PairSupport or None
        The weights of `transition_features` that exist.
    triples_ : PairSupport or None
        The weights of triples of labels that exist; None for chains of first order.
    mean_length_ : float
        Mean number of observed labels of a sequence, by weight.
    mean_square_ : float
        Mean squared norm of the features of a position, by weight.
    """

    _: KW_ONLY
    loss: str | Surrogate = "hinge"
    loss_normalization: str | None = "mean"
    score_function: ScoreFunction | None = None
    transition_features: str | list | np.ndarray | None = None
    order: int = 1
    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    boundary: bool = True
    forbidden_transitions: list | str | None = None
    all_possible_states: bool = True
    all_possible_transitions: bool = True
    all_possible_triples: bool = False
    class_weight: dict | str | None = None

    _task_losses = (PositionLoss, NeighborLoss)
    _loss_parameters = ("class_weight",)
    # Whether transitions are a table of all pairs even for many labels.
    tables_only = False
    # Centers of the features in earlier mini-batches, in a tuple; None if there are
    # none.
    kept_centers = None
    # Indices of weights that exist in any part of the data, except weights of features
    # on pairs and of triples; None if the data are not in parts, or all weights exist.
    _support = None

    def check(self):
        loss = self._take_loss(self.loss)
        of_neighbors = isinstance(self._task_loss, NeighborLoss)
        self.surrogate_ = loss.for_oracles(ORACLES)
        if of_neighbors and self.score_function is not None:
            raise ValueError(
                f"cost={self._task_loss!r} is of pairs of neighboring labels, and "
                "cannot be used with score_function"
            )
        if self.surrogate_ is None and not self._every_weight:
            raise ValueError(
                "all_possible_states=False and all_possible_transitions=False need "
                "loss='log' or 'smoothed_hinge'"
            )
        if self.score_function is not None:
            self.score_function.check()
            if self.intercept_scaling not in ("auto", 1.0):
                raise ValueError(
                    "intercept_scaling cannot be used with score_function, whose "
                    "scores are not linear in the features"
                )
            if not self._every_weight:
                raise ValueError(
                    "score_function needs all possible states and transitions"
                )
            if self.transition_features is not None:
                raise ValueError(
                    "transition_features cannot be used with score_function, whose "
                    "scores are of single positions"
                )
            if self.order > 1:
                raise ValueError(
                    "order=2 cannot be used with score_function: its training knows "
                    "labels and pairs of labels only"
                )

    # ---- training data ----

    def _read(self, X, y, sample_weight, seen):
        data = TrainingData.read(X, y, sample_weight)
        if self.score_function is not None and data.known is not None:
            raise ValueError("score_function needs every label of y to be known")
        return self._learn(data, scheme_of_labels(self.forbidden_transitions, data))

    def _learn(self, data, forbidden):
        """Learn labels, features, costs and constraints from data.

        Returns the data without sequences of weight zero, with centered features.
        """
        index = self._learn_labels(
            data.classes, data.packed, data.label_weights, forbidden
        )
        self._set_mask(index, data)
        self._check_permitted(data)
        data = data.without_zeros()
        self.pairs_ = None
        if self.transition_features is not None:
            self.pairs_ = PairSupport.seen(data, self._pair_columns(data.packed))
        self._learn_triples(seen_triples(data) if self._sees_triples else None)
        self.n_seen_, self.n_sequences_ = data.total, len(data.packed)
        self.mean_length_ = data.mean_length()
        self._learn_share(data.label_weights())
        # score functions are not linear, and need no scale of the features
        if self.score_function is None:
            self._learn_scale(data.moments())
        if self.kept_centers is not None:
            (self.centers_,) = self.kept_centers
        return self._around_centers(data)

    @property
    def _sees_triples(self):
        return self.order > 1 and not self.all_possible_triples

    def _learn_triples(self, seen):
        """Decide which triples have a weight: all, or the given support of seen
        triples."""
        self.triples_ = seen
        if self.order > 1 and self.all_possible_triples:
            self.triples_ = all_triples(len(self.classes_))

    def _learn_share(self, counts):
        # if positions have sets of labels, only one label may be known for certain
        if np.count_nonzero(counts) > 1:
            self.share_of_others_ = float(1.0 - counts.max() / counts.sum())

    @property
    def _absorbs_centers(self):
        return (
            self.intercept_scaling == "auto"
            and self.fit_intercept
            and self.all_possible_states
            and self.transition_features is None
        )

    def _around_centers(self, data):
        """Return the data with centered features."""
        if self.centers_ is None:
            return data
        values = centered(data.packed.values, self.centers_)
        return replace(data, packed=PackedSequences(values, data.packed.offsets))

    def _learn_labels(self, classes, X, label_weights, forbidden):
        """Learn labels, features, costs and constraints; return each label's number.

        X has `n_features` and `feature_names`; `label_weights` returns the weight of
        each label.
        """
        self.classes_, self.n_features_ = classes, X.n_features
        self.feature_names_ = X.feature_names
        self._costs, self._neighbor_costs = np.zeros(len(classes)), None
        if isinstance(self._task_loss, NeighborLoss):
            self._neighbor_costs = NeighborCosts.of(self._task_loss, classes)
        if not self.is_likelihood:
            self._costs = self._label_costs(classes, label_weights())
        index = {label: k for k, label in enumerate(classes.tolist())}
        self.forbidden_ = check_forbidden(forbidden, index)
        return index

    def _pair_columns(self, X):
        return pair_columns(self.transition_features, X.n_features, X.feature_names)

    def _check_permitted(self, data):
        """Raise an error if an observed pair of neighboring labels is forbidden."""
        if not self.forbidden_:
            return
        known = data.known
        if known is None:
            known = np.ones(len(data.labels), dtype=bool)
        check_permitted(
            self.mask_,
            data.labels,
            known,
            data.packed.offsets,
            data.classes,
            data.numbers,
            self.forbidden_transitions,
        )

    # ---- training data in parts ----

    def _facts(self, X, y, sample_weight, number):
        if self.score_function is not None:
            raise ValueError(
                "score_function cannot be trained on data in parts: train on one "
                "machine, with solver='prox_linear' or 'sgd'"
            )
        data = self._part(X, y, sample_weight)
        if self.transition_features is not None:
            # raises errors of `transition_features` before all parts are read
            self._pair_columns(data.packed)
        weight = data.weight
        counts = dict(
            zip(data.classes.tolist(), data.label_weights().tolist(), strict=True)
        )
        return Facts(
            {number: int(np.count_nonzero(weight))},
            data.packed.n_features,
            data.packed.feature_names,
            counts,
            float(weight.sum()),
            float(weight @ data.known_lengths()),
            {"moments": ("moments", data.moments())},
        )

    def _part(self, X, y, sample_weight):
        # the likelihood sums over unobserved labels; other losses need every label
        return TrainingData.read_part(X, y, sample_weight, self.is_likelihood)

    def _learn_facts(self, facts):
        classes = LabelEncoder.from_labels(facts.counts).classes_
        check_classes(classes)
        counts = np.array([facts.counts[label] for label in classes.tolist()])
        index = self._learn_labels(
            classes, facts, lambda: counts, self.forbidden_transitions
        )
        # transitions are tables of all pairs, as parts of the data contain different
        # pairs
        self.pairs_ = self.pair_index_ = self._support = None
        self._learn_triples(None)
        self.mask_ = transition_mask(
            self.forbidden_, index, padded_length(len(classes))
        )
        self.n_seen_, self.n_sequences_ = facts.total, facts.n_examples
        self.mean_length_ = facts.length / facts.total
        self._learn_share(counts)
        self._learn_scale(facts.learned["moments"][1])

    def _read_part(self, X, y, sample_weight):
        data = self._part(X, y, sample_weight)
        numbers = LabelEncoder(self.classes_).encode(data.classes.tolist())
        data = data.with_classes(numbers, self.classes_)
        self._check_permitted(data)
        rest = data.without_zeros()
        # the p_i of all data: divided by the total weight, not the part's weight
        weight = data.weight[data.weight > 0.0] / self.n_seen_
        return self._around_centers(replace(rest, weight=weight))

    @property
    def _every_weight(self):
        return self.all_possible_states and self.all_possible_transitions

    @property
    def _looks_twice(self):
        return (
            self.transition_features is not None
            or self._sees_triples
            or not self._every_weight
        )

    def _facts_seen(self, X, y, sample_weight):
        data, seen = self._read_part(X, y, sample_weight), {}
        if self.transition_features is not None:
            columns = self._pair_columns(data.packed)
            seen["pairs"] = PairSupport.seen(data, columns).keys
        if self._sees_triples:
            seen["triples"] = seen_triples(data).keys
        if not self._every_weight:
            # `_existing` appends the weights of features on pairs and of triples, all
            # of which exist
            kept = self.pairs_, self.triples_
            self.pairs_ = self.triples_ = None
            model = self._bound(data)
            seen["weights"], (self.pairs_, self.triples_) = np.sort(model.support), kept
        return seen

    def _learn_seen(self, seen):
        n_labels = len(self.classes_)
        if "pairs" in seen:
            self.pairs_ = PairSupport(seen["pairs"], self.n_features_, n_labels)
        if "triples" in seen:
            self._learn_triples(PairSupport(seen["triples"], n_labels, n_labels))
        self._support = seen.get("weights")

    def _set_mask(self, index, data):
        """Choose tables or sparse transitions, and forbid pairs of labels."""
        ld = padded_length(len(index))
        self.pair_index_ = None
        if (
            self.surrogate_ is None
            and not isinstance(self._task_loss, NeighborLoss)
            and not self.tables_only
            and self.score_function is None
            and self.transition_features is None
            and self.order == 1
            and sparse_pays(len(index), data.n_pairs_seen(), len(self.forbidden_))
        ):
            self.mask_ = SparseMask(self.forbidden_, index, ld)
            self.pair_index_ = PairIndex(len(index))
            self.pair_index_.extend(*self.mask_.pairs)
        else:
            self.mask_ = transition_mask(self.forbidden_, index, ld)

    @property
    def auto_alpha(self):
        # constants from cross-validation, see the user guide
        if self.is_likelihood:
            # as in CRFsuite, whose penalty of the sum of the losses is independent of n
            return 2.0 * LIKELIHOOD_C2 / self.n_seen_
        if self.loss_normalization is None:
            return HINGE_ALPHA
        return hinge_alpha(self.mean_length_, self.n_seen_)

    @property
    def intercept_scaling_(self):
        if self.intercept_scaling == "auto":
            return super().intercept_scaling_
        return float(self.intercept_scaling)

    @property
    def loss_length_(self):
        """Divisor of the losses of all sequences; None: each sequence's own length."""
        # without known labels the mean length is 0, and the loss is not used
        mean = self.mean_length_ or 1.0
        lengths = {"mean": mean, "sequence": None, None: 1.0}
        return lengths[self.loss_normalization]

    # ---- models that solvers train ----

    def _bind(self, data):
        # the likelihood sums over unobserved labels; hinge losses need them completed
        if data.known is not None and not self.is_likelihood:
            supports = self.pairs_, self.triples_
            return IncompleteChain(data, self._bound, self.mask_, *supports)
        return self._bound(data)

    def _bind_part(self, data, first, last):
        if self.score_function is not None or (
            data.known is not None and not self.is_likelihood
        ):
            raise self._cannot_be_cut()
        return self._bound(data.between(first, last))

    def _bound(self, data, labels=None, mask=None, boundary=True):
        """Return the chain bound to data, perhaps with other labels or another mask, or
        without start and end weights.
        """
        chain = {
            "labels": data.labels if labels is None else labels,
            "example_weights": data.weight,
            "label_costs": self._costs,
            "neighbor_costs": self._neighbor_costs,
            "loss_length": self.loss_length_,
            "feature_scale": 1.0 / self.intercept_scaling_,
            "boundary": self.boundary and boundary,
            "known": data.known,
            "mask": self.mask_ if mask is None else mask,
        }
        packed, n_classes = data.packed.compact(), len(data.classes)
        if self.pair_index_ is not None:
            return self._bound_sparse(packed, chain, data.numbers)
        if self.score_function is not None:
            self._score = clone(self.score_function)
            return self._scored(packed.in_one_form(), chain)
        model = BoundChain(
            packed,
            n_classes,
            pairs=self.pairs_,
            triples=self.triples_,
            fit_intercept=self.fit_intercept,
            **chain,
        )
        model.surrogate, model.numbers = self.surrogate_, data.numbers
        if self.is_likelihood and data.known is not None:
            model.unknown, model.choices = ~data.known, data.choices
        model.support = self._existing(model, data)
        return model

    def _existing(self, model, data):
        """Return the weights that exist: with data in parts, in any part."""
        if self._support is None:
            return existing_weights(
                model, data, self.all_possible_states, self.all_possible_transitions
            )
        return np.concatenate([self._support, seen_weights(model)])

    def _bound_sparse(self, packed, chain, numbers):
        """Return the chain that stores transitions only where they have a weight."""
        mask = chain.pop("mask")
        model = SparseBoundChain(
            packed,
            len(self.classes_),
            fit_intercept=self.fit_intercept,
            pair_index=self.pair_index_,
            n_forbidden=len(mask.pairs[0]),
            ends=mask.ends,
            **chain,
        )
        model.numbers = numbers
        return model

    def _scored(self, packed, chain):
        """Return a `ScoredLoss`, which binds chains to scores of parts of the data."""

        def bind(numbers, rows, example_weights):
            positions = rows_of_examples(packed.offsets, numbers)
            given = {**chain, "labels": chain["labels"][positions]}
            given["example_weights"] = example_weights
            identity = PackedSequences.from_lengths(rows, packed.lengths[numbers])
            return BoundChain(identity, n_classes, fit_intercept=False, **given)

        n_classes = len(self.classes_)
        return ScoredLoss(
            self._score,
            packed.values,
            packed.offsets,
            n_classes,
            chain["example_weights"],
            bind,
            self.surrogate_,
        )

    # ---- attributes ----

    def _attributes(self, weights, views=None):
        n_classes = len(self.classes_)
        constant = {
            "classes_": self.classes_,
            "n_features_in_": self.n_features_,
            "forbidden_transitions_": self.forbidden_,
            "n_seen_": self.n_seen_,
            "_loss": self.loss,
        }
        if self.feature_names_ is not None:
            constant["_names_in"] = self.feature_names_
        if self.score_function is not None:
            return {**constant, **scored_attributes(weights, n_classes, self._score)}
        if views is None:
            supports = self.pairs_, self.triples_
            views = chain_views(weights, n_classes, self.n_features_, *supports)
        scaling = self.intercept_scaling_
        constant["intercept_scaling_"] = scaling
        found = view_attributes(views, self.pairs_, self.triples_, scaling)
        found["intercept_"] -= self._off_centers(found["coef_"])
        return {**constant, **found}

    def _can_continue(self, previous, state):
        if not np.array_equal(previous.classes_, self.classes_):
            return False
        # keys of mean parameters depend on the numbers of the triples
        if not equal_supports(previous.triples_, self.triples_):
            return False
        # weights, unlike means of labelings, depend on the features on pairs
        if "weights" in state and not equal_supports(previous.pairs_, self.pairs_):
            return False
        # natural parameters of forbidden pairs are -inf, which no step changes
        forbidden, before = set(self.forbidden_), set(previous.forbidden_)
        if "entropy_dual" in state:
            return forbidden == before
        # labelings of the old state must still be allowed
        return self.surrogate_ is not None or forbidden <= before


def equal_supports(one, other):
    """Return whether two `PairSupport` are the same; None stands for no weights."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one.keys, other.keys)


def sparse_pays(n_labels, n_seen, n_forbidden):
    """Return whether training is faster without a table of all pairs of labels.

    Parameters
    ----------
    n_labels, n_seen, n_forbidden : int
        Numbers of labels, of distinct pairs in the data, and of forbidden pairs.
    """
    n_pairs = n_labels**2
    return (
        n_labels >= FEWEST_SPARSE
        and n_seen <= MOST_SEEN * n_pairs
        and n_forbidden * FORBID_ALL <= n_pairs * n_labels
    )


def view_attributes(views, pairs=None, triples=None, scaling=1.0):
    """Return attributes of a chain with linear scores, from named blocks of weights.

    `pairs` and `triples` are the supports of the weights of features on pairs of labels
    and of triples of labels. In training, features were divided by `scaling`.
    """
    # coef_ stays a view of the padded rows, which prediction reads without a copy
    attributes = {
        f"{name}_": block if name == "coef" else block.copy()
        for name, block in views.items()
    }
    if scaling != 1.0:
        attributes["coef_"] = divided_rows(views["coef"], scaling)
    if pairs is not None:
        attributes["transition_coef_"] = pairs.coef(views["transition_coef"])
        attributes["transition_coef_"].data /= scaling
    if triples is not None:
        attributes["triples_"] = triples.coef(views["triples"])
    return attributes


def divided_rows(coef, scaling):
    """Return coef / scaling, as a view of padded rows again."""
    n_classes, n_features = coef.shape
    ld = padded_length(n_classes)
    rows = aligned_zeros(n_features * ld).reshape(n_features, ld)
    np.divide(coef.T, scaling, out=rows[:, :n_classes])
    return rows[:, :n_classes].T


def scored_attributes(weights, n_classes, score):
    """Return attributes of a chain whose features are the scores of the labels."""
    ld = padded_length(n_classes)
    first = len(weights) - (2 + n_classes) * ld
    tail = weights[first:].reshape(-1, ld)[:, :n_classes]
    identity = aligned_zeros(n_classes * ld).reshape(n_classes, ld)
    identity[np.arange(n_classes), np.arange(n_classes)] = 1.0
    return {
        "score_function_": score,
        "score_parameters_": weights[:first].copy(),
        "coef_": identity[:, :n_classes].T,
        "intercept_": np.zeros(n_classes),
        "start_": tail[0].copy(),
        "end_": tail[1].copy(),
        "transitions_": tail[2:].copy(),
    }
