cdef class Arena:
    cdef char** _chunks
    cdef size_t* _sizes
    cdef Py_ssize_t _n_chunks
    # next free byte of the last chunk, and number of free bytes from this byte on
    cdef char* _next
    cdef size_t _left
    # folder for files with chunks; NULL for chunks in memory
    cdef bytes _folder
    cdef const char* _path

    cdef void* take(self, size_t size) except NULL nogil
    cdef int _add_chunk(self, size_t size) except -1 nogil
    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil
