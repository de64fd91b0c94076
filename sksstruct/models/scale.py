"""Sizes of features: norms of rows, and moments of columns.

`alpha="auto"` is proportional to the sum of the variances of the columns. It does not
depend on their means, because the bias of each label can compensate for a constant that
is added to a column.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sksstruct.utils._mixed import SPARSE_BELOW, MixedRows

# Number of entries of a matrix that are processed at a time.
_BATCH = 2**20
# A column whose range is above the median range by more than this factor has other
# units than most columns, and counts as if it had the median range.
MOST_RANGE = 10.0
# Number of binary digits to which learned scales and centers are rounded.
_DIGITS = 32
# Columns of arrays are centered if their share of nonzeros is at least this.
_FILLED = 0.5


@dataclass
class ColumnMoments:
    """Means, variances and ranges of columns, which can be merged over parts.

    Parameters
    ----------
    n_rows : int
        Number of rows of positive weight.
    total : float
        Total weight of these rows.
    mean, squares : ndarray of shape (n_features,)
        Weighted means, and weighted sums of the squared distances from them.
    low, high : ndarray of shape (n_features,)
        Smallest and largest values.
    filled : ndarray of shape (n_features,)
        Weight of the values that are not zero.
    is_dense : ndarray of shape (n_features,), bool
        Whether each column is stored as an array.
    """

    n_rows: int
    total: float
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray
    filled: np.ndarray
    is_dense: np.ndarray

    @classmethod
    def of(cls, rows, weight=None):
        """Moments of rows of features.

        Parameters
        ----------
        rows : ndarray, CSR or MixedRows of shape (n_rows, n_features)
            The features, which may be on disk.
        weight : ndarray of shape (n_rows,), default=None
            Weights of the rows; rows of weight zero do not count. None: all 1.
        """
        if weight is None:
            weight = np.ones(rows.shape[0])
        elif not weight.all():
            keep = np.flatnonzero(weight)
            rows, weight = rows[keep], weight[keep]
        # `alpha_factor` raises the error about numbers that are too large
        with np.errstate(over="ignore", invalid="ignore"):
            if not isinstance(rows, MixedRows):
                of = cls._of_sparse if sparse.issparse(rows) else cls._of_array
                return of(rows, weight)
            out = cls._of_sparse(rows.sparse, weight)
            dense = cls._of_array(rows.dense, weight)
        for name in ("mean", "squares", "low", "high", "filled", "is_dense"):
            getattr(out, name)[rows.columns] = getattr(dense, name)
        return out

    @classmethod
    def _none(cls, n_features, is_dense):
        zeros = [np.zeros(n_features) for _ in range(3)]
        low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
        is_dense = np.full(n_features, is_dense)
        return cls(0, 0.0, *zeros[:2], low, high, zeros[2], is_dense)

    @classmethod
    def _of_array(cls, rows, weight):
        out = cls._none(rows.shape[1], True)
        step = max(_BATCH // max(rows.shape[1], 1), 1)
        for first in range(0, rows.shape[0], step):
            part = np.asarray(rows[first : first + step], dtype=np.float64)
            share = weight[first : first + step]
            total = float(share.sum())
            low, high = part.min(axis=0), part.max(axis=0)
            filled = _sum(share, part != 0.0)
            # differences from the first row, so that a constant column has exactly no
            # variance
            shift = part[0].copy()
            part = part - shift
            mean = _sum(share, part) / total
            part -= mean
            squares = _sum(share, np.square(part, out=part))
            part_moments = cls(
                len(part), total, mean + shift, squares, low, high, filled, out.is_dense
            )
            out = out.merge(part_moments)
        return out

    @classmethod
    def _of_sparse(cls, rows, weight):
        (n_rows, n_features), n_stored = rows.shape, int(rows.indptr[-1])
        out = cls._none(n_features, False)
        if not n_rows:
            return out
        columns, data = rows.indices[:n_stored], rows.data[:n_stored]
        out.n_rows, out.total = n_rows, float(weight.sum())
        shares = np.repeat(weight, np.diff(rows.indptr))
        out.filled = np.bincount(columns, shares, n_features)
        counts = np.bincount(columns, minlength=n_features)
        constant = n_stored > 0 and data.min() == data.max()
        if constant:
            # all stored values are equal, as in most texts
            value = float(data[0])
            sums, squares = out.filled * value, out.filled * value**2
            out.low[counts > 0] = out.high[counts > 0] = value
        else:
            data = data.astype(np.float64, copy=False)
            sums = np.bincount(columns, shares * data, n_features)
            squares = np.bincount(columns, shares * data**2, n_features)
            np.minimum.at(out.low, columns, data)
            np.maximum.at(out.high, columns, data)
        # entries that are not stored are zero
        incomplete = counts < n_rows
        out.low[incomplete] = np.minimum(out.low[incomplete], 0.0)
        out.high[incomplete] = np.maximum(out.high[incomplete], 0.0)
        out.mean = sums / out.total
        squares = squares - out.mean * sums
        # constant columns have no variance, and rounding could make it negative
        out.squares = np.where(out.high > out.low, np.maximum(squares, 0.0), 0.0)
        return out

    def merge(self, other):
        """The moments of the rows of both objects."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        total = self.total + other.total
        change = other.mean - self.mean
        with np.errstate(over="ignore", invalid="ignore"):
            between = change**2 * (self.total * other.total / total)
        return ColumnMoments(
            self.n_rows + other.n_rows,
            total,
            self.mean + change * (other.total / total),
            self.squares + other.squares + between,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.filled + other.filled,
            self.is_dense & other.is_dense,
        )

    def mean_square(self):
        """Sum of the variances of the columns, of which some are rescaled.

        Columns whose range is more than ten times the median range have other units
        than most columns: their values count as if they had the median range.

        Returns
        -------
        mean_square : float
            Mean squared distance of the rows from their mean, with such columns
            rescaled. inf if it overflows; the least normal number if all squares
            underflow.
        """
        if not self.n_rows:
            return 0.0
        with np.errstate(over="ignore"):
            ranges = self.high - self.low
        varying = ranges > 0.0
        if not varying.any():
            return 0.0
        ranges, variances = ranges[varying], self.squares[varying] / self.total
        # the lower median, so that of two columns the smaller range is typical
        typical = np.partition(ranges, (len(ranges) - 1) // 2)[(len(ranges) - 1) // 2]
        large = ranges > MOST_RANGE * typical
        variances[large] *= (typical / ranges[large]) ** 2
        total_variance = float(variances.sum())
        # sums of squares that overflow may be NaN
        if not np.isfinite(total_variance):
            return np.inf
        return max(float(_rounded(total_variance)), np.finfo(np.float64).tiny)

    def centers(self):
        """Number that each column is centered by, or None if no column is centered.

        Columns of arrays of which at least half is not zero, and sparse columns with
        an entry in each row, are centered by their means. Other columns are not
        centered, as their zeros would have to be stored. Arrays with few nonzeros count
        as sparse, as in kernels.
        """
        dense = self.is_dense
        if dense.any() and self.filled[dense].mean() < SPARSE_BELOW * self.total:
            dense = np.zeros_like(dense)
        # a margin, as sums of weights in another order round differently
        least = np.where(dense, _FILLED, 1.0 - 1e-9) * self.total
        centers = np.where(self.filled >= least, self.mean, 0.0)
        return _rounded(centers) if centers.any() else None


def _rounded(values):
    """Values rounded to digits that do not depend on the order of the parts.

    Models of the same data then have equal bits for any division into parts.
    """
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.rint(np.ldexp(mantissa, _DIGITS)), exponent - _DIGITS)


def _sum(weight, rows):
    """Weighted sum of rows, without BLAS, whose rounding may depend on its threads."""
    return np.einsum("i,ij->j", weight, rows)


def centered(rows, centers):
    """Rows of features minus the result of `ColumnMoments.centers`."""
    if centers is None:
        return rows
    if isinstance(rows, MixedRows):
        dense = rows.dense - centers[rows.columns].astype(rows.dense.dtype)
        return MixedRows(centered(rows.sparse, centers), dense, rows.columns)
    if not sparse.issparse(rows):
        return rows - centers.astype(rows.dtype, copy=False)
    n_stored = rows.indptr[-1]
    change = centers[rows.indices[:n_stored]].astype(rows.dtype, copy=False)
    data = rows.data[:n_stored] - change
    return sparse.csr_array((data, rows.indices[:n_stored], rows.indptr), rows.shape)


def divided(rows, number):
    """Rows of features in any form, divided by a number."""
    if isinstance(rows, MixedRows):
        return MixedRows(rows.sparse / number, rows.dense / number, rows.columns)
    return rows / number


def row_squares(rows):
    """Squared norm of each row of features, in double precision.

    Parameters
    ----------
    rows : ndarray, CSR or MixedRows of shape (n_rows, n_features)
        The features, which may be on disk.

    Returns
    -------
    squares : ndarray of shape (n_rows,)
        The squared norms; inf where they overflow.
    """
    if isinstance(rows, MixedRows):
        return row_squares(rows.sparse) + row_squares(rows.dense)
    n, out = rows.shape[0], np.zeros(rows.shape[0])
    is_sparse = sparse.issparse(rows)
    size = rows.indptr[-1] if is_sparse else rows.size
    step = max(int(_BATCH * n / max(size, 1)), 1)
    with np.errstate(over="ignore"):
        for first in range(0, n, step):
            last = min(first + step, n)
            if not is_sparse:
                part = rows[first:last]
                out[first:last] = np.einsum("ij,ij->i", part, part, dtype=np.float64)
                continue
            places = rows.indptr[first : last + 1]
            row = np.repeat(np.arange(last - first), np.diff(places))
            values = np.square(rows.data[places[0] : places[-1]], dtype=np.float64)
            out[first:last] = np.bincount(row, values, last - first)
    return out
