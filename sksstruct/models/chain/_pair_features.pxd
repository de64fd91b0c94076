cimport cython
from libc.stdint cimport int32_t, int64_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._weights cimport LazyWeights


# a final class has no virtual calls, which would be made at every position
@cython.final
cdef class PairFeatures:
    cdef readonly Py_ssize_t n_weights
    # length of a row, and of a whole table, of transitions
    cdef Py_ssize_t _ld, _step
    cdef object _arrays, _weights_read
    # CSR arrays of the features of each position that have weights
    cdef const int64_t* _indptr
    cdef const int32_t* _indices
    cdef const double* _values
    # the first weight of each feature, and the table cell of each weight
    cdef const int64_t* _starts
    cdef const int32_t* _cells
    # the cell of each weight in a transposed table
    cdef const int32_t* _turned

    # methods for all positions of a sequence
    cdef void form_tables(self, Py_ssize_t first, Py_ssize_t size,
                          const double* weights, const double* shared,
                          double* tables) noexcept nogil
    cdef void add_labeling(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t size,
                           const int32_t* y, double coef) noexcept nogil
    cdef double add_mean(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t edges,
                         Py_ssize_t n_keys, const int32_t* keys, const double* values,
                         double coef, double total) noexcept nogil
    cdef void add_products(self, ChainScratch* ws, Py_ssize_t first, Py_ssize_t size,
                           const int32_t* y, const int32_t* y_true,
                           Py_ssize_t n_labelings, const int32_t* labelings,
                           double* out) noexcept nogil
    # methods for the table of one position
    cdef void add_scores(self, Py_ssize_t position, const double* weights,
                         double* table) noexcept nogil
    cdef void add_means(self, Py_ssize_t position, double scale, const double* edges,
                        double* out) noexcept nogil
    cdef void exponentiate(self, Py_ssize_t position, Py_ssize_t n_labels,
                           Py_ssize_t ld, const EdgeTable* shared,
                           EdgeTable* table) noexcept nogil
    # methods for one pair of labels at one position
    cdef Py_ssize_t _find(self, Py_ssize_t feature, Py_ssize_t cell) noexcept nogil
    cdef double score(self, Py_ssize_t position, Py_ssize_t cell,
                      const double* weights) noexcept nogil
    # add changes of edge means, times the features, to the change of the weights
    cdef void add(self, ChainScratch* ws, Py_ssize_t position, Py_ssize_t cell,
                  double change) noexcept nogil
    cdef void add_table(self, ChainScratch* ws, Py_ssize_t position,
                        const double* edges, double tiny) noexcept nogil
    # brings the weights that a position reads up to date
    cdef void catch_up(self, Py_ssize_t position, Py_ssize_t first, Py_ssize_t row_size,
                       LazyWeights weights) noexcept nogil
