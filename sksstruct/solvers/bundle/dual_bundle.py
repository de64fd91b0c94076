"""The best convex combination of dual points from the iterates of a method."""

import numpy as np

from sksstruct.models.protocols.duals import ROUNDING
from sksstruct.solvers.bundle._simplex_qp import maximize_on_simplex
from sksstruct.solvers.core.quasi_newton import batches

# Bound of the relative rounding error of a row in single precision.
_UNIT = 2.0**-24


class DualBundle:
    """Dual points, whose best convex combination is a dual point too.

    The mean parameters at any weights are dual variables of a hinge smoothed by the
    entropy. Their dual value at the temperature mu is

        loss + mu * entropy - |gradient|^2 / (2 alpha)

    where ``gradient`` is the gradient of the mean loss; at mu = 0 it is a dual value of
    the hinge itself. Loss and gradient are linear in the mean parameters, and the
    entropy is concave, so that the value of a combination is at least the same
    expression in combined terms. Near the optimum, the gradient of a single point is
    noise that a small alpha amplifies, and a combination averages this noise out.

    Parameters
    ----------
    capacity : int
        Largest number of points. A full bundle drops the point with the least
        weight.
    size : int
        Number of weights.
    alpha : float
        Regularization.
    """

    def __init__(self, capacity, size, alpha):
        self.alpha = alpha
        # pages are allocated when a row is first written
        self._rows = np.empty((capacity, size), dtype=np.float32)
        self._gram = np.zeros((capacity, capacity))
        self._losses, self._entropies, self._shares = np.zeros((3, capacity))
        self._n = 0

    def add(self, gradient, loss, entropy):
        """Add a dual point; if the bundle is full, it replaces one of least weight.

        Parameters
        ----------
        gradient : ndarray of shape (size,)
            Gradient of the mean loss.
        loss, entropy : float
            Mean task loss and mean entropy of the distributions.
        """
        place = self._n
        if place == len(self._rows):
            place = int(np.argmin(self._shares))
        else:
            self._n += 1
        self._rows[place] = gradient
        products = np.zeros(self._n)
        for part in batches(len(gradient)):
            block = self._rows[: self._n, part].astype(np.float64)
            products += block @ block[place]
        self._gram[place, : self._n] = self._gram[: self._n, place] = products
        self._losses[place], self._entropies[place] = loss, entropy
        # with this weight, the point is not replaced until `bound` has computed its
        # weight in the best combination
        self._shares[place] = np.inf

    def bound(self, mu):
        """Return the largest dual value known for a combination at a temperature.

        Parameters
        ----------
        mu : float
            Temperature; at 0 the bound is a dual value of the hinge.

        Returns
        -------
        value : float
        """
        n = self._n
        gram = self._gram[:n, :n]
        linear = self._losses[:n] + mu * self._entropies[:n]
        start = np.where(self._shares[:n] < np.inf, self._shares[:n], 0.0)
        start = start / start.sum() if start.any() else np.eye(n)[0]
        shares = maximize_on_simplex(gram / self.alpha, linear, start, 3)
        self._shares[:n] = shares
        square = max(float(shares @ gram @ shares), 0.0)
        # upper bound of the norm of the gradients before they were rounded
        norm = np.sqrt(square) + _UNIT * float(shares @ np.sqrt(np.diag(gram)))
        terms = float(shares @ linear), float(norm**2) / (2.0 * self.alpha)
        return terms[0] - terms[1] - ROUNDING * (abs(terms[0]) + terms[1])
