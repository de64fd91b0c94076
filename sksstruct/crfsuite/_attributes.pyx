"""Items of a sentence as the attributes of CRFsuite, with python-crfsuite's names.

`Attributes.read` reads a sentence once, and passes each attribute to `add` as bytes.
The subclass `AttributeList` stores attributes, and `Scores` adds their weights.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble
from libc.stdlib cimport free
from libc.string cimport memcpy

from sksstruct.utils._memory cimport reserve
from sksstruct.utils._recursion cimport enter_recursion, leave_recursion

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


cdef class Attributes:
    """Base class that reads the attributes of the items of a sentence."""

    def __dealloc__(self):
        free(self._name)

    cdef int add(self, const char* name, Py_ssize_t size, double value) except -1:
        """Add an attribute; its name has `size` bytes, including a zero at the end."""
        raise NotImplementedError

    cdef int end_item(self) except -1:
        """End the present item: all of its attributes have been added."""
        raise NotImplementedError

    cdef int read(self, xseq) except -1:
        """Add the attributes of all items of a sentence."""
        if isinstance(xseq, AttributeList):
            return (<AttributeList> xseq).replay(self)
        if isinstance(xseq, (str, bytes, dict)):
            raise ValueError(
                f"xseq is a single {type(xseq).__name__}: a sentence is a list of "
                "items, each a dict or a list of strings")
        self._item = 0
        for item in xseq:
            self._read_item(item, 0)
            self.end_item()
            self._item += 1
        return 0

    cdef int _read_item(self, item, Py_ssize_t head) except -1:
        """Add the attributes of an item, or of a value that is itself an item.

        In the second case the first `head` bytes of the buffer are the name of the
        value, and a separator.
        """
        cdef const char* text
        cdef Py_ssize_t size = 0
        if isinstance(item, dict):
            for name, value in (<dict> item).items():
                self._read_pair(name, value, head)
            return 0
        if isinstance(item, (str, bytes)):
            raise ValueError(
                f"xseq[{self._item}] is a single {type(item).__name__}: an item is a "
                "dict or a list of strings")
        for name in item:
            text = self._text(name, &size)
            self._add_below(text, size, head, 1.0)
        return 0

    cdef int _read_pair(self, name, value, Py_ssize_t head) except -1:
        """Add the attributes of a name and a value of a dict."""
        cdef const char* text
        cdef Py_ssize_t size = 0, below
        cdef double number
        text = self._text(name, &size)
        if isinstance(value, (str, bytes)):
            below = head + size + 1
            self._put(text, size, head)
            text = self._text(value, &size)
            return self._add_below(text, size, below, 1.0)
        if isinstance(value, (dict, list, set)):
            self._put(text, size, head)
            # a dict may contain itself
            enter_recursion(" while reading items")
            try:
                self._read_item(value, head + size + 1)
            finally:
                leave_recursion()
            return 0
        number = PyFloat_AsDouble(value)
        # the difference is NaN for NaN and infinity, and 0 otherwise
        if number - number != 0.0:
            raise ValueError(f"xseq[{self._item}] contains NaN or infinity: "
                             f"{name!r:.80}")
        return self._add_below(text, size, head, number)

    cdef const char* _text(self, text, Py_ssize_t* size) except NULL:
        """Return the bytes of a string, which have a zero at their end."""
        if isinstance(text, str):
            return PyUnicode_AsUTF8AndSize(text, size)
        if isinstance(text, bytes):
            size[0] = PyBytes_GET_SIZE(text)
            return PyBytes_AS_STRING(text)
        raise ValueError(
            f"xseq[{self._item}] has a name that is no string: {text!r:.80}")

    cdef int _put(self, const char* text, Py_ssize_t size, Py_ssize_t place) except -1:
        """Write a part of a name, and a separator, to a place of the buffer."""
        reserve(<void**> &self._name, &self._room, place + size + 1, 1)
        memcpy(self._name + place, text, size)
        self._name[place + size] = c":"
        return 0

    cdef int _add_below(self, const char* text, Py_ssize_t size, Py_ssize_t head,
                        double value) except -1:
        """Add an attribute, whose name begins with `head` bytes of the buffer."""
        if head == 0:
            return self.add(text, size + 1, value)
        self._put(text, size, head)
        # the name ends with a zero in place of the separator
        self._name[head + size] = 0
        return self.add(self._name, head + size + 1, value)


cdef class AttributeList(Attributes):
    """Stored attributes of a sentence.

    Parameters
    ----------
    xseq : iterable of items
        The sentence.
    """

    def __init__(self, xseq):
        self._count = self._n_items = 0
        self.read(xseq)

    def __dealloc__(self):
        free(self._names)
        free(self._ends)
        free(self._values)
        free(self._item_ends)

    def __len__(self):
        return self._n_items

    cdef int add(self, const char* name, Py_ssize_t size, double value) except -1:
        cdef Py_ssize_t begin = self._ends[self._count - 1] if self._count else 0
        reserve(<void**> &self._names, &self._name_room, begin + size, 1)
        reserve(<void**> &self._ends, &self._end_room, self._count + 1,
                sizeof(Py_ssize_t))
        reserve(<void**> &self._values, &self._value_room, self._count + 1,
                sizeof(double))
        memcpy(self._names + begin, name, size)
        self._ends[self._count], self._values[self._count] = begin + size, value
        self._count += 1
        return 0

    cdef int end_item(self) except -1:
        reserve(<void**> &self._item_ends, &self._item_room, self._n_items + 1,
                sizeof(Py_ssize_t))
        self._item_ends[self._n_items] = self._count
        self._n_items += 1
        return 0

    cdef int replay(self, Attributes other) except -1:
        """Pass all attributes to another reader."""
        cdef Py_ssize_t item, k = 0, begin = 0
        for item in range(self._n_items):
            while k < self._item_ends[item]:
                other.add(self._names + begin, self._ends[k] - begin, self._values[k])
                begin, k = self._ends[k], k + 1
            other.end_item()
        return 0

    def _pairs(self):
        """Return a list of pairs of a name and a value for each item."""
        cdef Py_ssize_t item, k = 0, begin = 0
        cdef list found = []
        for item in range(self._n_items):
            found.append([])
            while k < self._item_ends[item]:
                # the name without the zero at its end
                name = self._names[begin:self._ends[k] - 1]
                found[item].append((name.decode(), self._values[k]))
                begin, k = self._ends[k], k + 1
        return found
