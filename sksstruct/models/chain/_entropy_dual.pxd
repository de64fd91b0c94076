from libc.stdint cimport int32_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._means cimport ChainMeans
from sksstruct.models.chain._workspace cimport ChainScratch
from sksstruct.models.protocols._entropy_dual cimport DualStep, EntropyDual


cdef struct Gibbs:
    # A distribution of the labelings of one sequence, or of all of them.
    double* nodes           # (size, ld) natural parameters
    double* node_means
    double* pairs           # (n_labels, ld) natural parameters of pairs
    double* pair_means      # their means, summed over positions


cdef class ChainEntropyDual(EntropyDual):
    # `_entropy_dual.pyx` states each method
    cdef BoundChain chain
    cdef ChainMeans _oracle
    # distributions of all sequences, one after the other, and what is tried
    cdef readonly list kept
    cdef list _scratch
    cdef Gibbs _kept, _tried
    # scores of pairs at the loaded weights, over mu, as natural parameters are
    cdef double* _pairs
    cdef EdgeTable _table

    cdef int _begin(self) except -1
    cdef Gibbs _of(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _first_pairs(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _n_pairs(self, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _most_pairs(self) noexcept nogil
    cdef const EdgeTable* _exponentiate(self, ChainScratch* ws, Py_ssize_t i,
                                        const double* pairs) noexcept nogil
    cdef int _find_means(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* kept,
                         DualStep* out) except -1 nogil
    cdef int _find_pair_means(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* tried,
                              double* log_partition) except -1 nogil
    cdef void _write_observed(self, Py_ssize_t i, double* node_means,
                              double* pair_means) noexcept nogil
    cdef void _write_observed_pairs(self, Py_ssize_t i,
                                    double* pair_means) noexcept nogil
    cdef double _change_score(self, const ChainScratch* ws, Py_ssize_t i,
                              const double* pairs) noexcept nogil
    cdef double _loss(self, Py_ssize_t i, const double* node_means) noexcept nogil
    cdef double _wrong(self, Py_ssize_t i, const double* node_means) noexcept nogil
    cdef void _prepare_change(self, ChainScratch* ws, Py_ssize_t i, const Gibbs* new,
                              const Gibbs* old) noexcept nogil
