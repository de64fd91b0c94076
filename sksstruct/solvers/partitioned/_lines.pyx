"""Sparse vectors in lines of eight entries: kernels that find, store and add changes.

A vector is divided into lines of eight entries, a cache line of the processor; the last
line may be shorter. A sparse vector consists of the numbers of its nonzero lines,
ascending, an eight-bit mask for each line, and the entries. A visit of an example
changes a few labels of many features: whole rows over all labels would have several
times as many entries.

Lines are read in ascending order but lie apart, so that kernels prefetch lines. Squared
norms are summed in four lanes, entry k in lane k modulo 4, so that zeros which one form
of a vector stores and another omits do not change the result.

`lines.py` allocates the arrays that are written.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_uint8s, doubles, int32s, uint8s,
)
from sksstruct.utils._simd cimport sks_prefetch

cdef enum:
    LINE = 8
    LANES = 4
    # Mask of a line with all entries. Such lines are copied without a loop over bits;
    # they are common in gradients of smooth losses, which change all labels.
    FULL = 255
    # Lines are prefetched this number of lines before they are read.
    AHEAD = 8

# For each mask: the number of the lowest set bit, and how many bits are set.
cdef unsigned char[256] LOWEST
cdef unsigned char[256] BITS


cdef void _fill_tables() noexcept:
    """Fill the tables `LOWEST` and `BITS`."""
    cdef int mask, k
    LOWEST[0] = BITS[0] = 0
    for mask in range(1, 256):
        k = 0
        while not mask >> k & 1:
            k += 1
        LOWEST[mask] = k
        BITS[mask] = BITS[mask & mask - 1] + 1


_fill_tables()


# ---- one line ----

cdef inline Py_ssize_t _place(int32_t line) noexcept nogil:
    """Return the number of the first entry of a line."""
    return <Py_ssize_t> line * LINE


cdef inline const double* _scatter_line(unsigned int mask, const double* values,
                                        double* line) noexcept nogil:
    """Write packed entries to their places in a line; return the next line's entries.

    `mask` has the places of the entries `values`.
    """
    cdef Py_ssize_t k
    if mask == FULL:
        for k in range(LINE):
            line[k] = values[k]
        return values + LINE
    while mask:
        line[LOWEST[mask]] = values[0]
        values += 1
        mask &= mask - 1
    return values


cdef inline double* _append_line(unsigned int mask, const double* line,
                                 double* values) noexcept nogil:
    """Append a line's entries under `mask` to `values`; return the next address."""
    cdef Py_ssize_t k
    if mask == FULL:
        for k in range(LINE):
            values[k] = line[k]
        return values + LINE
    while mask:
        values[0] = line[LOWEST[mask]]
        values += 1
        mask &= mask - 1
    return values


cdef inline double _sum_lanes(const double* lanes) noexcept nogil:
    """Return the sum of all lanes."""
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


# ---- two sparse vectors, line by line ----

cdef struct Reader:
    # numbers, masks and entries of the lines of a sparse vector that have not been read
    # yet
    const int32_t* lines
    const unsigned char* masks
    const double* values
    Py_ssize_t n_lines


cdef Reader _reader(arrays) except *:
    """Return a reader of the lines, masks and entries of a sparse vector."""
    cdef Reader reader
    lines, masks, values = arrays
    reader.lines, reader.masks = const_int32s(lines), const_uint8s(masks)
    reader.values, reader.n_lines = const_doubles(values), len(lines)
    return reader


cdef inline void _next_line(Reader* reader) noexcept nogil:
    """Move the reader's lines and masks to the next line; the caller moves `values`."""
    reader.lines += 1
    reader.masks += 1
    reader.n_lines -= 1


cdef inline unsigned int _next_sum(Reader* first, Reader* second, Py_ssize_t* number,
                                   double* line) noexcept nogil:
    """Read the next line of the sum of two vectors.

    Entries are written to their places in `line`, entries of the second vector added to
    entries of the first. Returns the mask; at least one vector must have lines left.
    """
    cdef unsigned int mask = 0, other, common
    cdef Py_ssize_t k
    cdef bint in_first = first.n_lines > 0, in_second = second.n_lines > 0
    if in_first and in_second:
        in_first = first.lines[0] <= second.lines[0]
        in_second = second.lines[0] <= first.lines[0]
    if in_first:
        number[0], mask = first.lines[0], first.masks[0]
        first.values = _scatter_line(mask, first.values, line)
        _next_line(first)
    if in_second:
        number[0], other = second.lines[0], second.masks[0]
        common = mask & other
        mask |= other
        if common == FULL:
            for k in range(LINE):
                line[k] += second.values[k]
            second.values += LINE
            other = 0
        while other:
            if common >> LOWEST[other] & 1:
                line[LOWEST[other]] += second.values[0]
            else:
                line[LOWEST[other]] = second.values[0]
            second.values += 1
            other &= other - 1
        _next_line(second)
    return mask


def merge(first, second, lines_, masks_, values_):
    """Write the sum of two sparse vectors; return its numbers of lines and entries."""
    cdef Reader one = _reader(first), two = _reader(second)
    cdef int32_t* lines = int32s(lines_)
    cdef unsigned char* masks = uint8s(masks_)
    cdef double* values = doubles(values_)
    cdef double* out = values
    cdef Py_ssize_t n = 0, number = 0
    cdef unsigned int mask
    cdef double[LINE] line
    with nogil:
        while one.n_lines or two.n_lines:
            mask = _next_sum(&one, &two, &number, line)
            lines[n], masks[n] = number, mask
            n += 1
            out = _append_line(mask, line, out)
    return n, out - values


cdef inline void add_line(const double* change, double* out, double* squares,
                          double* rise) noexcept nogil:
    """Add the changes of a line to `out`, and their squares to the lanes `squares`.

    The increases of the squares of the entries of `out` are added to the lanes `rise`.
    """
    cdef Py_ssize_t first, j
    for first in range(0, 8, 4):
        for j in range(LANES):
            squares[j] += change[first + j] * change[first + j]
            # the rise is computed from the change, as differences of sums over all
            # weights are inaccurate
            rise[j] += change[first + j] * (2.0 * out[first + j] + change[first + j])
            out[first + j] += change[first + j]


def add_terms(vector_, first, second, other, double factor, lines_, masks_):
    """Add two sparse vectors to a vector, and `factor` times their sum to `other`.

    Writes the lines and masks of the sum. Returns the number of lines, the squared norm
    of the sum, and the increase of the squared norm of the vector.
    """
    cdef Reader one = _reader(first), two = _reader(second)
    cdef double* vector = doubles(vector_)
    cdef double* out_other = NULL if other is None else doubles(other)
    cdef int32_t* lines = int32s(lines_)
    cdef unsigned char* masks = uint8s(masks_)
    cdef Py_ssize_t n = 0, number = 0, k, place
    cdef unsigned int mask
    cdef double change
    cdef double[LINE] line
    cdef double[LANES] squares, rise
    with nogil:
        for k in range(LANES):
            squares[k] = rise[k] = 0.0
        while one.n_lines or two.n_lines:
            if one.n_lines > AHEAD:
                place = _place(one.lines[AHEAD])
                sks_prefetch(&vector[place], sizeof(double))
                if out_other != NULL:
                    sks_prefetch(out_other + place, sizeof(double))
            # the two changes are summed first, so that the result is bitwise equal to
            # adding the sum from `merge`
            mask = _next_sum(&one, &two, &number, line)
            lines[n], masks[n] = number, mask
            n += 1
            if mask == FULL:
                place = number * LINE
                add_line(line, &vector[place], squares, rise)
                if out_other != NULL:
                    for k in range(LINE):
                        out_other[place + k] += factor * line[k]
                continue
            while mask:
                k = LOWEST[mask]
                mask &= mask - 1
                change, place = line[k], number * LINE + k
                squares[k % LANES] += change * change
                rise[k % LANES] += change * (2.0 * vector[place] + change)
                vector[place] += change
                if out_other != NULL:
                    out_other[place] += factor * change
    return n, _sum_lanes(squares), _sum_lanes(rise)


def add_dense(vector_, change_, other, double factor):
    """Add a dense change to a vector, and `factor` times the change to `other`.

    Returns
    -------
    squares, risen : float
        As in `add_terms`, with bitwise equal values.
    """
    cdef double* vector = doubles(vector_)
    cdef const double* change = const_doubles(change_)
    cdef double* out_other = NULL if other is None else doubles(other)
    cdef Py_ssize_t size = len(vector_), whole = size - size % LINE, k, j
    cdef double[LANES] squares, rise
    with nogil:
        for j in range(LANES):
            squares[j] = rise[j] = 0.0
        for k in range(0, whole, 8):
            add_line(&change[k], &vector[k], squares, rise)
        for k in range(whole, size):
            squares[k % LANES] += change[k] * change[k]
            rise[k % LANES] += change[k] * (2.0 * vector[k] + change[k])
            vector[k] += change[k]
        if out_other != NULL:
            for k in range(size):
                out_other[k] += factor * change[k]
    return _sum_lanes(squares), _sum_lanes(rise)


# ---- dense vectors and sparse ones ----

def count_marks(marks_):
    """Return the number of marked rows."""
    cdef const unsigned char* marks = const_uint8s(marks_)
    cdef Py_ssize_t n_marks = len(marks_), n = 0, r
    with nogil:
        for r in range(n_marks):
            n += marks[r]
    return n


cdef inline unsigned int _take_line(double* changed, const double* before,
                                    double factor, Py_ssize_t n_rest,
                                    double* line) noexcept nogil:
    """Write `factor` times the changes of a line to `line`, and undo the changes.

    Returns the mask of changed entries. The vector ends `n_rest` entries after the
    start of the line.
    """
    cdef unsigned int mask = 0
    cdef double change
    cdef Py_ssize_t k
    for k in range(LINE):
        if k < n_rest:
            change = changed[k] - before[k]
            line[k] = factor * change
            mask |= <unsigned int> (change != 0.0) << k
            changed[k] = before[k]
    return mask


def take_back(vector_, origin_, marks_, double factor, Py_ssize_t width, rows_, lines_,
              masks_, values_):
    """Write `factor` times (vector - origin) in sparse form; reset vector and marks.

    The vector and its origin differ only in lines that overlap with marked rows. The
    numbers of these rows are written as well. Returns the numbers of lines and entries.
    """
    cdef double* vector = doubles(vector_)
    cdef const double* origin = const_doubles(origin_)
    cdef unsigned char* marks = uint8s(marks_)
    cdef int32_t* rows = int32s(rows_)
    cdef int32_t* lines = int32s(lines_)
    cdef unsigned char* masks = uint8s(masks_)
    cdef double* values = doubles(values_)
    cdef double* out = values
    cdef Py_ssize_t n_marks = len(marks_), n_rows = 0, size = len(vector_)
    cdef Py_ssize_t r, place, end, last = -1, n = 0
    cdef unsigned int mask
    cdef double[LINE] line
    with nogil:
        for r in range(n_marks):
            if marks[r]:
                rows[n_rows] = r
                n_rows += 1
        for r in range(n_rows):
            if r + AHEAD < n_rows:
                place = rows[r + AHEAD] * width
                sks_prefetch(&vector[place], width * sizeof(double))
                sks_prefetch(&origin[place], width * sizeof(double))
            marks[rows[r]] = 0
            # neighboring rows may share a line, which is read only once
            last = max(last, rows[r] * width // LINE - 1)
            end = min((rows[r] + 1) * width, size)
            while (last + 1) * LINE < end:
                last += 1
                place = last * LINE
                mask = _take_line(
                    &vector[place], &origin[place], factor, size - place, line
                )
                if mask:
                    lines[n], masks[n] = last, mask
                    n += 1
                    out = _append_line(mask, line, out)
    return n, out - values


def pack(vector_, lines_, masks_, values_):
    """Write a dense vector in sparse form; return the numbers of lines and entries."""
    cdef const double* vector = const_doubles(vector_)
    cdef int32_t* lines = int32s(lines_)
    cdef unsigned char* masks = uint8s(masks_)
    cdef double* values = doubles(values_)
    cdef Py_ssize_t size = len(vector_), n = 0, n_values = 0, first, k
    cdef unsigned int mask
    with nogil:
        for first in range(0, size, 8):
            mask = 0
            for k in range(first, min(first + LINE, size)):
                if vector[k] != 0.0:
                    mask |= 1 << (k - first)
                    values[n_values] = vector[k]
                    n_values += 1
            if mask:
                lines[n], masks[n] = first // LINE, mask
                n += 1
    return n, n_values


def add_to(vector_, *arrays):
    """Add a sparse vector to a dense one, in place."""
    cdef Reader reader = _reader(arrays)
    cdef double* vector = doubles(vector_)
    cdef unsigned int mask
    cdef double* out
    with nogil:
        while reader.n_lines:
            mask, out = reader.masks[0], &vector[_place(reader.lines[0])]
            while mask:
                out[LOWEST[mask]] += reader.values[0]
                reader.values += 1
                mask &= mask - 1
            _next_line(&reader)


# ---- entries of a vector at given places ----

def count(masks_):
    """Return the number of entries of masked lines, the set bits of all masks."""
    cdef const unsigned char* masks = const_uint8s(masks_)
    cdef Py_ssize_t total = 0, n, n_lines = len(masks_)
    with nogil:
        for n in range(n_lines):
            total += BITS[masks[n]]
    return total


def take(vector_, lines_, masks_, values_):
    """Write the entries of a vector at given places to an array."""
    cdef const double* vector = const_doubles(vector_)
    cdef const int32_t* lines = const_int32s(lines_)
    cdef const unsigned char* masks = const_uint8s(masks_)
    cdef double* out = doubles(values_)
    cdef Py_ssize_t n_lines = len(lines_), n
    with nogil:
        for n in range(n_lines):
            if n + AHEAD < n_lines:
                sks_prefetch(&vector[_place(lines[n + AHEAD])], sizeof(double))
            out = _append_line(masks[n], &vector[_place(lines[n])], out)


def put(vector_, *arrays):
    """Overwrite the entries of a vector at given places."""
    cdef Reader reader = _reader(arrays)
    cdef double* vector = doubles(vector_)
    with nogil:
        while reader.n_lines:
            if reader.n_lines > AHEAD:
                sks_prefetch(&vector[_place(reader.lines[AHEAD])], sizeof(double))
            reader.values = _scatter_line(
                reader.masks[0], reader.values, &vector[_place(reader.lines[0])]
            )
            _next_line(&reader)


def copy_lines(source_, target_, lines_):
    """Copy the given lines from one vector to another."""
    cdef const double* source = const_doubles(source_)
    cdef double* target = doubles(target_)
    cdef const int32_t* lines = const_int32s(lines_)
    cdef Py_ssize_t n_lines = len(lines_), size = len(source_), n, place
    with nogil:
        for n in range(n_lines):
            if n + AHEAD < n_lines:
                place = _place(lines[n + AHEAD])
                sks_prefetch(&source[place], sizeof(double))
                sks_prefetch(&target[place], sizeof(double))
            place = _place(lines[n])
            memcpy(
                &target[place], &source[place], min(LINE, size - place) * sizeof(double)
            )
