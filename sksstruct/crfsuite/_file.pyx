"""A model file of CRFsuite, of which a tagger reads the weights that sentences need.

Opening reads the labels and the transitions. The hash table of attributes is part of
the file: each attribute of a sentence is looked up in the bytes of the file, and its
weights are read from these bytes, after checks as in
`sksstruct.estimators._crfsuite_format`, which describes the file and reads all of it.
"""

cimport cython

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from sksstruct.inference.chains._sumproduct cimport exponentiate_table
from sksstruct.utils._memory cimport resize

cdef enum:
    HEADER = 48
    CHUNK = 12              # bytes of a chunk's head: name, size, number of items
    FEATURE = 20            # bytes of a feature: kind, source, label, weight
    DATABASE = 24           # bytes of the head of a database of strings
    N_TABLES = 256
    FIRST_STRING = 24 + 8 * 256
    STATE = 0
    TRANSITION = 1
    MORE_LABELS = 2         # CRFsuite counts two more labels, without features
    # Largest number of bytes of the dense table of transitions: the larger one of SMALL
    # and TIMES the size of the file, so that a small file cannot fill the memory.
    SMALL = 1 << 26
    TIMES = 16


cdef inline uint32_t number(const uint8_t* place) noexcept nogil:
    """Return a number of the file, whose bytes are little-endian on every computer."""
    return (place[0] | <uint32_t> place[1] << 8 | <uint32_t> place[2] << 16
            | <uint32_t> place[3] << 24)


cdef inline double weight(const uint8_t* place) noexcept nogil:
    """Return a weight of the file, 8 bytes in little-endian order."""
    cdef uint64_t bits = number(place) | <uint64_t> number(place + 4) << 32
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef inline uint32_t rotated(uint32_t x, int k) noexcept nogil:
    return x << k | x >> (32 - k)


cdef uint32_t hash_key(const uint8_t* key, Py_ssize_t size) noexcept nogil:
    """Return B. Jenkins' hash of a string ("lookup3", hashlittle, public domain)."""
    cdef uint32_t a, b, c
    cdef uint8_t[12] last
    a = b = c = <uint32_t> 0xDEADBEEF + <uint32_t> size
    while size > 12:
        a, b, c = a + number(key), b + number(key + 4), c + number(key + 8)
        a, c = (a - c) ^ rotated(c, 4), c + b
        b, a = (b - a) ^ rotated(a, 6), a + c
        c, b = (c - b) ^ rotated(b, 8), b + a
        a, c = (a - c) ^ rotated(c, 16), c + b
        b, a = (b - a) ^ rotated(a, 19), a + c
        c, b = (c - b) ^ rotated(b, 4), b + a
        key, size = key + 12, size - 12
    # zeros fill up the last block
    last[:] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    memcpy(last, key, size)
    a, b, c = a + number(last), b + number(last + 4), c + number(last + 8)
    c = (c ^ b) - rotated(b, 14)
    a = (a ^ c) - rotated(c, 11)
    b = (b ^ a) - rotated(a, 25)
    c = (c ^ b) - rotated(b, 16)
    a = (a ^ c) - rotated(c, 4)
    b = (b ^ a) - rotated(a, 14)
    return (c ^ b) - rotated(b, 24)


@cython.final
cdef class ModelFile:
    """The content of a model file of CRFsuite.

    Parameters
    ----------
    data : bytes
        The whole file.

    Attributes
    ----------
    labels : list of str
        Names of the labels, by number.
    numbers : dict of str to int
        Numbers of the labels.
    """

    def __cinit__(self, bytes data):
        cdef const uint8_t* start = data
        cdef Py_ssize_t size = len(data)
        self.data, self._start, self._size = data, start, size
        if size < HEADER or data[:4] != b"lCRF":
            raise ValueError("it does not begin with the header of a model of CRFsuite")
        if data[8:12] != b"FOMC" or number(start + 12) != 100:
            raise ValueError(
                "it must be a first-order chain, b'FOMC' of version 100, got "
                f"{data[8:12]!r} of version {number(start + 12)}")
        if number(start + 4) != size:
            raise ValueError(f"it should have {number(start + 4)} bytes and has {size}")
        self.n_labels, self.n_attributes = number(start + 20), number(start + 24)
        self.ld = 4 if self.n_labels <= 4 else (self.n_labels + 7) // 8 * 8
        if self.n_labels < 1:
            raise ValueError("it has no labels")
        if 8 * self.n_labels * self.ld > max(<Py_ssize_t> SMALL, TIMES * size):
            raise ValueError(
                f"a table of {self.n_labels} labels would be much larger than the "
                "file: use sksstruct.Tagger.from_crfsuite")
        self._n_features = self._chunk(28, b"FEAT", FEATURE)
        self._features = start + number(start + 28) + CHUNK
        # CRFsuite itself writes 0 features into the header
        if number(start + 16) not in (0, self._n_features):
            raise ValueError(f"the header has {number(start + 16)} features, byte 16")
        if self._chunk(44, b"AFRF", 4) != self.n_attributes:
            raise ValueError(f"AFRF is not of {self.n_attributes} attributes")
        self._references = start + number(start + 44) + CHUNK
        self._strings_size = self._database(32, self.n_labels)
        self._strings = start + number(start + 32)
        self.labels = [self._string(k).decode() for k in range(self.n_labels)]
        self.numbers = {name: k for k, name in enumerate(self.labels)}
        self._strings_size = self._database(36, self.n_attributes)
        self._strings = start + number(start + 36)
        self._read_transitions()

    def __dealloc__(self):
        free(self._transitions)
        free(self._exponentials)

    cdef Py_ssize_t _chunk(self, Py_ssize_t place, bytes name,
                           Py_ssize_t item) except -1:
        """Check the chunk whose offset is at a place of the header; count its items."""
        cdef const uint8_t* start = self._start
        cdef Py_ssize_t begin = number(start + place), size = self._size, n
        if begin + CHUNK > size or self.data[begin:begin + 4] != name:
            raise ValueError(f"{name.decode()} is not at byte {begin}")
        n = number(start + begin + 8)
        if begin + CHUNK + n * item > size:
            raise ValueError(f"{name.decode()} extends beyond the end of the file")
        return n

    cdef Py_ssize_t _database(self, Py_ssize_t place, Py_ssize_t n) except -1:
        """Check a database of n strings, and return its size."""
        cdef const uint8_t* start = self._start
        cdef Py_ssize_t begin = number(start + place), table, size
        if begin + FIRST_STRING > self._size:
            raise ValueError(f"there are no strings at byte {begin}")
        start += begin
        size = number(start + 4)
        if (start[:4] != b"CQDB" or number(start + 12) != 0x62445371
                or number(start + 16) != n or begin + size > self._size
                or number(start + 20) + 4 * n > size):
            raise ValueError(f"byte {begin} is not the head of {n} strings")
        for table in range(N_TABLES):
            place = DATABASE + 8 * table
            if (number(start + place) + 8 * <Py_ssize_t> number(start + place + 4)
                    > size):
                raise ValueError(f"a hash table is too large, byte {begin + place}")
        return size

    cdef int _check_string(self, Py_ssize_t place) except -1:
        """Raise an error if a string is empty or extends beyond its database."""
        if (place + 8 > self._strings_size
                or place + 8 + <Py_ssize_t> number(self._strings + place + 4)
                > self._strings_size or number(self._strings + place + 4) == 0):
            raise ValueError(f"a string is damaged, {place} bytes after the first one")
        return 0

    cdef bytes _string(self, Py_ssize_t k):
        """Return the bytes of string k, without the zero byte that ends it."""
        cdef const uint8_t* links = self._strings + number(self._strings + 20)
        cdef Py_ssize_t place = number(links + 4 * k)
        self._check_string(place)
        if number(self._strings + place) != k:
            raise ValueError(f"string {k} has another number")
        return self._strings[place + 8:place + 7 + number(self._strings + place + 4)]

    cdef int _read_transitions(self) except -1:
        """Allocate and fill the table of the weights of pairs of labels."""
        cdef Py_ssize_t k
        self._transitions = <double*> calloc(self.n_labels * self.ld, sizeof(double))
        if self._transitions == NULL:
            raise MemoryError()
        if self._chunk(40, b"LFRF", 4) != self.n_labels + MORE_LABELS:
            raise ValueError(f"LFRF is not of {self.n_labels} labels")
        for k in range(self.n_labels):
            for label, value in self.transitions(k):
                self._transitions[k * self.ld + <Py_ssize_t> label] = value
        self.table.scores = self._transitions
        return 0

    cdef const uint8_t* _numbers(self, const uint8_t* reference,
                                 Py_ssize_t* count) except NULL:
        """Return the feature indices of a label or attribute, and set their count."""
        cdef const uint8_t* start = self._start
        cdef Py_ssize_t place = number(reference), size = self._size
        if place + 4 > size:
            raise ValueError(f"features would be at byte {place} of {size}")
        count[0] = number(start + place)
        if place + 4 + 4 * count[0] > size:
            raise ValueError(
                f"{count[0]} features, byte {place}, extend beyond the end of the file")
        return start + place + 4

    cdef const uint8_t* _feature(self, Py_ssize_t k, uint32_t kind,
                                 Py_ssize_t source) except NULL:
        """Return a feature after checks of its kind, and of its label or attribute."""
        cdef const uint8_t* feature = self._features + FEATURE * k
        cdef double value
        if k >= self._n_features:
            raise ValueError(f"there is no feature {k} of {self._n_features}")
        value = weight(feature + 12)
        # value - value is NaN for NaN and infinity, and 0 otherwise
        if (number(feature) != kind or number(feature + 4) != source
                or number(feature + 8) >= self.n_labels or value - value != 0.0):
            raise ValueError(f"feature {k} is damaged, or has another owner")
        return feature

    cdef Py_ssize_t find(self, const char* key, Py_ssize_t size) except -2:
        """Return the number of the attribute with the name `key`, or -1.

        The name has `size` bytes, of which the last is zero.
        """
        cdef uint32_t hash = hash_key(<const uint8_t*> key, size)
        cdef const uint8_t* table = self._strings + DATABASE + 8 * (hash % N_TABLES)
        cdef const uint8_t* slots = self._strings + number(table)
        cdef uint32_t n = number(table + 4), slot, _k
        cdef Py_ssize_t place, found
        if n == 0:
            return -1
        slot = (hash >> 8) % n
        for _k in range(n):
            place = number(slots + 8 * slot + 4)
            if place == 0:
                return -1
            if number(slots + 8 * slot) == hash:
                self._check_string(place)
                if (number(self._strings + place + 4) == size
                        and memcmp(self._strings + place + 8, key, size) == 0):
                    found = number(self._strings + place)
                    if found >= self.n_attributes:
                        raise ValueError(f"there is no attribute {found}")
                    return found
            slot = slot + 1 if slot + 1 < n else 0
        return -1

    cdef int add_weights(self, Py_ssize_t attribute, double value,
                         double* row) except -1:
        """Add the weights of an attribute, times a value, to the scores of labels."""
        cdef Py_ssize_t count = 0, k
        cdef const uint8_t* numbers = self._numbers(
            self._references + 4 * attribute, &count)
        cdef const uint8_t* feature
        for k in range(count):
            feature = self._feature(number(numbers + 4 * k), STATE, attribute)
            row[number(feature + 8)] += value * weight(feature + 12)
        return 0

    cdef int exponentiate(self) except -1:
        """Compute the exponentials of the transitions, for sums over labelings."""
        cdef Py_ssize_t cells = self.n_labels * self.ld
        with cython.critical_section(self):
            if self._exponentials == NULL:
                resize(<void**> &self._exponentials, 2 * cells * sizeof(double))
                self.table.ahead = self._exponentials
                self.table.back = self._exponentials + cells
                exponentiate_table(self.n_labels, self.ld, &self.table)
        return 0

    cdef list _weights(self, Py_ssize_t offset, Py_ssize_t k, uint32_t kind):
        """Return pairs (label, weight) of the features of label or attribute k.

        The references to features begin at `offset` in the file.
        """
        cdef const uint8_t* start = self._start
        cdef const uint8_t* feature
        cdef Py_ssize_t count = 0, i
        cdef const uint8_t* numbers = self._numbers(start + offset + 4 * k, &count)
        cdef list found = []
        for i in range(count):
            feature = self._feature(number(numbers + 4 * i), kind, k)
            found.append((number(feature + 8), weight(feature + 12)))
        return found

    def transitions(self, Py_ssize_t label):
        """Return pairs of a label that follows `label`, and the weight of the two."""
        cdef const uint8_t* start = self._start
        return self._weights(number(start + 40) + CHUNK, label, TRANSITION)

    def states(self, Py_ssize_t attribute):
        """Return pairs of a label and its weight for an attribute."""
        cdef const uint8_t* start = self._start
        return self._weights(number(start + 44) + CHUNK, attribute, STATE)

    def attribute(self, Py_ssize_t k):
        """Return the name of an attribute, as bytes."""
        return self._string(k)
