# Write the probability of each arc to `means`, and return the log-partition. Scratch
# has spanning_scratch(n) doubles. If there is no tree, -inf is returned and means are
# zero. means, of the shape of scores, may be NULL.
cdef Py_ssize_t spanning_scratch(Py_ssize_t n) noexcept nogil
cdef double nonprojective_sums(Py_ssize_t n, bint single_root, const double* scores,
                               double scale, double* scratch,
                               double* means) noexcept nogil
