from libc.stdint cimport int32_t

from sksstruct.models.chain._gram cimport GramMatrices
from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef struct ChainScratch:
    # the weights that potentials are formed from
    const double* emission    # (n_features, ld)
    const double* tail        # (3 + n_labels, ld) bias, start, end, transitions
    # potentials
    double* theta             # (max_size, ld) loss-augmented unary scores
    double* delta             # (max_size, ld) Viterbi's prefix scores
    double* table             # (n_labels, ld) transitions with the forbidden ones -inf
    double constant           # the part of the loss that no labeling changes
    # a change d of mean parameters
    double* d                 # (max_size, ld) of node means
    double* d_edge            # (n_labels, ld) of edge means, summed over places
    int32_t* rows             # rows of d that changed, once `scanned`
    int32_t* edges            # entries of d_edge that were written, each once
    char* marked              # (n_labels, ld) whether an entry is among them
    Py_ssize_t n_rows, n_edges
    bint scanned
    # for features
    double* bias              # (ld,)
    double* spread            # (n_features + 1,) one feature row, spread out
    double* product           # (n_features, ld) F' d, for sequences without a matrix


cdef inline void add_edge(ChainScratch* ws, Py_ssize_t edge,
                          double value) noexcept nogil:
    """Add to the change of an edge mean, and note that it changed."""
    ws.d_edge[edge] += value
    if not ws.marked[edge]:
        ws.marked[edge] = 1
        ws.edges[ws.n_edges] = <int32_t> edge
        ws.n_edges += 1


cdef class ChainWorkspace(Workspace):
    cdef object _arrays
    cdef Py_ssize_t _n_features, _n_labels, _ld
    cdef ChainScratch _scratch


cdef class BoundChain(BoundModel):
    cdef readonly Py_ssize_t n_labels, n_features, ld
    cdef readonly bint fit_intercept, boundary
    cdef readonly object mask, packed
    cdef public object numbers, unknown, support   # see the class
    cdef object _label_costs, _known, _factors
    cdef object _forbidden_labels
    cdef const int32_t[::1] _labels
    cdef const double[::1] _cost
    cdef bint _labeled
    cdef FeatureRows _rows
    cdef GramMatrices _grams
    cdef bint _all_grams
    cdef const double* _mask                  # NULL where all transitions are allowed
    cdef const unsigned char* _forbidden      # NULL where all labels are

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil
    cdef void _forbid(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef void _scan(self, ChainScratch* ws, Py_ssize_t size) noexcept nogil
    cdef double _product_norm(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef double _clear_product(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef void _weigh_by_gram(
        self, ChainScratch* ws, Py_ssize_t i, const double* gram, const int32_t* y,
        const int32_t* observed) noexcept nogil
    cdef double _gram_product(
        self, ChainScratch* ws, Py_ssize_t size, const int32_t* other,
        const int32_t* observed) noexcept nogil
