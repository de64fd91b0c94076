"""Features of dense series: lags, differences, and statistics of moving windows."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np

from sksstruct.feature_extraction._dense_rows import RowsTransformer
from sksstruct.utils._ragged import check_finite
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.typing import Integers, Sequences, Strings

# For each edge mode but "nearest", the numbers (c, d, e): a series of n positions
# continues with the period p = c n - d, and has the same value at t and at p - e - t.
_PERIODS = {"reflect": (2, 0, 1), "mirror": (2, 2, 0)}
_STATISTICS = "mean", "std", "slope"


@dataclass(eq=False, repr=False)
class SeriesFeatures(RowsTransformer):
    """Describe each position of a dense series by the positions around it.

    The output has the columns of all lags, then of all differences, then of the
    statistics of each window; each lag, difference or statistic has a column for each
    column of the input.

    Parameters
    ----------
    lags : sequence of int, default=(0,)
        Lags whose values become columns: 0 is the position itself, 1 the position
        before it, and -1 the position after it.
    differences : sequence of int, default=(1,)
        Lags whose values are subtracted from the value of the position.
    windows : sequence of int, default=(11,)
        Sizes of moving windows, in positions.
    statistics : sequence of str, default=("mean", "std")
        Statistics of each window: "mean", "std", the standard deviation as in
        `numpy.std`, or "slope", the slope per position of the least-squares line.
    causal : bool, default=False
        Whether windows end at the position. Windows then contain no later positions,
        and neither lags nor differences may be negative. If False, the position is in
        the middle of its windows; a window of even size has one position more before
        the position than after it.
    mode : {"nearest", "reflect", "mirror"}, default="nearest"
        Values beyond the ends of a series, as in `scipy.ndimage`. For a series ``a b c
        d``: "nearest" repeats the end, ``a a | a b c d | d d``; "reflect" goes back
        from the end, ``b a | a b c d | d c``; "mirror" goes back without repeating the
        end, ``c b | a b c d | c b``. Causal windows need "nearest", because the other
        modes look ahead at the start of a series.
    missing : {"error", "indicator"}, default="error"
        Treatment of missing values, which are NaN. "error": an error that says where.
        "indicator": a missing value is replaced by the last value before it, or if
        there is none by the mean of the column in training; each column with missing
        values in training also gets a further column, which is 1 at missing values and
        0 elsewhere.

    Attributes
    ----------
    context_ : tuple of (int, int)
        Number of positions before and after a position on which its features depend,
        for `sksstruct.StreamingTagger`. Replaced missing values may depend on earlier
        positions.
    means_ : ndarray of shape (n_features,)
        Means of the columns, without missing values.
    missing_columns_ : ndarray of int
        Indices of the columns that have missing values in training.
    n_features_in_ : int
        Number of columns of the input.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, if all series are data frames with these columns.

    See Also
    --------
    RowTransformer : Scales or otherwise transforms each row by itself.

    Notes
    -----
    Lags and windows count positions, not time. A series with measurements at uneven
    times must be resampled first, or get a column with the time since the last
    measurement; lags and windows then still count measurements.

    Statistics of a window are computed from those of its halves, so that time grows
    with the logarithm of the size of the window. No large sums are subtracted [1]_: the
    deviations of a series with a mean of 1e8 are as precise as its values.

    References
    ----------
    .. [1] T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the
       sample variance: analysis and recommendations", The American Statistician 37(3),
       1983.

    Examples
    --------
    >>> from sksstruct.feature_extraction import SeriesFeatures
    >>> features = SeriesFeatures(windows=(3,), statistics=("mean",), causal=True)
    >>> features.fit_transform([[[1.0], [2.0], [6.0]]])[0].tolist()
    [[1.0, 0.0, 1.0], [2.0, 1.0, 1.3333333333333333], [6.0, 4.0, 3.0]]
    >>> features.get_feature_names_out().tolist()
    ['x0', 'x0_diff_1', 'x0_mean_3']
    """

    _: KW_ONLY
    lags: Integers = (0,)
    differences: Integers = (1,)
    windows: Integers = (11,)
    statistics: Strings = ("mean", "std")
    causal: bool = False
    mode: Literal["nearest", "reflect", "mirror"] = "nearest"
    missing: Literal["error", "indicator"] = "error"

    _parameter_constraints = {
        name: ["array-like"]
        for name in ("lags", "differences", "windows", "statistics")
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._allows_nan()
        return tags

    def _allows_nan(self):
        return self.missing == "indicator"

    def fit(self, X: Sequences, y: object = None) -> Self:
        """Check the parameters, and find the columns with missing values.

        Parameters
        ----------
        X : list of {array-like, data frame} of shape (n_positions, n_features)
            The series.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : SeriesFeatures
            The fitted transformer.

        Raises
        ------
        ValueError, TypeError
            If a parameter is not valid, or values are missing or not finite; the error
            names the series, the position and the column.
        """
        packed = _dense(self._fit_rows(X))
        reaches = self._reaches()
        self.context_ = (
            max([0, *(before for before, _ in reaches)]),
            max([0, *(after for _, after in reaches)]),
        )
        if self.causal and self.context_[1]:
            raise ValueError(
                "lags and differences must not be negative with causal=True, got "
                f"lags={self.lags!r:.80} and differences={self.differences!r:.80}"
            )
        if self.causal and self.mode != "nearest":
            raise ValueError(
                f"mode must be 'nearest' with causal=True, got {self.mode!r}: other "
                "modes look ahead at the start of a series"
            )
        missing = np.isnan(packed.values)
        self.missing_columns_ = np.flatnonzero(missing.any(axis=0))
        sums = np.sum(packed.values, axis=0, where=~missing, dtype=np.float64)
        self.means_ = sums / np.maximum((~missing).sum(axis=0), 1)
        return self

    def _reaches(self):
        """Check the parameters; return how far each feature looks back and ahead."""
        names = list(self.statistics)
        for name in names:
            if not isinstance(name, str) or name not in _STATISTICS:
                raise ValueError(
                    f"statistics must be among {_STATISTICS}, got {name!r:.80}"
                )
        if len(set(names)) < len(names):
            raise ValueError(f"statistics has a name twice: {names!r:.80}")
        reaches = []
        for name in ("lags", "differences"):
            reaches += [(lag, -lag) for lag in _integers(name, getattr(self, name))]
        if 0 in _integers("differences", self.differences):
            raise ValueError(
                f"differences must not have 0, whose column is zero, got "
                f"{self.differences!r:.80}"
            )
        least = 2 if {"std", "slope"} & set(names) else 1
        for size in _integers("windows", self.windows):
            if size < least:
                raise ValueError(f"windows must be at least {least}, got {size}")
            reaches.append(self._reach(size))
        if not self.lags and not self.differences and not (self.windows and names):
            raise ValueError(
                "lags, differences and windows are empty: no column is left"
            )
        return reaches

    def _reach(self, size):
        """Return how many positions a window has before and after its position."""
        before = size - 1 if self.causal else size // 2
        return before, size - 1 - before

    def transform(self, X: Sequences) -> PackedSequences:
        """Compute the features of each position.

        Parameters
        ----------
        X : list of {array-like, data frame} of shape (n_positions, n_features)
            The series.

        Returns
        -------
        X_new : PackedSequences
            Dense rows, in single precision if X is, with names.

        Raises
        ------
        ValueError
            If a value is missing in a column that has none missing in training.
        """
        packed = _dense(self._rows(X))
        names = self.get_feature_names_out()
        out = np.empty((packed.offsets[-1], len(names)), packed.values.dtype)
        missing = np.isnan(packed.values)
        values = packed.values
        if missing.any():
            self._check_missing(missing, packed)
            values = _carried_on(packed, missing, self.means_)
        source, places = self._padded_rows(packed)
        n = self.n_features_in_
        for k in range(n):
            # all padded series, concatenated
            padded = values[source, k].astype(np.float64, copy=False)
            for j, feature in enumerate(self._features(padded, places)):
                out[:, j * n + k] = feature
        if len(self.missing_columns_):
            indicators = missing[:, self.missing_columns_]
            out[:, -len(self.missing_columns_) :] = indicators
        rows = PackedSequences(out, packed.offsets, names)
        check_finite(rows, "X_new")
        return rows

    def _check_missing(self, missing, packed):
        """Raise an error for a missing value in a column without any in training."""
        missing = missing.copy()
        missing[:, self.missing_columns_] = False
        if not missing.any():
            return
        row, column = np.argwhere(missing)[0]
        i = int(np.searchsorted(packed.offsets, row, "right")) - 1
        raise ValueError(
            f"X[{i}] has a missing value at position {row - packed.offsets[i]} of "
            f"column {self._names_in()[column]!r}, which had no missing value in fit"
        )

    def _padded_rows(self, packed):
        """Return row indices that pad each series at both ends, as `mode` requires.

        Returns
        -------
        source : ndarray of intp
            Row of X for each row of the padded series.
        places : ndarray of shape (n_rows,), intp
            Row of the padded series for each row of X.
        """
        before, after = self.context_
        lengths, offsets = packed.lengths, packed.offsets[:-1]
        lengths, offsets = lengths[lengths > 0], offsets[lengths > 0]
        sizes = lengths + (before + after)
        n = np.repeat(lengths, sizes)
        starts = np.cumsum(sizes) - sizes
        t = np.arange(len(n)) - np.repeat(starts + before, sizes)
        places = np.flatnonzero((t >= 0) & (t < n))
        if self.mode == "nearest":
            t = np.clip(t, 0, n - 1)
        else:
            times, less, back = _PERIODS[self.mode]
            period = np.maximum(times * n - less, 1)
            t = t % period
            t = np.minimum(t, period - back - t)
        return t + np.repeat(offsets, sizes), places

    def _features(self, padded, places):
        """Yield the features of one padded column: lags, differences, windows."""
        for lag in self.lags:
            yield padded[places - lag]
        for lag in self.differences:
            yield padded[places] - padded[places - lag]
        for size in self.windows:
            before, _ = self._reach(size)
            statistics = _window_statistics(padded, size)
            for name in self.statistics:
                yield statistics[name][places - before]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of the input. None: those seen in fit, or else ``x0``,
            ``x1`` and so on.

        Returns
        -------
        names : ndarray of shape (n_features_out,), object
            For a column ``x``: ``x``, ``x_lag_2``, ``x_diff_1``, ``x_mean_11`` and
            ``x_missing``, for example.
        """
        names = self._names_in(input_features)
        ends = [f"_lag_{lag}" if lag else "" for lag in self.lags]
        ends += [f"_diff_{lag}" for lag in self.differences]
        ends += [f"_{name}_{size}" for size in self.windows for name in self.statistics]
        columns = [name + end for end in ends for name in names]
        columns += [f"{names[k]}_missing" for k in self.missing_columns_]
        return np.array(columns, dtype=object)


def _dense(packed):
    if not isinstance(packed.values, np.ndarray):
        raise TypeError("X is sparse: a dense array for each series is required")
    return packed


def _integers(name, values):
    """Check that a parameter has distinct integers, and return them as a list."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be a list of whole numbers, got {values!r:.80}")
    if len(np.unique(numbers)) < len(numbers):
        raise ValueError(f"{name} has a number twice: {values!r:.80}")
    return numbers.tolist()


def _carried_on(packed, missing, means):
    """Replace missing values by the last value before in the series, or the mean."""
    first = np.repeat(packed.offsets[:-1], packed.lengths)[:, None]
    rows = np.where(missing, first, np.arange(len(missing))[:, None])
    # a missing value has at least the first row of its series, so that the maximum
    # never carries a value over from another series
    np.maximum.accumulate(rows, axis=0, out=rows)
    values = np.take_along_axis(packed.values, rows, axis=0)
    return np.where(np.isnan(values), means, values)


def _window_statistics(x, size):
    """Return statistics of all windows of a vector, by the window's first position.

    Let m be the mean, s the sum of squared deviations, and p the sum of deviations
    times positions. A window of a values and the b values after it have together

        n = a + b,  d = m_b - m_a,  m = m_a + d b / n,
        s = s_a + s_b + d^2 a b / n,  p = p_a + p_b + d (a b / n) (n / 2)

    (Chan, Golub and LeVeque, 1983, for s). A window of any size is built from single
    values by doubling the window and adding one value.
    """

    def joined(one, a, other, b):
        n = a + b
        (m, s, p), (m_after, s_after, p_after) = one, other
        d = m_after - m
        return (
            m + d * (b / n),
            s + s_after + d * d * (a * b / n),
            (p + p_after + d * (a * b / 2)),
        )

    single = x, np.zeros_like(x), np.zeros_like(x)
    window, n = single, 1
    with np.errstate(over="ignore", invalid="ignore"):
        for digit in f"{size:b}"[1:]:
            # slices keep the windows that lie within x
            window = joined([v[:-n] for v in window], n, [v[n:] for v in window], n)
            n *= 2
            if digit == "1":
                window = joined([v[:-1] for v in window], n, [v[n:] for v in single], 1)
                n += 1
    mean, squares, products = window
    return {
        "mean": mean,
        "std": np.sqrt(squares / size),
        # 12 / (n (n^2 - 1)) is 1 / the sum of squared deviations of the positions
        "slope": products * (12.0 / max(size * (size * size - 1), 1)),
    }
