from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.chains._second_order_sums cimport TripleTable
from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._smooth_loss cimport SmoothLoss


cdef class ChainSmoothLoss(SmoothLoss):
    # methods: see `_smooth.pyx`
    cdef readonly BoundChain chain
    cdef bint _entropy
    cdef Py_ssize_t _n_best
    # approximate number of operations of a sweep, to choose the number of threads
    cdef Py_ssize_t _work
    cdef object _numbers
    # flags of positions without an observed label, and of sequences with such positions
    cdef const unsigned char[::1] _unknown, _incomplete
    cdef bint _partial
    # whether some unknown positions have lists of possible labels; for each position
    # the start of its list, which is ascending and may be empty; all lists
    cdef bint _has_choices
    cdef const int64_t[::1] _first_choice
    cdef const int32_t[::1] _choices
    # transposed copy of the features, for the gradient of the emission weights
    cdef object _transposed
    # results of the last sweep
    cdef double[::1] _hinge
    cdef object _differences, _losses, _expected, _exponentials, _edge_means
    # p_i (E mu_i - mu_i(y_i)) of all nodes
    cdef double[:, ::1] _difference
    # the anchor of visits: E mu_i of the edges of every example, or NULL; if positions
    # have their own tables or triples have weights, a workspace with the sweep's
    # weights
    cdef double* _anchor_edges
    cdef Workspace _anchor
    cdef bint _anchored
    cdef EdgeTable _table
    cdef TripleTable _triple_table
    # scratch of visits
    cdef ChainMeans _visit_means
    cdef EdgeTable _visit_table
    cdef object _visit_memory
    # E mu_i, nodes first: in a visit, and at the weights of the sweep
    cdef double* _visit_mean
    cdef double* _anchor_mean

    # steps of sweeps over all examples
    cdef int _sweep_example(
        self, Workspace workspace, ChainMeans means, Py_ssize_t i, double* sums,
        double* loss, double* expected, unsigned char* exact) except -1 nogil
    cdef double _maximum(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges,
        double* triples, unsigned char* exact) except? -1 nogil
    cdef double _example_maximum(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, const EdgeTable* table,
        double* node, double* edges, double* triples,
        unsigned char* exact) except? -1 nogil
    cdef double _subtract_observed(self, ChainMeans means, Py_ssize_t i,
                                   double* edges, double* triples) noexcept nogil
    cdef double _subtract_agreeing(
        self, ChainScratch* ws, ChainMeans means, Py_ssize_t i, double* edges,
        double* triples) except? -1 nogil
    cdef void _add_tables(self, ChainMeans means, Py_ssize_t i, double* edges,
                          double* triples) noexcept nogil
    cdef void _forbid_others(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil
    cdef void _forbid_unlisted(self, ChainScratch* ws, Py_ssize_t position,
                               Py_ssize_t t) noexcept nogil
    cdef void _weigh_nodes(self, Py_ssize_t i, double* sums) noexcept nogil
    # steps of visits of single examples
    cdef int _visit_example(self, Workspace workspace, Py_ssize_t i, double scale,
                            double* means) except -1 nogil
    cdef const EdgeTable* _load_visit_table(
        self, ChainScratch* ws, Py_ssize_t i, double factor) noexcept nogil
    cdef int _subtract_anchor(self, Py_ssize_t i, double* edges) except -1 nogil
