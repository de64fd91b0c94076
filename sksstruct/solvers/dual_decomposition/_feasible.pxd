from sksstruct.solvers.dual_decomposition._active_sets cimport ActiveOutcomes
from sksstruct.solvers.dual_decomposition._state cimport Scratch


cdef void scale_down(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil
cdef void write_lacks(Scratch* scratch, const ActiveOutcomes* outcomes) noexcept nogil
