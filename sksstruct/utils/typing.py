"""Types of the arguments of public functions, for annotations."""

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


class SparseLike(Protocol):
    """Types that can become a CSR matrix: all matrices and arrays of `scipy.sparse`."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


class Decorator(Protocol):
    """A decorator that preserves the type of a class, function or method."""

    def __call__(self, decorated: _Decorated, /) -> _Decorated:
        """Return the given object, or an object that is used like it."""


# Matrices of numbers, with a row for each example or position.
MatrixLike: TypeAlias = ArrayLike | SparseLike
# Sequences of rows: lists, object arrays or `sksstruct.utils.packed.PackedSequences`.
Sequences: TypeAlias = Sequence[MatrixLike] | np.ndarray
# An array for each example: labels of sequences, or labelings of graphs.
Labelings: TypeAlias = Sequence[ArrayLike] | np.ndarray
# Examples of any structure: rows of a matrix, or a list of inputs of the model.
Examples: TypeAlias = MatrixLike | Sequence[Any]
# The labels of each sample, as a set, a list or a tuple.
LabelSets: TypeAlias = Sequence[Collection[Hashable]] | np.ndarray
# Sequences of features: at each position a dict of named values, or a list of names.
FeatureSequences: TypeAlias = Iterable[Iterable[Mapping[str, Any] | Iterable[str]]]
# Lists, or arrays of one dimension.
Items: TypeAlias = Sequence[Any] | np.ndarray
Strings: TypeAlias = Sequence[str] | np.ndarray
Integers: TypeAlias = Sequence[int] | np.ndarray
# Ways to mark spans of tokens by labels.
Scheme: TypeAlias = Literal["auto", "BIO", "IOB1", "IOBES", "BILOU"]
# Pairs of labels that must not follow each other, or a scheme of spans that defines the
# pairs. In training, "auto" finds the scheme of the labels.
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
