"""Scores by functions of JAX."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse

from sksstruct.models.scores.score import LinearizedScore


@dataclass(eq=False, repr=False)
class JAXScore(LinearizedScore):
    """Scores by a function of JAX, which also multiplies with its Jacobian.

    Needs JAX, ``pip install sksstruct[jax]``. Arrays have JAX's precision: single,
    unless ``jax.config.update("jax_enable_x64", True)`` was called. Sparse rows become
    dense, for some examples at a time. JAX compiles the function for each number of
    rows, so rows of zeros are appended to reach one of few numbers.

    Parameters
    ----------
    init : callable
        ``init(key, n_features, n_labels)`` returns the initial parameters for a random
        key of JAX: arrays in nested lists, tuples and dicts.
    apply : callable
        ``apply(parameters, X)`` returns the scores of rows X, an array of shape
        (n_rows, n_labels). To be pickled with an estimator, both must be functions of a
        module.
    needs_offsets : bool, default=False
        Whether ``apply(parameters, X, offsets)`` also gets the first row of each
        example, as recurrent layers need. Offsets are padded to one of few numbers,
        too: the first additional example has all additional rows, further ones have
        none.

    See Also
    --------
    TorchScore : Scores by a module of PyTorch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from jax import random
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.models import JAXScore
    >>> def init(key, n_features, n_labels):
    ...     keys = random.split(key)
    ...     hidden = random.normal(keys[0], (n_features, 8))
    ...     return hidden, random.normal(keys[1], (8, n_labels))
    >>> def apply(parameters, X):
    ...     return jnp.tanh(X @ parameters[0]) @ parameters[1]
    >>> X, y = [[[0.0], [1.0], [2.0]]] * 4, [["out", "in", "out"]] * 4
    >>> tagger = ChainCRF(1e-3, score_function=JAXScore(init, apply), random_state=0)
    >>> tagger.fit(X, y).predict([[[0.0], [1.0], [2.0]]])[0].tolist()
    ['out', 'in', 'out']
    """

    init: Callable
    apply: Callable
    needs_offsets: bool = False

    def check(self) -> None:
        super().check()
        _jax()

    def __getstate__(self):
        # without compiled functions, which cannot be pickled
        state = dict(super().__getstate__())
        state.pop("_compiled", None)
        return state

    def _functions(self, n_features, n_labels):
        """Compiled value, `jvp` and `vjp`, and the type of the parameters."""
        compiled = self.__dict__.setdefault("_compiled", {})
        if (n_features, n_labels) not in compiled:
            compiled[n_features, n_labels] = self._compile(n_features, n_labels)
        return compiled[n_features, n_labels]

    def _compile(self, n_features, n_labels):
        jax = _jax()

        def init(key):
            return self.init(key, n_features, n_labels)

        shapes = jax.eval_shape(init, jax.random.key(0))
        zeros = jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), shapes)
        flat, unravel = jax.flatten_util.ravel_pytree(zeros)

        def value(w, X):
            return self.apply(unravel(w), *X)

        def jvp(w, X, direction):
            return jax.jvp(lambda w: value(w, X), (w,), (direction,))[1]

        def vjp(w, X, cotangent):
            return jax.vjp(lambda w: value(w, X), w)[1](cotangent)[0]

        return *(jax.jit(each) for each in (value, jvp, vjp)), flat.dtype

    def initialize(
        self, n_features: int, n_labels: int, random_state: RandomState
    ) -> np.ndarray:
        jax = _jax()
        key = jax.random.key(random_state.randint(2**31 - 1))
        parameters = self.init(key, n_features, n_labels)
        flat = jax.flatten_util.ravel_pytree(parameters)[0]
        return np.asarray(flat, dtype=np.float64)

    def linearize(  # type: ignore[override]
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        offsets: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Callable[..., Any], Callable[..., Any]]:
        jax, n_rows = _jax(), X.shape[0]
        value, jvp, vjp, dtype = self._functions(X.shape[1], n_labels)

        def given(array):
            return jax.numpy.asarray(array, dtype=dtype)

        w, X = given(w), tuple(map(jax.numpy.asarray, _padded(X, offsets, dtype)))
        rest = np.zeros((X[0].shape[0] - n_rows, n_labels))

        def scores(result):
            return np.asarray(result, dtype=np.float64)[:n_rows]

        def times_vector(direction):
            return scores(jvp(w, X, given(direction)))

        def vector_times(cotangent):
            rows = given(np.concatenate([cotangent, rest]))
            return np.asarray(vjp(w, X, rows), dtype=np.float64)

        return scores(value(w, X)), times_vector, vector_times


def _jax():
    """JAX, which is optional and takes long to import."""
    try:
        import jax
        import jax.flatten_util
    except ImportError as error:
        raise ImportError(
            "JAXScore needs JAX: python -m pip install sksstruct[jax]"
        ) from error
    return jax


def _padded(X, offsets, dtype):
    """Rows, and offsets if given, padded to one of few lengths."""
    n_rows = X.shape[0]
    rows = np.zeros((_rounded(n_rows), X.shape[1]), dtype)
    rows[:n_rows] = X.toarray() if sparse.issparse(X) else X
    if offsets is None:
        return (rows,)
    all_offsets = np.full(_rounded(len(offsets) + 1), len(rows), np.int32)
    all_offsets[: len(offsets)] = offsets
    return rows, all_offsets


def _rounded(n):
    """The least number from n on with at most four significant binary digits, but at
    least 8.
    """
    step = 2 ** max(int(n - 1).bit_length() - 4, 0)
    return max(-(-n // step) * step, 8)
