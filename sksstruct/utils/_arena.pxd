cdef class Arena:
    cdef char** _chunks
    cdef Py_ssize_t _n_chunks
    # where the next array goes, and how many bytes are left after it
    cdef char* _next
    cdef size_t _left

    cdef void* take(self, size_t size) except NULL nogil
    cdef int _add_chunk(self, size_t size) except -1 nogil
    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil
