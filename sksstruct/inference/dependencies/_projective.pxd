from libc.stdint cimport int32_t

cdef Py_ssize_t projective_scratch(Py_ssize_t n) noexcept nogil

# Write the heads of a best tree and return its score; write the probability of each arc
# to `means` and return the log-partition. Scratch has projective_scratch(n) doubles. If
# there is no tree, -inf is returned, and heads and means are zero. means, of the shape
# of scores, may be NULL.
cdef double projective_max(Py_ssize_t n, bint single_root, const double* scores,
                           double* scratch, int32_t* heads) noexcept nogil
cdef double projective_sums(Py_ssize_t n, bint single_root, const double* scores,
                            double scale, double* scratch,
                            double* means) noexcept nogil

# Write the scores and the heads, of shape (k, n), of the k best trees, in descending
# order of score, and return the number of trees found. Scratch has
# projective_topk_scratch(n) doubles. The caller's pool, NULL at first, grows as needed.
cdef Py_ssize_t projective_topk_scratch(Py_ssize_t n) noexcept nogil
cdef Py_ssize_t projective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double** pool, Py_ssize_t* capacity, double* values, int32_t* trees) except -1 nogil
