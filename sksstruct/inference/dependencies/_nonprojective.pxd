from libc.stdint cimport int32_t


cdef struct Contraction:
    # Node 0 is the root, 1 to n are the words, and cycles that were contracted follow.
    Py_ssize_t n, ld, n_nodes
    bint single_root
    double* arcs        # (n + 1, ld), by modifier
    double* rows        # (n + 1, ld): for each head, the best arc into a node, relative
    int32_t* via        # (n + 1, ld): and the modifier of this arc
    # of each of 2 n + 1 nodes: how much its arc is worth, the head and the modifier of
    # this arc, the cycle it is in (0: none), its row, and marks
    double* gain
    int32_t* head
    int32_t* modifier
    int32_t* parent
    int32_t* slot
    int32_t* state
    int32_t* top        # (n + 1,): the outermost node that a word is in


cdef Py_ssize_t nonprojective_scratch(Py_ssize_t n) noexcept nogil
cdef Contraction carve(Py_ssize_t n, bint single_root, double* scratch) noexcept nogil
cdef bint best_tree(Contraction* contraction, int32_t* heads) noexcept nogil

# Scratch has nonprojective_scratch(n) numbers. Where there is no tree, the value is
# -inf and heads are zero.
cdef double nonprojective_max(Py_ssize_t n, bint single_root, const double* scores,
                              double* scratch, int32_t* heads) noexcept nogil
