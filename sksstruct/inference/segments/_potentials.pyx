"""The kernels of semi-Markov chains, called with the arrays of `_semi_markov.py`."""

from libc.math cimport INFINITY
from libc.stdint cimport int32_t

from sksstruct.inference.segments._scores cimport SegmentMeans, Segments
from sksstruct.inference.segments._segments cimport (
    add_indicator, best_scratch, best_segmentation, segmentation_score,
)
from sksstruct.inference.segments._sums cimport (
    SegmentSums, load_sums, segment_probability, sum_segmentations, sums_scratch,
)
from sksstruct.inference.segments._topk cimport best_segmentations, topk_scratch
from sksstruct.utils._pointers cimport const_int32s, const_intps, doubles, int32s


cdef double* entries(object rows) except? NULL:
    """Address of the first row; NULL if there are no rows."""
    return doubles(rows) if len(rows) else NULL


cdef SegmentMeans means_of(list rows):
    """Return the struct of means whose pointers refer to the arrays of `rows`."""
    return SegmentMeans(
        entries(rows[0]), entries(rows[1]), entries(rows[6]), entries(rows[7]),
        entries(rows[8]), entries(rows[2]),
        entries(rows[3]), entries(rows[4]), entries(rows[5]))


cdef class SegmentKernel:
    """Potentials in a struct `Segments`, with the kernels as methods.

    Parameters
    ----------
    size, n_labels : int
        Number of positions and of labels.
    has_roles : bool
        Whether each position has four rows of nodes.
    rows : list of ndarray
        Padded rows of nodes, lengths, transitions, first, last, span scores, tail,
        boundary lengths and boundary tail; without rows where scores are missing.
    longest, first_span, span_start : ndarray, int32
        See `Segments`.
    """

    cdef Segments _segments
    cdef tuple _owned

    def __cinit__(self, Py_ssize_t size, Py_ssize_t n_labels, bint has_roles, list rows,
                  longest, first_span, span_start):
        cdef Segments* segments = &self._segments
        cdef Py_ssize_t role, ld = rows[0].shape[1]
        self._owned = *rows, longest, first_span, span_start
        segments.size, segments.n_labels, segments.ld = size, n_labels, ld
        segments.max_length, segments.longest = len(rows[1]), const_int32s(longest)
        segments.node_step = 4 * ld if has_roles else ld
        for role in range(4):
            segments.role_offset[role] = role * ld if has_roles else 0
        segments.nodes, segments.lengths = entries(rows[0]), entries(rows[1])
        segments.transitions = entries(rows[2])
        segments.first, segments.last = entries(rows[3]), entries(rows[4])
        segments.spans, segments.tail = entries(rows[5]), entries(rows[6])
        segments.boundary_lengths = entries(rows[7])
        segments.boundary_tail = entries(rows[8])
        segments.first_span = const_int32s(first_span)
        segments.span_start = const_int32s(span_start)

    def best_memory(self):
        """Return the number of doubles of scratch that `best` needs."""
        return best_scratch(&self._segments)

    def best(self, scratch, labeling):
        """Write the best labeling to `labeling`, and return the score."""
        cdef double* memory = doubles(scratch)
        cdef int32_t* labels = int32s(labeling)
        cdef double score
        with nogil:
            score = best_segmentation(&self._segments, memory, labels)
        return score

    def best_k_memory(self, Py_ssize_t k):
        """Return the number of doubles of scratch that `best_k` needs."""
        return topk_scratch(&self._segments, k)

    def best_k(self, Py_ssize_t k, scratch, labelings, scores):
        """Write the k best labelings and their scores, and return their number."""
        cdef double* memory = doubles(scratch)
        cdef int32_t* labels = int32s(labelings)
        cdef double* values = doubles(scores)
        cdef Py_ssize_t count
        with nogil:
            count = best_segmentations(&self._segments, k, memory, labels, values)
        return count

    def sums_memory(self):
        """Return the number of doubles of scratch that `sums` needs."""
        return sums_scratch(&self._segments)

    def sums(self, double scale, double weight, list rows, scratch, segments,
             probabilities):
        """Write means and probabilities of segments, and return the log-partition."""
        cdef SegmentMeans means = means_of(rows)
        cdef SegmentSums sums
        cdef double* memory = doubles(scratch)
        cdef double* probability = doubles(probabilities)
        cdef const Py_ssize_t* given = const_intps(segments)
        cdef Py_ssize_t i, n_segments = len(segments)
        cdef double log_partition
        with nogil:
            sums = load_sums(&self._segments, scale, memory)
            log_partition = sum_segmentations(&sums, weight, &means)
            if log_partition > -INFINITY:
                for i in range(n_segments):
                    probability[i] = segment_probability(
                        &sums, given[3 * i], given[3 * i + 1], given[3 * i + 2])
        return log_partition

    def score(self, labeling):
        """Return the score of a labeling."""
        return segmentation_score(&self._segments, const_int32s(labeling))

    def indicator(self, labeling, double weight, list rows):
        """Add a weight to all entries of rows that are terms of a labeling's score."""
        cdef SegmentMeans means = means_of(rows)
        add_indicator(&self._segments, const_int32s(labeling), weight, &means)
