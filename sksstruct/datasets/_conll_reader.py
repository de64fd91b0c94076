"""The reader of CoNLL column files, for `read_conll` and for the command line."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sksstruct.utils._files import lines_of


@dataclass
class ConllReader:
    """Reader of sentences; the parameters are those of `read_conll`."""

    n_columns: int | None = None
    separator: str | None = None
    comment: str | None = None
    empty: str | None = None
    keep_docstart: bool = False
    encoding: str = "utf-8"
    # format in which errors name a parameter and its value: as an argument in Python,
    # or as an option of the command
    advice: str = "{}={}"
    # smallest number of columns of a token
    least: int = 1
    # the line of the first token, set while reading
    first: str = ""

    def read(self, source):
        """Read the sentences of a file, or of lines."""
        if not isinstance(source, str | Path) and isinstance(source, Iterable):
            return self._read(list(source), "line")
        return self._read(list(lines_of(source, self.encoding)), f"{source}, line")

    def _read(self, lines, place):
        """Read sentences; `place` and the line number begin error messages."""
        if self.n_columns is None and self.separator is None:
            self._look_ahead(lines)
        sentences, rows = [], []
        for number, line in enumerate(chain(lines, [""]), start=1):
            line = line.rstrip("\r\n")
            if self._is_comment(line):
                continue
            columns = self._columns(line)
            if columns and (columns[0] != "-DOCSTART-" or self.keep_docstart):
                rows.append(self._checked(columns, line, f"{place} {number}"))
            elif rows:
                sentences.append(tuple(map(list, zip(*rows, strict=True))))
                rows = []
        return sentences

    def _is_comment(self, line):
        return self.comment is not None and line.startswith(self.comment)

    def _look_ahead(self, lines):
        """Set the number of columns if tabs alone separate the columns of all lines.

        If words have spaces, the number of columns of the first token is ambiguous.
        Tabs separate columns if this gives the same number of columns on all lines.
        """
        number = None
        for line in lines:
            line = line.rstrip("\r\n")
            words = _words(line)
            if not words or self._is_comment(line) or words[0] == "-DOCSTART-":
                continue
            fields = _fields(line)
            if number is None:
                if len(fields) == len(words):
                    return
                number = len(fields)
            if len(fields) != number or number == 1 or "" in fields:
                return
        self.n_columns = number

    def _columns(self, line):
        """Return the columns of a line, some of which may be empty."""
        words = _words(line)
        if not words:
            return []
        if self.separator is not None:
            return line.split(self.separator)
        # Several tabs may be one separator: the line is split at every tab, which
        # allows empty columns and words with spaces, only if splitting at spaces and
        # tabs gives a wrong number of columns.
        fields = _fields(line)
        if self.n_columns is None:
            # with a text for empty columns, each tab ends a column
            by_tabs = self.empty is not None and "\t" in line
            return fields if by_tabs or not fields[0] else words
        fits = len(words) != self.n_columns == len(fields)
        return fields if fits else words

    def _checked(self, columns, line, place):
        """Check the columns of a token; return them, with `empty` for empty columns."""
        if self.n_columns is None:
            if len(columns) < self.least:
                raise ValueError(
                    f"{place}: expected {self.least} columns at least, a word and a "
                    f"label, got {line!r:.80}"
                )
            self.n_columns = len(columns)
            self.first = line
        if "\r" in line:
            raise ValueError(
                f"{place}: lines must end with a line feed, and this one has a "
                f"carriage return inside: {line!r:.80}"
            )
        if len(columns) != self.n_columns:
            text = (
                f"{place}: {len(columns)} columns instead of {self.n_columns}, as the "
                f"first token has: {line!r:.80}"
            )
            # the line of the first token, or the current line, may be a comment
            if self.comment is None and "#" in (line[0], self.first[:1]):
                text += (
                    ". If lines that begin with '#' are comments, pass "
                    + self.advice.format("comment", "'#'")
                )
            elif self.separator is None and any(map(_is_ambiguous, (self.first, line))):
                text += (
                    ". If tabs alone separate the columns, pass "
                    + self.advice.format("separator", r"'\t'")
                )
            raise ValueError(text)
        if "" in columns and self.empty is None:
            which = f"column {columns.index('') + 1}" if columns[0] else "the token"
            raise ValueError(
                f"{place}: {which} is empty: {line!r:.80}. To read such lines, pass a "
                "text to put in its place, such as "
                + self.advice.format("empty", "'_'")
            )
        return [column or self.empty for column in columns]


def _words(line):
    """Return the parts of a line between spaces and tabs."""
    # not str.split(), which splits at any white space of Unicode
    return [word for word in line.replace("\t", " ").split(" ") if word]


def _fields(line):
    """Return the parts of a line between tabs, without the spaces around them."""
    return [field.strip(" ") for field in line.split("\t")]


def _is_ambiguous(line):
    """Return whether tabs alone give another number of columns than spaces and tabs."""
    return "\t" in line and len(_fields(line)) != len(_words(line))
