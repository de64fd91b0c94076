"""Options of commands that read files of columns, and the reading of sentences."""

import codecs
import os

from sksstruct.datasets._conll_reader import ConllReader
from sksstruct.utils._files import lines_of


def add_reading(parser, which):
    """Add the options for reading files of columns."""
    parser.add_argument(
        "--columns", type=_numbers,
        help=f"numbers of the columns to use, such as 1,4: {which} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--separator", type=lambda text: text.replace("\\t", "\t"),
        help=r"column separator, such as '\t' (default: spaces and tabs)",
    )  # fmt: skip
    parser.add_argument("--comment", help="skip lines that begin with this text")
    parser.add_argument("--empty", help="text to put in place of empty columns")
    parser.add_argument(
        "--encoding", type=_encoding, default="utf-8",
        help="encoding of files with columns (default: utf-8)",
    )  # fmt: skip


def _numbers(text):
    """Convert a list of numbers of columns, counted from 1, to indices."""
    numbers = [int(part) - 1 for part in text.split(",")]
    if min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise ValueError
    return numbers


def _encoding(name):
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError from None


def read(options, source, least=1, **parameters):
    """Read a file; return sentences with all columns, and with those of --columns."""
    reader = ConllReader(
        separator=options.separator, comment=options.comment, empty=options.empty,
        encoding=options.encoding, advice="--{} {}", least=least, **parameters,
    )  # fmt: skip
    sentences = reader.read(source)
    if not sentences:
        if least > 1:
            raise ValueError(
                f"{source} has no tokens: expected lines of a word and a label"
            )
        return [], []
    if options.columns is None:
        return sentences, sentences
    if max(options.columns) >= reader.n_columns:
        raise ValueError(
            f"--columns names column {max(options.columns) + 1}, and {source} has "
            f"{reader.n_columns} columns"
        )
    return sentences, [tuple(s[k] for k in options.columns) for s in sentences]


def check_folder(name):
    """Refuse the name of a file to write if it is a folder, or its folder is missing.

    Parameters
    ----------
    name : str
        The name.
    """
    if os.path.isdir(name):
        raise IsADirectoryError(f"{name} is a folder")
    folder = os.path.dirname(os.path.abspath(name))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{name}: there is no folder {folder}")


def template_of(name):
    """Read the text of the template file `name`; return None if `name` is None."""
    if name is None:
        return None
    return "".join(lines_of(name))
