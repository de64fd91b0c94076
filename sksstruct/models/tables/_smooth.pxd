from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss
from sksstruct.models.tables._table cimport BoundTable, TableScratch


cdef class MeansScratch:
    # arrays that the pointers point into
    cdef object _arrays, _scores
    # mean parameters, in the layout of `Structure.expect`
    cdef double* means
    # for each block the address of the scores, without the bias, of the next example
    cdef double** scores
    # tables of the loss alone, or mean parameters given the observed part
    cdef double* losses
    # an observed labeling
    cdef int32_t* labeling


cdef class TableSmoothLoss(SmoothLoss):
    # methods: see `_smooth.pyx`
    cdef readonly BoundTable table
    # p_i (E mu_i - mu_i(y_i)) of the last sweep: for each block in rows of the tables,
    # and for the weights beyond the blocks in a row for each example
    cdef readonly list differences
    cdef readonly object other_differences
    cdef double** _differences
    cdef double[:, ::1] _other
    # features of mu_i(y_i) for the weights beyond the blocks
    cdef double[:, ::1] _observed
    # transposed features of each block
    cdef list _columns
    # loss and expected L_i of each example in the last sweep; whether the differences
    # of this sweep are kept as the anchor
    cdef double[::1] _losses, _expected
    cdef bint _anchored
    # 1 for each example whose labeling was observed in part, else 0
    cdef const unsigned char[::1] _partial
    # pairs of a workspace and a scratch that no thread uses at present
    cdef list _idle
    # scratch of visits to single examples
    cdef MeansScratch _visit

    cdef int _load_scores(self, Workspace workspace, Py_ssize_t i,
                          double** scores) except -1 nogil
    cdef double _difference(self, Workspace workspace, MeansScratch scratch,
                            Py_ssize_t i, double mu) except? -1 nogil
    cdef double _partial_difference(
        self, Workspace workspace, MeansScratch scratch, Py_ssize_t i,
        double mu) except? -1 nogil
    cdef double _expected_loss(self, TableScratch* ws, MeansScratch scratch,
                               Py_ssize_t i) except? -1 nogil
    cdef void _store_differences(self, Py_ssize_t i, const double* means) noexcept nogil
    cdef void _subtract_anchor(self, Py_ssize_t i, double* means) noexcept nogil
