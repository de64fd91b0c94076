from libc.stdint cimport uint8_t, uint32_t

from sksstruct.inference.chains._sumproduct cimport EdgeTable


cdef class ModelFile:
    # the bytes of the file, their address and number; and addresses of its chunks
    cdef readonly bytes data
    cdef const uint8_t* _start
    cdef Py_ssize_t _size
    cdef const uint8_t* _features       # all features of the model
    cdef const uint8_t* _strings        # names of attributes; at first, of labels
    cdef const uint8_t* _references     # offset of each attribute's list of features
    cdef Py_ssize_t _n_features, _strings_size
    cdef readonly Py_ssize_t n_labels, n_attributes, ld
    # names of labels, and their numbers
    cdef readonly list labels
    cdef readonly dict numbers
    # weights of pairs of labels, from -> to, (n_labels, ld); and their exponentials,
    # which `exponentiate` computes
    cdef EdgeTable table
    cdef double* _transitions
    cdef double* _exponentials

    cdef Py_ssize_t find(self, const char* key, Py_ssize_t size) except -2
    cdef int add_weights(self, Py_ssize_t attribute, double value,
                         double* row) except -1
    cdef int exponentiate(self) except -1
    cdef Py_ssize_t _chunk(self, Py_ssize_t place, bytes name,
                           Py_ssize_t item) except -1
    cdef Py_ssize_t _database(self, Py_ssize_t place, Py_ssize_t n) except -1
    cdef int _check_string(self, Py_ssize_t place) except -1
    cdef bytes _string(self, Py_ssize_t k)
    cdef int _read_transitions(self) except -1
    cdef const uint8_t* _numbers(self, const uint8_t* reference,
                                 Py_ssize_t* count) except NULL
    cdef const uint8_t* _feature(self, Py_ssize_t k, uint32_t kind,
                                 Py_ssize_t source) except NULL
    cdef list _weights(self, Py_ssize_t offset, Py_ssize_t k, uint32_t kind)
