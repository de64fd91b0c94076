from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.trees._flat cimport FlatForest


cdef struct Sums:
    # What a run works in: rows of every node, and then rows and tables for one edge.
    const FlatForest* forest
    double scale
    double* up
    double* message
    double* beside
    # in log space; else exponentials of the scores
    double* belief
    # log Z of the tree of each node; else one over the mass of it and its parent
    double* log_partition
    # the smallest entry above zero of each node's product, later of its message
    double* low
    double* rows            # (4, ld), the first of zeros
    double* scores          # (n, ld), scaled
    double* outer           # (n, ld)
    EdgeTable table
    # the score of potts tables, scaled
    double agreement
    # whether exponentials of the table can be multiplied
    bint direct
    # scaled messages have no entry between this and zero
    double limit


cdef bint scaled_sum_product(Sums* sums, double* nodes, double* pairs,
                             double* log_partition) noexcept nogil

cdef bint exponentiate_edge(Sums* sums, Py_ssize_t edge) noexcept nogil
