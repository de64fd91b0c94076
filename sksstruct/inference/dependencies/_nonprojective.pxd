from libc.stdint cimport int32_t

cdef Py_ssize_t nonprojective_scratch(Py_ssize_t n) noexcept nogil

# Write the heads of a best tree, and return its score. Scratch has
# nonprojective_scratch(n) doubles. If there is no tree, the score is -inf and heads are
# zero.
cdef double nonprojective_max(Py_ssize_t n, bint single_root, const double* scores,
                              double* scratch, int32_t* heads) noexcept nogil

# Write the scores and the heads, of shape (k, n), of the k best trees, in descending
# order of score, and return the number of trees found. Scratch has
# nonprojective_topk_scratch(n, k) doubles.
cdef Py_ssize_t nonprojective_topk_scratch(Py_ssize_t n, Py_ssize_t k) noexcept nogil
cdef Py_ssize_t nonprojective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double* values, int32_t* trees) noexcept nogil
