"""Certificates of smooth objectives, from their gradient."""

import numpy as np

from sksstruct.models.protocols.duals import ROUNDING


class GradientCertificate:
    """Dual values of P(w) = f(w) + alpha/2 |w|^2, where f is a mean of smooth losses.

    The expected mean parameters at w are dual variables. The duality gap is the value
    of <grad f, .> + alpha/2 |.|^2 at w minus its minimum: without bounds |grad P|^2 /
    (2 alpha). Without regularization there is no such minimum, and the certificate is
    the norm of the gradient relative to its first value.

    Parameters
    ----------
    alpha : float
        Regularization.
    box : Box or None
        Bounds of some weights.
    """

    def __init__(self, alpha, box=None):
        self.alpha, self.box = alpha, box
        self._first = None

    def at(self, primal, w, gradient, exact=1.0):
        """Return a dual value, and a residual if there is no dual.

        Parameters
        ----------
        primal : float
            P(w), or another scale for the residual.
        w, gradient : ndarray of shape (n_weights,)
            Weights, and the gradient of f.
        exact : float, default=1.0
            Share of the examples whose loss is exact.

        Returns
        -------
        dual : float
            A lower bound of the optimum, or -inf.
        residual : float
            The norm of the gradient relative to the norm in the first call, times
            |primal|; inf if alpha > 0.
        """
        if self.alpha == 0.0:
            return -np.inf, self._relative_norm(w, gradient) * abs(primal)
        if exact < 1.0:
            return -np.inf, np.inf
        if self.box is None:
            slope = gradient + self.alpha * w
            terms = [float(slope @ slope) / (2 * self.alpha)]
        else:
            terms = [float(gradient @ w), self.alpha / 2 * float(w @ w)]
            terms.append(-self.box.least(gradient, self.alpha)[0])
        # a bound of rounding errors is subtracted: the terms may be large numbers
        size = abs(primal) + sum(map(abs, terms))
        return primal - sum(terms) - ROUNDING * size, np.inf

    def _relative_norm(self, w, gradient):
        slope = gradient
        if self.box is not None:
            # the projected gradient: components that point out of the box are removed
            slope = w - self.box.clip(w - gradient)
        norm = float(np.sqrt(slope @ slope))
        if self._first is None:
            self._first = norm
        return norm / self._first if norm else 0.0
