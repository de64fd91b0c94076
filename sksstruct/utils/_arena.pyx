"""Memory for many small arrays that live as long as their owner.

Arrays taken one after the other lie one after the other in large chunks: few pages to
translate when they are visited in random order, whatever the heap looks like. What
outgrows its place is copied to a new one; the old place is given up until the owner
goes, and with it all chunks.

Chunks may be in files, where there are more of them than memory has room for: the
system reads and writes them as they are used. The files have no names, and are gone
with the process.
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

# Large enough that few arrays are at the ends of chunks, where a rest is wasted, and
# small enough that a problem of a few arrays does not cost much.
cdef size_t CHUNK = 1 << 22
# A cache line, in bytes.
cdef size_t LINE = 64


cdef class Arena:
    """Memory for arrays.

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
        """Memory for size bytes, on cache lines of its own."""
        cdef size_t needed = (size + LINE - 1) // LINE * LINE
        cdef char* place
        # even nothing gets a place of its own: NULL means an error
        if needed == 0:
            needed = LINE
        if needed > self._left:
            self._add_chunk(needed if needed > CHUNK else CHUNK)
        place = self._next
        self._next += needed
        self._left -= needed
        return place

    cdef int _add_chunk(self, size_t size) except -1 nogil:
        """Go on in a new chunk; what is left of the last one is not used."""
        cdef char* chunk
        resize(<void**> &self._chunks, (self._n_chunks + 1) * sizeof(char*))
        resize(<void**> &self._sizes, (self._n_chunks + 1) * sizeof(size_t))
        # malloc aligns to 16 bytes: one line more is for the first to begin on one
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
        # only now: a chunk that could not be had must not be freed
        self._chunks[self._n_chunks] = chunk
        self._n_chunks += 1
        self._next = chunk + (LINE - <size_t> chunk % LINE)
        self._left = size
        return 0

    cdef void* grow(self, const void* old, size_t old_size,
                    size_t size) except NULL nogil:
        """Memory for size bytes that begins with the old_size bytes at old."""
        cdef void* place = self.take(size)
        # old may be NULL where there is nothing to copy
        if old_size:
            memcpy(place, old, old_size)
        return place
