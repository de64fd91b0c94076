"""Tokens of a text file and their lines, in little more memory than the file."""

import contextlib
import gzip
import io
import os
import re
import zlib
from pathlib import Path

import numpy as np

# A compressed file may grow by this factor, plus so many bytes; else it is refused.
_RATIO, _FLOOR = 200, 1 << 20
_CHUNK = 1 << 13
_INTEGER = re.compile(rb"-?[0-9]+")
# without two ways to read the same digits, so that long tokens take linear time
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def read_bytes(path):
    """Contents of a file; ``.gz`` files are decompressed."""
    path = Path(os.fspath(path))
    if path.suffix != ".gz":
        return path.read_bytes()
    limit = _RATIO * path.stat().st_size + _FLOOR
    try:
        data = bytearray()
        with gzip.open(path) as file:
            while part := file.read(_CHUNK):
                data += part
                if len(data) > limit:
                    raise ValueError(
                        f"{path} holds more than {limit} bytes when decompressed"
                    )
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a gzip file: {error}") from None
    return bytes(data)


@contextlib.contextmanager
def open_write(path):
    """Text stream that is saved when the block ends; ``.gz`` files are compressed."""
    path = Path(os.fspath(path))
    text = io.StringIO()
    yield text
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="ascii") as file:
        file.write(text.getvalue())


class Tokens:
    """Tokens between blanks, one after the other.

    Parameters
    ----------
    data : bytes
        The text.
    name : str
        Name of the text in errors.
    """

    def __init__(self, data, name):
        self.data, self.name = data, name
        self._at = 0  # where the next chunk begins
        self._start = 0  # where the present chunk began
        self._tokens, self._next = [], 0

    def _fill(self):
        """Read the next chunk, which ends between tokens."""
        while self._next >= len(self._tokens) and self._at < len(self.data):
            end = min(self._at + _CHUNK, len(self.data))
            while end < len(self.data) and not self.data[end : end + 1].isspace():
                end += 1
            self._start = self._at
            self._tokens, self._next = self.data[self._at : end].split(), 0
            self._at = end
        return self._next < len(self._tokens)

    @property
    def left(self):
        """Upper bound of the number of tokens that are left."""
        unread = len(self._tokens) - self._next
        return unread + (len(self.data) - self._at + 1) // 2

    def line(self):
        """Line of the last token that was read, from 1."""
        found = re.finditer(rb"\S+", self.data[self._start : self._at])
        at = self._start
        for k, match in enumerate(found):
            if k == max(0, self._next - 1):
                at = self._start + match.start()
                break
        return self.data.count(b"\n", 0, at) + 1

    def fail(self, message):
        """Raise an error that names the line."""
        raise ValueError(f"{self.name}, line {self.line()}: {message}")

    def done(self):
        """Whether nothing is left."""
        return not self._fill()

    def finish(self, last):
        """Raise an error if tokens are left; `last` names the last item."""
        if not self.done():
            self.next("")
            self.fail(f"there is more after the last {last}")

    def next(self, what):
        """The next token."""
        if not self._fill():
            self.fail(f"the file ends where {what} was expected")
        self._next += 1
        return self._tokens[self._next - 1]

    def integer(self, what, low=None, high=None):
        """The next token as an integer within bounds."""
        token = self.next(what)
        if len(token) > 20 or not _INTEGER.fullmatch(token):
            self.fail(f"{what} must be an integer, got {_shown(token)}")
        value = int(token)
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"in [{low}, {high}]"
            self.fail(f"{what} must be {bounds}, got {value}")
        return value

    def number(self, what):
        """The next token as a finite number."""
        token = self.next(what)
        if not _NUMBER.fullmatch(token) or not np.isfinite(float(token)):
            self.fail(f"{what} must be a number, got {_shown(token)}")
        return float(token)

    def numbers(self, count, what, infinite=False):
        """The next tokens as an array of finite numbers, or -inf where allowed."""
        if count > self.left:
            self.fail(f"{count} numbers of {what} were expected, the file is too short")
        values = np.empty(count)
        done = 0
        while done < count:
            if not self._fill():
                self.fail(f"the file ends within {what}")
            part = self._tokens[self._next : self._next + count - done]
            for k, token in enumerate(part):
                if not _NUMBER.fullmatch(token):
                    if infinite and token.lower() in (b"-inf", b"-infinity"):
                        continue
                    self._next += k + 1
                    self.fail(f"{what} must be numbers, got {_shown(token)}")
            values[done : done + len(part)] = part
            wrong = ~(values[done : done + len(part)] < np.inf)
            if wrong.any():
                self._next += int(np.argmax(wrong)) + 1
                self.fail(f"{what} has a number that is too large")
            self._next += len(part)
            done += len(part)
        return values


def _shown(token):
    text = token[:40].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > 40 else text)
