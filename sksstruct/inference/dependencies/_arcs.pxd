# Scores of the arcs of n words. The root is head 0 and the words are 1 to n: the arc
# from a head to a modifier is at scores[head * n + modifier - 1], -inf where there is
# none. A word is not its own head, whatever is there. A labeling has the head of each
# word, heads[modifier - 1]; with single_root exactly one of them is 0.

from libc.stdint cimport int32_t

cdef Py_ssize_t row_length(Py_ssize_t n) noexcept nogil
cdef void load_rows(Py_ssize_t n, const double* scores, double scale,
                    double* rows) noexcept nogil
cdef double weigh_rows(Py_ssize_t n, bint single_root, double* rows) noexcept nogil
cdef double tree_score(Py_ssize_t n, const double* scores,
                       const int32_t* heads) noexcept nogil
