from libc.stdint cimport int32_t

from sksstruct.models.tables._table cimport BoundTable, TableScratch


cdef class BoundPlacements(BoundTable):
    cdef const Py_ssize_t[:, ::1] _shapes
    cdef const double[::1] _units
    cdef readonly Py_ssize_t n_parts, ld
    cdef readonly object shapes
    # springs, which all have keys of their own
    cdef Py_ssize_t _n_springs

    cdef Py_ssize_t _n_positions(self, Py_ssize_t i) noexcept nogil
