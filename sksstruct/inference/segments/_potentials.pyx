"""Checked potentials of semi-Markov chains, and what the kernels find."""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.segments._segments cimport (
    SegmentMeans, Segments, add_indicator, best_scratch, best_segmentation,
    segmentation_score,
)
from sksstruct.inference.segments._sums cimport (
    SegmentSums, load_sums, segment_probability, sum_segmentations, sums_scratch,
)
from sksstruct.inference.segments._topk cimport best_segmentations, topk_scratch

from sksstruct.inference._checks import check_scores, check_sums
from sksstruct.utils._layout import aligned_zeros, pad_rows, padded_length


def labeling_segments(labeling):
    """Rows (start, stop, label) of a labeling in the integer form of the kernels."""
    starts = np.flatnonzero(labeling >= 0)
    stops = np.append(starts[1:], len(labeling))
    return np.column_stack((starts, stops, labeling[starts])).astype(np.int32)


def segments_labeling(segments, size):
    """Labeling in the integer form of the kernels; segments cover all positions."""
    labeling = np.empty(size, dtype=np.int32)
    for start, stop, label in segments:
        labeling[start:stop] = -1 - label
        labeling[start] = label
    return labeling


cdef const double* address_of(const double[:, ::1] rows):
    """Where the first row is; NULL without rows."""
    return &rows[0, 0] if rows.shape[0] else NULL


cdef class SegmentPotentials:
    """Potentials of a semi-Markov chain.

    Parameters
    ----------
    nodes, lengths, transitions, first, last, spans, span_scores : array-like
        See `segment_viterbi`.
    """

    cdef readonly Py_ssize_t size, n_labels
    cdef readonly bint has_roles
    cdef Segments _segments
    # of each table the rows, padded: what the pointers of the struct point to
    cdef readonly list rows
    cdef object _span_order
    cdef const int32_t[::1] _longest, _first_span, _span_start

    def __init__(self, nodes, lengths, transitions, first, last, spans, span_scores):
        nodes = check_scores("nodes", nodes)
        self.has_roles = nodes.ndim == 3
        shape = nodes.shape
        if nodes.ndim not in (2, 3) or not nodes.size or (
                self.has_roles and shape[1] != 4):
            raise ValueError(
                "nodes must have shape (T, K), or (T, 4, K) with roles, with T >= 1 "
                f"and K >= 1, got {shape}")
        self.size, self.n_labels = shape[0], nodes.T.shape[0]
        k = self.n_labels
        lengths = check_scores("lengths", lengths, ndim=2)
        if not len(lengths) or lengths.shape[1] != k:
            raise ValueError(
                f"lengths must have shape (L, {k}) with L >= 1, got {lengths.shape}")
        transitions = check_scores("transitions", transitions)
        if transitions.shape != (k, k):
            raise ValueError(
                f"transitions must have shape {(k, k)}, got {transitions.shape}")
        tables = [nodes.reshape(-1, k), lengths, transitions]
        for name, row in ("first", first), ("last", last):
            row = np.zeros((0, k)) if row is None else check_scores(name, row)[None]
            if row.shape[1:] != (k,):
                raise ValueError(f"{name} must have shape {(k,)}, got {row.shape[1:]}")
            tables.append(row)
        tables.append(self._check_spans(spans, span_scores))
        self.rows = [pad_rows(table) if len(table) else table for table in tables]
        self.check_sums(1.0)
        longest = np.zeros(padded_length(k), dtype=np.int32)
        allowed = (lengths > -np.inf)[::-1]
        longest[:k] = np.where(
            allowed.any(axis=0), len(lengths) - allowed.argmax(axis=0), 0)
        self._longest = longest
        self._point()

    def _check_spans(self, spans, scores):
        """Check spans, and put them in the order of their stops; return the scores."""
        if (spans is None) != (scores is None):
            raise ValueError("spans and span_scores must be given together")
        spans = np.zeros((0, 2), dtype=np.intp) if spans is None else np.asarray(spans)
        if not spans.size:
            spans = np.zeros((0, 2), dtype=np.intp)
        if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
            raise ValueError(
                "spans must be integers of shape (n_spans, 2), got "
                f"{spans.dtype} of shape {spans.shape}")
        shape = len(spans), self.n_labels
        scores = np.zeros(shape) if not len(spans) else check_scores(
            "span_scores", scores)
        if scores.shape != shape:
            raise ValueError(
                f"span_scores must have shape {shape}, got {scores.shape}")
        start, stop = spans.T
        bad = np.flatnonzero((start < 0) | (stop <= start) | (stop > self.size))
        if len(bad):
            raise ValueError(
                f"spans[{bad[0]}] is {tuple(spans[bad[0]].tolist())}: it must be "
                f"(start, stop) with 0 <= start < stop <= {self.size}")
        self._span_order = order = np.argsort(stop, kind="stable")
        self._span_start = start[order].astype(np.int32)
        self._first_span = np.searchsorted(
            stop[order], np.arange(1, self.size + 2)).astype(np.int32)
        return scores[order]

    def check_sums(self, scale):
        """Refuse scores whose sums, times a factor, could overflow."""
        check_sums("nodes, lengths, transitions, first, last and span_scores",
                   (4 * self.size + len(self.rows[5])) * max(scale, 1.0), *self.rows)

    cdef void _point(self):
        """Fill in the struct of the kernels."""
        cdef Segments* segments = &self._segments
        cdef Py_ssize_t role, ld = self.rows[0].shape[1]
        segments.size, segments.n_labels, segments.ld = self.size, self.n_labels, ld
        segments.max_length, segments.longest = len(self.rows[1]), &self._longest[0]
        segments.node_step = 4 * ld if self.has_roles else ld
        for role in range(4):
            segments.role_offset[role] = role * ld if self.has_roles else 0
        segments.nodes = address_of(self.rows[0])
        segments.lengths = address_of(self.rows[1])
        segments.transitions = address_of(self.rows[2])
        segments.first = address_of(self.rows[3])
        segments.last = address_of(self.rows[4])
        segments.spans = address_of(self.rows[5])
        segments.first_span = &self._first_span[0]
        segments.span_start = NULL
        if segments.spans != NULL:
            segments.span_start = &self._span_start[0]

    cdef SegmentMeans _means(self, list rows):
        """The struct of means in arrays like `rows`."""
        return SegmentMeans(
            <double*> address_of(rows[0]), <double*> address_of(rows[1]),
            <double*> address_of(rows[2]), <double*> address_of(rows[3]),
            <double*> address_of(rows[4]), <double*> address_of(rows[5]))

    def _zeros(self):
        """Zeros in the shapes of the padded rows."""
        return [aligned_zeros(rows.size).reshape(rows.shape) for rows in self.rows]

    def _unpad(self, rows):
        """Means in the shapes of what was given; None where that was None."""
        nodes, lengths, transitions, first, last, spans = (
            np.ascontiguousarray(table[:, :self.n_labels]) for table in rows)
        if self.has_roles:
            nodes = nodes.reshape(self.size, 4, self.n_labels)
        in_order = np.empty_like(spans)
        in_order[self._span_order] = spans
        return (nodes, lengths, transitions, first[0] if len(first) else None,
                last[0] if len(last) else None, in_order)

    def best(self):
        """Return the best labeling and its score."""
        labeling = np.empty(self.size, dtype=np.int32)
        cdef int32_t[::1] labels = labeling
        cdef double[::1] scratch = aligned_zeros(best_scratch(&self._segments))
        cdef double score
        with nogil:
            score = best_segmentation(&self._segments, &scratch[0], &labels[0])
        return labeling, score

    def best_k(self, Py_ssize_t k):
        """Return the k best labelings and their scores."""
        cdef Py_ssize_t count
        cdef double[::1] scratch = aligned_zeros(topk_scratch(&self._segments, k))
        cdef int32_t[:, ::1] labelings = np.empty((k, self.size), dtype=np.int32)
        cdef double[::1] scores = np.empty(k)
        with nogil:
            count = best_segmentations(&self._segments, k, &scratch[0],
                                       &labelings[0, 0], &scores[0])
        return np.asarray(labelings)[:count], np.asarray(scores)[:count]

    def sums(self, double scale, segments, double weight=1.0):
        """Return log-partition, means times a weight, and probabilities of segments.

        `segments` are sound rows (start, stop, label), whose probabilities are those if
        the weight is one. All are zero if the log-partition is -inf.
        """
        self.check_sums(scale)
        rows = self._zeros()
        cdef double[::1] scratch = aligned_zeros(sums_scratch(&self._segments))
        cdef SegmentMeans means = self._means(rows)
        cdef SegmentSums sums
        cdef const Py_ssize_t[:, ::1] given = segments
        probabilities = np.zeros(len(segments))
        cdef double[::1] probability = probabilities
        cdef double log_partition
        cdef Py_ssize_t i
        with nogil:
            sums = load_sums(&self._segments, scale, &scratch[0])
            log_partition = sum_segmentations(&sums, weight, &means)
            if log_partition > -INFINITY:
                for i in range(given.shape[0]):
                    probability[i] = segment_probability(
                        &sums, given[i, 0], given[i, 1], given[i, 2])
        return log_partition, self._unpad(rows), probabilities

    def score(self, const int32_t[::1] labeling):
        """Return the score of a labeling."""
        return segmentation_score(&self._segments, &labeling[0])

    def indicator(self, const int32_t[::1] labeling, double weight=1.0):
        """Return a weight for each entry whose sum is the score of a labeling."""
        rows = self._zeros()
        cdef SegmentMeans means = self._means(rows)
        add_indicator(&self._segments, &labeling[0], weight, &means)
        return self._unpad(rows)
