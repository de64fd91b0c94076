"""Ragged sequences, packed once: stacked rows and offsets."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sksstruct.utils._layout import StoredRows, is_mapped
from sksstruct.utils._mixed import MixedRows, compact_rows, join_columns
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
    Sequences,
    Strings,
)

__all__ = ["PackedLabels", "PackedSequences", "compact_rows"]


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
    values : ndarray, csr_array or MixedRows
        The rows. Rows that `hstack` made of sparse and of dense features are a
        `MixedRows`, which has the parts `sparse` and `dense`, the numbers `columns` of
        the dense columns, and the method `tocsr`; ``X[i]`` is then CSR.
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
        elif isinstance(values, MixedRows):
            values = MixedRows(
                canonical_csr(values.sparse),
                np.ascontiguousarray(values.dense),
                values.columns,
            )
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
        rows: Any,
        n_features: int,
        offsets: np.ndarray,
        feature_names: FeatureNames | None = None,
    ) -> Self:
        """Build from unchecked rows: `StoredRows`, or any form that `values` may have.

        Creating a SciPy array takes longer than labeling a sentence, and is deferred
        until `values` is read.
        """
        packed = cls.__new__(cls)
        packed.stored, packed.n_features, packed.offsets = rows, n_features, offsets
        packed.feature_names = feature_names
        return packed

    @property
    def values(self) -> Any:
        """ndarray, csr_array or MixedRows: the rows."""
        if isinstance(self.stored, StoredRows):
            shape = len(self.stored.indptr) - 1, self.n_features
            values = sparse.csr_array(self.stored, shape=shape)
            # unless this flag is set, SciPy checks all entries when they are used
            values.has_canonical_format = True
            # keep this array, so that kernels see later changes by the caller
            self.stored = values
        return self.stored

    def _state(self):
        state = taken(self, ("values", "offsets", "feature_names"))
        if self.is_mixed:
            state["values"], state["dense"] = self.values.sparse, self.values.dense
            state["columns"] = self.values.columns
        return state

    def _restore(self, state):
        names = ("values", "offsets", "feature_names")
        values, *others = required(state, names, "PackedSequences")
        if "dense" in state:
            parts = required(state, ("dense", "columns"), "PackedSequences")
            values = MixedRows.checked(canonical_csr(values), *parts)
        self.__init__(values, *others)

    @classmethod
    def from_lengths(
        cls,
        values: MatrixLike,
        lengths: ArrayLike,
        feature_names: Strings | None = None,
    ) -> Self:
        """Build from stacked rows and the length of each sequence."""
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]), feature_names)

    @staticmethod
    def hstack(parts: Iterable[Sequences]) -> "PackedSequences":
        """Put features of the same sequences side by side.

        Sparse parts stay CSR; dense parts stay arrays unless they are mostly zero.
        `sklearn.pipeline.FeatureUnion` joins its parts in this way.

        Parameters
        ----------
        parts : iterable of {PackedSequences, list of matrix}
            Features of the same sequences.

        Returns
        -------
        packed : PackedSequences
            The columns of all parts, in their order. If a part has names, features
            without names are named as their columns are numbered, ``x0`` and so on, and
            names that an earlier part has too begin with the number of their part,
            ``1__``.

        Raises
        ------
        ValueError
            If parts differ in the number of sequences, or of positions.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> from sksstruct.utils.packed import PackedSequences
        >>> words = PackedSequences(csr_array([[1.0], [0.0], [1.0]]), [0, 2, 3])
        >>> vectors = [[[0.2, 1.0], [0.4, 2.0]], [[0.6, 1.0]]]
        >>> PackedSequences.hstack([words, vectors])
        PackedSequences(2 sequences, 3 rows, 3 features, CSR float64 + 2 dense float64)
        """
        return _side_by_side(list(parts))

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
            The parts, with their labels if there are any: of the same features, in
            the same form, sparse or dense, and of the same type.

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
        """Whether all features are stored as CSR."""
        return not isinstance(self.stored, np.ndarray | MixedRows)

    @property
    def is_mixed(self) -> bool:
        """Whether some features are stored as CSR, and others as an array."""
        return isinstance(self.stored, MixedRows)

    @property
    def is_mapped(self) -> bool:
        """Whether the rows are on disk, and are read when they are used."""
        if self.is_mixed:
            return is_mapped(self.values.sparse.data) or is_mapped(self.values.dense)
        return is_mapped(self.stored.data if self.is_sparse else self.values)

    @property
    def lengths(self) -> np.ndarray:
        """Number of rows of each sequence."""
        return self.offsets[1:] - self.offsets[:-1]

    def __array_function__(self, func, types, args, kwargs):
        """Implement the function by which scikit-learn's FeatureUnion joins parts."""
        is_columns = func is np.concatenate and kwargs.get("axis", *args[1:2]) == 1
        # FeatureUnion calls hstack before scikit-learn 1.9
        if is_columns or func is np.hstack:
            return _side_by_side(args[0])
        # all other functions behave as if this method did not exist
        return func._implementation(*args, **kwargs)

    def __len__(self):
        return len(self.offsets) - 1

    def __repr__(self):
        values = self.values
        kind = f"{'CSR' if self.is_sparse else 'dense'} {values.dtype}"
        if self.is_mixed:
            n_dense = len(values.columns)
            kind = f"CSR {values.sparse.dtype} + {n_dense} dense {values.dense.dtype}"
        return (
            f"PackedSequences({len(self)} sequences, {self.offsets[-1]} rows, "
            f"{self.n_features} features, {kind})"
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
            raise IndexError(
                f"the index of a sequence must be in [{-len(self)}, {len(self)}), got "
                f"{key}"
            )
        key %= len(self)
        rows = self.values[self.offsets[key] : self.offsets[key + 1]]
        return rows.tocsr() if self.is_mixed else rows

    def take(self, numbers: ArrayLike) -> "PackedSequences":
        """Copy some of the sequences.

        Parameters
        ----------
        numbers : array-like of int
            Numbers of the sequences.

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
            Numbers of the sequences of `packed`.
        """
        lengths = self.lengths
        if np.count_nonzero(lengths) == len(lengths):
            return self, np.arange(len(lengths))
        numbers = np.flatnonzero(lengths)
        # an empty sequence repeats an offset
        offsets = np.unique(self.offsets)
        return PackedSequences(self.values, offsets, self.feature_names), numbers

    def in_one_form(self) -> "PackedSequences":
        """Store all features in one form, for code that reads a single matrix.

        Returns
        -------
        packed : PackedSequences
            Self, or the same rows as CSR if some features are dense and others not.
        """
        if not self.is_mixed:
            return self
        return PackedSequences(self.values.tocsr(), self.offsets, self.feature_names)

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


def check_sequences(X, *, n_features=None, all_empty=False, allow_nan=False, name="X"):
    """Pack feature matrices of many sequences.

    Parameters
    ----------
    X : list of array-like or CSR of shape (n_positions, n_features), ndarray of shape \
            (n_sequences, n_positions, n_features), or PackedSequences
        Features.
    n_features : int, default=None
        Number of features expected.
    all_empty : bool, default=False
        Whether all sequences may be without positions.
    allow_nan : bool, default=False
        Whether values may be NaN, which stands for missing values.
    name : str, default="X"
        Name of the argument in errors.

    Returns
    -------
    packed : PackedSequences
        The sequences, as float32 if all items are, else float64. A sequence without
        positions may be given as ``[]``.

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
    check_finite(packed, name, allow_nan=allow_nan)
    if n_features is not None and packed.n_features != n_features:
        raise ValueError(
            f"{name} has {packed.n_features} features in each row, but {n_features} "
            "features were seen in fit"
        )
    return packed


def _side_by_side(parts):
    """Return sequences with the columns of all parts; see `PackedSequences.hstack`."""
    parts = [
        check_sequences(part, all_empty=True, name=f"part {k} of X")
        for k, part in enumerate(parts)
    ]
    if not parts:
        raise ValueError("parts must have at least one entry, got none")
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
    values = join_columns([part.compact().values for part in parts])
    names = FeatureNames.joined(
        [p.n_features if p.feature_names is None else p.feature_names for p in parts]
    )
    return PackedSequences.of_stored(values, values.shape[1], first.offsets, names)
