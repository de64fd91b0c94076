"""`StreamingTagger`: labels of a sequence while its positions arrive.

A call of `push` computes the features of the new positions (`_features`), the scores of
their labels (`_scores`), and the labels that are decided (`_add`). The recursions over
positions are in `sksstruct.inference.chains._online`.
"""

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
    order of the positions. A label is decided when no later position can change it,
    because the best labelings of the positions so far, one for each last label, agree
    on it [1]_; or when `lag` further positions have arrived. `flush` ends the sequence,
    and returns the remaining labels. All labels together do not depend on the number of
    positions in each `push`.

    Parameters
    ----------
    estimator : ChainCRF, Tagger, Pipeline or CalibratedTagger
        A fitted tagger, or a search that has refitted one. A later `fit` of the tagger
        does not change the stream.
    lag : int, default=None
        Maximum number of further positions before a label is decided. At the limit, the
        label is that of the best labeling of the positions so far. None: no limit; all
        labels together are those of `predict`, also in the case of ties.
    method : {"predict", "predict_proba"}, default="predict"
        The result of `push` and `flush`: labels; or rows of probabilities of the labels
        in the order of ``classes_``, for taggers that have probabilities. The
        probabilities of a position are conditional on the positions up to `lag` later:
        filtered with ``lag=0``, and smoothed with a larger lag. With None, `flush`
        returns the probabilities of `predict_proba`.
    context : tuple of (int, int), default=(0, 0)
        If the estimator is a pipeline, the number of positions before and after a
        position on which its features depend, as in ``SeriesFeatures.context_``. The
        stream keeps the positions before, and computes features once the positions
        after have arrived, so that features are those of a whole sequence.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_pending_ : int
        Number of positions that were pushed, and whose results were not returned.

    Raises
    ------
    TypeError
        If the estimator has no `ChainCRF`.
    ValueError
        If the tagger has ``order=2``, weights in ``transition_coef_``, or
        ``risk="hamming"``; or if the method is "predict_proba" and the tagger has no
        probabilities.

    See Also
    --------
    sksstruct.feature_extraction.SeriesFeatures : Has features that do not look ahead.

    Notes
    -----
    Memory and time for a position do not grow with the length of the sequence if there
    is a `lag`. Without a limit, memory grows until labels are decided. With
    ``method="predict_proba"``, each position takes a step for each position of the lag.

    A stream can be pickled at any time. The unpickled stream continues the sequence.

    With a lag, the best labeling may change after some of its labels were returned. If
    the tagger forbids transitions, labelings that cannot follow the returned labels are
    dropped, so that all labels together have no forbidden transition. To fix a label at
    a position, give -inf to all other labels in `push_scores`; to exclude a label, give
    it -inf. A `SegmentCRF` cannot be used: the score of a segment depends on all
    of its positions.

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
        # positions in the buffer whose features are not computed yet
        waiting = 0 if self._buffer is None else _length(self._buffer) - self._n_before
        return self._chain.n_pending + waiting

    def reset(self) -> Self:
        """Discard the sequence so far: the next position begins a new sequence.

        Returns
        -------
        self : StreamingTagger
            The stream.
        """
        self._chain.reset()
        # `_buffer` has the last positions. The first `_n_before` of these positions
        # were scored already, and are the context of further positions.
        self._buffer, self._names, self._n_before = None, None, 0
        self._n_seen = 0
        return self

    def push(self, x: Items | MatrixLike) -> np.ndarray:
        """Take the next positions, and return the results that are decided.

        Parameters
        ----------
        x : {array-like, CSR matrix, data frame} of shape (n_positions, n_features) or \
list
            One or several positions, as in a sequence for `predict`: rows of features,
            or a list of items for the first step of the pipeline.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of the next n positions.

        Raises
        ------
        ValueError, TypeError
            If x is not valid; the stream does not change. Also if constraints leave no
            labeling; the stream then needs a `reset`.
        """
        if x is None or isinstance(x, tuple | str | bytes | Mapping):
            raise TypeError(
                "x must be a list of positions, or rows of numbers, got a "
                f"{type(x).__name__}; columns of tokens can be given as a list of dicts"
            )
        if getattr(x, "ndim", 2) != 2:
            raise ValueError(
                f"x must be 2-D, rows of features of positions, got {x.ndim}-D; one "
                "position is [x]"
            )
        if not self._transformers:
            return self._add(self._scores(x))
        features, buffered = self._features(x)
        scores = self._scores(features)
        self._buffer, self._n_before, self._names = buffered
        return self._add(scores)

    def push_scores(self, scores: ArrayLike) -> np.ndarray:
        """Take scores of labels at the next positions; return the decided results.

        Parameters
        ----------
        scores : array-like of shape (n_positions, n_classes)
            Scores in place of ``x @ coef_.T + intercept_``, such as those of another
            model; -inf excludes a label.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of the next n positions.

        Raises
        ------
        ValueError
            If scores are not valid; the stream does not change. Also if constraints
            leave no labeling; the stream then needs a `reset`.
        """
        rows = np.array(scores, dtype=np.float64, order="C", ndmin=1)
        n = len(self.classes_)
        if rows.ndim != 2 or rows.shape[1] != n:
            raise ValueError(
                f"scores must have shape (n_positions, {n}), got {rows.shape}"
            )
        if self._buffer is not None and _length(self._buffer) > self._n_before:
            raise ValueError(
                "push_scores cannot follow push while positions of push wait for their "
                f"context={self.context}: call flush first"
            )
        return self._add(_checked(rows, "scores"))

    def flush(self) -> np.ndarray:
        """End the sequence, return the remaining results, and begin a new sequence.

        Returns
        -------
        results : ndarray of shape (n,) or (n, n_classes)
            Labels or probabilities of the remaining positions.

        Raises
        ------
        ValueError
            If no labeling may end here; the stream then needs a `reset`.
        """
        results = []
        if self._buffer is not None and _length(self._buffer) > self._n_before:
            features, _ = self._features(None)
            results = [self._add(self._scores(features))]
        rest = self._chain.flush()
        if rest is None:
            raise ValueError(
                f"position {self._n_seen - 1}: the constraints leave no labeling that "
                "ends here and continues the labels given out"
            )
        results.append(self._named(rest))
        self.reset()
        return np.concatenate(results)

    def _features(self, x):
        """Features of the positions whose context has arrived.

        Parameters
        ----------
        x : list, matrix or None
            The next positions; None at the end of the sequence, where all remaining
            positions get features.

        Returns
        -------
        features : PackedSequences or None
            Rows of features; None if no position has its context.
        buffered : tuple
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
                    raise ValueError(
                        "x must have the feature names of the earlier x of the sequence"
                    )
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
            raise ValueError(
                f"the steps of the pipeline turn {size} positions into "
                f"{rows.lengths.tolist()}: they must keep the number of positions"
            )
        part = PackedSequences(
            rows.values[first:ready], [0, ready - first], rows.feature_names
        )
        begin = max(ready - before, 0)
        return part, (joined[begin:], ready - begin, names)

    def _scores(self, x):
        """Scores of the labels at the positions of x, a new array; x may be None."""
        if x is None:
            return np.empty((0, len(self._intercept)))
        crf = self._crf
        if "score_parameters_" in vars(crf):
            raise ValueError(
                "a score_function may need the whole sequence: give its scores to "
                "push_scores"
            )
        if type(x) is np.ndarray and x.ndim == 2 and x.dtype.char in "fd":
            # fast path: the general check of lists takes longer than the scores of a
            # position
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
        """Pass scores of new positions to the decoder; return the decided results."""
        if self._divisor != 1.0:
            scores = scores / self._divisor
        decided, n = self._chain.push(scores)
        self._n_seen += n
        if n < len(scores):
            raise ValueError(
                f"position {self._n_seen}: the constraints leave no labeling that "
                "continues the labels given out"
            )
        return self._named(decided)

    def _named(self, decided):
        return self.classes_[decided] if self.method == "predict" else decided


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
    """Raise an error if the tagger cannot be decoded online."""
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
            f"context={values} needs a pipeline as estimator: features of a ChainCRF "
            "alone have no context, use (0, 0)"
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
    """The scores; an error if one is NaN or inf, or -inf without `forbidden`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(scores.sum()):
            return scores
    bad = np.isnan(scores) | (scores == np.inf)
    if not forbidden:
        bad |= scores == -np.inf
    if bad.any():
        raise ValueError(
            f"{name}[{int(np.argmax(bad.any(axis=1)))}] must be finite"
            f"{', or -inf for an excluded label' if forbidden else ''}"
        )
    return scores


def _length(positions):
    return positions.shape[0] if hasattr(positions, "shape") else len(positions)


def _positions(x):
    """Positions as a list or matrix, which `_joined` takes, and feature names."""
    if isinstance(x, list):
        return x, None
    packed = check_sequences([x], all_empty=True, allow_nan=True, name="x")
    return packed.in_one_form().values, packed.feature_names


def _joined(one, other):
    """Concatenate the positions of `one` and of `other`."""
    if isinstance(one, list) != isinstance(other, list):
        raise TypeError("x must be in the form of the x before: a list, or rows")
    if isinstance(one, list):
        return one + other
    if sparse.issparse(one) or sparse.issparse(other):
        return sparse.vstack([one, other], format="csr")
    return np.vstack([one, other])
