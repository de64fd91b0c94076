"""Files from users, in which any problem is a `ValueError` that names the place."""

import codecs
import gzip
import io
import lzma
import zlib
from contextlib import contextmanager
from pathlib import Path

# Largest number of characters quoted from the message of another library.
_MOST = 300
# Errors that contents of files raise, and the meaning of each. All other errors are
# bugs, or errors of the system such as a missing file.
_MEANINGS = {
    UnicodeDecodeError: "it is not {} text",
    (EOFError, zlib.error, lzma.LZMAError, OSError): "it is truncated or damaged",
    MemoryError: "it is too large for the memory",
    RecursionError: "it is nested too deeply",
    OverflowError: "a number is too large",
    ValueError: "",
}


@contextmanager
def reading(path, place=""):
    """Raise an error of the contents of a file as a `ValueError` that names the file.

    Parameters
    ----------
    path : path-like
        The file.
    place : str or callable, default=""
        Text that follows the file's name in errors that do not begin with the name; a
        function is only called after an error.
    """
    try:
        yield
    except (ValueError, OverflowError, MemoryError, RecursionError, EOFError, OSError,
            zlib.error, lzma.LZMAError) as error:  # fmt: skip
        # errors of the system, such as a missing file, have an errno; damaged contents
        # have none
        if getattr(error, "errno", None) is not None:
            raise
        text = str(error)
        if isinstance(error, ValueError) and text.startswith(f"{path}"):
            raise
        meaning = next(m for kind, m in _MEANINGS.items() if isinstance(error, kind))
        encoding = getattr(error, "encoding", "").upper()
        text = ": ".join(filter(None, (meaning.format(encoding), text)))
        where = f"{path}{place() if callable(place) else place}"
        raise ValueError(f"{where}: {cut(text)}") from None


def cut(text):
    """Return a text for an error, with its middle removed if it is very long."""
    if len(text) <= _MOST:
        return text
    return f"{text[: _MOST // 2]} ... {text[-_MOST // 2 :]}"


def with_mark(encoding):
    """Return the encoding, in the case of UTF-8 one that skips a byte order mark."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def lines_of(path, encoding="utf-8"):
    """Yield the lines of a text file, gzip-compressed if its name ends in ``.gz``.

    Raises
    ------
    ValueError
        If the file has another encoding, or is truncated. The error gives the line
        number.
    """
    has_bytes = "\n".encode(encoding) == b"\n"
    opener = gzip.open if Path(path).suffix == ".gz" else open
    number = 1
    with (
        reading(path, lambda: f", line {number}"),
        opener(path, "rb") as file,
        io.BufferedReader(file) as lines,
    ):
        if not has_bytes:
            # a line feed takes several bytes, as in UTF-16: decode before the split
            # into lines
            lines = io.TextIOWrapper(lines, encoding, newline="\n")
        for line in lines:
            yield (
                line.decode(with_mark(encoding) if number == 1 else encoding)
                if has_bytes
                else line
            )
            number += 1
