"""Potentials of semi-Markov chains: checked, padded, and bound to the kernels."""

import numpy as np

from sksstruct.inference._checks import check_scores, check_sums
from sksstruct.inference.segments._potentials import SegmentKernel
from sksstruct.utils._layout import aligned_zeros, pad_rows, padded_length


def labeling_segments(labeling):
    """Return rows (start, stop, label) of a labeling in the encoding of `Segments`."""
    starts = np.flatnonzero(labeling >= 0)
    stops = np.append(starts[1:], len(labeling))
    return np.column_stack((starts, stops, labeling[starts])).astype(np.int32)


def segments_labeling(segments, size):
    """Return the labeling of segments without gaps, in the encoding of `Segments`."""
    labeling = np.empty(size, dtype=np.int32)
    for start, stop, label in segments:
        labeling[start:stop] = -1 - label
        labeling[start] = label
    return labeling


class SegmentPotentials:
    """Potentials of a semi-Markov chain.

    Parameters
    ----------
    nodes, lengths, transitions, first, last, spans, span_scores, tail : array-like
        See `segment_viterbi`.
    boundary_lengths, boundary_tail : array-like or None
        `lengths` and `tail` of segments that start at the first position or stop at the
        last position. None: `lengths` and `tail` score these segments, too.
    """

    def __init__(
        self,
        nodes,
        lengths,
        transitions,
        first,
        last,
        spans,
        span_scores,
        tail=None,
        boundary_lengths=None,
        boundary_tail=None,
    ):
        nodes = check_scores("nodes", nodes)
        self.has_roles = nodes.ndim == 3
        shape = nodes.shape
        if (
            nodes.ndim not in (2, 3)
            or not nodes.size
            or (self.has_roles and shape[1] != 4)
        ):
            raise ValueError(
                "nodes must have shape (T, K), or (T, 4, K) with roles, with T >= 1 "
                f"and K >= 1, got {shape}"
            )
        self.size, self.n_labels = shape[0], nodes.T.shape[0]
        k = self.n_labels
        lengths = check_scores("lengths", lengths, ndim=2)
        if not len(lengths) or lengths.shape[1] != k:
            raise ValueError(
                f"lengths must have shape (L, {k}) with L >= 1, got {lengths.shape}"
            )
        transitions = check_scores("transitions", transitions)
        if transitions.shape != (k, k):
            raise ValueError(
                f"transitions must have shape {(k, k)}, got {transitions.shape}"
            )
        tables = [nodes.reshape(-1, k), lengths, transitions]
        for name, row in (
            ("first", first),
            ("last", last),
            ("tail", tail),
            ("boundary_tail", boundary_tail),
        ):
            row = np.zeros((0, k)) if row is None else check_scores(name, row)[None]
            if row.shape[1:] != (k,):
                raise ValueError(f"{name} must have shape {(k,)}, got {row.shape[1:]}")
            tables.append(row)
        tables.insert(5, self._check_spans(spans, span_scores))
        ends = np.zeros((0, k))
        if boundary_lengths is not None:
            ends = np.asarray(boundary_lengths, dtype=np.float64)
        tables.insert(7, self._with_spans(ends, tables[7]))
        tables[1] = lengths = self._with_spans(lengths, tables[6])
        self.rows = [pad_rows(table) if len(table) else table for table in tables]
        self.check_sums(1.0)
        longest = np.zeros(padded_length(k), dtype=np.int32)
        allowed = (lengths > -np.inf)[::-1]
        longest[:k] = np.where(
            allowed.any(axis=0), len(lengths) - allowed.argmax(axis=0), 0
        )
        self._kernel = SegmentKernel(
            self.size, k, self.has_roles, self.rows, longest, *self._span_ends
        )

    def _check_spans(self, spans, scores):
        """Check spans, sort spans by stop, and return the scores in sorted order."""
        if (spans is None) != (scores is None):
            raise ValueError("spans and span_scores must be given together")
        spans = np.zeros((0, 2), dtype=np.intp) if spans is None else np.asarray(spans)
        if not spans.size:
            spans = np.zeros((0, 2), dtype=np.intp)
        if spans.ndim != 2 or spans.shape[1] != 2 or spans.dtype.kind not in "iu":
            raise ValueError(
                "spans must be integers of shape (n_spans, 2), got "
                f"{spans.dtype} of shape {spans.shape}"
            )
        shape = len(spans), self.n_labels
        scores = (
            np.zeros(shape) if not len(spans) else check_scores("span_scores", scores)
        )
        if scores.shape != shape:
            raise ValueError(f"span_scores must have shape {shape}, got {scores.shape}")
        start, stop = spans.T
        bad = np.flatnonzero((start < 0) | (stop <= start) | (stop > self.size))
        if len(bad):
            raise ValueError(
                f"spans[{bad[0]}] is {tuple(spans[bad[0]].tolist())}: it must be "
                f"(start, stop) with 0 <= start < stop <= {self.size}"
            )
        self._span_order = order = np.argsort(stop, kind="stable")
        first = np.searchsorted(stop[order], np.arange(1, self.size + 2))
        self._span_ends = first.astype(np.int32), start[order].astype(np.int32)
        return scores[order]

    def _with_spans(self, lengths, tail):
        """Append length scores up to the longest span, as tails cannot score spans."""
        self._n_lengths = len(lengths)
        ends, starts = np.cumsum(np.diff(self._span_ends[0])), self._span_ends[1]
        stops = 1 + np.searchsorted(ends, np.arange(len(starts)), "right")
        more = np.arange(1, max((stops - starts).max(initial=0) - len(lengths), 0) + 1)
        if not len(tail) or not len(more):
            return lengths
        return np.vstack([lengths, lengths[-1] + more[:, None] * tail])

    def check_sums(self, scale):
        """Raise if sums of scores, times a factor, could overflow."""
        check_sums(
            "nodes, lengths, transitions, first, last, tail and span_scores",
            (4 * self.size + len(self.rows[5])) * max(scale, 1.0),
            *self.rows,
        )

    def _zeros(self):
        """Return tables of zeros in the shapes of `rows`."""
        return [aligned_zeros(rows.size).reshape(rows.shape) for rows in self.rows]

    def _unpad(self, rows):
        """Return means in the shapes of the arguments; None for missing arguments."""
        nodes, lengths, transitions, first, last, spans, tail, ends, ends_tail = (
            np.ascontiguousarray(table[:, : self.n_labels]) for table in rows
        )
        if self.has_roles:
            nodes = nodes.reshape(self.size, 4, self.n_labels)
        lengths, ends = self._folded(lengths, tail), self._folded(ends, ends_tail)
        in_order = np.empty_like(spans)
        in_order[self._span_order] = spans
        return (
            nodes,
            lengths,
            transitions,
            first[0] if len(first) else None,
            last[0] if len(last) else None,
            in_order,
            tail[0] if len(tail) else None,
            ends,
            ends_tail[0] if len(ends_tail) else None,
        )

    def _folded(self, lengths, tail):
        """Remove the rows that `_with_spans` appended; add their means to the tail."""
        more, lengths = lengths[self._n_lengths :], lengths[: self._n_lengths]
        if len(more):
            lengths[-1] += more.sum(axis=0)
            tail[0] += np.arange(1, len(more) + 1) @ more
        return lengths

    def best(self):
        """Return the best labeling and its score."""
        labeling = np.empty(self.size, dtype=np.int32)
        scratch = aligned_zeros(self._kernel.best_memory())
        return labeling, self._kernel.best(scratch, labeling)

    def best_k(self, k):
        """Return the k best labelings and their scores."""
        labelings, scores = np.empty((k, self.size), dtype=np.int32), np.empty(k)
        scratch = aligned_zeros(self._kernel.best_k_memory(k))
        count = self._kernel.best_k(k, scratch, labelings, scores)
        return labelings[:count], scores[:count]

    def sums(self, scale, segments, weight=1.0):
        """Return the log-partition, weighted means, and probabilities of segments.

        `segments` are valid rows (start, stop, label), whose probabilities need weight
        one. If the log-partition is -inf, all other results are zero.
        """
        self.check_sums(scale)
        means, probabilities = self._zeros(), np.zeros(len(segments))
        scratch = aligned_zeros(self._kernel.sums_memory())
        log_partition = self._kernel.sums(
            scale, weight, means, scratch, segments, probabilities
        )
        return log_partition, self._unpad(means), probabilities

    def score(self, labeling):
        """Return the score of a labeling."""
        return self._kernel.score(labeling)

    def indicator(self, labeling, weight=1.0):
        """Return tables with `weight` at each entry that scores the labeling."""
        means = self._zeros()
        self._kernel.indicator(labeling, weight, means)
        return self._unpad(means)
