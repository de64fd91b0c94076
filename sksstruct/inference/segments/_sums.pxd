from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.segments._boundaries cimport Boundaries
from sksstruct.inference.segments._scaled cimport Cells
from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments
from sksstruct.inference.segments._tails cimport Tails

# Potentials times a factor, and the scratch of sum-product.
cdef struct SegmentSums:
    Segments scaled
    Segments given      # potentials without the factor, whose layout the means have
    Prefixes prefixes   # logarithms of sums over prefixes
    # rows (size, ld)
    double* ended       # probability that a segment stops after t
    # probability that a segment of two positions or more starts at t
    double* opened
    # logarithms of sums over segments that stop after t and are in no sum over lengths
    double* alone
    double* closed_sums  # sums over lengths in log space, relative to the largest term
    double* weights     # exp(prefixes.closed), relative to each row's largest
    double* entry_sums  # sums over labels before: `weights` times `transitions.ahead`
    # rows (ld,)
    double* row
    double* message
    double* zeros
    EdgeTable transitions
    double* pairs       # (n_labels, ld) means of transitions without the factor `ahead`
    double* table  # four columns, with a row for each length or for each previous label
    Cells cells             # workspace of sums over lengths
    Boundaries boundaries   # workspace of first and last segments
    Tails tails             # workspace of segments beyond the table of lengths
    # whether sums over transitions and over lengths are computed in log space
    bint logs, log_lengths

# `load_sums` needs memory of `sums_scratch` doubles, and keeps pointers into the
# memory.
cdef Py_ssize_t sums_scratch(const Segments* segments) noexcept nogil
cdef SegmentSums load_sums(const Segments* segments, double scale,
                           double* memory) noexcept nogil
cdef double sum_segmentations(SegmentSums* sums, double weight,
                              const SegmentMeans* means) noexcept nogil
cdef double segment_probability(const SegmentSums* sums, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil
