cdef struct EdgeTable:
    # A table of pair scores (n, ld) from -> to, and its exponentials.
    const double* scores
    double* ahead       # (n, ld) exp(scores - shift)
    double* back        # (n, ld) transpose of ahead
    double shift        # upper bound on scores, usually the largest
    double low          # lower bound on finite scores, minus shift

cdef struct SumScratch:
    double* u           # (size, ld) exp(unary scores), relative to each row's largest
    double* alpha       # (size, ld) scaled weights of prefixes; in log space, log beta
    double* rows        # (3, ld) scratch
    double* scales      # (size,) factors of marginals; see `scaled_backward`

cdef void exponentiate_table(Py_ssize_t n, Py_ssize_t ld,
                             EdgeTable* table) noexcept nogil

cdef void share_exponentials(
    Py_ssize_t n, Py_ssize_t ld, const EdgeTable* shared, double high,
    EdgeTable* table) noexcept nogil

cdef void exponentiate_cell(EdgeTable* table, Py_ssize_t cell,
                            Py_ssize_t turned) noexcept nogil

cdef int sum_product_padded(
    Py_ssize_t size, Py_ssize_t n, Py_ssize_t ld, const double* theta,
    const EdgeTable* tables, Py_ssize_t step, SumScratch* ws, double* node,
    double weight, double* outer, Py_ssize_t outer_step, double* edges,
    Py_ssize_t edges_step, double* log_partition
) except -1 nogil
