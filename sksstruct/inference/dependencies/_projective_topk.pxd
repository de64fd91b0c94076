from libc.stdint cimport int32_t


# Values and trees (k, n) of the k best trees, in order; returns their number.
# Scratch has projective_topk_scratch(n) numbers. The pool of the caller, NULL at first,
# grows to what is needed.
cdef Py_ssize_t projective_topk_scratch(Py_ssize_t n) noexcept nogil
cdef Py_ssize_t projective_topk(
    Py_ssize_t n, bint single_root, const double* scores, Py_ssize_t k, double* scratch,
    double** pool, Py_ssize_t* capacity, double* values, int32_t* trees) except -1 nogil
