cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint32_t, uint64_t


cdef struct Feature:
    # the name is `head` (NULL for none) followed by `tail`; both are of type str
    PyObject* head
    PyObject* tail
    uint64_t hash
    # the caller sets the value; `Columns.find` sets the column and may negate the value
    double value
    Py_ssize_t column


cdef struct Slot:
    # the upper half of the hash; the lower half determines the place of the slot
    uint32_t tag
    # column of the feature; -1 if the slot is free
    int32_t column
    # name of the feature, a str
    PyObject* name


cdef uint64_t hash_text(PyObject* text) noexcept
cdef uint64_t shift(uint64_t hash, Py_ssize_t length) noexcept nogil


cdef class Columns:
    cdef int find(self, Py_ssize_t count, Feature* features, bint grow) except -1


@cython.final
cdef class Vocabulary(Columns):
    cdef readonly list names
    cdef public list spellings
    cdef Slot* _slots
    cdef Py_ssize_t _capacity

    cdef Slot* _slot(self, uint64_t hash) noexcept
    cdef int _find_one(self, Feature* feature, bint grow) except -1
    cdef Py_ssize_t _add(self, const Feature* feature) except -1
    cdef int _resize(self, Py_ssize_t capacity) except -1
    cdef Slot* _free_slot(self, uint64_t hash) noexcept
