from libc.stdint cimport int32_t

from sksstruct.inference.chains._pair_index cimport PairIndex
from sksstruct.inference.chains._sparse_viterbi cimport (
    SparseTransitions, ViterbiScratch,
)
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._weights cimport Weights


cdef struct SparseScratch:
    # loss-augmented unary scores (max_size, ld): of all labels if `complete`, else of
    # the labels whose `visit_of` equals `visit`, the number of the current visit
    double* theta
    int32_t* visit_of
    int32_t visit
    bint complete
    # term of the loss that is the same for all labelings
    double constant
    # a change of mean parameters: of nodes (max_size, ld), and of the weights of pairs;
    # flags and lists of the changed entries
    double* node_change
    char* node_changed
    int32_t* changed_nodes
    Py_ssize_t n_changed_nodes
    double* pair_change
    char* pair_changed
    int32_t* changed_pairs
    Py_ssize_t n_changed_pairs
    # scratch: a column of weights, a row of features spread to all features, and the
    # product of a Gram matrix and a change of nodes (max_size, ld)
    double* column
    double* spread
    double* gram_product


cdef class SparseWorkspace(Workspace):
    cdef SparseScratch _scratch
    cdef Py_ssize_t _first_pair, _n_forbidden
    # the pairs sorted by weight, and scratch to decode with them
    cdef SparseTransitions transitions
    cdef ViterbiScratch viterbi


cdef class SparseBoundChain(BoundChain):
    # attributes: see `_sparse_training.pyx`
    cdef readonly Py_ssize_t n_slots
    cdef readonly PairIndex pair_index
    cdef readonly object ends
    cdef Py_ssize_t _n_forbidden

    cdef double _unary_score(self, SparseWorkspace ws, Py_ssize_t i, Py_ssize_t t,
                             Py_ssize_t label) noexcept nogil
    # bodies of the public methods of the same names, given a SparseWorkspace
    cdef int _decode(self, SparseWorkspace sparse_ws, Py_ssize_t i, int32_t* y,
                     double* value) except -1 nogil
    cdef int _evaluate(self, SparseWorkspace sparse_ws, Py_ssize_t i, const int32_t* y,
                       double* value) except -1 nogil
    cdef int _scatter(self, SparseWorkspace sparse_ws, Py_ssize_t i, double scale,
                      double* out) except -1 nogil
    cdef int _touch(self, SparseWorkspace sparse_ws, Py_ssize_t i,
                    Weights weights) except -1 nogil
    cdef Py_ssize_t _slot(self, Py_ssize_t first, Py_ssize_t second) except -1 nogil
    cdef void _drop_rounding_errors(self, SparseScratch* ws) noexcept nogil
    cdef double _label_norm(self, SparseScratch* ws, Py_ssize_t i,
                            Py_ssize_t k) noexcept nogil
    cdef int _scatter_node(self, SparseScratch* ws, Py_ssize_t i, Py_ssize_t k,
                           double scale, double* out) except -1 nogil
    cdef double _product(self, SparseScratch* ws, Py_ssize_t i, const int32_t* y,
                         const int32_t* z) noexcept nogil
