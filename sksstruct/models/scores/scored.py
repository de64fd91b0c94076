"""Models of any structure whose scores are not linear in the weights.

A score function g(x; w) maps the rows of features of a model's first block to scores;
further weights v stay linear. The loss h of the scores and v is the loss of the same
model bound to rows of the identity, whose weights are then the scores: its gradient
with respect to these weights is the gradient of h with respect to the scores, and all
oracles of the model can be used.

Examples are divided into parts at random, and each part has its own bound model: a step
on a part takes three products of matrices and one compiled sweep, for any number of
examples.

Flat weights are the parameters of g, then v in the model's layout.
"""

import numpy as np
from scipy import sparse

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols.nonlinear_loss import NonlinearLoss
from sksstruct.models.scores.score import linearize_rows, score_rows
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks

# Sizes of parts: least number of rows, stored entries per feature, and least number of
# parts. A step on a fine part changes all parameters; a coarse part fits into the
# processor's cache.
FINE, COARSE = (128, 16, 8), (1024, 16, 1)


class ScoredLoss(NonlinearLoss):
    """A model with a score function bound to data; its oracle is "nonlinear".

    Parameters
    ----------
    score : ScoreFunction
        The scores.
    rows : ndarray or CSR of shape (n_rows, n_features)
        Rows of features of all examples.
    offsets : ndarray of shape (n_examples + 1,)
        First row of each example.
    n_columns : int
        Number of scores of a row.
    example_weights : ndarray of shape (n_examples,) or None
        The p_i.
    bind : callable
        ``bind(numbers, rows, example_weights)`` binds the model to some examples, with
        other rows of features for the first block, and no bias.
    surrogate : SmoothedHinge or None
        The loss; None: the hinge, which only the convex models smooth.
    """

    oracles = ("nonlinear",)
    # bounds on linear weights are in `box`
    oracle_bounds = None

    def __init__(
        self, score, rows, offsets, n_columns, example_weights, bind, surrogate
    ):
        self.score, self.surrogate, self.n_columns = score, surrogate, n_columns
        self.n_examples = n = len(offsets) - 1
        if example_weights is None:
            example_weights = np.full(n, 1.0 / n)
        self._rows, self._offsets = rows, offsets
        self._weights, self._bind = example_weights, bind
        # a model of one example has the oracles and the layout of all parts
        self._first = self._part(np.arange(1))

    @property
    def of_scores(self):
        """The bound model of one example, whose weights are the scores."""
        return self._first.model

    @property
    def nonsmooth(self):
        return self.surrogate is None

    @property
    def n_parts(self):
        return len(self.parts)

    @property
    def n_weights(self):
        """Number of parameters of the score function and of linear weights."""
        start = self._initialize(np.random.RandomState(0))
        return len(start) + len(self._first.tail)

    def _part(self, numbers):
        return Part(self.score, self._rows, self._offsets, self.n_columns, numbers,
                    self._weights, self._bind)  # fmt: skip

    def prepare(self, smooth_loss, smoothing, k, fine):
        """Divide the examples into parts; called by `roles.nonlinear_loss`.

        Parameters
        ----------
        smooth_loss : callable
            ``smooth_loss(model, smoothing, nonsmooth)`` forms the loss of a part.
        smoothing, k, fine : objects
            As in `nonlinear_loss`.

        Returns
        -------
        loss : ScoredLoss
            This object.
        """
        self.parts = [self._part(numbers) for numbers in self._deal(fine)]
        self.shares = np.array([part.share for part in self.parts])
        loss = self.surrogate
        if loss is None:
            loss = SmoothedHinge(self._kind(smoothing), 1.0, k)
        for part in self.parts:
            if self.likelihood:
                part.model.likelihood = True
            part.smooth = smooth_loss(part.model, loss, self.nonsmooth)
        sizes = [part.smooth.diameter for part in self.parts]
        self.diameter = float(self.shares @ sizes)
        return self

    def _kind(self, smoothing):
        """The kind of smoothing of a hinge, by an oracle that the model has."""
        model = self.of_scores
        offered = {
            kind
            for kind, oracle in (("entropy", "exp"), ("l2", "topk"))
            if oracle in model.oracles
        }
        if smoothing == "auto" and offered:
            by_topk = model.prefers_topk or "entropy" not in offered
            return "l2" if by_topk else "entropy"
        if smoothing not in offered:
            error = ValueError(
                f"smoothing={smoothing!r} needs an oracle that this model does not "
                f"have; it has {', '.join(model.oracles)}"
            )
            if model.oracle_note is not None:
                error.add_note(model.oracle_note)
            raise error
        return smoothing

    def _deal(self, fine):
        """Numbers of the examples of each part."""
        rows, n = self._rows, self.n_examples
        entries = rows.nnz if sparse.issparse(rows) else rows.size
        n_rows, dense_rows, few = FINE if fine else COARSE
        parts = min(rows.shape[0] / n_rows, entries / rows.shape[1] / dense_rows)
        parts = min(max(int(parts), few), n)
        order = np.random.RandomState(0).permutation(n)
        return [np.sort(numbers) for numbers in np.array_split(order, parts)]

    def set_smoothing(self, mu):
        for part in self.parts:
            part.smooth.set_smoothing(mu)

    def _initialize(self, random_state):
        start = self.score.initialize(self._rows.shape[1], self.n_columns, random_state)
        start = np.asarray(start, dtype=np.float64)
        if start.ndim != 1 or not np.isfinite(start).all():
            raise ValueError(
                "initialize of the score function must return a vector of numbers"
            )
        return start

    def initial_weights(self, random_state):
        start, part = self._initialize(random_state), self.parts[0]
        self.n_parameters = len(start)
        scores = np.asarray(part.value_of(start))
        if scores.shape != part.scores.shape or not np.isfinite(scores).all():
            raise ValueError(
                "value of the score function must return finite numbers of shape "
                f"{part.scores.shape}, got {scores.shape}"
            )
        return np.concatenate([start, np.zeros(len(part.tail))])

    def box(self):
        """Lower and upper bounds of the weights, or None."""
        part = self.parts[0]
        box = part.model.box()
        if box is None:
            return None
        free = np.full(self.n_parameters, np.inf)
        lower, upper = (side[part.first :] for side in box)
        return np.concatenate([-free, lower]), np.concatenate([free, upper])

    def value(self, w, n_jobs=None):
        return float(self.shares @ [part.loss(w, self, n_jobs) for part in self.parts])

    # ---- the convex model, and the gradient of the loss itself ----

    def linearize(self, w):
        self.center = w.copy()
        for part in self.parts:
            part.linearize(w[: self.n_parameters])

    def value_and_gradient(self, w, n_jobs=None):
        gradient, value = np.zeros_like(w), 0.0
        change = (w - self.center)[: self.n_parameters]
        for part in self.parts:
            value += part.share * part.look(part.moved(change), w, n_jobs)
            part.keep_anchor()
            gradient += part.share * part.gradient()
        return value, gradient

    def part_gradient(self, number, w, anchored=True, n_jobs=None):
        part = self.parts[number]
        change = (w - self.center)[: self.n_parameters]
        part.look(part.moved(change), w, n_jobs)
        return part.gradient(anchored)

    def true_gradient(self, number, w, n_jobs=None):
        part = self.parts[number]
        part.linearize(w[: self.n_parameters])
        return part.look(part.base, w, n_jobs), part.gradient()


class Part:
    """Some examples of a `ScoredLoss`, which passes the arguments."""

    def __init__(self, score, rows, offsets, n_columns, numbers, example_weights, bind):
        self.score, self.n_columns = score, n_columns
        weights = example_weights[numbers]
        self.share = float(weights.sum())
        lengths = np.diff(offsets)[numbers]
        self.offsets = np.concatenate([[0], np.cumsum(lengths)])
        chosen = rows_of_examples(offsets, numbers)
        self.rows = rows[chosen]
        n = len(chosen)
        self.model = bind(numbers, identity_rows(n), weights / self.share)
        self.w, self._gradient = (aligned_zeros(self.model.n_weights) for _ in "wg")
        # views of the bound model's weights, which are the scores, and of their
        # gradient
        self.scores = score_view(self.model, self.w)
        self.differences = score_view(self.model, self._gradient)
        self.first = self.model.first_other
        self.tail = self.w[self.first :]
        self.anchor = np.zeros((n, n_columns)), np.zeros(len(self.tail))

    def value_of(self, parameters):
        return score_rows(
            self.score, parameters, self.rows, self.n_columns, self.offsets
        )

    def loss(self, w, problem, n_jobs):
        """The loss of the part's examples at weights w."""
        scores = self.value_of(w[: problem.n_parameters])
        if not problem.nonsmooth:
            return self.look(scores, w, n_jobs)
        self.scores[...] = scores
        self.tail[:] = w[problem.n_parameters :]
        model, hinge = self.model, np.empty(self.model.n_examples)

        def run(first, last):
            workspace = model.workspace(self.w, training=False)
            model.hinge(workspace, first, last, hinge)

        work = model.n_examples * model.visit_work * self.n_columns
        run_in_chunks(run, model.n_examples, n_jobs, work)
        return float(model.example_weights @ hinge)

    def linearize(self, parameters):
        self.base, self.jvp, self.vjp = linearize_rows(
            self.score, parameters, self.rows, self.n_columns, self.offsets
        )
        self._parameters_shape = np.shape(parameters)

    def moved(self, change):
        """Scores of the convex model after a change of the parameters."""
        moves = self.jvp(change)
        # checked, as NumPy would add some other shapes without an error
        _check_shape("jvp", moves, np.shape(self.base))
        return self.base + moves

    def look(self, scores, w, n_jobs):
        """Return the smooth loss of scores and linear weights; store its gradient."""
        self.scores[...] = scores
        self.tail[:] = w[len(w) - len(self.tail) :]
        return self.smooth.value_and_gradient(self.w, self._gradient, n_jobs)

    def keep_anchor(self):
        self.anchor[0][...] = self.differences
        self.anchor[1][...] = self._gradient[self.first :]

    def gradient(self, anchored=False):
        """The gradient that `look` stored; if `anchored`, minus that of the anchor."""
        differences, rest = self.differences, self._gradient[self.first :]
        if anchored:
            differences, rest = differences - self.anchor[0], rest - self.anchor[1]
        slopes = self.vjp(differences)
        _check_shape("vjp", slopes, self._parameters_shape)
        return np.concatenate([slopes, rest])


def _check_shape(name, values, shape):
    """Raise an error if a product of a score function does not have the given shape."""
    if np.shape(values) != shape:
        raise ValueError(
            f"{name} of the score function must return an array of shape {shape}, got "
            f"{np.shape(values)}"
        )


def identity_rows(n_rows):
    """Rows of the identity, whose weights are the scores of n_rows rows."""
    # not `eye_array`, which the oldest supported SciPy lacks
    ones, places = np.ones(n_rows), np.arange(n_rows + 1)
    return sparse.csr_array((ones, places[:-1], places), shape=(n_rows, n_rows))


def join_weights(model, scores, rest):
    """Flat weights of a model of identity rows, from scores and linear weights."""
    w = aligned_zeros(model.n_weights)
    score_view(model, w)[...] = scores
    w[model.first_other :] = rest
    return w


def rows_of_examples(offsets, numbers):
    """Numbers of the rows of some examples."""
    return np.concatenate([np.arange(*offsets[i : i + 2]) for i in numbers])


def score_view(model, w):
    """The scores, as a view of flat weights of a model bound to identity rows."""
    coef = model.views(w)["coef"]
    return coef.T if coef.ndim == 2 else coef[:, None]
