"""Tokens of a text between blanks, read as words or as numbers.

Numbers are parsed in place: only words become objects. The grammar is strict, because
files may be broken: no ``nan``, no ``1_0``, and only a blank after the last digit.
A decimal whose digits form an integer below 2 ** 53, with a small exponent, is this
integer times or divided by an exact power of ten, so one operation rounds it correctly
(Clinger, How to read floating point numbers accurately, 1990). Python converts all
other decimals.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t

from sksstruct.utils._pointers cimport doubles, int64s

from numpy import empty

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end,
                                 void* overflow) except? -1.0

# Doubles are exact for all integers up to EXACT, and for these powers of ten.
cdef int64_t EXACT = 1 << 53
cdef double[23] POWERS
for _k in range(23):
    POWERS[_k] = 10.0 ** _k
# Every integer with at most this number of digits fits into 64 bits.
cdef Py_ssize_t MOST_DIGITS = 18


cdef inline bint is_blank(char c) noexcept nogil:
    # the blanks of bytes.split
    return c == 32 or 9 <= c <= 13


cdef inline bint is_digit(char c) noexcept nogil:
    return 48 <= c <= 57


cdef class Tokens:
    """Reader of the tokens of a text, which are separated by blanks.

    Parameters
    ----------
    data : bytes
        The text.
    name : str
        Name of the text in error messages.
    """

    def __init__(self, bytes data, str name):
        self.data, self.name = data, name
        self._text, self._size = data, len(data)
        self._at = self._last = 0

    @property
    def left(self):
        """An upper bound on the number of tokens that are left."""
        return (self._size - self._at + 1) // 2

    def line(self):
        """Return the line of the last token that was read, counted from 1."""
        return self.data.count(b"\n", 0, self._last) + 1

    def fail(self, message):
        """Raise an error whose message names the line."""
        raise ValueError(f"{self.name}, line {self.line()}: {message}")

    def done(self):
        """Return whether no token is left."""
        return not self._advance()

    def finish(self, last):
        """Raise an error if tokens are left; `last` names the last item."""
        if not self.done():
            self.next("")
            self.fail(f"there is more after the last {last}")

    # ---- one token ----

    cdef bint _advance(self) noexcept nogil:
        """Advance to the next token; return False at the end of the text."""
        while self._at < self._size and is_blank(self._text[self._at]):
            self._at += 1
        if self._at == self._size:
            return False
        self._last = self._at
        return True

    def next(self, what):
        """Return the next token."""
        if not self._advance():
            self.fail(f"the file ends where {what} was expected")
        self._skip()
        return self.data[self._last:self._at]

    cdef void _skip(self) noexcept nogil:
        """Advance to the end of the current token."""
        while self._at < self._size and not is_blank(self._text[self._at]):
            self._at += 1

    cdef bint _read_small(self, int64_t* value) noexcept nogil:
        """Read an integer of few digits; return False, without advancing, otherwise."""
        cdef Py_ssize_t at = self._at
        cdef bint negative = self._text[at] == 45
        cdef int64_t total = 0
        at += negative
        cdef Py_ssize_t first = at
        # the text ends with a zero byte, which is neither digit nor blank
        while is_digit(self._text[at]):
            if at - first == MOST_DIGITS:
                return False
            total = 10 * total + self._text[at] - 48
            at += 1
        if at == first or (at < self._size and not is_blank(self._text[at])):
            return False
        value[0] = -total if negative else total
        self._at = at
        return True

    cdef int read_integer(self, int64_t low, int64_t high, object what,
                          int64_t* value) except -1:
        """Read an integer within bounds of 64 bits."""
        if not (self._advance() and self._read_small(value)):
            value[0] = self.integer(what, low, high)
        elif value[0] < low or value[0] > high:
            self._refuse(what, low, high, value[0])
        return 0

    def _refuse(self, what, low, high, value):
        bounds = f"at least {low}" if high is None else f"in [{low}, {high}]"
        self.fail(f"{what} must be {bounds}, got {value}")

    def integer(self, what, low=None, high=None):
        """Return the next token as an integer within bounds.

        Parameters
        ----------
        what : str
            What the token is, for error messages.
        low, high : int, default=None
            Smallest and largest value.

        Returns
        -------
        value : int
            The integer, of at most 20 characters.
        """
        cdef int64_t small = 0
        if self._advance() and self._read_small(&small):
            value = small
        else:
            token = self.next(what)
            digits = token[1:] if token.startswith(b"-") else token
            if len(token) > 20 or not digits.isdigit():
                self.fail(f"{what} must be an integer, got {_shown(token)}")
            value = int(token)
        if (low is not None and value < low) or (high is not None and value > high):
            self._refuse(what, low, high, value)
        return value

    def number(self, what):
        """Return the next token as a finite number."""
        cdef double value = 0.0
        if not self._advance():
            self.fail(f"the file ends where {what} was expected")
        # the comparison is False for inf, -inf and nan
        if not self.read_number(&value) or not -INFINITY < value < INFINITY:
            self._skip()
            token = self.data[self._last:self._at]
            self.fail(f"{what} must be a number, got {_shown(token)}")
        return value

    # ---- decimals ----

    cdef int read_number(self, double* value) except -1 nogil:
        """Read a decimal; return 0, without advancing, if the token is not a decimal.

        The value is infinite if the decimal is too large.
        """
        cdef const char* text = self._text
        cdef Py_ssize_t at = self._at, first, n_digits = 0, exponent = 0, shift = 0
        cdef int64_t mantissa = 0
        cdef bint negative = text[at] == 45, minus
        at += negative or text[at] == 43
        # at least one digit, and at most one point
        first = at
        while is_digit(text[at]):
            if mantissa < EXACT:
                mantissa = 10 * mantissa + text[at] - 48
            at += 1
        n_digits = at - first
        if text[at] == 46:
            at += 1
            first = at
            while is_digit(text[at]):
                if mantissa < EXACT:
                    mantissa = 10 * mantissa + text[at] - 48
                at += 1
            shift = at - first
            n_digits += shift
        if not n_digits:
            return 0
        if text[at] == 101 or text[at] == 69:
            at += 1
            minus = text[at] == 45
            at += minus or text[at] == 43
            first = at
            while is_digit(text[at]):
                if exponent < 100_000:
                    exponent = 10 * exponent + text[at] - 48
                at += 1
            if at == first:
                return 0
            if minus:
                exponent = -exponent
        if at < self._size and not is_blank(text[at]):
            return 0
        exponent -= shift
        # a mantissa of too many digits has stopped growing at EXACT or above
        if mantissa < EXACT and -22 <= exponent <= 22:
            value[0] = (mantissa / POWERS[-exponent] if exponent < 0
                        else mantissa * POWERS[exponent])
            if negative:
                value[0] = -value[0]
        else:
            with gil:
                value[0] = self._read_by_python()
        self._at = at
        return 1

    cdef double _read_by_python(self) except? -1.0:
        """Return the correctly rounded value of the current decimal, maybe inf."""
        # a blank, or the zero byte at the end of the text, ends the number
        cdef char* end
        return PyOS_string_to_double(self._text + self._at, &end, NULL)

    def numbers(self, Py_ssize_t count, what, bint infinite=False):
        """Return the next tokens as an array of numbers, finite or, if allowed, -inf.

        Parameters
        ----------
        count : int
            Number of tokens.
        what : str
            What the tokens are, for error messages.
        infinite : bool, default=False
            Whether -inf is allowed.

        Returns
        -------
        values : ndarray of shape (count,)
            The numbers.
        """
        if count > self.left:
            self.fail(
                f"expected {count} numbers of {what}, and the file has at most "
                f"{self.left} more tokens")
        values = empty(count)
        self.fill(values, what, infinite)
        return values

    def fill(self, values, what, bint infinite=False):
        """Read numbers into an array; see `numbers`.

        Parameters
        ----------
        values : ndarray
            Receives the numbers.
        what : str
            What the tokens are, for error messages.
        infinite : bool, default=False
            Whether -inf is allowed.
        """
        self._fill(len(values), doubles(values), what, infinite)

    cdef int _fill(self, Py_ssize_t n, double* values, what, bint infinite) except -1:
        """Read numbers; see `fill`."""
        cdef Py_ssize_t k = 0
        cdef bint ended = False, large = False
        while k < n:
            with nogil:
                while k < n:
                    ended = not self._advance()
                    if ended or not self.read_number(&values[k]):
                        break
                    large = not -INFINITY < values[k] < INFINITY
                    if large:
                        break
                    k += 1
            if ended:
                self.fail(f"the file ends within {what}")
            if large:
                self.fail(f"{what} has a number that is too large for float64")
            if k < n:
                values[k] = self._infinite(what, infinite)
                k += 1
        return 0

    cdef double _infinite(self, what, bint infinite) except? -1.0:
        """Return -inf if the current token is -inf and allowed, or raise an error."""
        self._skip()
        token = self.data[self._last:self._at]
        if not infinite or token.lower() not in (b"-inf", b"-infinity"):
            self.fail(f"{what} must be numbers, got {_shown(token)}")
        return -INFINITY

    def integers(self, Py_ssize_t count, what, int64_t low, int64_t high):
        """Return the next tokens as an array of integers within bounds.

        Parameters
        ----------
        count : int
            Number of tokens.
        what : str
            What the tokens are, for error messages.
        low, high : int
            Smallest and largest value.

        Returns
        -------
        values : ndarray of shape (count,), int64
            The integers.
        """
        cdef Py_ssize_t k
        cdef int64_t* out
        if count > self.left:
            self.fail(
                f"expected {count} integers, {what}, and the file has at most "
                f"{self.left} more tokens")
        values = empty(count, dtype="i8")
        out = int64s(values)
        for k in range(count):
            self.read_integer(low, high, what, out + k)
        return values


def _shown(token):
    text = token[:40].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > 40 else text)
