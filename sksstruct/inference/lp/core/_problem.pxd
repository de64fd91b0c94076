from libc.stdint cimport int32_t

# As in factor_graphs/_tables.py.
cdef enum:
    DENSE = 0
    POTTS = 1
    LINEAR = 2
    QUADRATIC = 3
    LOGIC = 4

# As in Logic.conditions.
cdef enum:
    XOR = 0
    ATMOSTONE = 1
    OR = 2
    OROUT = 3
    XOROUT = 4
    BUDGET = 5


cdef struct TableSpec:
    int kind
    Py_ssize_t rows, cols
    const double* data      # DENSE
    double a, b             # agree, differ; or scale, limit
    double* row_high        # largest entry of each row; NULL: not looked at
    double* col_high
    bint symmetric


# Scratch of one message, of max_states each.
cdef struct Scratch:
    double* value
    Py_ssize_t* index


cdef class MAPProblem:
    cdef readonly object graph
    cdef readonly Py_ssize_t n, m, n_higher, max_states
    cdef readonly double penalty
    cdef const int32_t[::1] states
    cdef const Py_ssize_t[::1] first
    cdef double[::1] unary
    cdef const int32_t[:, ::1] ends
    cdef const int32_t[::1] table_of
    cdef const double[::1] weights
    cdef bint weighted
    cdef Py_ssize_t[::1] adj_first
    cdef int32_t[::1] adj_edge
    cdef list _keep
    cdef TableSpec* specs
    # factors of three or more variables
    cdef Py_ssize_t[::1] scope_first, scope
    cdef int32_t[::1] higher_table
    cdef Py_ssize_t[::1] in_first, in_factor, in_place
    cdef double* _scratch
    cdef Py_ssize_t* _index
    cdef Scratch scratch

    cdef double weight(self, Py_ssize_t e) noexcept nogil
    cdef double entry(self, Py_ssize_t e, Py_ssize_t i, Py_ssize_t j) noexcept nogil
    cdef void add_states(self, Py_ssize_t e, bint backward, Py_ssize_t state,
                         double* out) noexcept nogil
    cdef void message(self, Py_ssize_t e, bint backward, const double* a,
                      double* out) noexcept nogil
    cdef double score(self, const int32_t* x) noexcept nogil
    cdef double higher_entry(self, Py_ssize_t f, const int32_t* x) noexcept nogil


cdef bint holds(int condition, double limit, Py_ssize_t count,
                Py_ssize_t last) noexcept nogil
cdef double entry_of(const TableSpec* t, Py_ssize_t i, Py_ssize_t j) noexcept nogil
cdef void send(const TableSpec* t, double w, bint backward, const double* a,
               double* out, Scratch* scratch) noexcept nogil
