"""The dual of a binary model: a box, with one equality if the bias is free."""

import copy

import numpy as np

from sksstruct.models.protocols.dual_space import DualSpace
from sksstruct.projections import project_box_equality


class BinaryDual(DualSpace):
    """Dual variables x_i in [0, p_i], the probability of an error times p_i.

    Saha et al. (2009), eqs. (21)-(22): D(x) = sum_i x_i - |w(x)|^2 alpha/2 with
    alpha w(x) = sum_i x_i s_i (x_i, 1), s_i = +-1 being the class.

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
        # for the variables that are kept fixed: alpha w, their loss, and sum s_i x_i
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
        """The best free bias at the given slopes.

        The risk is convex and piecewise linear in the bias, with one kink per example.
        """
        kinks = self.signs * slopes
        order = np.argsort(kinks, kind="stable")
        # left of all kinks the positive examples err, right of all the negative ones
        slope = np.cumsum(self.upper[order]) - self.upper[self.signs > 0].sum()
        slope -= self.fixed_balance
        k = min(int(np.searchsorted(slope, 0.0)), len(order) - 1)
        return float(kinks[order[k]])

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
