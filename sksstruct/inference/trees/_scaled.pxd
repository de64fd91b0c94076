from sksstruct.inference.chains._sumproduct cimport EdgeTable
from sksstruct.inference.trees._flat cimport FlatForest


cdef struct Sums:
    # Arrays of one run of sum-product: rows of every node, then rows and tables of one
    # edge. `up`, `message` and `beside` are logarithms, defined in `_sums.pyx`, or
    # scaled numbers, defined in `_scaled.pyx`.
    const FlatForest* forest
    double scale
    double* up
    double* message
    double* beside
    # in log space: belief; otherwise exponentials of the scores
    double* belief
    # in log space: log Z of the tree of each node; otherwise one over the sum of the
    # node's marginals before they are normalized
    double* log_partition
    # smallest nonzero entry of each node's row `up`, later of its message
    double* low
    double* rows            # (4, ld) scratch; the first row is zero
    double* scores          # (n, ld) scores of the current table, times `scale`
    double* outer           # (n, ld) scratch: outer products of two rows
    EdgeTable table
    # score of equal labels in the current potts table, times `scale`
    double agreement
    # whether messages may be products with the table's exponentials
    bint direct
    # lower bound of the nonzero entries of scaled messages
    double limit


cdef bint scaled_sum_product(Sums* sums, double* nodes, double* pairs,
                             double* log_partition) noexcept nogil

cdef bint exponentiate_edge(Sums* sums, Py_ssize_t edge) noexcept nogil
