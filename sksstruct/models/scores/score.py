"""Score functions: nonlinear scores of rows of features."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator

from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import (
    Constrained,
    Count,
    Positive,
    validate_params,
)

_TEXTS = {
    "parameters": """
w : ndarray of shape (n_parameters,)
    Flat parameters, those at which a Jacobian is taken.
""",
    "rows": """
X : ndarray or CSR array of shape (n_rows, n_features)
    Features.
n_labels : int
    Scores of a row, one for each label.
""",
}


@fill_doc(_TEXTS)
class ScoreFunction(BaseEstimator):
    """Base class of nonlinear scores, for chains and other models.

    A score function maps rows of features to rows of scores, by parameters in one flat
    vector: the rows are positions and the scores belong to labels, or to whatever a
    model's ``coef_`` scores (see `sksstruct.SSVMClassifier`). Subclasses implement
    `initialize` and `value`; of derivatives only two products with the Jacobian are
    needed, `jvp` and `vjp`. `linearize` may be overridden to share work between them.

    Attributes
    ----------
    needs_offsets : bool
        Whether the score of a row depends on the other rows of its example, as in
        recurrent layers. Then `value`, `jvp`, `vjp` and `linearize` get a keyword
        ``offsets``, an array of shape (n_examples + 1,): example i has the rows
        ``offsets[i]:offsets[i + 1]``. Otherwise rows of all examples are mixed freely.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.models import ScoreFunction
    >>> class Bounded(ScoreFunction):
    ...     # scores between -5 and 5
    ...     def initialize(self, n_features, n_labels, random_state):
    ...         return random_state.normal(size=n_features * n_labels)
    ...     def value(self, w, X, n_labels):
    ...         return 5.0 * np.tanh(X @ w.reshape(-1, n_labels))
    ...     def jvp(self, w, X, n_labels, direction):
    ...         slope = 5.0 - self.value(w, X, n_labels) ** 2 / 5.0
    ...         return slope * (X @ direction.reshape(-1, n_labels))
    ...     def vjp(self, w, X, n_labels, cotangent):
    ...         slope = 5.0 - self.value(w, X, n_labels) ** 2 / 5.0
    ...         return (X.T @ (slope * cotangent)).ravel()
    >>> X, y = [np.eye(2), np.eye(2)[::-1]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(score_function=Bounded(), tol=0.1, random_state=0).fit(X, y)
    >>> tagger.predict(X)[0].tolist()
    ['a', 'b']
    """

    needs_offsets = False

    def check(self) -> None:
        """Raise an error if a constructor parameter is not valid."""

    def initialize(
        self, n_features: int, n_labels: int, random_state: RandomState
    ) -> np.ndarray:
        """Parameters to start from.

        Parameters
        ----------
        n_features : int
            Features of a row.
        n_labels : int
            Scores of a row, one for each label.
        random_state : RandomState
            Source of randomness.

        Returns
        -------
        w : ndarray of shape (n_parameters,)
            Flat parameters.
        """
        raise NotImplementedError

    def value(self, w: np.ndarray, X: Any, n_labels: int) -> np.ndarray:
        """Scores of rows of features.

        Parameters
        ----------
        %(parameters)s
        %(rows)s

        Returns
        -------
        scores : ndarray of shape (n_rows, n_labels)
            Scores.
        """
        raise NotImplementedError

    def jvp(
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        direction: np.ndarray,
    ) -> np.ndarray:
        """Change of the scores along a direction: the Jacobian times a vector.

        Parameters
        ----------
        %(parameters)s
        %(rows)s
        direction : ndarray of shape (n_parameters,)
            Change of the parameters.

        Returns
        -------
        change : ndarray of shape (n_rows, n_labels)
            First-order change of the scores.
        """
        raise NotImplementedError

    def vjp(
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        cotangent: np.ndarray,
    ) -> np.ndarray:
        """Gradient of a linear function of the scores: a vector times the Jacobian.

        Parameters
        ----------
        %(parameters)s
        %(rows)s
        cotangent : ndarray of shape (n_rows, n_labels)
            Coefficients of the scores.

        Returns
        -------
        gradient : ndarray of shape (n_parameters,)
            Gradient of ``(cotangent * scores).sum()``.
        """
        raise NotImplementedError

    def linearize(
        self, w: np.ndarray, X: Any, n_labels: int, **offsets: Any
    ) -> tuple[np.ndarray, Callable[..., Any], Callable[..., Any]]:
        """Scores, and both products with the Jacobian at the same parameters.

        Parameters
        ----------
        %(parameters)s
        %(rows)s
        **offsets : ndarray
            ``offsets``, if they are needed.

        Returns
        -------
        scores : ndarray of shape (n_rows, n_labels)
            Scores.
        jvp, vjp : callable
            `jvp` and `vjp` as functions of their last argument.
        """
        return (
            self.value(w, X, n_labels, **offsets),
            lambda direction: self.jvp(w, X, n_labels, direction, **offsets),
            lambda cotangent: self.vjp(w, X, n_labels, cotangent, **offsets),
        )


class LinearizedScore(Constrained, ScoreFunction):
    """A score function that implements `linearize`; other methods call it."""

    def check(self) -> None:
        validate_params(self)

    def value(
        self, w: np.ndarray, X: Any, n_labels: int, offsets: np.ndarray | None = None
    ) -> np.ndarray:
        return self._linearized(w, X, n_labels, offsets)[0]

    def jvp(
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        direction: np.ndarray,
        offsets: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._linearized(w, X, n_labels, offsets)[1](direction)

    def vjp(
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        cotangent: np.ndarray,
        offsets: np.ndarray | None = None,
    ) -> np.ndarray:
        return self._linearized(w, X, n_labels, offsets)[2](cotangent)

    def _linearized(self, w, X, n_labels, offsets):
        given = {} if offsets is None else {"offsets": offsets}
        return self.linearize(w, X, n_labels, **given)


@dataclass(eq=False, repr=False)
class ELUScore(LinearizedScore):
    """Two layers: a linear map, exponential linear units, and a linear map.

    The scores of features x are ``W2 elu(W1 x + b1) + b2``, in NumPy. With `n_cells`,
    x is a map of features, and all cells share W1 and b1.

    Parameters
    ----------
    n_hidden : int, default=16
        Units between the layers.
    scale : float, default=1.0
        Size of the initial weights: their standard deviation times the square root of
        the number of inputs of a unit.
    n_cells : int, default=1
        Number of cells in a row, which is a map of features: consecutive cells with
        equally many features, as in ``map.reshape(-1)`` of an array of shape (height,
        width, channels). The first layer is a convolution with a kernel of size 1,
        followed by the units of each cell; the second layer reads the units of all
        cells.

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

    n_hidden: Count = 16
    scale: Positive = 1.0
    n_cells: Count = 1

    def _split(self, w, n_features, n_labels):
        """W1 (d, h), b1, W2 (c h, k) and b2 as views, for d features of c cells."""
        h, c = self.n_hidden, self.n_cells
        ends = np.cumsum([n_features // c * h, h, c * h * n_labels])
        first, bias, second, last = np.split(w, ends)
        return first.reshape(-1, h), bias, second.reshape(c * h, -1), last

    def _cells(self, X):
        """The features of each cell as a row."""
        c = self.n_cells
        return X if c == 1 else X.reshape((X.shape[0] * c, X.shape[1] // c))

    def initialize(
        self, n_features: int, n_labels: int, random_state: RandomState
    ) -> np.ndarray:
        h, c = self.n_hidden, self.n_cells
        if n_features % c:
            raise ValueError(
                f"n_cells={c} cells with the same number of features each do not make "
                f"{n_features} features"
            )
        w = np.zeros(n_features // c * h + h + c * h * n_labels + n_labels)
        first, _, second, _ = self._split(w, n_features, n_labels)
        scale = self.scale
        for layer in (first, second):
            inputs = layer.shape[0]
            layer[...] = random_state.normal(size=layer.shape) * scale / inputs**0.5
        return w

    def _inner(self, first, bias, X):
        """Inputs of the hidden units, with all cells in one row."""
        size = self.n_cells * self.n_hidden
        return (self._cells(X) @ first + bias).reshape(X.shape[0], size)

    def _hidden(self, first, bias, X):
        """Values of the hidden units, and their derivatives."""
        a = self._inner(first, bias, X)
        low = np.exp(np.minimum(a, 0.0))
        return np.where(a > 0.0, a, low - 1.0), np.where(a > 0.0, 1.0, low)

    def value(  # type: ignore[override]
        self, w: np.ndarray, X: Any, n_labels: int
    ) -> np.ndarray:
        first, bias, second, last = self._split(w, X.shape[1], n_labels)
        return self._hidden(first, bias, X)[0] @ second + last

    def linearize(  # type: ignore[override]
        self, w: np.ndarray, X: Any, n_labels: int
    ) -> tuple[np.ndarray, Callable[..., Any], Callable[..., Any]]:
        first, bias, second, last = self._split(w, X.shape[1], n_labels)
        # values and derivatives of the hidden units, which all products share
        units, slopes = self._hidden(first, bias, X)

        def jvp(direction):
            moves = self._split(direction, X.shape[1], n_labels)
            change = slopes * self._inner(moves[0], moves[1], X)
            return change @ second + units @ moves[2] + moves[3]

        def vjp(cotangent):
            inner = (slopes * (cotangent @ second.T)).reshape(-1, self.n_hidden)
            parts = (
                self._cells(X).T @ inner,
                inner.sum(axis=0),
                units.T @ cotangent,
                cotangent.sum(axis=0),
            )
            return np.concatenate([part.ravel() for part in parts])

        return units @ second + last, jvp, vjp


def score_rows(score, parameters, rows, n_columns, offsets):
    """Scores of rows, with offsets if the score function needs them."""
    given = {"offsets": offsets} if score.needs_offsets else {}
    return score.value(parameters, rows, n_columns, **given)


def linearize_rows(score, parameters, rows, n_columns, offsets):
    """Scores of rows, and both products with the Jacobian."""
    given = {"offsets": offsets} if score.needs_offsets else {}
    return score.linearize(parameters, rows, n_columns, **given)


def fitted_score(score_function, parameters):
    """Fitted attributes of a score function."""
    return {
        "score_function_": score_function,
        "score_parameters_": parameters.copy(),
    }
