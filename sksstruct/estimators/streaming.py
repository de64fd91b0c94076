"""Labels of a sequence whose positions come one after the other."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._chain_prediction import check_probabilistic
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.inference.chains._online import OnlineMarginals, OnlineViterbi
from sksstruct.models.chain._row_scores import write_row_scores
from sksstruct.models.chain.constraints import transition_mask
from sksstruct.models.chain.fitted import padded_rows
from sksstruct.utils._layout import padded_length
from sksstruct.utils.packed import PackedSequences, check_sequences
from sksstruct.utils.sparse_input import is_sparse
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Items, MatrixLike

_METHODS = {"predict": OnlineViterbi, "predict_proba": OnlineMarginals}


class StreamingTagger(Versioned):
    """Label a sequence while its positions arrive.

    `push` takes the next positions and returns the labels that are decided, in the
    order of the positions. A label is decided when no later position can change it, as
    the best labelings of the positions so far, one for each last label, agree on it
    [1]_; or when `lag` further positions have come. `flush` ends the sequence, and
    returns the labels that are left. What is returned does not depend on how the
    positions are cut into pieces.

    Parameters
    ----------
    estimator : ChainCRF, Tagger, Pipeline or CalibratedTagger
        A fitted tagger, or a search that has refitted one. What `fit` changes later has
        no effect.
    lag : int, default=None
        How many further positions a position waits for at most. Its label is then that
        of the best labeling of the positions so far. None: no limit; all labels
        together are those of `predict`, which also breaks ties in the same way.
    method : {"predict", "predict_proba"}, default="predict"
        What is returned: labels; or rows of probabilities of the labels in the order of
        ``classes_``, for taggers that have them. Those of a position are conditional on
        the positions up to `lag` later: filtered with ``lag=0``, smoothed with a larger
        one, and those of `predict_proba`, at the end of the sequence, with None.
    context : tuple of (int, int), default=(0, 0)
        If the estimator is a pipeline, how many positions before and after a position
        its features depend on, as ``SeriesFeatures.context_`` says. So many positions
        are kept, and features are computed as many positions later, from the same
        values as in a whole sequence.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_pending_ : int
        Number of positions that were pushed, and whose results were not returned.

    Raises
    ------
    TypeError
        If the estimator is no tagger with a `ChainCRF`.
    ValueError
        If the tagger has ``order=2``, weights in ``transition_coef_``,
        ``risk="hamming"``, or no probabilities where they are asked for.

    See Also
    --------
    sksstruct.feature_extraction.SeriesFeatures : Has features that do not look ahead.

    Notes
    -----
    Memory and time for a position do not grow with the length of the sequence if there
    is a `lag`. Without a limit, memory grows until labels agree. With
    ``method="predict_proba"``, each position takes a step for each position of the lag.

    A stream can be pickled at any time, and goes on where it was.

    With a lag, the best labeling may change after some of its labels were given out.
    Where the tagger forbids transitions, labelings that do not continue the labels
    given out in an allowed way are dropped, so that all labels together break no rule.
    A label that is known, or excluded, at a position has -inf for the others, or
    for itself, in `push_scores`. A `SegmentCRF` cannot be used: the score of a segment
    depends on all of its positions.

    Scores are computed in double precision, also if the tagger was cast to single
    precision.

    References
    ----------
    .. [1] R. Sramek, B. Brejova and T. Vinar, "On-line Viterbi algorithm for analysis
       of long biological sequences", WABI 2007.

    Examples
    --------
    >>> from sksstruct import ChainCRF, StreamingTagger
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> tagger = ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    >>> stream = StreamingTagger(tagger, lag=1)
    >>> stream.push([[1.0], [1.0], [0.0]]).tolist()
    ['high', 'high']
    >>> stream.flush().tolist()
    ['low']
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        lag: int | None = None,
        method: Literal["predict", "predict_proba"] = "predict",
        context: tuple[int, int] = (0, 0),
    ) -> None:
        if method not in _METHODS:
            raise ValueError(f"method must be one of {list(_METHODS)}, got {method!r}")
        if lag is not None and (not isinstance(lag, Integral) or lag < 0):
            raise ValueError(f"lag must be None, or 0 or more, got {lag!r}")
        self._transformers, crf = _parts(estimator)
        _check_supported(crf, method)
        self.context = _checked_context(context, self._transformers)
        self.estimator, self.lag, self.method = estimator, lag, method
        self.classes_, self._crf = crf.classes_, crf
        divisor = 1.0
        if method == "predict_proba" and crf._temperature is not None:
            divisor = crf._temperature
        self._divisor = divisor
        start, end, transitions = _tables(crf)
        self._chain = _METHODS[method](
            start / divisor,
            end / divisor,
            transitions / divisor,
            -1 if lag is None else int(lag),
        )
        n, ld = len(crf.classes_), padded_length(len(crf.classes_))
        self._intercept = np.zeros(ld)
        self._intercept[:n] = crf.intercept_
        self._emission = None
        if not is_sparse(crf.coef_):
            self._emission = padded_rows(crf.coef_.astype(np.float64, copy=False), ld)
        self.reset()

    def _restore(self, state):
        vars(self).update(state)

    @property
    def n_pending_(self) -> int:
        """int: number of positions whose results were not returned."""
        waiting = 0 if self._buffer is None else _length(self._buffer) - self._n_before
        return self._chain.n_pending + waiting

    def reset(self) -> Self:
        """Forget the sequence; the next position is the first of another one.

        Returns
        -------
        self : StreamingTagger
            The stream.
        """
        self._chain.reset()
        # the last positions, of which the first have features already
        self._buffer, self._names, self._n_before = None, None, 0
        self._n_seen = 0
        return self

    def push(self, x: Items | MatrixLike) -> np.ndarray:
        """Take the next positions, and return what is decided.

        Parameters
        ----------
        x : {array-like, CSR matrix, data frame} of shape (n_positions, n_features) or \
list
            Positions, one or several, as `predict` reads them in a sequence: rows of
            features, or what the first step of the pipeline takes, as a list.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of the first n positions without any.

        Raises
        ------
        ValueError, TypeError
            If x is not valid; the stream does not change. And if constraints leave no
            labeling: the stream then needs a `reset`.
        """
        if x is None or isinstance(x, tuple | str | bytes | Mapping):
            raise TypeError(
                "x must be a list of positions, or rows of numbers, got a "
                f"{type(x).__name__}; columns of tokens can be given as a list of dicts"
            )
        if getattr(x, "ndim", 2) != 2:
            raise ValueError(f"x is {x.ndim}-D: it must be 2-D; one position is [x]")
        if not self._transformers:
            return self._add(self._scores(x))
        features, kept = self._features(x)
        scores = self._scores(features)
        self._buffer, self._n_before, self._names = kept
        return self._add(scores)

    def push_scores(self, scores: ArrayLike) -> np.ndarray:
        """Take scores of the labels at the next positions, and return what is decided.

        Parameters
        ----------
        scores : array-like of shape (n_positions, n_classes)
            What takes the place of ``x @ coef_.T + intercept_``, such as scores that
            another model has computed; -inf excludes a label.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of the first n positions without any.

        Raises
        ------
        ValueError
            If scores are not valid; the stream does not change. And if constraints
            leave no labeling: the stream then needs a `reset`.
        """
        rows = np.array(scores, dtype=np.float64, order="C", ndmin=1)
        n = len(self.classes_)
        if rows.ndim != 2 or rows.shape[1] != n:
            raise ValueError(
                f"scores must have shape (n_positions, {n}), got {rows.shape}"
            )
        if self._buffer is not None and _length(self._buffer) > self._n_before:
            raise ValueError("push_scores after push, whose last positions wait")
        return self._add(_checked(rows, "scores"))

    def flush(self) -> np.ndarray:
        """End the sequence: return what is left, and begin another one.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of all positions without any.

        Raises
        ------
        ValueError
            If no labeling may end here; the stream then needs a `reset`.
        """
        found = []
        if self._buffer is not None and _length(self._buffer) > self._n_before:
            features, _ = self._features(None)
            found = [self._add(self._scores(features))]
        rest = self._chain.flush()
        if rest is None:
            raise ValueError(
                f"position {self._n_seen - 1}: the constraints leave no labeling that "
                "ends here and continues the labels given out"
            )
        found.append(self._named(rest))
        self.reset()
        return np.concatenate(found)

    def _features(self, x):
        """Features of the positions that have all they depend on; None: of the rest.

        Returns
        -------
        features : PackedSequences or None
            Their rows; None if there are none.
        kept : tuple
            The next values of `_buffer`, `_n_before` and `_names`.
        """
        before, after = self.context
        joined, names, first = self._buffer, self._names, self._n_before
        if x is None:
            after = 0
        else:
            x, names = _positions(x)
            if joined is not None:
                if names != self._names:
                    raise ValueError("x has other feature names than x before")
                joined = _joined(joined, x)
            else:
                joined = x
        size = _length(joined)
        ready = max(size - after, first)
        if ready == first:
            return None, (joined, first, names)
        rows = [joined]
        if names is not None:
            rows = PackedSequences(joined, [0, size], names)
        for step in self._transformers:
            rows = step.transform(rows)
        rows = check_sequences(rows, all_empty=True, name="features of x")
        if rows.lengths.tolist() != [size]:
            raise ValueError("a step of the pipeline changes the number of positions")
        part = PackedSequences(
            rows.values[first:ready], [0, ready - first], rows.feature_names
        )
        begin = max(ready - before, 0)
        return part, (joined[begin:], ready - begin, names)

    def _scores(self, x):
        """Scores of the labels at positions, as a new array; x may be None."""
        if x is None:
            return np.empty((0, len(self._intercept)))
        crf = self._crf
        if "score_parameters_" in vars(crf):
            raise ValueError(
                "a score_function may need the whole sequence: give its scores to "
                "push_scores"
            )
        if type(x) is np.ndarray and x.ndim == 2 and x.dtype.char in "fd":
            # what else is done for lists takes longer than the rest for a position
            rows, offsets = np.ascontiguousarray(x), np.array([0, len(x)], np.intp)
            x = PackedSequences.of_stored(rows, x.shape[1], offsets)
        sequence = x if isinstance(x, PackedSequences) else [x]
        packed = check_sequences(
            sequence, n_features=crf.n_features_in_, all_empty=True, name="x"
        )
        crf._check_feature_names(packed)
        scores = np.zeros((packed.offsets[-1], len(self._intercept)))
        if self._emission is not None:
            write_row_scores(packed, self._emission, self._intercept, scores)
        else:
            n = len(self.classes_)
            rows = packed.in_one_form().values @ crf.coef_.T
            rows = rows.toarray() if sparse.issparse(rows) else rows
            scores[:, :n] = rows + self._intercept[:n]
        return _checked(scores, "scores of x", forbidden=False)

    def _add(self, scores):
        """Results that scores of further positions lead to."""
        if self._divisor != 1.0:
            scores = scores / self._divisor
        found, n = self._chain.push(scores)
        self._n_seen += n
        if n < len(scores):
            raise ValueError(
                f"position {self._n_seen}: the constraints leave no labeling that "
                "continues the labels given out"
            )
        return self._named(found)

    def _named(self, found):
        return self.classes_[found] if self.method == "predict" else found


def _parts(estimator):
    """The transformers before a tagger, and the tagger."""
    for name in ("best_estimator_", "estimator_"):
        estimator = getattr(estimator, name, estimator)
    steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    *transformers, crf = steps
    if not isinstance(crf, ChainCRF):
        raise TypeError(
            f"estimator must be a ChainCRF or end with one, got {crf!r:.80}; the "
            "segments of a SegmentCRF are not known before their end"
        )
    check_is_fitted(crf, "coef_")
    return [step for step in transformers if step not in (None, "passthrough")], crf


def _check_supported(crf, method):
    """Raise an error for what no label can be decided of before the end."""
    given = {"order=2": "triples_", "transition_features": "transition_coef_"}
    for what, name in given.items():
        weights = vars(crf).get(name)
        if weights is not None and weights.nnz:
            raise ValueError(f"StreamingTagger cannot be used with {what}: see {name}")
    if method == "predict_proba":
        check_probabilistic(crf, "method='predict_proba' needs", ValueError)
    elif crf.risk != "sequence":
        raise ValueError(
            f"StreamingTagger cannot be used with risk={crf.risk!r}: take the most "
            "probable labels of method='predict_proba'"
        )


def _checked_context(context, transformers):
    values = tuple(context) if isinstance(context, Sequence) else (context,)
    if len(values) != 2 or not all(
        isinstance(value, Integral) and value >= 0 for value in values
    ):
        raise ValueError(
            "context must be two whole numbers, of positions before and after, got "
            f"{context!r:.80}"
        )
    if any(values) and not transformers:
        raise ValueError(
            f"context={values} is for pipelines: rows of features have all they need"
        )
    return values


def _tables(crf):
    """Scores of first labels, of last labels, and of pairs; -inf if not allowed."""
    transitions = crf.transitions_
    transitions = transitions.toarray() if is_sparse(transitions) else transitions
    tables = [
        np.array(part, dtype=np.float64) for part in (crf.start_, crf.end_, transitions)
    ]
    index = {label: k for k, label in enumerate(crf.classes_.tolist())}
    mask = transition_mask(crf.forbidden_transitions_, index, len(index))
    if mask is not None:
        for table, part in zip(tables, (mask[0], mask[1], mask[2:]), strict=True):
            table += part
    return tables


def _checked(scores, name, forbidden=True):
    """Scores without NaN, and without infinity but for what is forbidden."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(scores.sum()):
            return scores
    bad = np.isnan(scores) | (scores == np.inf)
    if not forbidden:
        bad |= scores == -np.inf
    if bad.any():
        raise ValueError(f"{name}[{int(np.argmax(bad.any(axis=1)))}] is not finite")
    return scores


def _length(positions):
    return positions.shape[0] if hasattr(positions, "shape") else len(positions)


def _positions(x):
    """Positions that can be joined with others, a list or a matrix, and their names."""
    if isinstance(x, list):
        return x, None
    packed = check_sequences([x], all_empty=True, allow_nan=True, name="x")
    return packed.in_one_form().values, packed.feature_names


def _joined(one, other):
    """Positions one after the other."""
    if isinstance(one, list) != isinstance(other, list):
        raise TypeError("x must be in the form of the x before: a list, or rows")
    if isinstance(one, list):
        return one + other
    if sparse.issparse(one) or sparse.issparse(other):
        return sparse.vstack([one, other], format="csr")
    return np.vstack([one, other])
