"""The dual of a binary model: all variables as a vector, or one at a time."""

import copy

import numpy as np

from sksstruct.models.binary._binary import best_bias
from sksstruct.models.binary._coordinates import Coordinates
from sksstruct.models.protocols.duals import CoordinateDual, DualSpace
from sksstruct.projections import project_box_equality
from sksstruct.utils._clock import check_clock
from sksstruct.utils._layout import aligned_zeros

# Number of features that are read between two checks for signals. Reading them takes a
# fraction of a second.
_WORK_OF_A_CALL = 2e7


class BinaryDual(DualSpace):
    """Dual variables x_i in [0, p_i]: p_i times the probability of the wrong class.

    The variables are in a box, with one equality constraint if the bias is free.

    Saha et al. (2009), eqs. (21)-(22): D(x) = sum_i x_i - |w(x)|^2 alpha/2 with
    alpha w(x) = sum_i x_i s_i (f_i, 1), where f_i are the features of an example and
    s_i = +-1 is its class. Without a bias, or with a free bias, the last entry of w is
    zero.

    Parameters
    ----------
    model : BoundBinary
        Model with its data; sum_i s_i x_i = 0 if it has a bias that is not regularized.
    """

    def __init__(self, model):
        self.fit_intercept = model.fit_intercept
        self.X = model.X
        self.signs = np.where(model.labels == 1, 1.0, -1.0)
        self.upper = model.example_weights
        self.free_bias = model.free_bias
        self.center = np.zeros(model.n_examples)
        self.cost = model.n_examples
        # for the fixed variables: alpha w, the sum of x_i, and the sum of s_i x_i
        self.fixed = np.zeros(model.n_weights)
        self.fixed_loss = self.fixed_balance = 0.0

    def combine(self, x):
        signed = self.signs * x
        w = self.fixed.copy()
        w[:-1] += self.X.T @ signed
        if self.fit_intercept:
            w[-1] += signed.sum()
        return w

    def slopes(self, w):
        return 1.0 - self.signs * (self.X @ w[:-1] + w[-1])

    def loss(self, x):
        return float(x.sum()) + self.fixed_loss

    def project(self, x):
        if self.free_bias:
            return project_box_equality(
                x, 0.0, self.upper, self.signs, -self.fixed_balance
            )
        return np.clip(x, 0.0, self.upper)

    def bias(self, slopes):
        """The free bias of least risk, given the slopes without a bias."""
        return best_bias(self.signs, self.upper, slopes, self.fixed_balance)

    def risk(self, w, slopes):
        risk = self.fixed_loss - float(self.fixed @ w)
        if self.free_bias:
            bias = self.bias(slopes)
            slopes = slopes - self.signs * bias
            risk -= self.fixed_balance * bias
        return risk + float(self.upper @ np.maximum(slopes, 0.0))

    def restrict(self, x, slopes, margin):
        if self.free_bias:
            slopes = slopes - self.signs * self.bias(slopes)
        low, high = x <= 0.0, x >= self.upper
        keep = ~((low & (slopes < -margin)) | (high & (slopes > margin)))
        index = np.flatnonzero(keep)
        if not len(index):
            return None
        part = copy.copy(self)
        rest = np.where(keep, 0.0, x)
        signed = self.signs * rest
        part.fixed = self.combine(rest)
        part.fixed_loss = float(rest.sum())
        part.fixed_balance = float(signed.sum())
        part.X, part.signs = self.X[index], self.signs[index]
        part.upper, part.cost = self.upper[index], len(index)
        part.center = x[index]
        return part, index


class BinaryCoordinates(CoordinateDual):
    """Dual variables b_i in [0, 1], the probability of the wrong class.

    Parameters
    ----------
    model : BoundBinary
        Model with its data.
    alpha : float
        Regularization.
    state : ndarray or None
        Dual variables to start from.
    """

    def __init__(self, model, alpha, state=None):
        self.model, self.alpha = model, alpha
        self.space = BinaryDual(model)
        self.w = aligned_zeros(model.n_weights)
        self.steps = Coordinates(model, alpha)
        self._visits_of_a_call = max(int(_WORK_OF_A_CALL / model.visit_work), 1)
        self._n_changed = 0
        if state is not None:
            self.steps.duals[:] = state
            self._form_weights()

    @property
    def gap(self):
        return self.steps.gap

    def expand(self):
        return self.steps.expand()

    def visit(self, rng):
        active = self.steps.order[: self.steps.n_active]
        rng.shuffle(active)
        self.steps.begin_pass()
        n_changed = None
        while n_changed is None:
            check_clock()
            n_changed = self.steps.visit(self.w, self._visits_of_a_call)
        self._n_changed = n_changed
        return n_changed

    def end_pass(self):
        # no active example changed: visit all examples again
        return not self._n_changed and self.expand()

    def _form_weights(self):
        """Compute the weights from the duals, without accumulated rounding errors."""
        shares = self.model.example_weights / self.alpha
        self.w[:] = self.space.combine(shares * self.steps.duals)

    def primal(self, n_jobs=None):
        self._form_weights()
        risk = self.space.risk(self.w, self.space.slopes(self.w))
        return self.alpha / 2 * float(self.w @ self.w) + risk

    def value(self):
        linear = float(self.model.example_weights @ self.steps.duals)
        return linear - self.alpha / 2 * float(self.w @ self.w)

    def state(self):
        return self.steps.duals
