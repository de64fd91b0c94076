from sksstruct.solvers.dual_decomposition._active_sets cimport ActiveOutcomes
from sksstruct.solvers.dual_decomposition._state cimport Scratch


cdef void cut(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil
cdef void missing(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil
