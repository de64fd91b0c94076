cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.inference.chains._second_order_sums cimport (
    SecondOrderSums, TripleTable,
)
from sksstruct.inference.chains._sumproduct cimport EdgeTable, SumScratch
from sksstruct.inference.chains._topk cimport TopK
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._pair_features cimport PairFeatures
from sksstruct.models.chain._workspace cimport ChainScratch


# a final class has no virtual calls
@cython.final
cdef class ChainMeans:
    cdef BoundChain _chain
    # stride between the edge means of neighboring positions; 0: one shared table
    cdef Py_ssize_t _step
    cdef Py_ssize_t _n_best
    cdef object _arrays
    cdef TopK _decoder
    cdef SumScratch sums
    # (max_size, ld) scratch for node means, which callers may use
    cdef double* spare_nodes
    # edge means before the product with `ahead`, as many as `BoundChain._edge_cells`
    cdef double* outer
    # if each position has its own transitions: tables of all positions, the table
    # without features and its scores, the features, and edge means of all positions
    cdef EdgeTable* tables
    cdef EdgeTable _shared
    cdef double* _shared_scores
    cdef PairFeatures _features
    cdef double* edges
    # weights of triples that were loaded last, and oracles that read them
    cdef readonly TripleTable triple_table
    cdef SecondOrder _second_decoder
    cdef SecondOrderSums _second_sums
    # the n_best + 1 best labelings: scores, shares and labels
    cdef double* _scores
    cdef double* _shares
    cdef int32_t* _labelings
    # score of the best labeling at the last call of the top-K oracle, including the
    # constant that the loss adds to all labelings
    cdef double best

    cdef int _make_tables(self, Py_ssize_t n_tables) except -1
    cdef const EdgeTable* load_tables(self, ChainScratch* ws, Py_ssize_t i,
                                      double factor, bint exponentials) noexcept nogil
    # the exp oracle
    cdef int by_entropy(
        self, Py_ssize_t size, const double* theta, const EdgeTable* table,
        double weight, double* nodes, double* outer, double* edges,
        double* triples, double* log_partition) except -1 nogil
    cdef int add_by_entropy(
        self, Py_ssize_t size, const double* theta, const EdgeTable* table,
        double weight, double* nodes, double* edges, double* triples,
        double* log_partition) except -1 nogil
    # the top-K oracle
    cdef double by_topk(
        self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
        double weight, double* nodes, double* edges, double* triples,
        unsigned char* exact) except? -1 nogil
    cdef Py_ssize_t _share_among_best(
        self, ChainScratch* ws, Py_ssize_t i, const double* table, double mu,
        unsigned char* exact) except -1 nogil
