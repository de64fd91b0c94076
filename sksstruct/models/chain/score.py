"""Score functions: labels of positions scored by something other than a linear map."""

from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from sksstruct.utils._param_validation import Interval, validate_params


class ScoreFunction(BaseEstimator):
    """Base of nonlinear scores, as `sksstruct.solvers.ProxLinear` needs them.

    A score function maps the features of positions to a score for each label, by
    parameters in one flat vector. Subclasses implement the four methods; of derivatives
    only two products with the Jacobian are needed, `jvp` and `vjp`.
    """

    def check(self):
        """Raise an error if a constructor parameter is not valid."""

    def initialize(self, n_features, n_labels, random_state):
        """Parameters to start from.

        Parameters
        ----------
        n_features : int
            Features of a position.
        n_labels : int
            Number of labels.
        random_state : RandomState
            Source of randomness.

        Returns
        -------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        """
        raise NotImplementedError

    def value(self, w, X, n_labels):
        """Score the labels of positions.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        X : ndarray or CSR array of shape (n_positions, n_features)
            Features.
        n_labels : int
            Number of labels.

        Returns
        -------
        scores : ndarray of shape (n_positions, n_labels)
            Scores.
        """
        raise NotImplementedError

    def jvp(self, w, X, n_labels, direction):
        """Change of the scores along a direction: the Jacobian times a vector.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Parameters at which the Jacobian is taken.
        X : ndarray or CSR array of shape (n_positions, n_features)
            Features.
        n_labels : int
            Number of labels.
        direction : ndarray of shape (n_parameters,)
            Change of the parameters.

        Returns
        -------
        change : ndarray of shape (n_positions, n_labels)
            First-order change of the scores.
        """
        raise NotImplementedError

    def vjp(self, w, X, n_labels, cotangent):
        """Gradient of a linear function of the scores: a vector times the Jacobian.

        Parameters
        ----------
        w : ndarray of shape (n_parameters,)
            Parameters at which the Jacobian is taken.
        X : ndarray or CSR array of shape (n_positions, n_features)
            Features.
        n_labels : int
            Number of labels.
        cotangent : ndarray of shape (n_positions, n_labels)
            Coefficients of the scores.

        Returns
        -------
        gradient : ndarray of shape (n_parameters,)
            Gradient of ``(cotangent * scores).sum()``.
        """
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class ELUScore(ScoreFunction):
    """Two layers: a linear map, exponential linear units, and a linear map.

    The scores of features x are ``W2 elu(W1 x + b1) + b2``, in NumPy.

    Parameters
    ----------
    n_hidden : int, default=16
        Units between the layers.
    scale : float, default=1.0
        Size of the initial weights: their standard deviation times the square root of
        the number of inputs of a unit.

    References
    ----------
    K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
    structured prediction models", NeurIPS 2018, Section 7.1.2.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.models import ELUScore
    >>> X, y = [[[0.0], [1.0], [2.0]]] * 4, [["out", "in", "out"]] * 4
    >>> tagger = ChainCRF(1e-3, score_function=ELUScore(8), random_state=0)
    >>> tagger.fit(X, y).predict([[[0.0], [1.0], [2.0]]])[0].tolist()
    ['out', 'in', 'out']
    """

    n_hidden: int = 16
    scale: float = 1.0

    _parameter_constraints = {
        "n_hidden": [Interval(Integral, 1, None, closed="left")],
        "scale": [Interval(Real, 0, None, closed="neither")],
    }

    def check(self):
        validate_params(self)

    def _split(self, w, n_features, n_labels):
        """W1 (d, h), b1, W2 (h, k) and b2 as views."""
        h = self.n_hidden
        ends = np.cumsum([n_features * h, h, h * n_labels])
        first, bias, second, last = np.split(w, ends)
        return first.reshape(-1, h), bias, second.reshape(h, -1), last

    def initialize(self, n_features, n_labels, random_state):
        h = self.n_hidden
        w = np.zeros(n_features * h + h + h * n_labels + n_labels)
        first, _, second, _ = self._split(w, n_features, n_labels)
        scale = self.scale
        first[...] = random_state.normal(size=first.shape) * scale / n_features**0.5
        second[...] = random_state.normal(size=second.shape) * scale / h**0.5
        return w

    def _hidden(self, first, bias, X):
        """Values of the hidden units, and their derivatives."""
        a = X @ first + bias
        low = np.exp(np.minimum(a, 0.0))
        return np.where(a > 0.0, a, low - 1.0), np.where(a > 0.0, 1.0, low)

    def value(self, w, X, n_labels):
        first, bias, second, last = self._split(w, X.shape[1], n_labels)
        return self._hidden(first, bias, X)[0] @ second + last

    def jvp(self, w, X, n_labels, direction):
        first, bias, second, _ = self._split(w, X.shape[1], n_labels)
        d_first, d_bias, d_second, d_last = self._split(direction, X.shape[1], n_labels)
        units, slopes = self._hidden(first, bias, X)
        change = slopes * (X @ d_first + d_bias)
        return change @ second + units @ d_second + d_last

    def vjp(self, w, X, n_labels, cotangent):
        first, bias, second, _ = self._split(w, X.shape[1], n_labels)
        units, slopes = self._hidden(first, bias, X)
        inner = slopes * (cotangent @ second.T)
        return np.concatenate(
            [
                (X.T @ inner).ravel(),
                inner.sum(axis=0),
                (units.T @ cotangent).ravel(),
                cotangent.sum(axis=0),
            ]
        )
