from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.tables._blocks cimport Block, WeightBlocks
from sksstruct.models.tables._change cimport Change, Changes
from sksstruct.models.tables._structure cimport OracleMemory, Potentials, Structure


cdef struct TableScratch:
    # potentials of the loaded example
    Potentials at
    # a change of mean parameters
    Change change
    # A_i A_i^T d for the tables of rows and for the shared table; the latter is zero
    # between calls
    double* products
    double* shared_products
    # scratch for the keys of a labeling
    int32_t* keys


cdef class TableWorkspace(Workspace):
    cdef object _theta
    cdef TableScratch _scratch
    cdef OracleMemory oracle


cdef class BoundTable(BoundModel):
    # attributes and methods: see `_table.pyx`
    cdef readonly Structure structure
    cdef readonly Py_ssize_t table_size, n_other
    cdef readonly list features, has_bias
    cdef WeightBlocks _layout
    cdef Block* _blocks
    cdef Changes _changes
    # whether the structure reads the shared table in the weights
    cdef bint _in_place
    # a copy of `Structure.one_entry`
    cdef bint _one_entry
    # number of entries of the shared table
    cdef Py_ssize_t _shared_size
    cdef object _names

    # methods that losses call
    cdef Py_ssize_t tables_end(self, Py_ssize_t i) noexcept nogil
    cdef void _set_tables(self, Workspace workspace) noexcept nogil
    cdef void take_tables(self, Workspace workspace, Py_ssize_t i) noexcept nogil
    cdef Py_ssize_t _best_of_loaded(
        self, Workspace workspace, Py_ssize_t i, Py_ssize_t k,
        const int32_t** labelings, const double** values) except -1 nogil

    cdef double _key_score(self, const Potentials* at, Py_ssize_t i,
                           Py_ssize_t key) noexcept nogil
    cdef double _total(self, const Potentials* at, Py_ssize_t i, Py_ssize_t n_keys,
                       const int32_t* keys) noexcept nogil
    cdef int _add_others(self, Change* change, Py_ssize_t i, Py_ssize_t key,
                         double coef) except -1 nogil
    cdef int _products_of_entries(
        self, TableScratch* ws, Py_ssize_t i, int32_t entry, int32_t observed,
        Py_ssize_t n_labelings, const int32_t* labelings, double* out
    ) except -1 nogil
    cdef void _set_shared(self, TableScratch* ws, double factor) noexcept nogil
