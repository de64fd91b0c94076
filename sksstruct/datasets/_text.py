"""Text files, compressed or not, as bytes, and as streams to write to."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zlib
from pathlib import Path

# A compressed file may grow by this factor, plus so many bytes; else it is refused.
_RATIO, _FLOOR = 200, 1 << 20
_CHUNK = 1 << 16
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_ERRORS = EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError


def plain_name(path):
    """Name of a file without the suffix of its compression."""
    path = Path(os.fspath(path))
    return path.stem if path.suffix in _OPENERS else path.name


def read_bytes(path):
    """Contents of a file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed."""
    path = Path(os.fspath(path))
    if path.suffix not in _OPENERS:
        return path.read_bytes()
    limit = _RATIO * path.stat().st_size + _FLOOR
    data = bytearray()
    with open(path, "rb") as raw:
        try:
            with _OPENERS[path.suffix](raw) as file:
                while part := file.read(_CHUNK):
                    data += part
                    if len(data) > limit:
                        break
        except _ERRORS as error:
            kind = {".gz": "gzip"}.get(path.suffix, path.suffix[1:])
            raise ValueError(f"{path} is not a {kind} file: {error}") from None
    if len(data) > limit:
        raise ValueError(f"{path} holds more than {limit} bytes when decompressed")
    return bytes(data)


def blank_comments(data):
    """The text with blanks in the place of ``/* comments */``, so that lines stay."""
    return re.sub(
        rb"/\*.*?(?:\*/|\Z)",
        lambda found: re.sub(rb"[^\n]", b" ", found[0]),
        data,
        flags=re.DOTALL,
    )


@contextlib.contextmanager
def open_write(path):
    """Text stream that is saved, compressed as named, when the block ends."""
    path = Path(os.fspath(path))
    text = io.StringIO()
    yield text
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "wt", encoding="ascii") as file:
        file.write(text.getvalue())
