"""Lines of text files, plain or gzip-compressed."""

import gzip
import zlib
from pathlib import Path


def lines_of(path):
    """Lines of a UTF-8 file, which is gzip-compressed if its name ends in ``.gz``.

    Raises
    ------
    ValueError
        If the file is not UTF-8, or cut short.
    """
    opener = gzip.open if Path(path).suffix == ".gz" else open
    # some editors begin a file with a mark, which is not part of the first word
    with opener(path, "rt", encoding="utf-8-sig", newline="\n") as lines:
        try:
            yield from lines
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text: {error}") from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is truncated or damaged: {error}") from None
