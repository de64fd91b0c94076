from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.utils._arena cimport Arena


cdef struct Block:
    # Mean parameters, where nothing else is kept: keys ascend, so that the block grows
    # with the parts that labelings differ in, and not with the number of visits.
    Py_ssize_t n_keys, key_capacity
    int32_t* keys
    double* values
    # Labelings, else. Arrays of their own, as most loops run over one of them only.
    Py_ssize_t n_labelings, capacity
    int32_t* labelings      # (capacity, size)
    double* weight
    double* loss
    # NULL until a visit takes several steps: most options never ask for it.
    Py_ssize_t n_gram       # labelings that it is of, the first ones
    double* gram            # (capacity, capacity)


cdef inline void sift(Block* block, Py_ssize_t top, Py_ssize_t end) noexcept nogil:
    """Let an entry of a heap sink to its place: none is above a larger one."""
    cdef int32_t key = block.keys[top]
    cdef double value = block.values[top]
    cdef Py_ssize_t below = 2 * top + 1
    while below < end:
        if below + 1 < end and block.keys[below + 1] > block.keys[below]:
            below += 1
        if block.keys[below] <= key:
            break
        block.keys[top], block.values[top] = block.keys[below], block.values[below]
        top, below = below, 2 * below + 1
    block.keys[top], block.values[top] = key, value


cdef inline void heap_sort(Block* block) noexcept nogil:
    """Sort all keys in place, in n log n steps."""
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
    """Put the keys of a block in order; those before the first one given are."""
    cdef Py_ssize_t entry, k
    cdef int32_t key
    cdef double value
    # by insertion: most visits bring no key or one that is new, those of long sequences
    # many
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
    # the arrays of all blocks, which are many and small
    cdef Arena arena
    # arrays for Python, and where kernels write to
    cdef readonly object losses_, promises_
    cdef double* losses
    cdef double* promises
    cdef public double iterate         # k, visits so far
    cdef public double loss
    cdef public Py_ssize_t oracle_calls
    # what keeps the memory alive that is pointed to
    cdef list _owned
    cdef object _scratch, _difference
    # Scratch of a visit, as long as the largest block: values of the labelings, their
    # weights before the visit, and inner products with the mixture.
    cdef Py_ssize_t scratch_capacity
    cdef double* value
    cdef double* old_weight
    cdef double* mixture
    cdef int32_t* decoded
    cdef int32_t* keys
    # where a key stands in the block, if that one has the key there
    cdef int32_t* place
    # of a mixture minus a labeling, in the order of the block's keys
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
