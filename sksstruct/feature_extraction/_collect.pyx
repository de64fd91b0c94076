"""The loop of vectorizers over sequences, positions and features.

Every position becomes a row of a CSR array; `offsets` has the row at which each
sequence begins. `Columns` maps features to columns. Data flow: items of a position ->
list of `Feature` (strings and values) -> columns -> CSR rows.

The `Collector` lists the features of several positions before it looks up all their
columns in one call, because `_vocabulary.pyx` prefetches the slots of later features.
"""

cimport cython

from collections.abc import Iterable, Mapping

import numpy as np

from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AsDouble
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport free

from sksstruct.feature_extraction._rows cimport Rows
from sksstruct.feature_extraction._vocabulary cimport (
    Columns, Feature, Vocabulary, hash_text, shift,
)
from sksstruct.utils._memory cimport reserve
from sksstruct.utils._recursion cimport enter_recursion, leave_recursion
from sksstruct.utils._simd cimport sks_prefetch

cdef extern from "Python.h":
    # returns a borrowed reference; the version of `cpython.list` makes an owned object
    PyObject* PyList_GET_ITEM(list items, Py_ssize_t k)


cdef enum:
    # number of features that are looked up in one call: few enough for the caches, and
    # enough for prefetching
    ENOUGH = 512
    # initial capacity of the list of positions
    FEW = 64
    # binary logarithm of the size, and size, of the cache of prefixes by the address of
    # their name
    RECENT_BITS = 7
    RECENT = 128


# separator of names in the Python bindings of CRFsuite
cdef str CRFSUITE = ":"


cdef inline int ask_for_strings(list positions, Py_ssize_t t) except -1:
    """Prefetch the strings of position `t`, if it exists and is a list."""
    cdef Py_ssize_t k
    if t < PyList_GET_SIZE(positions):
        features = positions[t]
        if type(features) is list:
            for k in range(PyList_GET_SIZE(features)):
                sks_prefetch(PyList_GET_ITEM(<list> features, k), 80)
    return 0


@cython.final
cdef class Prefix:
    """A name followed by the separator, and its hash: the head of joined features."""

    cdef str text
    cdef uint64_t hash
    cdef Py_ssize_t length

    def __cinit__(self, str text):
        self.text, self.length = text, len(text)
        self.hash = hash_text(<PyObject*> text)


@cython.final
cdef class Collector:
    """Collects the features of positions as rows of a CSR array.

    Parameters
    ----------
    columns : Columns
        Columns of features.
    grow : bool
        Whether unknown features get a column; otherwise they are left out.
    separator : str
        Separates a name from a string or a name that is nested in it.
    single : bool
        Whether values are float32.
    """

    cdef Rows rows
    cdef Columns columns
    cdef bint grow
    cdef str separator
    # `Prefix` of each name, so that a name is joined with the separator once
    cdef dict prefixes
    # For each nested name, the set of its spellings in CRFsuite. Spellings are noted
    # (`noting`) only while features are learned with a separator other than that of
    # CRFsuite. `plain`: whether a feature without a head (see `Feature`) may have the
    # separator in its name.
    cdef dict below
    cdef bint noting, plain
    # nesting depth of dicts
    cdef int depth
    # cache of prefixes by the address of the name, which is mostly the same object in
    # all dicts; `recent` holds name and prefix alternately, and keeps both alive
    cdef list recent
    cdef PyObject* recent_names[RECENT]
    # listed features, whose tails are owned references; the features of the k-th listed
    # position end before ends[k]
    cdef Feature* features
    cdef Py_ssize_t* ends
    cdef Py_ssize_t count, capacity, n_ends, end_capacity
    # indices of the current sequence and position, for error messages
    cdef Py_ssize_t sequence, position
    # number of features without a head [0] and with a head [1], and how many of each of
    # these two kinds have a column
    cdef Py_ssize_t n_features[2]
    cdef Py_ssize_t n_known[2]

    def __init__(self, Columns columns, bint grow, str separator, bint single):
        cdef int k
        self.columns, self.grow, self.separator = columns, grow, separator
        self.rows, self.prefixes, self.below = Rows(single), {}, {}
        self.noting, self.plain, self.depth = grow and separator != CRFSUITE, False, 0
        for k in range(2):
            self.n_features[k] = self.n_known[k] = 0
        self.recent = [None] * (2 * RECENT)
        # room for a typical sentence, so that the arrays are rarely reallocated
        reserve(<void**> &self.features, &self.capacity, ENOUGH, sizeof(Feature))
        reserve(<void**> &self.ends, &self.end_capacity, FEW, sizeof(Py_ssize_t))

    def __dealloc__(self):
        self.release()
        free(self.features)
        free(self.ends)

    cdef int add_sequence(self, positions) except -1:
        """List the features of the positions of a sequence; a position gets a row."""
        # A string or a dict as a sequence is an error: the user forgot the list around
        # it. All other iterables are sequences.
        if type(positions) is not list and (
                isinstance(positions, (str, bytes, Mapping))
                or not isinstance(positions, Iterable)):
            raise TypeError(
                f"X[{self.sequence}] is a single {type(positions).__name__}: a "
                "sequence is a list of dicts or of lists of strings; for one sequence "
                "pass [X]")
        self.position = 0
        for features in positions:
            if type(positions) is list:
                ask_for_strings(<list> positions, self.position + 1)
            self.list_position(features)
            reserve(<void**> &self.ends, &self.end_capacity, self.n_ends + 1,
                    sizeof(Py_ssize_t))
            self.ends[self.n_ends] = self.count
            self.n_ends += 1
            if self.count >= ENOUGH:
                self.add_rows()
            self.position += 1
        return 0

    cdef int add_rows(self) except -1:
        """Look up the listed features, append the rows, and clear the list."""
        cdef Py_ssize_t k, first = 0, count = self.count
        cdef bint joined
        self.columns.find(count, self.features, self.grow)
        for k in range(count):
            joined = self.features[k].head != NULL
            self.n_features[joined] += 1
            self.n_known[joined] += self.features[k].column >= 0
        self.release()
        for k in range(self.n_ends):
            self.rows.add(self.ends[k] - first, self.features + first)
            first = self.ends[k]
        self.n_ends = 0
        return 0

    cdef void release(self) noexcept:
        """Release the tails of the listed features."""
        cdef Py_ssize_t k
        # heads belong to `prefixes`
        for k in range(self.count):
            Py_DECREF(<object> self.features[k].tail)
        self.count = 0

    # ---- listing the features of a position ----

    cdef int list_position(self, features) except -1:
        """Add the features of a position to the list of features to look up."""
        # exact types first: isinstance(..., Mapping) searches the registry of the ABC
        if type(features) is dict:
            for name, item in (<dict> features).items():
                self.list_item(name, item)
        elif type(features) is list:
            self.list_strings(None, features)
        elif isinstance(features, Mapping):
            for name, item in features.items():
                self.list_item(name, item)
        elif isinstance(features, (str, bytes)) or not isinstance(features, Iterable):
            raise TypeError(
                f"X[{self.sequence}] has a single {type(features).__name__} at "
                f"position {self.position}: the features of a position are a dict "
                "or a list of strings, such as ['word=he']")
        else:
            self.list_strings(None, features)
        return 0

    cdef inline int list_feature(self, Prefix prefix, tail, double value) except -1:
        """Add the feature of a prefix and a tail to the list of features to look up."""
        cdef Feature* feature
        reserve(<void**> &self.features, &self.capacity, self.count + 1,
                sizeof(Feature))
        feature = self.features + self.count
        feature.tail, feature.value = <PyObject*> tail, value
        feature.hash = hash_text(feature.tail)
        feature.head = NULL
        if prefix is not None:
            feature.head = <PyObject*> prefix.text
            feature.hash = prefix.hash + shift(feature.hash, prefix.length)
        # the caller may drop the string before the look-up
        Py_INCREF(tail)
        self.count += 1
        return 0

    cdef inline int list_item(self, name, item) except -1:
        """List the features that a name and a value of a dict form."""
        # fast path: most values have exactly these types
        if type(item) is str:
            self.list_feature(self.prefix(name), item, 1.0)
        elif type(item) is float and type(name) is str:
            self.list_number(name, item)
        else:
            self.list_other(name, item)
        return 0

    cdef int list_other(self, name, item) except -1:
        """List the features that a name and a value of any type form."""
        if isinstance(item, str):
            self.list_feature(self.prefix(name), item, 1.0)
        elif isinstance(item, (list, tuple, set, frozenset)):
            self.list_strings(self.prefix(name), item)
        # exclude numbers first: isinstance(..., Mapping) searches the ABC's registry
        elif not isinstance(item, (int, float)) and isinstance(item, Mapping):
            self.list_below(name, item)
        else:
            self.check_name(name)
            self.list_number(name, item)
        return 0

    cdef inline int list_number(self, name, item) except -1:
        """List a feature whose value is a number."""
        if self.noting and not self.plain and not self.depth:
            self.plain = self.separator in name
        return self.list_feature(None, name, self.check_value(name, item))

    cdef int list_below(self, name, features) except -1:
        """List the features of a dict that is the value of a name."""
        self.check_name(name)
        # a dict may hold itself
        enter_recursion(" while reading features")
        try:
            for below, item in features.items():
                self.check_name(below)
                child = f"{name}{self.separator}{below}"
                if self.noting:
                    self.note_below(name, below, child, item)
                self.depth += 1
                self.list_item(child, item)
                self.depth -= 1
        finally:
            leave_recursion()
        return 0

    cdef int note_below(self, name, below, child, item) except -1:
        """Note the spellings of a nested name in CRFsuite."""
        if not self.depth and name in self.below:
            self.below[name].add(name)
        if isinstance(item, (int, float)) or not isinstance(
                item, (str, list, tuple, set, frozenset, Mapping)):
            # a number: the feature is `child` itself, which begins with the prefix of
            # `name`
            self.prefix(name)
            return 0
        spelled = self.below.get(child)
        if spelled is None:
            # a prefix that exists already is that of a name that is not nested
            spelled = self.below[child] = {child} if child in self.prefixes else set()
        # a list, not a generator: with an empty separator `child` and `name` may be
        # equal, and the set would change while it is read
        spelled.update([f"{other}{CRFSUITE}{below}"
                        for other in self.below.get(name, (name,))])
        return 0

    cdef int list_strings(self, Prefix prefix, strings) except -1:
        """List features that are strings, with value 1."""
        self.plain |= prefix is None
        # the order of a set may differ between processes, and the order of columns must
        # not
        if isinstance(strings, (set, frozenset)):
            strings = sorted(strings, key=str)
        for feature in strings:
            if type(feature) is not str and not isinstance(feature, str):
                below = "" if prefix is None else f" below {prefix.text!r:.80}"
                raise TypeError(
                    f"X[{self.sequence}] has a feature that is not a string at "
                    f"position {self.position}{below}: {feature!r:.80}")
            self.list_feature(prefix, feature, 1.0)
        return 0

    cdef inline Prefix prefix(self, name):
        """Return the prefix of a name."""
        # Fibonacci hashing of the address: the product mixes all bits
        cdef Py_ssize_t place = (
            <uint64_t> <size_t> <PyObject*> name * <uint64_t> 0x9E3779B97F4A7C15
        ) >> (64 - RECENT_BITS)
        if self.recent_names[place] == <PyObject*> name:
            return <Prefix> PyList_GET_ITEM(self.recent, 2 * place + 1)
        return self.prefix_of_other(name, place)

    cdef Prefix prefix_of_other(self, name, Py_ssize_t place):
        """Return the prefix of a name that is not in the cache, and cache it."""
        cdef PyObject* existing = PyDict_GetItemWithError(self.prefixes, name)
        if existing == NULL:
            # only new names are checked, as names in `prefixes` have been checked
            self.check_name(name)
            prefix = self.prefixes[name] = Prefix(f"{name}{self.separator}")
        else:
            prefix = <object> existing
        if self.below and not self.depth and name in self.below:
            self.below[name].add(name)
        self.recent[2 * place], self.recent[2 * place + 1] = name, prefix
        self.recent_names[place] = <PyObject*> name
        return prefix

    def spellings(self):
        """Return pairs of the head of a feature and its spelling in CRFsuite."""
        joined = {(f"{name}{self.separator}", f"{spelled}{CRFSUITE}")
                  for name in self.prefixes
                  for spelled in self.below.get(name, (name,))}
        return sorted(joined | {("", "")} if self.plain else joined)

    cdef int check_name(self, name) except -1:
        """Refuse names that are not strings."""
        if not isinstance(name, str):
            raise TypeError(
                f"X[{self.sequence}] has a feature name that is not a string at "
                f"position {self.position}: {name!r:.80}")
        return 0

    cdef double check_value(self, name, item) except? -1:
        """Return a value as a finite number."""
        cdef double value
        # every object with __float__ is a number, including bools
        try:
            value = PyFloat_AsDouble(item)
        except TypeError:
            raise TypeError(
                f"X[{self.sequence}] has a value that is neither a number nor a "
                f"string, list or dict at position {self.position}: {name!r:.80}: "
                f"{item!r:.80}") from None
        except OverflowError:
            value = float("inf")
        # true only for NaN and infinity
        if value - value != 0.0:
            raise ValueError(
                f"X[{self.sequence}] contains NaN or infinity at position "
                f"{self.position}: {name!r:.80}")
        return value


def collect(X, Columns columns, bint grow, str separator, bint single):
    """Return CSR arrays (data, indices, indptr) and offsets of sequences of features.

    Features without a column get one if grow is true; otherwise they are left out. The
    last result is the pair `n_features` and `n_known` of `Collector`.
    """
    cdef Collector collector = Collector(columns, grow, separator, single)
    cdef list offsets = [0]
    cdef Py_ssize_t n_rows = 0
    # X and its sequences may be generators: len() is never called on them
    for sequence, positions in enumerate(X):
        collector.sequence = sequence
        collector.add_sequence(positions)
        n_rows += collector.position
        offsets.append(n_rows)
    collector.add_rows()
    if collector.noting:
        (<Vocabulary?> columns).spellings = collector.spellings()
    counts = collector.n_features, collector.n_known
    return *collector.rows.arrays(), np.array(offsets, dtype=np.intp), counts
