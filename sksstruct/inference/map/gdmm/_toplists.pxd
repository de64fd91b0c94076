cimport cython
from libc.stdint cimport int32_t

from sksstruct.inference.map.core._tables cimport TableSpec


# The largest entries of a line (a row or a column) of a table, as many as needed so
# far.
cdef struct Line:
    # number of listed entries, and their indices in descending order of the entries
    Py_ssize_t depth
    int32_t* top


# Lists of one table's lines, and the table's rows in descending order of their largest
# entries. The pointers are NULL for tables without lists.
cdef struct TableLists:
    Line* rows
    Line* cols
    int32_t* by_high


@cython.final
cdef class Lists:
    # the specs are memory of the problem; this object allocates and frees the lists
    cdef TableLists* of_table
    cdef const TableSpec* specs
    cdef readonly Py_ssize_t visited, stored
    cdef Py_ssize_t _n_tables
    cdef list _owners

    cdef Py_ssize_t outside(self, Py_ssize_t table, bint column, Py_ssize_t line,
                            double sign, const int32_t* slots) except -2 nogil
    cdef Py_ssize_t _first_outside(self, Py_ssize_t table, bint column, Py_ssize_t line,
                                   const int32_t* slots) except -2 nogil
    cdef Line* _line_of(self, Py_ssize_t table, bint column, Py_ssize_t line,
                        Py_ssize_t depth) except NULL nogil
