"""Types of what public functions take, for annotations."""

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class SparseLike(Protocol):
    """What becomes a CSR matrix: all matrices and arrays of `scipy.sparse`."""

    def tocsr(self) -> Any:
        """The matrix in compressed rows."""


class Decorator(Protocol):
    """What leaves the type of a class, function or method as it is."""

    def __call__(self, decorated: _Decorated, /) -> _Decorated:
        """The same object, or one that is used like it."""


# A matrix of numbers, a row for each example or position.
MatrixLike: TypeAlias = ArrayLike | SparseLike
# Sequences of rows: lists, object arrays or `sksstruct.utils.packed.PackedSequences`.
Sequences: TypeAlias = Sequence[MatrixLike] | np.ndarray
# An array for each example: labels of sequences, or labelings of graphs.
Labelings: TypeAlias = Sequence[ArrayLike] | np.ndarray
# Examples of any structure: rows of a matrix, or a list of what the model takes.
Examples: TypeAlias = MatrixLike | Sequence[Any]
# The labels of each sample, as a set, a list or a tuple.
LabelSets: TypeAlias = Sequence[Collection[Hashable]] | np.ndarray
# Sequences of strings: at each position names with values, or names alone.
FeatureSequences: TypeAlias = Iterable[Iterable[Mapping[str, Any] | Iterable[str]]]
# Lists, or arrays of one dimension.
Items: TypeAlias = Sequence[Any] | np.ndarray
Strings: TypeAlias = Sequence[str] | np.ndarray
Integers: TypeAlias = Sequence[int] | np.ndarray
# Ways to mark spans of tokens by labels.
Scheme: TypeAlias = Literal["auto", "BIO", "IOB1", "IOBES", "BILOU"]
# Labels that must not follow each other; the labels of training show their scheme.
Transitions: TypeAlias = (
    Sequence[tuple[Any, Any]] | Literal["bio", "iob1", "iobes", "bilou"]
)
TrainedTransitions: TypeAlias = Transitions | Literal["auto"]

PathLike: TypeAlias = str | os.PathLike[str]

__all__ = [
    "Decorator",
    "Examples",
    "FeatureSequences",
    "Integers",
    "Items",
    "LabelSets",
    "Labelings",
    "MatrixLike",
    "PathLike",
    "Scheme",
    "Sequences",
    "SparseLike",
    "Strings",
    "TrainedTransitions",
    "Transitions",
]
