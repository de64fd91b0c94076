from libc.stdint cimport int32_t

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport Messages
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.models.tables._row_factors cimport RowFactors


cdef class GraphFactors(RowFactors):
    cdef readonly object edge_rows
    # `Cliques`, or None
    cdef readonly object cliques
    cdef object _nodes, _blocks
    cdef Py_ssize_t _n_weights
    # |G_e|^2 of each edge
    cdef const double[::1] _edge_norms
    # messages to all labels of the two ends, zero between calls, -inf in the padding
    cdef double[:, ::1] _told

    cdef void _tell(self, const Messages* messages) noexcept nogil
    cdef void _forget(self, const Messages* messages) noexcept nogil
