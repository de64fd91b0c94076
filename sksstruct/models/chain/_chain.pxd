from libc.stdint cimport int32_t, int64_t

from sksstruct.models.protocols._base cimport BoundModel, Workspace
from sksstruct.utils._arena cimport Arena


cdef struct ChainScratch:
    double* theta       # (max_size, ld) loss-augmented unary scores
    double* delta       # (max_size, ld) Viterbi's prefix scores
    double* table       # (n_labels, ld) transitions with the forbidden ones at -inf
    double* d           # (max_size, ld) change of node means
    double* d_edge      # (n_labels, ld) change of edge means, summed over places
    double* row         # (ld,)
    double* feature     # (n_features,) one feature row, spread out
    double* spread      # (n_features, ld) F' d, for sequences without Gram matrix
    int32_t* rows       # changed rows of d
    int32_t* edges      # entries of d_edge that were written, each once
    char* marked        # (n_labels, ld) whether an entry is among them
    Py_ssize_t n_rows, n_edges
    double constant     # the part of the loss that no labeling changes
    bint scanned


cdef inline void add_edge(ChainScratch* ws, Py_ssize_t edge,
                          double value) noexcept nogil:
    ws.d_edge[edge] += value
    if not ws.marked[edge]:
        ws.marked[edge] = 1
        ws.edges[ws.n_edges] = <int32_t> edge
        ws.n_edges += 1


cdef class ChainWorkspace(Workspace):
    cdef object _arrays
    cdef ChainScratch _scratch


cdef class BoundChain(BoundModel):
    cdef readonly Py_ssize_t n_labels, n_features, ld
    cdef readonly bint fit_intercept, boundary
    cdef readonly object mask
    cdef object _owned, _packed
    cdef const int32_t[::1] _labels
    cdef const double[::1] _cost
    cdef bint _labeled, _sparse, _single, _all_grams
    cdef const float* _values32
    cdef const double* _values64
    cdef const int32_t* _indices
    cdef const int64_t* _indptr
    cdef const double* _emission
    cdef const double* _tail
    cdef const double* _mask
    cdef const unsigned char* _barred
    cdef double** _grams
    cdef Arena _arena

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil
    cdef Py_ssize_t _row(self, Py_ssize_t pos, Py_ssize_t* first,
                         const int32_t** index) noexcept nogil
    cdef void _scores(self, Py_ssize_t pos, const double* init,
                      double* out) noexcept nogil
    cdef void _scatter(self, Py_ssize_t pos, double scale, const double* change,
                       double* target) noexcept nogil
    cdef void _truncate(self, Py_ssize_t row) noexcept nogil
    cdef void _truncate_changed(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef void _scan(self, ChainScratch* ws, Py_ssize_t size) noexcept nogil
    cdef bint _gram_fits(self, Py_ssize_t i) noexcept nogil
    cdef double _spread_norm(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
