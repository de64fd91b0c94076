from sksstruct.inference.trees._flat cimport FlatForest

cdef Py_ssize_t sums_memory(Py_ssize_t n_nodes, Py_ssize_t n_labels,
                            Py_ssize_t ld) noexcept nogil

cdef void sum_product_forest(const FlatForest* forest, double scale, double* memory,
                             double* nodes, double* pairs,
                             double* log_partition) noexcept nogil
