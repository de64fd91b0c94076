"""Scores by modules of PyTorch."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse

from sksstruct.models.scores.score import LinearizedScore


@dataclass(eq=False, repr=False)
class TorchScore(LinearizedScore):
    """Scores by a module of PyTorch, in double precision, on the processor.

    Needs PyTorch. Sparse rows become dense, for some examples at a time. The module is
    called as in evaluation: without dropout, and with the stored statistics of batch
    normalization.

    Parameters
    ----------
    module : torch.nn.Module or callable
        Maps rows of shape (n_rows, n_features) to scores (n_rows, n_labels). Training
        starts at its parameters. A callable ``module(n_features, n_labels)`` returns a
        new module with random parameters; to be pickled with an estimator, it must be a
        function or class of a Python module.
    needs_offsets : bool, default=False
        Whether the module is called with rows and offsets, a tensor of the first row of
        each example, with the number of rows as its last entry.

    See Also
    --------
    JAXScore : Scores by a function of JAX.

    Notes
    -----
    The Jacobian times a vector is the derivative of a vector times the Jacobian, which
    is linear in the vector: a module needs only backward passes, two of them.

    Examples
    --------
    >>> from torch import nn
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.models import TorchScore
    >>> def module(n_features, n_labels):
    ...     return nn.Sequential(
    ...         nn.Linear(n_features, 8), nn.Tanh(), nn.Linear(8, n_labels)
    ...     )
    >>> X, y = [[[0.0], [1.0], [2.0]]] * 4, [["out", "in", "out"]] * 4
    >>> tagger = ChainCRF(1e-3, score_function=TorchScore(module), random_state=0)
    >>> tagger.fit(X, y).predict([[[0.0], [1.0], [2.0]]])[0].tolist()
    ['out', 'in', 'out']
    """

    module: Callable
    needs_offsets: bool = False

    def check(self) -> None:
        super().check()
        _torch()

    def __getstate__(self):
        # without modules, which are created again from the parameters
        state = dict(super().__getstate__())
        state.pop("_modules", None)
        return state

    def _made(self, n_features, n_labels, seed=0):
        """A module in double precision that is not shared with the user."""
        torch = _torch()
        if isinstance(self.module, torch.nn.Module):
            module = copy.deepcopy(self.module)
        else:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                module = self.module(n_features, n_labels)
        return module.double().eval()

    def initialize(
        self, n_features: int, n_labels: int, random_state: RandomState
    ) -> np.ndarray:
        seed = random_state.randint(2**31 - 1)
        module = self._made(n_features, n_labels, seed)
        parts = [each.detach().numpy().ravel() for each in module.parameters()]
        return np.concatenate(parts)

    def _scores(self, w, X, n_labels, offsets):
        """Parameters as a tensor, and the scores that depend on the tensor."""
        torch, size = _torch(), (X.shape[1], n_labels)
        modules = self.__dict__.setdefault("_modules", {})
        if size not in modules:
            modules[size] = self._made(*size)
        module = modules[size]
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        given = [torch.tensor(rows, dtype=torch.float64)]
        if offsets is not None:
            given.append(torch.tensor(np.asarray(offsets, dtype=np.int64)))
        w = torch.tensor(w, dtype=torch.float64, requires_grad=True)
        named = dict(module.named_parameters())
        pieces = torch.split(w, [each.numel() for each in named.values()])
        parameters = {
            name: piece.reshape(each.shape)
            for (name, each), piece in zip(named.items(), pieces, strict=True)
        }
        return w, torch.func.functional_call(module, parameters, tuple(given))

    def linearize(  # type: ignore[override]
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        offsets: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Callable[..., Any], Callable[..., Any]]:
        torch = _torch()
        w, scores = self._scores(w, X, n_labels, offsets)
        any_cotangent = torch.zeros_like(scores, requires_grad=True)
        (product,) = torch.autograd.grad(scores, w, any_cotangent, create_graph=True)

        def gradient(of, at, vector):
            vector = torch.tensor(np.ascontiguousarray(vector), dtype=torch.float64)
            return torch.autograd.grad(of, at, vector, retain_graph=True)[0].numpy()

        return (
            scores.detach().numpy(),
            lambda direction: gradient(product, any_cotangent, direction),
            lambda cotangent: gradient(scores, w, cotangent),
        )

    def value(
        self,
        w: np.ndarray,
        X: Any,
        n_labels: int,
        offsets: np.ndarray | None = None,
    ) -> np.ndarray:
        with _torch().no_grad():
            return self._scores(w, X, n_labels, offsets)[1].numpy()


def _torch():
    """PyTorch, which is optional and takes long to import."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "TorchScore needs PyTorch: see https://pytorch.org for how to install it"
        ) from error
    return torch
