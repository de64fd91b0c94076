cdef class Arena:
    cdef char** _chunks
    cdef size_t* _sizes
    cdef Py_ssize_t _n_chunks
    # where the next array goes, and how many bytes are left after it
    cdef char* _next
    cdef size_t _left
    # folder of the files that chunks are in; NULL where they are in memory
    cdef bytes _folder
    cdef const char* _path

    cdef void* take(self, size_t size) except NULL nogil
    cdef int _add_chunk(self, size_t size) except -1 nogil
    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil
