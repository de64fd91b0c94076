# Arrays that grow, and the convention for running out of memory: functions that
# allocate return 0, or raise MemoryError through `except -1`.

from libc.stdlib cimport realloc


cdef inline int resize(void** array, size_t n_bytes) except -1 nogil:
    """Resize an array (initially NULL), keeping the contents as far as they fit."""
    cdef void* larger = realloc(array[0], n_bytes if n_bytes else 1)
    if larger == NULL:
        raise MemoryError()
    array[0] = larger
    return 0


cdef inline int reserve(void** array, Py_ssize_t* capacity, Py_ssize_t needed,
                        size_t item_size) except -1 nogil:
    """Make room for `needed` items, by doubling at least if the array must grow."""
    cdef Py_ssize_t new_capacity = 2 * capacity[0]
    if needed <= capacity[0]:
        return 0
    new_capacity = needed if needed > new_capacity else new_capacity
    resize(array, new_capacity * item_size)
    # set last, so that a failed growth does not leave a wrong capacity
    capacity[0] = new_capacity
    return 0
