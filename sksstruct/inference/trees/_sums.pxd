cdef struct SumForest:
    # A forest of variables with the same labels; `_sums.pyx` states the layout.
    Py_ssize_t n_nodes, n_labels, ld
    # rows of scores of the nodes, and tables of the edges, `step` apart
    const double* theta
    const double* tables
    Py_ssize_t step
    bint potts
    # nodes, breadth first from the roots of all trees at once; the parent, or -1; the
    # edge to it; and the first and second ends of the edges
    const Py_ssize_t* order
    const Py_ssize_t* parent
    const Py_ssize_t* edge_up
    const Py_ssize_t* ends

cdef Py_ssize_t sums_memory(Py_ssize_t n_nodes, Py_ssize_t n_labels,
                            Py_ssize_t ld) noexcept nogil

cdef void sum_product_forest(const SumForest* forest, double scale, double* memory,
                             double* nodes, double* pairs,
                             double* log_partition) noexcept nogil
