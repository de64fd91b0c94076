"""Ragged sequences, packed once: stacked rows and offsets."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sksstruct.utils._layout import StoredRows, is_mapped
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._ragged import check_finite, stack_rows
from sksstruct.utils.entries import taken
from sksstruct.utils.labels import PackedLabels
from sksstruct.utils.shards import open_shard, save_parts
from sksstruct.utils.sparse_input import canonical_csr, rows_between
from sksstruct.utils.state import Versioned, required
from sksstruct.utils.typing import (
    Labelings,
    MatrixLike,
    PathLike,
    SparseLike,
    Strings,
)

__all__ = ["PackedLabels", "PackedSequences", "compact_rows"]

# Dense rows with fewer non-zeros than this are stored as CSR: the kernels then skip
# the zeros, and the rows take less memory.
SPARSE_BELOW = 0.3


class PackedSequences(Versioned, Sequence):
    """Feature rows of many sequences in one matrix.

    A read-only sequence of matrices: ``X[i]`` is the matrix of sequence i, and a slice
    is also a `PackedSequences`. `sksstruct` estimators accept it in place of a list of
    arrays, and do not copy it.

    Parameters
    ----------
    values : array-like or CSR matrix or array of shape (n_rows, n_features)
        All rows, stacked. Not copied if it is C-contiguous float32 or float64, or
        canonical CSR of these types.
    offsets : array-like of shape (n_sequences + 1,)
        Sequence i has the rows ``offsets[i]:offsets[i + 1]``.
    feature_names : sequence of str, default=None
        Names of the columns; estimators keep them as ``feature_names_in_``.

    Attributes
    ----------
    values : ndarray or csr_array
        The rows.
    offsets : ndarray of shape (n_sequences + 1,), intp
        The offsets.
    feature_names : sequence of str or None
        The names.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.utils.packed import PackedSequences
    >>> rows = np.array([[0.0], [1.0], [1.0], [0.0], [1.0]])
    >>> X = PackedSequences(rows, offsets=[0, 2, 5])  # two and three positions
    >>> X[1].ravel().tolist()
    [1.0, 0.0, 1.0]
    >>> y = [["low", "high"], ["high", "low", "high"]]
    >>> ChainCRF(random_state=0).fit(X, y).predict(X)[0].tolist()
    ['low', 'high']
    """

    offsets: np.ndarray
    feature_names: FeatureNames | None

    def __init__(
        self,
        values: MatrixLike,
        offsets: ArrayLike,
        feature_names: Strings | None = None,
    ) -> None:
        offsets = np.ascontiguousarray(offsets, dtype=np.intp)
        if sparse.issparse(values):
            values = canonical_csr(values)
        else:
            values = np.asarray(values)
            if values.dtype.kind not in "biuf":
                raise TypeError(f"values must be real numbers, got {values.dtype}")
            if values.dtype not in (np.float32, np.float64):
                values = values.astype(np.float64)
            values = np.ascontiguousarray(values)
            if values.ndim != 2:
                raise ValueError(f"values must be 2-D, got {values.ndim}-D")
        if offsets.ndim != 1 or len(offsets) < 1 or offsets[0] != 0:
            raise ValueError("offsets must be a vector that starts with 0")
        if offsets[-1] != values.shape[0] or (np.diff(offsets) < 0).any():
            raise ValueError(
                f"offsets must not decrease and must end with the number of rows, "
                f"{values.shape[0]}, got an end of {offsets[-1]}"
            )
        self.stored, self.n_features = values, values.shape[1]
        self.offsets = offsets
        self.feature_names = FeatureNames.of(feature_names)

    @classmethod
    def of_stored(
        cls,
        rows: StoredRows,
        n_features: int,
        offsets: np.ndarray,
        feature_names: FeatureNames | None = None,
    ) -> Self:
        """Build from the arrays of canonical CSR rows, which are not checked.

        To make a SciPy array takes longer than to label a sentence: that is done
        when `values` is asked for.
        """
        packed = cls.__new__(cls)
        packed.stored, packed.n_features, packed.offsets = rows, n_features, offsets
        packed.feature_names = feature_names
        return packed

    @property
    def values(self) -> Any:
        """ndarray or csr_array: the rows."""
        if isinstance(self.stored, StoredRows):
            shape = len(self.stored.indptr) - 1, self.n_features
            values = sparse.csr_array(self.stored, shape=shape)
            # SciPy would look at all of them
            values.has_canonical_format = True
            # kernels read what the caller may change from now on
            self.stored = values
        return self.stored

    def _state(self):
        names = "values", "offsets", "feature_names"
        return taken(self, names)

    def _restore(self, state):
        names = ("values", "offsets", "feature_names")
        self.__init__(*required(state, names, "PackedSequences"))

    @classmethod
    def from_lengths(
        cls,
        values: MatrixLike,
        lengths: ArrayLike,
        feature_names: Strings | None = None,
    ) -> Self:
        """Build from stacked rows and the length of each sequence."""
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]), feature_names)

    def save(self, path: PathLike, y: Labelings | None = None) -> None:
        """Write the sequences to a folder, from which `open` maps them into memory.

        The folder holds plain ``.npy`` files and ``header.json``.

        Parameters
        ----------
        path : str or path
            Name of the folder, which must not exist.
        y : list of array-like of shape (n_positions,) or PackedLabels, default=None
            Labels of the sequences, kept beside them: strings or numbers, None where a
            label is not known.

        Raises
        ------
        FileExistsError
            If there is something of that name.
        """
        save_parts(path, [(self, y)])

    @staticmethod
    def save_parts(path: PathLike, parts: Iterable[Any]) -> None:
        """Write sequences that come in parts to one folder, as `save` does.

        Parts are written one after the other, and not kept: together they may be larger
        than memory.

        Parameters
        ----------
        path : str or path
            Name of the folder, which must not exist.
        parts : iterable of PackedSequences, or of tuple (X, y)
            The parts, with their labels if there are any: of the same features, all
            sparse or all dense, and of the same type.

        Raises
        ------
        FileExistsError
            If there is something of that name.
        ValueError
            If parts differ in their features.

        Examples
        --------
        >>> import tempfile
        >>> from sksstruct.utils.packed import PackedSequences
        >>> parts = (PackedSequences([[float(k)]] * k, [0, k]) for k in (1, 2, 3))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     PackedSequences.save_parts(f"{folder}/train", parts)
        ...     PackedSequences.open(f"{folder}/train")
        PackedSequences(3 sequences, 6 rows, 1 features, dense float64)
        """
        save_parts(path, parts)

    @overload
    @staticmethod
    def open(
        path: PathLike, mmap: bool = True, *, labels: Literal[False] = False
    ) -> "PackedSequences": ...

    @overload
    @staticmethod
    def open(
        path: PathLike, mmap: bool = True, *, labels: Literal[True]
    ) -> "tuple[PackedSequences, PackedLabels]": ...

    @staticmethod
    def open(path: PathLike, mmap: bool = True, *, labels: bool = False) -> Any:
        """Open a folder that `save` wrote.

        Parameters
        ----------
        path : str or path
            Name of the folder.
        mmap : bool, default=True
            Whether arrays stay on disk and are read where they are used, so that they
            may be larger than memory. They are read-only then.
        labels : bool, default=False
            Whether to return the labels, too.

        Returns
        -------
        X : PackedSequences
            The sequences.
        y : PackedLabels
            Their labels, with `labels` only.

        Raises
        ------
        FileNotFoundError, ValueError
            If the folder, or a file in it, is missing, truncated, of another version or
            of another program. The error names the file.

        Examples
        --------
        >>> import tempfile
        >>> from sksstruct.utils.packed import PackedSequences
        >>> X = PackedSequences([[0.0], [1.0], [2.0]], [0, 2, 3])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     X.save(f"{folder}/train", y=[["a", "b"], ["a"]])
        ...     X, y = PackedSequences.open(f"{folder}/train", labels=True)
        ...     X, y[0].tolist()
        (PackedSequences(2 sequences, 3 rows, 1 features, dense float64), ['a', 'b'])
        """
        return open_shard(PackedSequences, path, mmap, labels)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are stored as CSR."""
        return not isinstance(self.stored, np.ndarray)

    @property
    def is_mapped(self) -> bool:
        """Whether the rows are on disk, and read where they are used."""
        return is_mapped(self.stored.data if self.is_sparse else self.values)

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each sequence."""
        return self.offsets[1:] - self.offsets[:-1]

    def __array_function__(self, func, types, args, kwargs):
        """What `sklearn.pipeline.FeatureUnion` joins its parts with."""
        is_columns = func is np.concatenate and kwargs.get("axis", *args[1:2]) == 1
        # before scikit-learn 1.9
        if is_columns or func is np.hstack:
            return side_by_side(args[0])
        # all else is as if this method did not exist
        return func._implementation(*args, **kwargs)

    def __len__(self):
        return len(self.offsets) - 1

    def __repr__(self):
        kind = "CSR" if self.is_sparse else "dense"
        return (
            f"PackedSequences({len(self)} sequences, {self.offsets[-1]} rows, "
            f"{self.n_features} features, {kind} {self.values.dtype})"
        )

    def __getitem__(self, key):
        if isinstance(key, slice):
            key = range(*key.indices(len(self)))
            if key.step == 1 and len(key):
                a, b = self.offsets[key.start], self.offsets[key.stop]
                offsets = self.offsets[key.start : key.stop + 1] - a
                values = rows_between(self.values, a, b)
                return PackedSequences(values, offsets, self.feature_names)
            return self.take(key)
        key = int(key)
        if not -len(self) <= key < len(self):
            raise IndexError(f"sequence {key} of {len(self)}")
        key %= len(self)
        return self.values[self.offsets[key] : self.offsets[key + 1]]

    def take(self, numbers: ArrayLike) -> "PackedSequences":
        """Select sequences.

        Parameters
        ----------
        numbers : array-like of int
            Their numbers.

        Returns
        -------
        packed : PackedSequences
            A copy of these sequences, in this order.
        """
        numbers = np.asarray(numbers, dtype=np.intp)
        rows = [np.arange(*self.offsets[i : i + 2]) for i in numbers]
        rows = np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
        return PackedSequences.from_lengths(
            self.values[rows], self.lengths[numbers], self.feature_names
        )

    def without_empty(self) -> "tuple[PackedSequences, np.ndarray]":
        """Leave out sequences that have no positions.

        Returns
        -------
        packed : PackedSequences
            The other sequences, with the same rows.
        numbers : ndarray of int
            Their numbers.
        """
        lengths = self.lengths
        if np.count_nonzero(lengths) == len(lengths):
            return self, np.arange(len(lengths))
        numbers = np.flatnonzero(lengths)
        # offsets repeat where a sequence is empty
        offsets = np.unique(self.offsets)
        return PackedSequences(self.values, offsets, self.feature_names), numbers

    def compact(self) -> "PackedSequences":
        """Choose the form that the kernels read fastest.

        Returns
        -------
        packed : PackedSequences
            Self, or the same rows as CSR if dense rows are mostly zero.
        """
        values = compact_rows(self.values)
        if values is self.values:
            return self
        return PackedSequences(values, self.offsets, self.feature_names)


def compact_rows(rows: np.ndarray | SparseLike) -> Any:
    """Rows of features as CSR if they are dense and mostly zero.

    Parameters
    ----------
    rows : ndarray or sparse array of shape (n_rows, n_features)
        The features.

    Returns
    -------
    rows : ndarray or sparse array
        The same features; what was given, unless it was made sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.utils.packed import compact_rows
    >>> rows = np.zeros((100, 50))
    >>> rows[:, 0] = 1.0
    >>> compact_rows(rows).format
    'csr'
    """
    # what is on disk may be more than memory holds
    if sparse.issparse(rows) or rows.size == 0 or is_mapped(rows):
        return rows
    if np.count_nonzero(rows) >= SPARSE_BELOW * rows.size:
        return rows
    return sparse.csr_array(rows)


def check_sequences(X, *, n_features=None, all_empty=False, name="X"):
    """Pack feature matrices of many sequences.

    Parameters
    ----------
    X : list of array-like or CSR of shape (n_positions, n_features), ndarray of shape \
            (n_sequences, n_positions, n_features), or PackedSequences
        Features.
    n_features : int, default=None
        Number of features expected.
    all_empty : bool, default=False
        Whether it is enough to have sequences without positions.
    name : str, default="X"
        Name of the argument in errors.

    Returns
    -------
    packed : PackedSequences
        float32 if all items are, else float64. Items are stacked, not kept. A sequence
        may have no positions, and then be ``[]``.

    Raises
    ------
    TypeError
        If X, or an item, is of a kind that cannot hold features.
    ValueError
        If X is empty, or an item has the wrong number of dimensions or features, or
        holds NaN or infinity.
    """
    packed = X
    if not isinstance(X, PackedSequences):
        packed = PackedSequences.from_lengths(*stack_rows(X, n_features, name))
    if not len(packed):
        raise ValueError(f"{name} is empty: at least one sequence is required")
    if not all_empty and not packed.offsets[-1]:
        raise ValueError(f"{name} has no positions: every sequence is empty")
    check_finite(packed, name)
    if n_features is not None and packed.n_features != n_features:
        raise ValueError(
            f"{name} has {packed.n_features} features in each row, but {n_features} "
            "features were seen in fit"
        )
    return packed


def side_by_side(parts):
    """Sequences whose rows are the rows of all parts, one after the other.

    Parameters
    ----------
    parts : list of {PackedSequences, list of matrix}
        Features of the same sequences. One at least has names, or is sparse, or is a
        `PackedSequences`.

    Returns
    -------
    packed : PackedSequences
        As CSR if a part is. If a part has names, features without names are named as
        their columns are numbered, ``x0`` and so on, and names that an earlier part has
        too begin with the number of their part, ``1__``.

    Raises
    ------
    ValueError
        If parts differ in the number of sequences, or of positions.
    """
    parts = [
        check_sequences(part, all_empty=True, name=f"part {k} of X")
        for k, part in enumerate(parts)
    ]
    first = parts[0]
    for k, part in enumerate(parts):
        if len(part) != len(first):
            raise ValueError(
                f"part {k} of X has {len(part)} sequences, part 0 has {len(first)}"
            )
        wrong = np.flatnonzero(part.lengths != first.lengths)
        if len(wrong):
            i = wrong[0]
            raise ValueError(
                f"part {k} of X has {part.lengths[i]} positions in sequence {i}, part "
                f"0 has {first.lengths[i]}"
            )
    values = [part.values for part in parts]
    if any(part.is_sparse for part in parts):
        values = sparse.hstack([sparse.csr_array(v) for v in values], format="csr")
    else:
        values = np.hstack(values)
    names = FeatureNames.joined(
        [p.n_features if p.feature_names is None else p.feature_names for p in parts]
    )
    return PackedSequences(values, first.offsets, names)
