from sksstruct.projections._multipliers cimport TreeProblem


cdef double minimize(const TreeProblem* tree, double* duals,
                     double* out) noexcept nogil
