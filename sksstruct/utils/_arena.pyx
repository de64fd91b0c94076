"""Memory for many small arrays that are freed together, with their `Arena`.

Arrays taken one after the other are adjacent in large chunks, so that visits in random
order touch few pages of memory, whatever the state of the heap. An array that
outgrows its place is copied to a new place; the old place is not reused until all
chunks are freed.

Chunks may be in files, if they are larger than memory: the system reads and writes
pages as they are used. The files have no names, and are removed with the process.
"""

import os
import tempfile

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from sksstruct.utils._memory cimport resize

from sksstruct.utils._layout import no_room


cdef extern from "sksstruct/utils/_file_memory.h" nogil:
    void* sks_file_memory(size_t size, const char* folder)
    void sks_free_file_memory(void* memory, size_t size)

# Size of a chunk in bytes: large enough that little memory is wasted at the ends of
# chunks, and small enough that a problem with a few arrays takes little memory.
cdef size_t CHUNK = 1 << 22
# Size of a cache line in bytes.
cdef size_t LINE = 64


cdef class Arena:
    """Allocator of many small arrays in large chunks, which are freed together.

    Parameters
    ----------
    on_disk : bool, default=False
        Whether to allocate in temporary files.
    """

    def __cinit__(self, bint on_disk=False):
        self._path = NULL
        if on_disk:
            self._folder = os.fsencode(tempfile.gettempdir())
            self._path = self._folder

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n_chunks):
            if self._path == NULL:
                free(self._chunks[k])
            else:
                sks_free_file_memory(self._chunks[k], self._sizes[k])
        free(self._chunks)
        free(self._sizes)

    cdef void* take(self, size_t size) except NULL nogil:
        """Return memory for size bytes that shares no cache line with other arrays."""
        cdef size_t needed = (size + LINE - 1) // LINE * LINE
        cdef char* place
        # a size of zero gets an address too, as NULL means an error
        if needed == 0:
            needed = LINE
        if needed > self._left:
            self._add_chunk(needed if needed > CHUNK else CHUNK)
        place = self._next
        self._next += needed
        self._left -= needed
        return place

    cdef int _add_chunk(self, size_t size) except -1 nogil:
        """Begin a new chunk; free bytes of the last chunk stay unused."""
        cdef char* chunk
        resize(<void**> &self._chunks, (self._n_chunks + 1) * sizeof(char*))
        resize(<void**> &self._sizes, (self._n_chunks + 1) * sizeof(size_t))
        # malloc aligns to 16 bytes: an additional line lets the first array begin on a
        # line
        self._sizes[self._n_chunks] = size + LINE
        if self._path == NULL:
            chunk = <char*> malloc(size + LINE)
            if chunk == NULL:
                raise MemoryError()
        else:
            chunk = <char*> sks_file_memory(size + LINE, self._path)
            if chunk == NULL:
                with gil:
                    raise no_room()
        # the chunk is counted only after its allocation, so that a missing chunk is
        # never freed
        self._chunks[self._n_chunks] = chunk
        self._n_chunks += 1
        self._next = chunk + (LINE - <size_t> chunk % LINE)
        self._left = size
        return 0

    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil:
        """Return memory for size bytes that begins with the old_size bytes at `old`."""
        cdef void* place = self.take(size)
        # `old` may be NULL if its size is zero
        if old_size:
            memcpy(place, old, old_size)
        return place
