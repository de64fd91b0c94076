from libc.stdint cimport int32_t

from sksstruct.inference.trees._topk cimport SubtreeLists


cdef struct FlatForest:
    # A forest of variables with the same labels, as bound models have it in memory;
    # rows are padded to ld.
    Py_ssize_t n_nodes, n_labels, ld
    # Rows of scores of the nodes, and tables of the edges, `step` apart. Tables are
    # full, (n_labels, ld) from the first end of an edge to its second, or potts: one
    # score that counts where the two labels are equal. Either each edge has its own, or
    # one is shared by all (step 0).
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


cdef inline bint is_forward(const FlatForest* forest, Py_ssize_t node) noexcept nogil:
    """Whether the table of the edge to its parent is from a node to the parent."""
    return forest.ends[2 * forest.edge_up[node]] == node


cdef void max_product_flat(const FlatForest* forest, double* best,
                           int32_t* labels) noexcept nogil

cdef Py_ssize_t topk_flat(const FlatForest* forest, double* memory, SubtreeLists lists,
                          Py_ssize_t k) except -1 nogil
