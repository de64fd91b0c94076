from libc.stdint cimport int32_t

from sksstruct.inference.lp.core._problem cimport TableSpec


# The best entries of a line (a row or a column) of a table, as far as was asked.
cdef struct Line:
    Py_ssize_t depth
    int32_t* top


# Lines of one table, and its rows by their largest entries.
cdef struct TopLists:
    Line* rows
    Line* cols
    int32_t* by_high


cdef class Lists:
    cdef list _keep
    cdef Py_ssize_t n_tables
    cdef TopLists* lists
    cdef const TableSpec* specs
    cdef readonly Py_ssize_t visited, stored

    cdef Py_ssize_t outside(self, Py_ssize_t t, bint column, Py_ssize_t line,
                            double sign, const int32_t* slots) noexcept nogil
    cdef Line* line_of(self, Py_ssize_t t, bint column, Py_ssize_t line,
                       Py_ssize_t depth) noexcept nogil
