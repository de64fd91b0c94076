"""Lines of text files, plain or gzip-compressed."""

import codecs
import gzip
import zlib
from pathlib import Path


def lines_of(path, encoding="utf-8"):
    """Lines of a text file, which is gzip-compressed if its name ends in ``.gz``.

    Raises
    ------
    ValueError
        If the file is not text of this encoding, or cut short.
    """
    opener = gzip.open if Path(path).suffix == ".gz" else open
    with opener(path, "rt", encoding=with_mark(encoding), newline="\n") as lines:
        try:
            yield from lines
        except UnicodeDecodeError as error:
            name = encoding.upper()
            raise ValueError(f"{path} is not {name} text: {error}") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is truncated or damaged: {error}") from None


def with_mark(encoding):
    """The encoding that skips the mark with which some editors begin a UTF-8 file."""
    if codecs.lookup(encoding).name == "utf-8":
        return "utf-8-sig"
    return encoding
