from libc.stdint cimport int32_t


cdef enum:
    # what a chart is made of: best scores, sums of weights, or logarithms of them
    BEST, SUMS, LOGS


cdef struct Chart:
    Py_ssize_t n, ld, ld_arcs, cells
    int kind
    bint single_root
    double nothing
    double* arcs        # (n + 1, ld_arcs), by modifier
    # Tables (n + 1, ld), the first two one after the other: [head, end] trees of the
    # words between, [head, modifier] the same with this arc outermost, [end, head].
    double* complete
    double* linked
    double* turned
    double* products    # (ld,)


cdef struct Split:
    # the two parts of a span, numbers of cells, and the score of an arc above them
    Py_ssize_t left, right
    double score


cdef Py_ssize_t projective_scratch(Py_ssize_t n) noexcept nogil
cdef Chart carve(Py_ssize_t n, bint single_root, int kind,
                 double* scratch) noexcept nogil
cdef double fill(Chart* chart) noexcept nogil
cdef Py_ssize_t n_options(const Chart* chart, Py_ssize_t cell) noexcept nogil
cdef Split split_at(const Chart* chart, Py_ssize_t cell,
                    Py_ssize_t option) noexcept nogil
cdef void read_best(const Chart* chart, Py_ssize_t cell, int32_t* heads) noexcept nogil

# Scratch has projective_scratch(n) numbers. Where there is no tree, the value is -inf,
# heads and means are zero. means, of the shape of scores, may be NULL.
cdef double projective_max(Py_ssize_t n, bint single_root, const double* scores,
                           double* scratch, int32_t* heads) noexcept nogil
cdef double projective_sums(Py_ssize_t n, bint single_root, const double* scores,
                            double scale, double* scratch,
                            double* means) noexcept nogil
