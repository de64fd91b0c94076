"""The pseudo-likelihood, or margins, of label sets, bound to data."""

from types import SimpleNamespace

import numpy as np
from scipy import sparse

from sksstruct.inference.trees._arrays import starts_of
from sksstruct.losses import LABEL_LOSSES
from sksstruct.models.multilabel._conditional import ConditionalKernel
from sksstruct.models.protocols.duals import CoordinateDual
from sksstruct.models.protocols.trainable import Trainable
from sksstruct.models.tables._feature_rows import FeatureRows
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks

# Number of rows in one product of features and weights.
BATCH = 512
# A bias has converged if it changes by less than this.
SETTLED = 1e-13
# Up to this number of scores, several arrays of scores take little memory.
FEW_SCORES = 2**22
# Above this number, dual variables take much memory.
MANY_DUALS = 2**27
# A sparse matrix with this share of nonzero entries is as large as a dense one.
DENSE = 2.0 / 3.0


class ConditionalRows(ConditionalKernel):
    """The data of the examples, and the loops over them.

    The weights of `ConditionalModel` are `n_features` rows of labels, padded to
    `ld`, and then one weight for each pair.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_examples, n_features), float64
        Features, a column of ones for the bias included.
    Y : ndarray of shape (n_examples, n_labels)
        Observed labels, 0 or 1.
    pairs : ndarray of shape (n_pairs, 2)
        Pairs of labels.
    costs : ndarray of shape (2, n_labels)
        c_ij of labels that are off, and of labels that are on.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    scaling : float
        Factor of the pairs' feature.
    loss : {"hinge", "squared_hinge", "log"}
        The loss l.
    counted : ndarray of shape (n_examples, n_labels), bool, default=None
        Which labels have a loss; None: all.
    """

    def __init__(self, X, Y, pairs, costs, example_weights, scaling, loss, counted):
        n_examples, n_labels = Y.shape
        # examples are sequences of one position, whose features are one row
        rows = PackedSequences.from_lengths(X, np.ones(n_examples, dtype=np.intp))
        square = X.multiply(X) if sparse.issparse(X) else X * X
        examples, on = owners, hidden = np.nonzero(Y)
        states = Y
        if counted is not None:
            # labels without a loss have a separate state, whose cost is zero
            owners, hidden = np.nonzero((Y == 1) | ~counted)
            states = Y + 2 * ~counted
            costs = np.vstack([costs, np.zeros_like(costs)])
        # for each label, the labels that it interacts with
        numbers, (left, right) = np.arange(len(pairs)), np.asarray(pairs).T
        ends = np.concatenate([left, right])
        order = np.argsort(ends, kind="stable")
        arrays = SimpleNamespace(
            states=np.ascontiguousarray(states, dtype=np.int8),
            costs=np.ascontiguousarray(costs, dtype=np.float64),
            example_weights=example_weights,
            squares=np.asarray(square.sum(axis=1), dtype=np.float64).ravel(),
            on_starts=starts_of(np.bincount(examples, minlength=n_examples)),
            on=on.astype(np.int32),
            hidden_starts=starts_of(np.bincount(owners, minlength=n_examples)),
            hidden=hidden.astype(np.int32),
            next_starts=starts_of(np.bincount(ends, minlength=n_labels)),
            next_labels=np.concatenate([right, left])[order].astype(np.int32),
            next_pairs=np.concatenate([numbers, numbers])[order].astype(np.int32),
            n_pairs=len(pairs),
            ld=padded_length(n_labels),
        )
        super().__init__(arrays, FeatureRows(rows), loss, scaling)


class ConditionalModel(Trainable):
    """The composite likelihood, or margins, of label sets, bound to data.

    Each label has the loss of its own score, in which the other labels have their
    observed values; `_conditional.pyx` has the formulas. Without pairs, each label is a
    separate binary classifier.

    Parameters
    ----------
    X, Y, pairs, costs, example_weights, scaling, loss, counted : objects
        As in `ConditionalRows`.

    Attributes
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    example_weights : ndarray of shape (n_examples,)
        The p_i.
    rows : ConditionalRows
        The data.
    free : ndarray of intp
        Labels whose bias has no penalty. If all examples have a label, or none has
        it, the best bias is infinite: such a bias is penalized, whatever `free_bias`
        is.
    """

    # flat weights contain the padding of rows, which depends on the number of labels
    views_need_data = True

    def __init__(
        self,
        X,
        Y,
        pairs,
        costs,
        example_weights,
        scaling,
        loss,
        *,
        counted=None,
        free_bias=False,
    ):
        self.label_loss = loss = LABEL_LOSSES.resolve(loss)
        self.rows = ConditionalRows(
            X, Y, pairs, costs, example_weights, scaling, loss.name, counted
        )
        self.example_weights = example_weights
        self.features = X
        self.labels, self.costs, self.counted = Y, np.asarray(costs), counted
        self.pairs, self.scaling = pairs, scaling
        # the hinge has no gradient
        smooth = ("curvature", "slopes") if loss.is_smooth else ()
        self.oracles = ("coordinates", *smooth)
        self.n_examples = self.rows.n_examples
        self.n_weights = self.rows.n_features * self.rows.ld + self.rows.n_pairs
        # total cost of the examples without each label, and with it
        off, on = (1 - Y, Y) if counted is None else (counted & (Y == 0), counted & Y)
        shares = example_weights @ off, example_weights @ on
        self.masses = costs * np.vstack(shares)
        # two sums, because a difference from the total may round to zero
        both = (self.masses > 0.0).all(axis=0)
        self.free = np.flatnonzero(both & free_bias)

    def views(self, w):
        """Named views of flat weights."""
        rows = self.rows
        size = rows.n_features * rows.ld
        coef = w[:size].reshape(rows.n_features, rows.ld)[:, : rows.n_labels].T
        return {"coef": coef, "pair_coef": w[size:]}

    def biases(self, w):
        """The biases, which are the weights of the last feature, as a view of w."""
        rows = self.rows
        first = (rows.n_features - 1) * rows.ld
        return w[first : first + rows.n_labels]

    @property
    def prefers_curvature(self):
        """Whether Newton's method takes less time than dual coordinate ascent.

        Coordinate ascent takes many passes with the logistic loss, and with dense rows,
        because the step of one example changes the scores of all others. With pairs,
        Newton's method keeps several arrays of all scores in memory.
        """
        if self.rows.n_pairs:
            return self.label_loss.is_likelihood and self.labels.size <= FEW_SCORES
        many = self.labels.size > MANY_DUALS
        return many or self.label_loss.is_likelihood or is_dense(self.features)

    @property
    def preferred_solver(self):
        """The fastest solver for the likelihood of many labels with pairs, or None."""
        slow = self.label_loss.is_likelihood and not self.prefers_curvature
        return "lbfgs" if slow else None

    def coordinates_at(self, w):
        """State of a `ConditionalDual` with the variables b = -l' of the weights w."""
        state = np.zeros((self.n_examples + 1, self.rows.n_labels))
        self.rows.duals_at(w, state[:-1])
        return state

    def penalty(self, w, alpha):
        """The penalty alpha/2 |w|^2, without the biases that are not penalized."""
        free = self.biases(w)[self.free]
        return alpha / 2 * float(w @ w - free @ free)

    def loss(self, w, n_jobs=None):
        """The mean loss at weights w."""
        losses = np.empty(self.n_examples)

        def run(first, last):
            self.rows.losses(first, last, w, losses)

        run_in_chunks(run, self.n_examples, n_jobs)
        return float(self.example_weights @ losses)


def is_dense(X):
    """Whether a matrix is an array, or has too few zeros to be smaller if sparse."""
    return not sparse.issparse(X) or X.nnz >= DENSE * X.shape[0] * X.shape[1]


def best_constants(model):
    """The biases without a penalty that are best if there are no features."""
    off, on = model.masses[:, model.free]
    return np.log(on / off)


class ConditionalDual(CoordinateDual):
    """The dual variables b, and their weights w(b).

    A bias without a penalty is a constraint of the dual, sum_i p_i c_ij s_ij b_ij = 0.
    The method of multipliers enforces the constraint: a pass has a penalty
    alpha/2 (bias - m)^2, and afterwards m, the multiplier, is set to the bias. For a
    lower bound, the duals of the examples with the label, or of the examples without
    it, are scaled down until they meet the constraint.

    Parameters
    ----------
    model : ConditionalModel
        The model with its data.
    alpha : float
        Regularization.
    state : ndarray or None
        Dual variables to start from, and a last row of the multipliers.
    """

    def __init__(self, model, alpha, state=None):
        self.model, self.alpha = model, alpha
        self.w = aligned_zeros(model.n_weights)
        self._state = np.zeros((model.n_examples + 1, model.rows.n_labels))
        self.duals, self.multipliers = self._state[:-1], self._state[-1]
        self._none = np.ones((2, model.rows.n_labels))
        free = model.free
        if state is not None:
            self._state[...] = state
            model.rows.restore(alpha, self._none, self.duals, self.w)
        else:
            self.multipliers[free] = best_constants(model)
        model.biases(self.w)[free] += self.multipliers[free]

    def visit(self, rng):
        order = rng.permutation(self.model.n_examples).astype(np.intp)
        return self.model.rows.visit(order, self.alpha, self.duals, self.w)

    def end_pass(self):
        free, biases = self.model.free, self.model.biases(self.w)
        change = biases[free] - self.multipliers[free]
        self.multipliers[free] += change
        biases[free] += change
        return bool((np.abs(change) > SETTLED).any())

    def value(self):
        model, factors, w = self.model, self._none, self.w
        if len(model.free):
            factors, free = factors.copy(), model.free
            sums = np.zeros_like(factors)
            # at the optimum, both sums of a label whose bias is free are equal
            model.rows.sums(self.duals, sums)
            sums = sums[:, free]
            # if one sum is zero, the duals of the other sum become zero
            factors[:, free] = np.divide(
                sums.min(axis=0), sums, out=np.zeros_like(sums), where=sums > 0.0
            )
            w = aligned_zeros(model.n_weights)
            model.rows.restore(self.alpha, factors, self.duals, w)
        losses = np.empty(model.n_examples)
        model.rows.dual_losses(factors, self.duals, losses)
        return float(model.example_weights @ losses) - model.penalty(w, self.alpha)

    def primal(self, n_jobs=None):
        model = self.model
        return model.loss(self.w, n_jobs) + model.penalty(self.w, self.alpha)

    def state(self):
        return self._state


class ConditionalLoss:
    """The mean loss of a `ConditionalModel`, and its gradient.

    Parameters
    ----------
    model : ConditionalModel
        The model with its data.
    """

    convex, support = True, None

    def __init__(self, model):
        self.model, self.exact = model, np.ones(1)
        rows = model.rows
        # the biases are the weights of the last feature
        first = (rows.n_features - 1) * rows.ld
        self.unpenalized = first + model.free if len(model.free) else None
        self.constants = best_constants(model)
        self._losses = np.empty(model.n_examples)

    def value_and_gradient(self, w, gradient, n_jobs=None):
        model, rows = self.model, self.model.rows
        gradient[:] = 0.0
        if sparse.issparse(model.features):
            rows.add_slopes(0, model.n_examples, w, gradient, self._losses)
            return float(model.example_weights @ self._losses)
        # products of BATCH dense rows at a time, whose scores stay in the cache
        size = rows.n_features * rows.ld
        weights, out = (a[:size].reshape(rows.n_features, -1) for a in (w, gradient))
        for first in range(0, model.n_examples, BATCH):
            part = model.features[first : first + BATCH]
            products = np.ascontiguousarray(part @ weights)
            last = first + len(part)
            rows.add_slopes(first, last, w, gradient, self._losses, products)
            out += part.T @ products
        return float(model.example_weights @ self._losses)

    def dual_value(self, w, alpha):
        """A lower bound of the optimum, from the dual variables of weights w."""
        state = self.model.coordinates_at(w)
        return ConditionalDual(self.model, alpha, state).value()
