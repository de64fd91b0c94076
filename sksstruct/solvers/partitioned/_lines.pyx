"""Vectors most of whose entries are zero: found, added and sent by lines of eight.

A vector is cut into lines of eight entries, as many as the processor reads at a time;
the last line may be shorter. A sparse vector has the numbers of the lines that it has
entries in, ascending, a mask of eight bits for each of them, and the entries. A visit
of an example changes a few labels of many features: by rows of all labels of a feature
changes would be several times as long.

Lines are read in ascending order and lie apart, so that they are asked for before they
are needed. Sums of squares are kept in four lanes, entry k in lane k modulo 4: entries
of zero, which one form of a vector has and another leaves out, make no difference.

`lines.py` makes the arrays that are written to.
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
    # the mask of a line that has all entries: losses with a gradient change all labels
    FULL = 255
    # lines that are asked for ahead
    AHEAD = 8

# The number of the lowest bit of a mask, and how many bits it has.
cdef unsigned char[256] LOWEST
cdef unsigned char[256] BITS


cdef void _fill_tables() noexcept:
    """Fill the tables of masks."""
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
    """Return where a line begins."""
    return <Py_ssize_t> line * LINE


cdef inline const double* _expand(unsigned int mask, const double* values,
                                  double* line) noexcept nogil:
    """Write the entries of a line to their places; return where the next ones are."""
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


cdef inline double* _append(unsigned int mask, const double* line,
                            double* values) noexcept nogil:
    """Append the entries of a line; return where the next ones go."""
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


cdef inline double _total(const double* lanes) noexcept nogil:
    """Return the sum of all lanes."""
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


# ---- two sparse vectors, line by line ----

cdef struct Reader:
    # lines, masks and entries that have not been read
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


cdef inline void _skip(Reader* reader) noexcept nogil:
    """Go to the next line."""
    reader.lines += 1
    reader.masks += 1
    reader.n_lines -= 1


cdef inline unsigned int _next_sum(Reader* first, Reader* second, Py_ssize_t* number,
                                   double* line) noexcept nogil:
    """Read the next line of the sum of two vectors.

    Entries are written to their places in `line`, and those of the first are added to
    first. Returns the mask; not both may be at their end.
    """
    cdef unsigned int mask = 0, other, common
    cdef Py_ssize_t k
    cdef bint in_first = first.n_lines > 0, in_second = second.n_lines > 0
    if in_first and in_second:
        in_first = first.lines[0] <= second.lines[0]
        in_second = second.lines[0] <= first.lines[0]
    if in_first:
        number[0], mask = first.lines[0], first.masks[0]
        first.values = _expand(mask, first.values, line)
        _skip(first)
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
        _skip(second)
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
            out = _append(mask, line, out)
    return n, out - values


cdef inline void add_line(const double* change, double* out, double* squares,
                          double* risen) noexcept nogil:
    """Add a whole line; add to sums, by lanes, its squares and how much they rise."""
    cdef Py_ssize_t first, j
    for first in range(0, 8, 4):
        for j in range(LANES):
            squares[j] += change[first + j] * change[first + j]
            # by differences: all weights are far more than those that change
            risen[j] += change[first + j] * (2.0 * out[first + j] + change[first + j])
            out[first + j] += change[first + j]


def add_terms(vector_, first, second, other, double factor, lines_, masks_):
    """Add two sparse vectors to a vector, and a multiple to another, if there is one.

    Writes where the sum has entries; returns the number of lines, the squared norm of
    the sum, and the increase of the squared norm of the vector.
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
    cdef double[LANES] squares, risen
    with nogil:
        for k in range(LANES):
            squares[k] = risen[k] = 0.0
        while one.n_lines or two.n_lines:
            if one.n_lines > AHEAD:
                place = _place(one.lines[AHEAD])
                sks_prefetch(&vector[place], sizeof(double))
                if out_other != NULL:
                    sks_prefetch(out_other + place, sizeof(double))
            # the changes first: so does whoever merges them
            mask = _next_sum(&one, &two, &number, line)
            lines[n], masks[n] = number, mask
            n += 1
            if mask == FULL:
                place = number * LINE
                add_line(line, &vector[place], squares, risen)
                if out_other != NULL:
                    for k in range(LINE):
                        out_other[place + k] += factor * line[k]
                continue
            while mask:
                k = LOWEST[mask]
                mask &= mask - 1
                change, place = line[k], number * LINE + k
                squares[k % LANES] += change * change
                risen[k % LANES] += change * (2.0 * vector[place] + change)
                vector[place] += change
                if out_other != NULL:
                    out_other[place] += factor * change
    return n, _total(squares), _total(risen)


def add_dense(vector_, change_, other, double factor):
    """Do what `add_terms` does, with a dense vector.

    Returns
    -------
    squares, risen : float
        As in `add_terms`, with the same bits.
    """
    cdef double* vector = doubles(vector_)
    cdef const double* change = const_doubles(change_)
    cdef double* out_other = NULL if other is None else doubles(other)
    cdef Py_ssize_t size = len(vector_), whole = size - size % LINE, k, j
    cdef double[LANES] squares, risen
    with nogil:
        for j in range(LANES):
            squares[j] = risen[j] = 0.0
        for k in range(0, whole, 8):
            add_line(&change[k], &vector[k], squares, risen)
        for k in range(whole, size):
            squares[k % LANES] += change[k] * change[k]
            risen[k % LANES] += change[k] * (2.0 * vector[k] + change[k])
            vector[k] += change[k]
        if out_other != NULL:
            for k in range(size):
                out_other[k] += factor * change[k]
    return _total(squares), _total(risen)


# ---- dense vectors and sparse ones ----

def count_marks(marks_):
    """Return the number of rows that are marked."""
    cdef const unsigned char* marks = const_uint8s(marks_)
    cdef Py_ssize_t n_marks = len(marks_), n = 0, r
    with nogil:
        for r in range(n_marks):
            n += marks[r]
    return n


cdef inline unsigned int _take_line(double* changed, const double* before,
                                    double factor, Py_ssize_t rest,
                                    double* line) noexcept nogil:
    """Write what was changed in a line to `line`, and put it back; return the mask.

    The vector ends after `rest` more entries.
    """
    cdef unsigned int mask = 0
    cdef double change
    cdef Py_ssize_t k
    for k in range(LINE):
        if k < rest:
            change = changed[k] - before[k]
            line[k] = factor * change
            mask |= <unsigned int> (change != 0.0) << k
            changed[k] = before[k]
    return mask


def take_back(vector_, origin_, marks_, double factor, Py_ssize_t width, rows_, lines_,
              masks_, values_):
    """Write the changes in marked rows; reset these rows and the marks.

    The vector and its origin differ in lines that overlap with marked rows. The numbers
    of the rows are written as well. Returns the numbers of lines and entries.
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
            # rows may share lines: one that was put back has no more changes
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
                    out = _append(mask, line, out)
    return n, out - values


def pack(vector_, lines_, masks_, values_):
    """Write a dense vector as a sparse one; return its numbers of lines and entries."""
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
    cdef Reader rest = _reader(arrays)
    cdef double* vector = doubles(vector_)
    cdef unsigned int mask
    cdef double* out
    with nogil:
        while rest.n_lines:
            mask, out = rest.masks[0], &vector[_place(rest.lines[0])]
            while mask:
                out[LOWEST[mask]] += rest.values[0]
                rest.values += 1
                mask &= mask - 1
            _skip(&rest)


# ---- some entries of a vector ----

def count(masks_):
    """Return the number of entries."""
    cdef const unsigned char* masks = const_uint8s(masks_)
    cdef Py_ssize_t total = 0, n, n_lines = len(masks_)
    with nogil:
        for n in range(n_lines):
            total += BITS[masks[n]]
    return total


def take(vector_, lines_, masks_, values_):
    """Write some entries of a vector."""
    cdef const double* vector = const_doubles(vector_)
    cdef const int32_t* lines = const_int32s(lines_)
    cdef const unsigned char* masks = const_uint8s(masks_)
    cdef double* out = doubles(values_)
    cdef Py_ssize_t n_lines = len(lines_), n
    with nogil:
        for n in range(n_lines):
            if n + AHEAD < n_lines:
                sks_prefetch(&vector[_place(lines[n + AHEAD])], sizeof(double))
            out = _append(masks[n], &vector[_place(lines[n])], out)


def put(vector_, *arrays):
    """Write some entries of a vector, in place."""
    cdef Reader rest = _reader(arrays)
    cdef double* vector = doubles(vector_)
    with nogil:
        while rest.n_lines:
            if rest.n_lines > AHEAD:
                sks_prefetch(&vector[_place(rest.lines[AHEAD])], sizeof(double))
            rest.values = _expand(
                rest.masks[0], rest.values, &vector[_place(rest.lines[0])]
            )
            _skip(&rest)


def copy_lines(source_, target_, lines_):
    """Copy some lines from one vector to another."""
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
