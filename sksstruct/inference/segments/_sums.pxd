from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.segments._boundaries cimport Boundaries
from sksstruct.inference.segments._scaled cimport Cells
from sksstruct.inference.segments._scores cimport Prefixes, SegmentMeans, Segments
from sksstruct.inference.segments._tails cimport Tails

# Potentials times a factor, and what sum-product makes of them.
cdef struct SegmentSums:
    Segments scaled
    Segments given      # whose layout the means have
    Prefixes prefixes   # logarithms
    # rows (size, ld)
    double* ended       # probability that a segment of a label stops after t
    double* opened      # that one starts at t, which is longer than t
    double* alone       # logarithms of what stops after t and has no term in sums
    double* closed_sums     # sums over lengths of what is in tables of columns
    double* weights     # exp(prefixes.closed), relative to each row's largest
    double* entry_sums  # products of these and the table of transitions
    # rows (ld,)
    double* row
    double* message
    double* zeros
    EdgeTable transitions
    double* pairs       # (n_labels, ld) what means of transitions are, but for a factor
    double* table       # four columns for each length, or for each label before
    Cells cells         # sums over lengths
    Boundaries boundaries   # first and last segments
    Tails tails         # segments that are longer than these
    # whether transitions, and lengths, are summed over in log space
    bint logs, log_lengths

# `load_sums` needs memory for so many doubles, which it keeps.
cdef Py_ssize_t sums_scratch(const Segments* segments) noexcept nogil
cdef SegmentSums load_sums(const Segments* segments, double scale,
                           double* memory) noexcept nogil
cdef double sum_segmentations(SegmentSums* sums, double weight,
                              const SegmentMeans* means) noexcept nogil
cdef double segment_probability(const SegmentSums* sums, Py_ssize_t start,
                                Py_ssize_t stop, Py_ssize_t label) noexcept nogil
