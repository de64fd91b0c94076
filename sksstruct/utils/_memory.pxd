# Arrays that grow, and the one convention for running out of memory: what allocates
# returns 0, or raises MemoryError through `except -1`, and never goes on without.

from libc.stdlib cimport realloc


cdef inline int resize(void** array, size_t n_bytes) except -1 nogil:
    """Give an array (NULL at first) a size; what it holds stays, as far as it fits."""
    cdef void* larger = realloc(array[0], n_bytes if n_bytes else 1)
    if larger == NULL:
        raise MemoryError()
    array[0] = larger
    return 0


cdef inline int reserve(void** array, Py_ssize_t* capacity, Py_ssize_t needed,
                        size_t item_size) except -1 nogil:
    """Make room for `needed` items, at least twice as many as before if any."""
    cdef Py_ssize_t wanted = 2 * capacity[0]
    if needed <= capacity[0]:
        return 0
    wanted = needed if needed > wanted else wanted
    resize(array, wanted * item_size)
    # only now: an interrupted growth must not leave a capacity that is not there
    capacity[0] = wanted
    return 0
