from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._arena cimport Arena


cdef struct Block:
    # A block of mean parameters has the keys of all mean parameters that may differ
    # from zero, in ascending order, and their values. The number of keys grows with the
    # number of parts in which labelings differ, not with the number of visits.
    Py_ssize_t n_keys, key_capacity
    int32_t* keys
    double* values
    # A block of labelings has the labels of each labeling, its weight alpha_i(y) and
    # its loss L_i(y). The arrays are separate, as most loops read only one of them.
    Py_ssize_t n_labelings, capacity
    int32_t* labelings      # (capacity, size)
    double* weight
    double* loss
    # Gram matrix of the labelings' features; NULL until a visit takes several steps
    Py_ssize_t n_gram       # number of rows and columns that are computed
    double* gram            # (capacity, capacity)


cdef inline void sift(Block* block, Py_ssize_t top, Py_ssize_t end) noexcept nogil:
    """Move the entry at `top` of a heap down until its children have no larger keys."""
    cdef int32_t key = block.keys[top]
    cdef double value = block.values[top]
    cdef Py_ssize_t child = 2 * top + 1
    while child < end:
        if child + 1 < end and block.keys[child + 1] > block.keys[child]:
            child += 1
        if block.keys[child] <= key:
            break
        block.keys[top], block.values[top] = block.keys[child], block.values[child]
        top, child = child, 2 * child + 1
    block.keys[top], block.values[top] = key, value


cdef inline void heap_sort(Block* block) noexcept nogil:
    """Sort the keys of a block, with their values, in place in n log n steps."""
    cdef Py_ssize_t entry
    cdef int32_t key
    cdef double value
    for entry in range(block.n_keys // 2 - 1, -1, -1):
        sift(block, entry, block.n_keys)
    for entry in range(block.n_keys - 1, 0, -1):
        key, value = block.keys[0], block.values[0]
        block.keys[0], block.values[0] = block.keys[entry], block.values[entry]
        block.keys[entry], block.values[entry] = key, value
        sift(block, 0, entry)


cdef inline void sort_keys(Block* block, Py_ssize_t first) noexcept nogil:
    """Sort the keys of a block, with their values; keys before `first` are in order."""
    cdef Py_ssize_t entry, k
    cdef int32_t key
    cdef double value
    # insertion sort is fast for the few new keys of most visits; visits of long
    # sequences add many keys
    if block.n_keys - first > 32:
        heap_sort(block)
        return
    for entry in range(max(first, 1), block.n_keys):
        key, value = block.keys[entry], block.values[entry]
        k = entry
        while k > 0 and block.keys[k - 1] > key:
            block.keys[k], block.values[k] = block.keys[k - 1], block.values[k - 1]
            k -= 1
        block.keys[k], block.values[k] = key, value


cdef class Blocks:
    cdef readonly BoundModel model
    cdef readonly Weights weights
    cdef readonly Workspace workspace
    cdef readonly double alpha
    cdef readonly bint use_means
    cdef bint cache
    cdef Py_ssize_t max_cached
    cdef Py_ssize_t n_blocks
    cdef Block* blocks
    # memory of the arrays of all blocks, which are many and small
    cdef Arena arena
    # for each block: the loss of its mixture, and the gap over its labelings at the
    # last visit (the "promise"); arrays that Python reads, and pointers to their data
    cdef readonly object losses_, promises_
    cdef double* losses
    cdef double* promises
    cdef public double iterate         # k, number of visits since the average began
    cdef public double loss
    cdef public Py_ssize_t oracle_calls
    # references that keep the memory behind pointers alive
    cdef list _objects
    cdef object _scratch, _difference
    # Workspace of a visit, as long as the largest block: for each labeling its value,
    # its weight before the visit, and its inner product with the mixture.
    cdef Py_ssize_t scratch_capacity
    cdef double* value
    cdef double* old_weight
    cdef double* mixture
    # labels of the decoded or observed labeling, and the keys of its mean parameters
    cdef int32_t* decoded
    cdef int32_t* keys
    # for each possible key, its entry in the arrays of a block; valid only if this
    # entry of the visited block has the key
    cdef int32_t* place
    # mean parameters of the mixture minus those of a labeling, in the order of the
    # block's keys
    cdef double* difference
    cdef Py_ssize_t difference_capacity

    cdef int32_t* _integers(self, Py_ssize_t size) except? NULL
    cdef Py_ssize_t _find(self, Block* block, Py_ssize_t size,
                          const int32_t* y) noexcept nogil
    cdef int _append(self, Py_ssize_t i, const int32_t* y) except -1 nogil
    cdef int _extend_gram(self, Py_ssize_t i) except -1 nogil
    cdef int _drop(self, Py_ssize_t i) except -1 nogil

    cdef int _restart_means(self, Block* block, Py_ssize_t count) except -1 nogil
    cdef int _subtract_keys(self, Block* block, Py_ssize_t count) except -1 nogil
