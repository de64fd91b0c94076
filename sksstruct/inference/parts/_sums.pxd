from sksstruct.inference.trees._tree cimport Tree


cdef struct Spring:
    # Parameters of the score linear d - quadratic d^2 of an edge, where d is the
    # position of the second part minus that of the first part minus the offset. Index 0
    # is for rows, and index 1 for columns.
    double offset[2]
    double linear[2]
    double quadratic[2]


cdef Py_ssize_t grid_ld(Py_ssize_t width) noexcept nogil
cdef Py_ssize_t scratch_size(Py_ssize_t n_parts, Py_ssize_t height,
                             Py_ssize_t width) noexcept nogil
cdef double sum_product(Tree tree, Py_ssize_t height, Py_ssize_t width,
                        const Spring* springs, double* grids, double* scratch,
                        double* moments) noexcept nogil
