from sksstruct.inference.trees._tree cimport Tree


cdef struct Spring:
    # scores linear d - quadratic d^2 of the displacement d of an edge, its second part
    # minus its first minus the offset, by rows [0] and by columns [1]
    double offset[2]
    double linear[2]
    double quadratic[2]


cdef Py_ssize_t grid_ld(Py_ssize_t width) noexcept nogil
cdef Py_ssize_t scratch_size(Py_ssize_t n_parts, Py_ssize_t height,
                             Py_ssize_t width) noexcept nogil
cdef double sum_product(Tree tree, Py_ssize_t height, Py_ssize_t width,
                        const Spring* springs, double* grids, double* scratch,
                        double* moments) noexcept nogil
