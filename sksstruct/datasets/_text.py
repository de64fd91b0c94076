"""Reading and writing of text files, compressed or not."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
from pathlib import Path

from sksstruct.datasets._tokens import Tokens
from sksstruct.utils._files import reading

# A compressed file is refused if its text has more bytes than this number times those
# of the file, plus `_FLOOR`.
_RATIO = 200
# Number of bytes of text that are accepted from any compressed file, however small.
_FLOOR = 1 << 20
_CHUNK = 1 << 16
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def plain_name(path):
    """Return the name of a file without the suffix of its compression."""
    path = Path(os.fspath(path))
    return path.stem if path.suffix in _OPENERS else path.name


def read_bytes(path):
    """Read a file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed."""
    path = Path(os.fspath(path))
    if path.suffix not in _OPENERS:
        with reading(path):
            return path.read_bytes()
    limit = _RATIO * path.stat().st_size + _FLOOR
    data = bytearray()
    with reading(path), _OPENERS[path.suffix](path) as file:
        while part := file.read(_CHUNK):
            data += part
            if len(data) > limit:
                raise ValueError(
                    f"its text has more than {limit} bytes, {_RATIO} times as many as "
                    "the file: decompress the file first"
                )
    return bytes(data)


@contextlib.contextmanager
def tokens_of(path, data=None):
    """Context with the tokens of a file, or of its text; errors name file and line."""
    name = os.fspath(path)
    tokens = Tokens(read_bytes(path) if data is None else data, name)
    with reading(name, lambda: f", line {tokens.line()}"):
        yield tokens


def blank_comments(data):
    """Replace ``/* comments */`` by blanks, which keeps the numbers of lines."""
    return re.sub(
        rb"/\*.*?(?:\*/|\Z)",
        lambda found: re.sub(rb"[^\n]", b" ", found[0]),
        data,
        flags=re.DOTALL,
    )


@contextlib.contextmanager
def open_write(path):
    """Context with a text stream, whose text is written to a file on exit.

    The file is compressed if its suffix is ``.gz``, ``.bz2`` or ``.xz``.
    """
    path = Path(os.fspath(path))
    text = io.StringIO()
    yield text
    opener = _OPENERS.get(path.suffix, open)
    with opener(path, "wt", encoding="ascii") as file:
        file.write(text.getvalue())
