cdef class Attributes:
    # a name that is formed, and room for it
    cdef char* _name
    cdef Py_ssize_t _room
    # of the item that is read
    cdef Py_ssize_t _item

    cdef int add(self, const char* name, Py_ssize_t size, double value) except -1
    cdef int end_item(self) except -1
    cdef int read(self, xseq) except -1
    cdef int _read_item(self, item, Py_ssize_t head) except -1
    cdef int _read_pair(self, name, value, Py_ssize_t head) except -1
    cdef const char* _text(self, text, Py_ssize_t* size) except NULL
    cdef int _put(self, const char* text, Py_ssize_t size, Py_ssize_t place) except -1
    cdef int _add_below(self, const char* text, Py_ssize_t size, Py_ssize_t head,
                        double value) except -1


cdef class AttributeList(Attributes):
    # names with their zeros, and where each ends; values; how many each item ends with
    cdef char* _names
    cdef Py_ssize_t* _ends
    cdef double* _values
    cdef Py_ssize_t* _item_ends
    cdef Py_ssize_t _name_room, _end_room, _value_room, _item_room
    cdef Py_ssize_t _count, _n_items

    cdef int replay(self, Attributes other) except -1
