"""Newton steps on the pseudo-likelihood, or the squared hinge, of label sets.

With the notation of `_conditional.pyx`, the objective is a sum over labels j of

    P_j(w) = alpha/2 |w_j|^2 + sum_i p_i c_ij l(s_ij f_ij),

and of the penalty of the pairs. Its (generalized) Hessian is alpha + A^T D A, where A
maps the weights to the scores f_ij and D has the p_i c_ij l''. Without pairs each label
is a separate block, and arrays of several blocks have a column for each. With pairs,
all weights are one block, a single column.
"""

import numpy as np
from scipy import sparse
from scipy.special import entr

from sksstruct.models.multilabel.conditional import best_constants, is_dense
from sksstruct.models.protocols.duals import ROUNDING

# The diagonal of the Hessian is the preconditioner of a step if its largest entry is
# more than this multiple of its least one. If the entries differ less, as with rare and
# frequent words, steps with the preconditioner take longer.
UNEVEN = 1e5


class LabelBlocks:
    """Blocks of the weights of a `ConditionalModel` that share the features.

    Parameters
    ----------
    model : ConditionalModel
        The model with its data.
    alpha : float
        Regularization, positive.

    Attributes
    ----------
    n_blocks : int
        Number of labels; one with pairs.
    n_examples : int
        Number of examples.
    start : ndarray of shape (n_weights,)
        Weights to start from: zeros, and the best biases without features.
    """

    def __init__(self, model, alpha):
        self.model, self.alpha = model, alpha
        self.n_examples, n_labels = model.n_examples, model.rows.n_labels
        self.joint = model.rows.n_pairs > 0
        self.n_blocks = 1 if self.joint else n_labels
        X = model.features
        if sparse.issparse(X) and is_dense(X):
            # for matrices with few zeros, products of dense matrices are faster
            X = X.toarray()
        # weights of features that no example has are zero
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        means = np.asarray(model.example_weights @ squares).ravel()
        self.used = np.flatnonzero(means)
        if len(self.used) < X.shape[1]:
            X, squares = X[:, self.used], squares[:, self.used]
        self.X, self.transposed = X, X.T
        curvatures = means[self.used] + alpha
        uneven = curvatures.max() > UNEVEN * curvatures.min()
        self.squares = squares.T if uneven else None
        self.free = np.zeros(n_labels, dtype=bool)
        self.free[model.free] = True
        self.start = np.zeros(model.n_weights)
        model.biases(self.start)[model.free] = best_constants(model)

    def group(self, blocks, w):
        """A group of blocks, with their weights from flat weights w."""
        views = self.model.views(w)
        coef = views["coef"].T
        if self.joint:
            flat = coef[self.used].ravel(), views["pair_coef"]
            return PairedLabels(self, np.concatenate(flat)[:, None])
        return LabelGroup(self, blocks, coef[np.ix_(self.used, blocks)])

    def put(self, blocks, group, w):
        """Write the weights of a group of blocks into flat weights."""
        views = self.model.views(w)
        coef = views["coef"].T
        if self.joint:
            coef[self.used], views["pair_coef"][...] = group.split(group.weights)
        else:
            coef[np.ix_(self.used, blocks)] = group.weights


class LabelGroup:
    """Some of the labels: objectives, slopes and curvature at their weights.

    Parameters
    ----------
    problem : LabelBlocks
        All labels.
    labels : ndarray of int
        The labels of this group.
    weights : ndarray of shape (n_features, n_labels)
        Weights.

    Attributes
    ----------
    primal : ndarray of shape (n_blocks,)
        Objectives.
    gradient : ndarray like weights
        Gradients of the objectives.
    residual : ndarray of shape (n_blocks,)
        Squared norms of the gradients over 2 alpha, without biases that are free: the
        gap of labels without such a bias.
    scores, curvature : ndarray of shape (n_examples, n_labels)
        The f_ij and the entries of D.
    """

    def __init__(self, problem, labels, weights):
        self.problem, self.alpha = problem, problem.alpha
        model = problem.model
        self.logistic = model.label_loss.is_likelihood
        self.free = problem.free[labels]
        on = np.ascontiguousarray(model.labels[:, labels]).astype(bool)
        self.signs = np.where(on, 1.0, -1.0)
        costs = model.costs[:, labels]
        self.masses = model.example_weights[:, None] * np.where(on, costs[1], costs[0])
        if model.counted is not None:
            self.masses *= model.counted[:, labels]
        self.weights = weights
        self.scores = self._map(weights)
        self._evaluate()

    # ---- the linear map A, and sums over blocks; `PairedLabels` overrides them ----

    def _map(self, weights):
        """Scores f_ij of the labels at some weights."""
        return self.problem.X @ weights

    def _adjoint(self, slopes, transposed=None):
        """A^T times slopes; `transposed`, if given, replaces the features in A^T."""
        return (self.problem.transposed if transposed is None else transposed) @ slopes

    def _penalized(self, weights):
        """Weights, or a gradient, with zeros for biases that are free."""
        if not self.free.any():
            return weights
        weights = weights.copy()
        weights[-1, self.free] = 0.0
        return weights

    def _fold(self, values):
        """Sums over the labels of each block; here a block is one label."""
        return values

    # ---- values ----

    def _evaluate(self):
        """Set objectives, gradients and curvature at the current weights."""
        self._shares, losses, slopes, self.curvature = self._losses(self.scores)
        self.primal = self._fold(losses) + self._penalty(self.weights)
        self.gradient = self._adjoint(slopes)
        self.gradient += self.alpha * self._penalized(self.weights)
        square = _dot(self.gradient, self._penalized(self.gradient))
        self.residual = square / (2.0 * self.alpha)

    def _losses(self, scores):
        """-l' of the margins, losses by label, slopes of scores, and curvature."""
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

    def _penalty(self, weights):
        weights = self._penalized(weights)
        return self.alpha / 2.0 * _dot(weights, weights)

    def dual(self):
        """Lower bounds of the optima, from the dual variables b = -l' of the weights.

        Where the bias is free, the sum over i of p_i c_ij s_ij b_ij has to be zero: the
        variables of examples with the label, or of examples without it, are scaled
        down.
        """
        if not self.free.any():
            rounding = ROUNDING * (np.abs(self.primal) + self.residual)
            return self.primal - self.residual - rounding
        on = self.signs > 0.0
        weighted = self.masses * self._shares
        sums = np.array([_dot(weighted, on), _dot(weighted, ~on)])
        factors = sums.min(axis=0) / np.maximum(sums, np.finfo(np.float64).tiny)
        factors[:, ~self.free] = 1.0
        duals = self._shares * np.where(on, *factors[:, None])
        combined = self._penalized(self._adjoint(self.masses * self.signs * duals))
        square = _dot(combined, combined) / (2.0 * self.alpha)
        return self._fold(_dot(self.masses, self._conjugate(duals))) - square

    def _conjugate(self, duals):
        """-l*(-b), the terms of dual variables in the dual."""
        if not self.logistic:
            return duals - 0.25 * duals**2
        duals = np.minimum(duals, 1.0)
        return entr(duals) + entr(1.0 - duals)

    # ---- steps ----

    def keep(self, which):
        """Restrict the group to some of its labels."""
        for name in ("free", "primal", "residual"):
            setattr(self, name, getattr(self, name)[which])
        for name in ("weights", "gradient", "signs", "masses", "scores", "curvature"):
            setattr(self, name, np.ascontiguousarray(getattr(self, name)[:, which]))

    def product(self, directions, blocks, curvature):
        """Hessians of some blocks times directions, and the changes of the scores."""
        changes = self._map(directions)
        image = self._adjoint(curvature * changes)
        image += self.alpha * directions
        free = np.flatnonzero(self.free[blocks])
        image[-1, free] -= self.alpha * directions[-1, free]
        return image, changes

    def diagonal(self):
        """Second derivatives along single weights; ones if they differ little."""
        if self.problem.squares is None:
            return np.ones((1, 1))
        return self._adjoint(self.curvature, self.problem.squares) + self.alpha

    def step(self, directions, changes, least, trials):
        """Search along directions, with lengths that are halved (Armijo's rule).

        Parameters
        ----------
        directions, changes : ndarray
            Steps of weights and of scores.
        least : float
            Least decrease of the objective, as a share of the length times the slope.
        trials : int
            Number of halvings.

        Returns
        -------
        moved : ndarray of shape (n_blocks,), bool
            Whether a step was found.
        """
        slopes = _dot(self.gradient, directions)
        before, moved = self.primal, np.zeros(len(self.primal), dtype=bool)
        length = np.ones(len(before))
        for _ in range(trials):
            weights = self.weights + length * directions
            losses = self._losses(self.scores + length * changes)[1]
            primal = self._fold(losses) + self._penalty(weights)
            moved = primal < before + least * length * slopes
            if moved.all():
                break
            length[~moved] *= 0.5
        # blocks without a step keep their weights
        self.primal = np.where(moved, primal, before)
        self.weights = np.where(moved, weights, self.weights)
        return moved


class PairedLabels(LabelGroup):
    """All labels and their pairs as one block.

    Parameters
    ----------
    problem : LabelBlocks
        All labels.
    weights : ndarray of shape (n_features * n_labels + n_pairs, 1)
        Weights of the labels, feature by feature, and of the pairs.
    """

    def __init__(self, problem, weights):
        model = problem.model
        self.n_labels, self.scaling = model.rows.n_labels, model.scaling
        self.first, self.second = np.asarray(model.pairs).T
        self.observed = sparse.csr_array(model.labels, dtype=np.float64)
        super().__init__(problem, np.arange(self.n_labels), weights)

    def split(self, weights):
        """Weights of the labels as a matrix, and weights of the pairs."""
        size = len(self.problem.used) * self.n_labels
        return weights[:size, 0].reshape(-1, self.n_labels), weights[size:, 0]

    def _map(self, weights):
        coef, pairs = self.split(weights)
        table = np.zeros((self.n_labels, self.n_labels))
        table[self.first, self.second] = self.scaling * pairs
        table[self.second, self.first] = table[self.first, self.second]
        return self.problem.X @ coef + self.observed @ table

    def _adjoint(self, slopes, transposed=None):
        both = self.observed.T @ slopes
        pairs = both[self.first, self.second] + both[self.second, self.first]
        # `transposed` has squared features, and observed labels are their own squares
        scaling = self.scaling if transposed is None else self.scaling**2
        coef = super()._adjoint(slopes, transposed)
        return np.concatenate([coef.ravel(), scaling * pairs])[:, None]

    def _penalized(self, weights):
        if not self.free.any():
            return weights
        weights = weights.copy()
        self.split(weights)[0][-1, self.free] = 0.0
        return weights

    def _fold(self, values):
        return np.array([values.sum()])

    def keep(self, which):
        """Do nothing, as there is only one block."""

    def product(self, directions, blocks, curvature):
        changes = self._map(directions)
        image = self._adjoint(curvature * changes)
        image += self.alpha * self._penalized(directions)
        return image, changes


def _dot(first, second):
    """Inner products of columns."""
    return np.einsum("ij,ij->j", first, second)
