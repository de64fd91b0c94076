from libc.stdint cimport int32_t

from sksstruct.inference.trees._topk cimport SubtreeLists


cdef struct FlatForest:
    # A forest of variables with equal labels, in the memory layout of bound models;
    # rows are padded to ld.
    Py_ssize_t n_nodes, n_labels, ld
    # Rows of node scores; and tables of edges, `step` doubles apart, where step 0 means
    # that all edges share one table. A table is full, (n_labels, ld) from the first end
    # of an edge to the second, or potts: one score for equal labels.
    const double* theta
    const double* tables
    Py_ssize_t step
    bint potts
    # `order`: nodes, breadth first from the roots of all trees at once. `parent`: the
    # parent of each node, or -1. `edge_up`: number of the edge from each node to its
    # parent. `ends`: first and second end of each edge.
    const Py_ssize_t* order
    const Py_ssize_t* parent
    const Py_ssize_t* edge_up
    const Py_ssize_t* ends


cdef inline bint is_forward(const FlatForest* forest, Py_ssize_t node) noexcept nogil:
    """Whether the table of the edge above a node is from the node to its parent."""
    return forest.ends[2 * forest.edge_up[node]] == node


cdef void max_product_flat(const FlatForest* forest, double* best,
                           int32_t* labels) noexcept nogil

cdef Py_ssize_t topk_flat(const FlatForest* forest, double* memory, SubtreeLists lists,
                          Py_ssize_t k) except -1 nogil
