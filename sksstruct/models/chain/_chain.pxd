from libc.stdint cimport int32_t

from sksstruct.inference.chains._topk cimport TopK
from sksstruct.inference.chains._triples cimport LabelTriples
from sksstruct.models.chain._constraints cimport ChainConstraints
from sksstruct.models.chain._pair_features cimport PairFeatures
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.tables._blocks cimport WeightBlocks
from sksstruct.models.tables._change cimport Changes
from sksstruct.models.tables._feature_rows cimport FeatureRows


cdef class BoundChain(BoundModel):
    # attributes: see `_chain.pyx`
    cdef readonly Py_ssize_t n_labels, n_features, ld
    # number of weights of features on pairs of labels, and index of the first one
    cdef readonly Py_ssize_t n_pair_weights, first_pair
    cdef readonly PairFeatures pair_features
    cdef readonly object pair_support
    # number of weights of triples of labels, which follow the weights of features on
    # pairs; and the triples
    cdef readonly Py_ssize_t n_triples
    cdef readonly LabelTriples triples
    cdef readonly object triple_support
    # first cell of the triples, after the cells of transitions and of features on pairs
    cdef Py_ssize_t _first_triple
    # stride between the transition tables of neighboring positions; 0: one shared table
    cdef Py_ssize_t _table_step
    cdef readonly bint fit_intercept, boundary
    cdef readonly object mask, packed
    cdef public object numbers, unknown, choices, support, stored_pairs
    cdef readonly object label_costs, loss_length, known
    # observed label of each position, and the loss of any other label there
    cdef const int32_t[::1] _labels
    cdef const double[::1] _cost
    cdef bint _labeled
    # loss of pairs of neighboring labels: the group of the observed pair that ends at
    # each position, the factor of the costs at each position, and for each group the
    # costs of all pairs (n_groups, n_labels, ld)
    cdef bint _costs_pairs
    cdef const int32_t[::1] _pair_group
    cdef const double[::1] _pair_factor
    cdef const double[:, :, ::1] _pair_cost
    cdef FeatureRows _rows
    cdef ChainConstraints _constraints
    cdef WeightBlocks _layout
    cdef Changes _changes

    cdef double _expected_pairs(self, Py_ssize_t i, const double* edges) noexcept nogil
    cdef Py_ssize_t _edge_cells(self, Py_ssize_t size) noexcept nogil
    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil
    cdef Py_ssize_t _best_labelings(
        self, Workspace workspace, TopK decoder, Py_ssize_t i, Py_ssize_t k,
        double* scores, int32_t* labelings) except -1 nogil
    cdef const double* _shared_transitions(self, ChainScratch* ws) noexcept nogil
    cdef bint _has_triples(self, Py_ssize_t i) noexcept nogil
    cdef void add_triples(self, Py_ssize_t i, const int32_t* y, double change,
                          double* out) noexcept nogil
    # steps of `add_mean` and of `gram_row`
    cdef double _add_mean(self, ChainScratch* ws, Py_ssize_t i, Py_ssize_t n_keys,
                          const int32_t* keys, const double* values,
                          double coef) noexcept nogil
    cdef void _add_triple_products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n_labelings,
        const int32_t* labelings, double* out) noexcept nogil
    cdef int _write_products(
        self, ChainScratch* ws, Py_ssize_t i, const int32_t* y, Py_ssize_t n_labelings,
        const int32_t* labelings, double* out) except -1 nogil
    cdef int _multiply_gram(self, ChainScratch* ws, Py_ssize_t i, const int32_t* y,
                            const int32_t* y_true) except -1 nogil
    cdef double _product_with(
        self, const ChainScratch* ws, Py_ssize_t size, const int32_t* z,
        const int32_t* y_true) noexcept nogil
