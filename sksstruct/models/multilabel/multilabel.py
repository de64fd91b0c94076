"""Sets of labels as `MultilabelPairwise` trains and decodes them."""

from dataclasses import astuple
from functools import partial

import numpy as np
from scipy import sparse

from sksstruct.losses import LABEL_LOSSES, LabelLoss
from sksstruct.models.facts import Facts
from sksstruct.models.multilabel._multilabel import LabelSets, count_words
from sksstruct.models.multilabel._pairs import (
    check_pairs,
    counts_pairs,
    joint_counts,
    known_counts,
)
from sksstruct.models.multilabel.conditional import ConditionalModel
from sksstruct.models.multilabel.factors import MultilabelFactors
from sksstruct.models.multilabel.forms import columns_of, read_labels
from sksstruct.models.multilabel.targets import LEARNED
from sksstruct.models.multilabel.unknown import (
    UNKNOWN,
    first_without_loss,
    losses_left,
    refuse_signs,
    split_unknown,
)
from sksstruct.models.rows import ROWS, RowsModel
from sksstruct.models.scale import ColumnMoments
from sksstruct.models.spec import FACTOR_OF_SQUARE, ROW_ALPHA, ROW_LOG_ALPHA
from sksstruct.models.tables._table import BoundTable, block_ld
from sksstruct.utils.sparse_input import rows_between
from sksstruct.utils.validation import check_weight


class MultilabelModel(RowsModel):
    """Sets of labels, with scores of the labels and of pairs of labels.

    Parameters
    ----------
    loss, class_weight, pairs, interaction_scaling, target, fit_intercept
        As in `sksstruct.MultilabelPairwise`.
    enumerates : callable
        ``enumerates(n_labels)`` returns whether all sets of labels are tried.
    choose : callable
        ``choose(self, examples)`` returns the number that stands for
        `interaction_scaling`, the `Target`, or None for the best set, and a callable
        for `_first_state`, or None.

    Attributes
    ----------
    classes_ : ndarray
        Names or numbers of the labels, or the two values if y was 1-D.
    label_pairs_ : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact: none if their scaling is zero.
    scaling : float
        The value of the pairs' feature.
    factor : float
        alpha, times the number of samples over the mean squared norm of their rows.
    fills : bool
        Whether there are several labels, of which every sample has one.
    partly_known : bool
        Whether y has unknown entries, which are -1 in the examples.
    """

    partly_known = False
    _options = {**ROWS, "multi_output": True}
    _losses = LABEL_LOSSES

    def __init__(
        self,
        *,
        loss,
        class_weight,
        pairs,
        interaction_scaling,
        target,
        fit_intercept,
        enumerates,
        choose,
    ):
        self.loss, self.class_weight = loss, class_weight
        self._take_loss(loss)
        self.pairs, self.interaction_scaling = pairs, interaction_scaling
        self.fit_intercept, self.enumerates = fit_intercept, enumerates
        self.asked_target, self.choose = target, choose
        self.factor = ROW_LOG_ALPHA if self.is_likelihood else ROW_ALPHA

    def _take_loss(self, loss):
        surrogate = super()._take_loss(loss)
        # the loss is one of label sets, or of each label given the other labels
        self.in_sets = not isinstance(surrogate, LabelLoss)
        self.label_loss = surrogate
        if self.in_sets and self.class_weight is not None:
            raise ValueError(
                "class_weight is for losses of labels; loss='structured_hinge' counts "
                "each wrong label once"
            )
        return surrogate

    def _read(self, X, y, sample_weight, seen):
        y, self._names, self._in_sets = read_labels(y)
        if self._in_sets and not len(self._names):
            raise ValueError("y has no label: all of its sets are empty")
        self._unknown = None
        if not self._in_sets:
            y, self._unknown = split_unknown(y)
        self.partly_known = self._unknown is not None
        if self.partly_known:
            sample_weight = self._without_blank_rows(y, sample_weight)
        examples = super()._read(X, y, sample_weight, seen)
        self._unknown = None
        return examples

    def _without_blank_rows(self, y, sample_weight):
        """Weights of the samples, zero where no label is known."""
        if self.in_sets:
            i, j = np.argwhere(self._unknown)[0]
            raise ValueError(
                f"y[{i}, {j}] is not known: loss='structured_hinge' needs all labels; "
                "use 'hinge', which is the same without pairs, or another loss"
            )
        refuse_signs(y, self._unknown)
        weight = check_weight(sample_weight, len(self._unknown))
        return np.where(self._unknown.all(axis=1), 0.0, weight)

    @property
    def auto_alpha(self):
        return self.factor / FACTOR_OF_SQUARE / self._total

    def _learn(self, X, y):
        self._sparse_output = sparse.issparse(y) and not self._in_sets
        Y, self._values = columns_of(y)
        n_labels = Y.shape[1]
        self.classes_ = np.arange(n_labels) if self._names is None else self._names
        if self._values is not None:
            self.classes_ = self._values
        count = partial(joint_counts, Y)
        if self.partly_known:
            count = partial(known_counts, Y, ~self._unknown)
            Y[self._unknown] = UNKNOWN
        self.label_pairs_ = check_pairs(self.pairs, n_labels, count)
        self._exact = self.enumerates(n_labels)
        self.target = self.asked_target
        if self.target == "auto":
            # target "subset" suits losses of whole sets, and a single label
            whole = self.in_sets or n_labels == 1
            self.target = "subset" if whole else "micro"
        return Y

    def _weigh(self, Y, weight):
        has_labels = ((Y == 1) if self.partly_known else Y).any(axis=1)
        self.fills = Y.shape[1] > 1 and bool(has_labels.all())
        self._check_losses(Y, self.label_pairs_[:0])
        if self._values is not None and len(np.unique(Y)) < 2:
            raise ValueError(
                "y has 1 class where sample_weight is positive: training needs 2"
            )
        self._costs = label_costs(
            self.class_weight,
            Y,
            weight,
            self._values,
            self.classes_.tolist() if self._values is None else [0],
        )

    def _check_losses(self, Y, pairs):
        """Raise an error if unknown entries leave a label without a loss."""
        j = first_without_loss(Y, pairs) if self.partly_known else None
        if j is None:
            return
        name = f"label {self.classes_.tolist()[j]!r:.80}"
        if not len(pairs):
            raise ValueError(
                f"y has no known entry of {name} in samples of positive weight: leave "
                "the column out"
            )
        raise ValueError(
            f"no sample has known values of {name} and of all labels that it interacts "
            "with: give fewer pairs, or interaction_scaling=0"
        )

    def _checked_part(self, X, y, sample_weight):
        if read_labels(y)[2]:
            raise ValueError(
                "y has sets of labels: with parts, it must be a label indicator, which "
                "MultiLabelBinarizer(classes=...) makes with the same columns each time"
            )
        X, y, weight = super()._checked_part(X, y, sample_weight)
        Y, values = columns_of(y)
        if values is not None:
            raise ValueError("y must be a label indicator with a column for each label")
        return X, Y, weight

    def _facts(self, X, y, sample_weight, number):
        if not self.in_sets:
            raise ValueError(
                f"loss={self.loss!r} is trained by coordinates, which see all data at "
                "once: with parts use loss='structured_hinge'"
            )
        if self.interaction_scaling == "auto":
            raise ValueError(
                "interaction_scaling='auto' tries values on all data at once: give a "
                "number, such as interaction_scaling_ of MultilabelPairwise fitted to "
                "one part"
            )
        if self.asked_target in LEARNED:
            raise ValueError(
                f"target={self.asked_target!r} learns from held-out samples, which "
                "needs all data at once: with parts use target='subset' or 'hamming'"
            )
        X, Y, weight = self._checked_part(X, y, sample_weight)
        learned = {"the number of labels": ("equal", Y.shape[1])}
        learned["moments"] = "moments", ColumnMoments.of(X, weight)
        learned["without labels"] = (
            "sum",
            int(np.count_nonzero((weight > 0.0) & ~Y.any(axis=1))),
        )
        if counts_pairs(self.pairs, Y.shape[1]):
            together, n_samples = joint_counts(Y)
            learned["together"] = "sum", together
            learned["n_samples"] = "sum", n_samples
        return Facts(
            {number: int(np.count_nonzero(weight))},
            X.shape[1],
            total=float(weight.sum()),
            learned=learned,
        )

    def _learn_facts(self, facts):
        learned = {name: value for name, (_, value) in facts.learned.items()}
        n_labels = learned["the number of labels"]
        self.classes_, self._values = np.arange(n_labels), None
        self.label_pairs_ = check_pairs(
            self.pairs, n_labels, lambda: (learned["together"], learned["n_samples"])
        )
        self._sparse_output = self._in_sets = False
        self._exact = self.enumerates(n_labels)
        self.target = "hamming" if self.asked_target == "hamming" else "subset"
        self.fills = n_labels > 1 and learned["without labels"] == 0
        self._n_features, self._total = facts.n_features, facts.total
        if self.follows_scale:
            self._learn_scale(learned["moments"])

    def _read_part(self, X, y, sample_weight):
        part = self._checked_part(X, y, sample_weight)
        return self._examples_of_part(*part, self._total)

    def _layout(self):
        """The model bound to one sample, whose `views` name blocks of weights."""
        X = np.zeros((1, self._n_features))
        Y = np.zeros((1, len(self.classes_)), dtype=np.int32)
        return self._bind((X, Y, np.ones(1)))

    def _bind(self, examples):
        self.scaling, self._target, self._start = self.choose(self, examples)
        if self.scaling == 0.0:
            self.label_pairs_ = self.label_pairs_[:0]
        self._check_losses(examples[1], self.label_pairs_)
        return self.bind_scaled(examples, self.scaling)

    def _first_state(self, model, solver):
        # `_start` is dropped when it was used, as it refers to the trials, which hold
        # all examples
        start, self._start = self._start, None
        return start and start(model, solver)

    def _bind_part(self, examples, first, last):
        # the scaling was chosen with all examples
        return self.bind_part_scaled(examples, self.scaling, first, last)

    def bind_part_scaled(self, examples, scaling, first, last):
        """The model of a range of the examples with interactions of one scaling."""
        part = tuple(rows_between(each, first, last) for each in examples)
        return self.bind_scaled(part, scaling)

    def bind_scaled(self, examples, scaling):
        """The model bound to examples, with a given scaling of the pairs."""
        X, Y, weight = examples
        pairs = self.label_pairs_ if scaling > 0.0 else self.label_pairs_[:0]
        if self.in_sets:
            if self.fit_intercept:
                X = with_ones(X)
            model = bind_label_sets(
                X, Y.shape[1], pairs, Y, weight, scaling=scaling, exact=self._exact
            )
            model.feature_scale = 1.0 / self.intercept_scaling_
            return model
        X = with_ones(X) if self.fit_intercept else X
        counted = None
        if self.partly_known:
            counted, Y = losses_left(Y, pairs), np.maximum(Y, 0)
        return ConditionalModel(
            X,
            Y,
            pairs,
            self._costs,
            weight,
            scaling,
            self.label_loss,
            counted=counted,
            # as in LogisticRegression; LinearSVC penalizes its intercept
            free_bias=self.fit_intercept and self.is_likelihood,
        )

    def _can_continue(self, previous, state):
        # dual variables of one loss may be infeasible for another; mixtures of sets are
        # feasible for any
        same = type(previous.label_loss) is type(self.label_loss)
        return same or "coordinates" not in state

    def _attributes(self, weights, views=None):
        coef, intercept, table = self.tables(views, self.label_pairs_, self.scaling)
        coef = coef / self.intercept_scaling_
        return {
            "classes_": self.classes_,
            "_values": self._values,
            "label_pairs_": self.label_pairs_,
            "_sparse_output": self._sparse_output,
            "_in_sets": self._in_sets,
            "coef_": coef,
            "intercept_": intercept - self._off_centers(coef),
            "interactions_": table,
            "interaction_scaling_": float(self.scaling * self.intercept_scaling_),
            "_loss": self.loss,
            # plain values, which readers such as skops trust
            "_target": self._target and astuple(self._target),
        }

    def tables(self, views, pairs, scaling):
        """Weights of the labels, their biases, and the scores of pairs."""
        coef, pair_coef = views["coef"], views["pair_coef"]
        table = np.zeros((len(coef), len(coef)))
        if len(pairs):
            first, second = pairs.T
            table[first, second] = scaling * pair_coef
            table[second, first] = table[first, second]
        if not self.fit_intercept:
            return np.ascontiguousarray(coef), np.zeros(len(coef)), table
        return np.ascontiguousarray(coef[:, :-1]), coef[:, -1].copy(), table


def bind_label_sets(X, n_labels, pairs, Y, example_weights, *, scaling, exact):
    """Label sets bound to data.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_examples, n_features), float64
        Features, with a column of ones for the bias.
    n_labels : int
        Number of labels.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels.
    Y : ndarray of shape (n_examples, n_labels)
        Observed labels, 0 or 1.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    scaling : float
        Factor of the pairs' feature.
    exact : bool
        Whether to try all labelings; otherwise the relaxation is solved.
    """
    n_examples, n_pairs = X.shape[0], len(pairs)
    # an example has one row of features of labels, and one of pairs
    each = np.arange(n_examples + 1)
    # a label has two keys, so that features are halved, which is exact
    X = sparse.csr_array(X) * 0.5 if sparse.issparse(X) else X * 0.5
    blocks = [(X, each, n_labels, False)]
    if n_pairs:
        # two columns at least, because a row of one column is not padded
        row = np.full((n_examples, 1), 0.5 * scaling)
        blocks.append((row, each, max(n_pairs, 2), False))
    size = n_labels + count_words(n_pairs, exact)
    # no observed label is half on, so that no bit of a pair is set
    y_true = np.zeros((n_examples, size), dtype=np.int32)
    y_true[:, :n_labels] = 2 * np.asarray(Y)
    structure = LabelSets(
        np.full(n_examples, size),
        y_true.ravel(),
        2 * (n_labels + n_pairs),
        n_labels,
        np.ascontiguousarray(pairs, dtype=np.int32).reshape(-1, 2),
        block_ld(n_labels),
        exact,
    )
    names = partial(_named, n_pairs)
    return BoundTable(blocks, structure, example_weights, names)


def multilabel_factors(model):
    """Labels and pairs of bound `LabelSets` as factors, trained on the relaxation."""
    sets, relaxed = model.structure, model
    # `bind_label_sets` has halved the features
    X = 2.0 * model.features[0]
    Y = sets.labels.reshape(model.n_examples, -1)[:, : sets.n_labels] // 2
    scaling = 2.0 * float(model.features[1][0, 0]) if sets.n_pairs else 0.0
    weights = model.example_weights
    # the dual of factors belongs to the relaxation, also if the oracle enumerates
    if sets.exact:
        relaxed = bind_label_sets(
            X, sets.n_labels, sets.pairs, Y, weights, scaling=scaling, exact=False
        )
    return MultilabelFactors(X, Y, sets.pairs, weights, scaling, relaxed)


def _named(n_pairs, blocks, others):
    """Weights of labels, and of pairs without their padding, by name."""
    pairs = blocks[1][0][0, :n_pairs] if n_pairs else np.empty(0)
    return {"coef": blocks[0][0].T, "pair_coef": pairs}


def with_ones(X):
    """X and a column of ones."""
    ones = np.ones((X.shape[0], 1))
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, ones]))
    return np.hstack([X, ones])


def label_costs(class_weight, Y, weight, values, labels):
    """Costs of a false alarm, and of missing a label: rows of 0 and 1, by label.

    Parameters
    ----------
    class_weight : {None, "balanced"}, dict or list of dict
        Parameter of the estimator.
    Y : ndarray of shape (n_samples, n_labels)
        Label indicator; -1 where a label is not known.
    weight : ndarray of shape (n_samples,)
        Weights of the samples.
    values : ndarray of shape (2,) or None
        The values of a 1-D y that became 0 and 1.
    labels : list
        Names or numbers of the labels, for messages.

    Returns
    -------
    costs : ndarray of shape (2, n_labels)
        Factors of the loss of a label where the label is off, and where it is on.
    """
    n_labels = Y.shape[1]
    costs = np.ones((2, n_labels))
    if class_weight is None:
        return costs
    if isinstance(class_weight, str):
        shares = np.vstack([weight @ (Y == 0), weight @ (Y == 1)])
        # labels that are always on, or always off, are not balanced
        some = (shares > 0.0).all(axis=0)
        total = weight.sum()
        if Y.min(initial=0) == UNKNOWN:
            total = shares.sum(axis=0)[some]
        costs[:, some] = total / (2.0 * shares[:, some])
        return costs
    if isinstance(class_weight, dict):
        class_weight = [class_weight] * n_labels
    if len(class_weight) != n_labels:
        raise ValueError(
            f"class_weight has {len(class_weight)} entries for {n_labels} labels"
        )
    names = [0, 1] if values is None else list(values)
    for j, given in enumerate(class_weight):
        if not isinstance(given, dict) or not set(given) <= set(names):
            raise ValueError(
                f"class_weight of label {labels[j]!r:.80} must be a dict with the keys "
                f"{names}, got {given!r:.80}"
            )
        for row, name in enumerate(names):
            costs[row, j] = given.get(name, 1.0)
    if not (np.isfinite(costs).all() and (costs >= 0.0).all()):
        row, j = np.argwhere(~(np.isfinite(costs) & (costs >= 0.0)))[0]
        raise ValueError(
            f"class_weight of label {labels[j]!r:.80} must be finite and not negative, "
            f"got {costs[row, j]} for {names[row]!r:.80}"
        )
    return costs
