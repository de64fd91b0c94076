"""Attributes of the tokens of a sentence: default attributes, and templates."""

import re
from functools import lru_cache

from sksstruct.feature_extraction._helpers import affixes_of, shape_of

# Offsets of words, and of other columns, in the default attributes.
_WORDS, _OTHERS = range(-2, 3), range(-1, 2)
_AFFIXES = (2, 3)
_MACRO = re.compile(r"%([xX])\[\s*([+-]?\d+)\s*,\s*(\d+)\s*\]")
# Prefix of the names of attributes, by the first character of a line of a template.
_KINDS = {"U": "U", "u": "U", "B": "B", "b": "B", "*": "B*"}


def usual(columns):
    """Return the default attributes of the tokens of one sentence.

    They are the attributes of `window_features`, `shape_features` and `affix_features`,
    in this order. Texts repeat their words: with the attributes of each word in a
    cache, the function takes a third of the time.
    """
    if not columns[0]:
        return []
    words = list(map(_of_word, columns[0]))
    around = zip(*[shifted for shifted, _ in words], strict=True)
    windows = list(map(_moved, around, 2 * (*_WORDS,)))
    for number, column in enumerate(columns[1:], start=1):
        around = zip(*[_of_tag(number, tag) for tag in column], strict=True)
        windows += map(_moved, around, _OTHERS)
    rows = list(map(list, zip(*windows, strict=True)))
    n, reach = len(rows), _WORDS[-1]
    for t in {*range(min(reach, n)), *range(max(0, n - reach), n)}:
        rows[t] = [attribute for attribute in rows[t] if attribute is not None]
    rows[0].append("__BOS__")
    rows[-1].append("__EOS__")
    for row, (_, affixes) in zip(rows, words, strict=True):
        row += affixes
    return rows


def _moved(column, offset):
    """Return a column's values at t + offset for all t, None beyond both ends."""
    n = len(column)
    if offset < 0:
        return ((None,) * -offset + column)[:n]
    return column[offset:] + (None,) * min(offset, n)


@lru_cache(maxsize=2**14)
def _of_word(word):
    """Return a word's attributes for the tokens at all offsets, and its affixes."""
    lower, shape = word.lower(), shape_of(word)
    around = [f"w[{offset}]={lower}" for offset in _WORDS]
    around += [f"shape[{offset}]={shape}" for offset in _WORDS]
    return tuple(around), affixes_of(word, _AFFIXES, "w")


@lru_cache(maxsize=2**14)
def _of_tag(number, tag):
    """Return the attributes of a value of another column for tokens at all offsets."""
    return tuple(f"column{number}[{offset}]={tag}" for offset in _OTHERS)


def parse(template):
    """Parse a template; return for each rule its line and its texts and macros.

    A rule is a line number, the line, and a list in which texts and macros alternate.
    """
    rules = []
    for number, line in enumerate(template.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        first, *pieces = _MACRO.split(line)
        texts = [first, *pieces[3::4]]
        if line[0] not in _KINDS or "%" in "".join(texts):
            text = (
                f"template, line {number}: expected U, B or * and macros "
                f"%x[row,column], got {line!r:.80}"
            )
            if re.search(r"%[mMtT]\[|%[xX]\[\s*@", line):
                text += (
                    ". Wapiti's %m, %t and positions with @ are not supported: put "
                    "their values into a column of the data, and name it by %x"
                )
            raise ValueError(text)
        parts = [_KINDS[line[0]] + first[1:]]
        if not pieces and parts[0][0] == "B":
            continue
        for k in range(0, len(pieces), 4):
            letter, row, column, text = pieces[k : k + 4]
            parts += [(int(row), int(column), letter == "X"), text]
        rules.append((number, line, parts))
    if not rules:
        raise ValueError(
            "the template has no line that makes an attribute: expected lines such as "
            "U00:%x[0,0]"
        )
    return rules


def expand(rules, columns):
    """Return the attributes of the tokens of one sentence, by rules of a template."""
    size = len(columns[0])
    rows = [[] for _ in range(size)]
    for parts in rules:
        values = []
        for part in parts:
            if isinstance(part, str):
                values.append([part] * size)
            else:
                row, column, is_lower = part
                texts = columns[column]
                if is_lower:
                    texts = list(map(str.lower, texts))
                values.append(_shifted(texts, row))
        for attributes, pieces in zip(rows, zip(*values, strict=True), strict=True):
            attributes.append("".join(pieces))
    return rows


def _shifted(column, offset):
    """Return a column's values at t + offset for all t; ``_B-1``, ``_B+1`` outside."""
    size = len(column)
    return [
        column[t] if 0 <= t < size else f"_B{t if t < 0 else t - size + 1:+d}"
        for t in range(offset, offset + size)
    ]
