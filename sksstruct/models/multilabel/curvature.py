"""Labels without pairs: as many separate problems, whose curvature is known.

With the notation of `_conditional.pyx`, label j alone has the objective

    P_j(w) = alpha/2 |w|^2 + sum_i p_i c_ij l(s_ij <w, x_i>)

and the (generalized) Hessian alpha + X^T D X, with D_ii = p_i c_ij l''. What is said of
many labels at once are matrices with a column for each of them.
"""

import numpy as np
from scipy import sparse
from scipy.special import entr

from sksstruct.models.multilabel.conditional import best_constants

# Errors of a dual value, relative to the terms that it is the sum of.
ROUNDING = 16.0 * float(np.finfo(np.float64).eps)


class SeparateLabels:
    """The labels of a `ConditionalModel` without pairs: "curvature".

    Parameters
    ----------
    model : ConditionalModel
        The model with its data.
    alpha : float
        Regularization, positive.

    Attributes
    ----------
    n_blocks : int
        Number of labels.
    start : ndarray of shape (n_weights,)
        Weights of labels that know nothing of the features.
    """

    def __init__(self, model, alpha):
        self.model, self.alpha = model, alpha
        self.n_blocks = model.rows.n_labels
        X = model.features
        # weights of features that no example has are zero
        self.used = np.arange(X.shape[1])
        if sparse.issparse(X):
            self.used = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]))
            X = X[:, self.used]
        self.X, self.transposed = X, X.T
        self.free = np.zeros(self.n_blocks, dtype=bool)
        self.free[model.free] = True
        self.n_examples = model.n_examples
        self.start = np.zeros(model.n_weights)
        model.biases(self.start)[model.free] = best_constants(model)

    def group(self, labels, w):
        """Some labels with their weights, which are part of flat weights w."""
        coef = self.model.views(w)["coef"].T
        return LabelGroup(self, labels, coef[np.ix_(self.used, labels)])

    def put(self, labels, group, w):
        """Write the weights of a group of labels into flat weights."""
        coef = self.model.views(w)["coef"].T
        coef[np.ix_(self.used, labels)] = group.weights


class LabelGroup:
    """Some of the labels: objectives, slopes and curvature at their weights.

    Parameters
    ----------
    problem : SeparateLabels
        All labels.
    labels : ndarray of int
        Which of them.
    weights : ndarray of shape (n_features, n_labels)
        Weights.

    Attributes
    ----------
    primal : ndarray of shape (n_labels,)
        Objectives.
    gradient : ndarray of shape (n_features, n_labels)
        Their gradients.
    residual : ndarray of shape (n_labels,)
        Squared norms of the gradients over 2 alpha, without biases that are free: the
        gap of labels without such a bias.
    """

    def __init__(self, problem, labels, weights):
        self.problem, self.alpha = problem, problem.alpha
        model = problem.model
        self.logistic = model.loss_name == "log"
        self.free = problem.free[labels]
        on = np.ascontiguousarray(model.labels[:, labels]).astype(bool)
        self.signs = np.where(on, 1.0, -1.0)
        costs = model.costs[:, labels]
        self.masses = model.example_weights[:, None] * np.where(on, costs[1], costs[0])
        self.weights = weights
        self.scores = problem.X @ weights
        self._look()

    def _look(self):
        """Form what is known at the weights."""
        slacks, losses, slopes, self.curvature = self._losses(self.scores)
        self._shares = slacks
        self.primal = losses + self._penalty(self.weights)
        self.gradient = self.problem.transposed @ slopes
        self.gradient += self.alpha * self._penalized(self.weights)
        square = _dot(self.gradient, self._penalized(self.gradient))
        self.residual = square / (2.0 * self.alpha)

    def _losses(self, scores):
        """-l' of the margins, losses by label, slopes of scores, and their curvature."""
        margins = self.signs * scores
        if not self.logistic:
            slack = np.maximum(1.0 - margins, 0.0)
            losses = _dot(self.masses * slack, slack)
            slopes = -2.0 * self.masses * self.signs * slack
            return 2.0 * slack, losses, slopes, 2.0 * self.masses * (slack > 0.0)
        # the exponential of a negative number does not overflow
        small = np.exp(-np.abs(margins))
        share = np.where(margins > 0.0, small, 1.0) / (1.0 + small)
        losses = _dot(self.masses, np.log1p(small) - np.minimum(margins, 0.0))
        slopes = self.masses * share
        return share, losses, -self.signs * slopes, slopes * (1.0 - share)

    def _penalized(self, weights):
        """Weights, or a gradient, with zeros for biases that are free."""
        if not self.free.any():
            return weights
        weights = weights.copy()
        weights[-1, self.free] = 0.0
        return weights

    def _penalty(self, weights):
        weights = self._penalized(weights)
        return self.alpha / 2.0 * _dot(weights, weights)

    def dual(self):
        """Lower bounds of the optima, from the dual variables b = -l' of the weights.

        Where the bias is free, the sum over i of p_i c_ij s_ij b_ij has to be zero: the
        variables of examples with the label, or of those without it, are scaled down.
        """
        rounding = ROUNDING * (np.abs(self.primal) + self.residual)
        bounds = self.primal - self.residual - rounding
        if not self.free.any():
            return bounds
        duals, on = self._shares[:, self.free], self.signs[:, self.free] > 0.0
        masses = self.masses[:, self.free]
        weighted = masses * duals
        sums = _dot(weighted, on), _dot(weighted, ~on)
        factors = np.minimum(*sums) / np.maximum(sums, np.finfo(np.float64).tiny)
        duals = duals * np.where(on, factors[0], factors[1])
        combined = self.problem.transposed @ (masses * np.where(on, duals, -duals))
        # the last one is zero but for rounding
        square = _dot(combined[:-1], combined[:-1]) / (2.0 * self.alpha)
        bounds[self.free] = _dot(masses, self._conjugate(duals)) - square
        return bounds

    def _conjugate(self, duals):
        """-l*(-b), which is what variables contribute to the dual."""
        if not self.logistic:
            return duals - 0.25 * duals**2
        duals = np.minimum(duals, 1.0)
        return entr(duals) + entr(1.0 - duals)

    def keep(self, which):
        """Forget all labels but some."""
        for name in ("free", "primal", "residual"):
            setattr(self, name, getattr(self, name)[which])
        for name in ("weights", "gradient", "signs", "masses", "scores", "curvature"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[:, which]))

    def product(self, directions, labels, curvature):
        """Hessians of some labels times directions, and what scores change by."""
        changes = self.problem.X @ directions
        image = self.problem.transposed @ (curvature * changes)
        image += self.alpha * directions
        free = np.flatnonzero(self.free[labels])
        image[-1, free] -= self.alpha * directions[-1, free]
        return image, changes

    def step(self, directions, changes, least, trials):
        """Go along directions until objectives fall by a share of what slopes promise.

        Parameters
        ----------
        directions, changes : ndarray
            Steps of weights and of scores.
        least : float
            The share.
        trials : int
            Number of halvings.

        Returns
        -------
        moved : ndarray of shape (n_labels,), bool
            Whether a step was found.
        """
        slopes = _dot(self.gradient, directions)
        before, moved = self.primal, np.zeros(len(self.primal), dtype=bool)
        length = np.ones(len(before))
        for _ in range(trials):
            weights = self.weights + length * directions
            scores = self.scores + length * changes
            primal = self._losses(scores)[1] + self._penalty(weights)
            moved = primal < before + least * length * slopes
            if moved.all():
                break
            length[~moved] *= 0.5
        # others stay where they are
        self.primal = np.where(moved, primal, before)
        self.weights = np.where(moved, weights, self.weights)
        return moved


def _dot(first, second):
    """Inner products of columns."""
    return np.einsum("ij,ij->j", first, second)
