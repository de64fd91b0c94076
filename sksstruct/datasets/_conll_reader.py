"""The reader of CoNLL column files, for functions and for the command."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sksstruct.utils._files import lines_of


@dataclass
class ConllReader:
    """What `read_conll` does with a file or lines."""

    n_columns: int | None = None
    separator: str | None = None
    comment: str | None = None
    empty: str | None = None
    keep_docstart: bool = False
    encoding: str = "utf-8"
    # how errors tell a caller to set one of these
    advice: str = "{}={}"
    # the least number of columns
    least: int = 1
    # the line of the first token
    first: str = ""

    def read(self, source):
        """The sentences of a file, or of lines."""
        if not isinstance(source, str | Path) and isinstance(source, Iterable):
            return self._read(list(source), "line")
        return self._read(list(lines_of(source, self.encoding)), f"{source}, line")

    def _read(self, lines, place):
        """The sentences; `place` and a number tell in errors where a line is."""
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
        """Whether tabs separate the columns, where spaces would do it otherwise.

        Words may have spaces, and then the first token does not tell. Tabs are taken if
        all lines have the same number of columns so.
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
        """The columns of a line, some of which may be empty."""
        words = _words(line)
        if not words:
            return []
        if self.separator is not None:
            return line.split(self.separator)
        # A tab on either side of nothing, or a space in a word, are only seen where the
        # number of columns is wrong: several tabs may be one separator.
        fields = _fields(line)
        if self.n_columns is None:
            # with a text for empty columns, a tab ends a column from the first line on
            by_tabs = self.empty is not None and "\t" in line
            return fields if by_tabs or not fields[0] else words
        fits = len(words) != self.n_columns == len(fields)
        return fields if fits else words

    def _checked(self, columns, line, place):
        """The columns of a token, as many as all tokens have, and none is empty."""
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
                f"{place}: there is a carriage return inside the line: {line!r:.80}. "
                "Lines must end with a line feed"
            )
        if len(columns) != self.n_columns:
            text = (
                f"{place}: {len(columns)} columns instead of {self.n_columns}, as the "
                f"first token has: {line!r:.80}"
            )
            # some formats have comments
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
    """The parts of a line between spaces and tabs."""
    # no method without an argument, which takes any white space of Unicode
    return [word for word in line.replace("\t", " ").split(" ") if word]


def _fields(line):
    """The parts of a line between tabs, without the spaces around them."""
    return [field.strip(" ") for field in line.split("\t")]


def _is_ambiguous(line):
    """Whether tabs alone separate another number of columns than spaces and tabs."""
    return "\t" in line and len(_fields(line)) != len(_words(line))
