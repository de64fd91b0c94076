"""Ragged sequences, packed once: stacked rows and offsets."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from sksstruct.utils.sparse_input import rows_between, sound_csr
from sksstruct.utils.state import Versioned, required

# Dense rows with fewer non-zeros than this are stored as CSR: the kernels then skip
# the zeros, and the rows take less memory.
SPARSE_BELOW = 0.3


class PackedSequences(Versioned, Sequence):
    """Feature rows of many sequences in one matrix.

    A read-only sequence of matrices: ``X[i]`` is the matrix of sequence i, and a slice
    is packed, too. `sksstruct` estimators take it wherever they take a list of arrays,
    without packing it again.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_features) or CSR matrix or array
        All rows, stacked. Not copied where it is C-contiguous float32 or float64, or
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
    feature_names : ndarray of str or None
        The names.
    """

    def __init__(self, values, offsets, feature_names=None):
        offsets = np.ascontiguousarray(offsets, dtype=np.intp)
        if sparse.issparse(values):
            values = _canonical_csr(values)
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
        self.values = values
        self.offsets = offsets
        self.feature_names = (
            None if feature_names is None else np.asarray(feature_names, dtype=object)
        )

    def _state(self):
        return vars(self)

    def _restore(self, state):
        names = ("values", "offsets", "feature_names")
        self.__init__(*required(state, names, "PackedSequences"))

    @classmethod
    def from_lengths(cls, values, lengths, feature_names=None):
        """Build from stacked rows and the length of each sequence."""
        return cls(values, np.concatenate([[0], np.cumsum(lengths)]), feature_names)

    @property
    def n_features(self):
        """Number of columns."""
        return self.values.shape[1]

    @property
    def is_sparse(self):
        """Whether the rows are stored as CSR."""
        return sparse.issparse(self.values)

    @property
    def lengths(self):
        """Number of rows of each sequence."""
        return np.diff(self.offsets)

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
            rows = [np.arange(*self.offsets[i : i + 2]) for i in key]
            rows = np.concatenate(rows) if rows else np.zeros(0, dtype=np.intp)
            lengths = self.lengths[np.array(key, dtype=np.intp)]
            return PackedSequences.from_lengths(
                self.values[rows], lengths, self.feature_names
            )
        key = int(key)
        if not -len(self) <= key < len(self):
            raise IndexError(f"sequence {key} of {len(self)}")
        key %= len(self)
        return self.values[self.offsets[key] : self.offsets[key + 1]]

    def without_empty(self):
        """Leave out sequences that have no positions.

        Returns
        -------
        packed : PackedSequences
            The other sequences, with the same rows.
        numbers : ndarray of int
            Their numbers.
        """
        numbers = np.flatnonzero(self.lengths)
        if len(numbers) == len(self):
            return self, numbers
        # offsets repeat where a sequence is empty
        offsets = np.unique(self.offsets)
        return PackedSequences(self.values, offsets, self.feature_names), numbers

    def compact(self):
        """Choose the form that the kernels read fastest.

        Returns
        -------
        packed : PackedSequences
            Self, or the same rows as CSR where dense rows are mostly zero.
        """
        if self.is_sparse or self.values.size == 0:
            return self
        if np.count_nonzero(self.values) >= SPARSE_BELOW * self.values.size:
            return self
        values = sparse.csr_array(self.values)
        return PackedSequences(values, self.offsets, self.feature_names)


def _canonical_csr(values):
    """CSR array with sorted, unique, 32-bit indices and float values.

    Shares memory with an input that already has this form.
    """
    if values.dtype.kind not in "biuf":
        raise TypeError(f"values must be real numbers, got {values.dtype}")
    if values.ndim != 2:
        raise ValueError(f"values must be 2-D, got {values.ndim}-D")
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    out = sparse.csr_array(sound_csr(values, "values"))
    if not out.has_canonical_format:
        if values.format == "csr" and np.may_share_memory(out.data, values.data):
            out = out.copy()
        out.sum_duplicates()
    return out
