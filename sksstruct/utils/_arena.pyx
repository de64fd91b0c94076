"""Memory for many small arrays that live as long as their owner.

Arrays taken one after the other lie one after the other in large chunks: few pages to
translate when they are visited in random order, whatever the heap looks like. What
outgrows its place is copied to a new one; the old place is given up.
"""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

cdef size_t CHUNK = 1 << 22
cdef size_t LINE = 64


cdef class Arena:
    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n_chunks):
            free(self._chunks[k])
        free(self._chunks)

    cdef void* take(self, size_t size) except NULL nogil:
        """Room for size bytes, on a cache line of its own."""
        cdef size_t need = (size + LINE - 1) // LINE * LINE
        cdef size_t shift
        cdef char* place
        cdef char** chunks
        if need == 0:
            need = LINE
        if need > self._left:
            chunks = <char**> realloc(
                self._chunks, (self._n_chunks + 1) * sizeof(char*))
            if chunks == NULL:
                with gil:
                    raise MemoryError()
            self._chunks = chunks
            place = <char*> malloc((need if need > CHUNK else CHUNK) + LINE)
            if place == NULL:
                with gil:
                    raise MemoryError()
            self._chunks[self._n_chunks] = place
            self._n_chunks += 1
            shift = LINE - (<size_t> place) % LINE
            self._next = place + shift
            self._left = need if need > CHUNK else CHUNK
        place = self._next
        self._next += need
        self._left -= need
        return place

    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil:
        """Room for size bytes that begins with the old_size bytes at old."""
        cdef void* place = self.take(size)
        if old_size:
            memcpy(place, old, old_size)
        return place
