from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.trees._flat cimport FlatForest


cdef struct Sums:
    # Arrays of a run: rows of every node, then rows and tables for one edge.
    const FlatForest* forest
    double scale
    double* up
    double* message
    double* beside
    # in log space: belief; else exponentials of the scores
    double* belief
    # log Z of the tree of each node; else one over the mass of the node and its parent
    double* log_partition
    # smallest nonzero entry of each node's product, later of its message
    double* low
    double* rows            # (4, ld), the first row zeros
    double* scores          # (n, ld) scores of the current table, scaled
    double* outer           # (n, ld)
    EdgeTable table
    # score of the current potts table, scaled
    double agreement
    # whether messages may be products with the table's exponentials
    bint direct
    # scaled messages have no nonzero entry below
    double limit


cdef bint scaled_sum_product(Sums* sums, double* nodes, double* pairs,
                             double* log_partition) noexcept nogil

cdef bint exponentiate_edge(Sums* sums, Py_ssize_t edge) noexcept nogil
