cdef class Attributes:
    # buffer for a name that is joined from parts, and the size of the buffer
    cdef char* _name
    cdef Py_ssize_t _room
    # number of the current item
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
    # the names of all attributes in one text, each with a zero at its end; the end of
    # each name; the value of each attribute; and for each item, the number of
    # attributes of all items up to it
    cdef char* _names
    cdef Py_ssize_t* _ends
    cdef double* _values
    cdef Py_ssize_t* _item_ends
    cdef Py_ssize_t _name_room, _end_room, _value_room, _item_room
    cdef Py_ssize_t _count, _n_items

    cdef int replay(self, Attributes other) except -1
