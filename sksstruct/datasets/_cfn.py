"""Cost function networks in toulbar2's JSON format.

An object with "problem", "variables" and "functions". The format allows more than JSON:
quotes and commas may be left out, and functions need no names. Files that are JSON are
read as such; for others there is a parser here.
"""

import json
import math
import os
import re

import numpy as np

from sksstruct.datasets._parts import Parts
from sksstruct.datasets._text import read_bytes
from sksstruct.factor_graphs import FactorGraph
from sksstruct.utils._files import reading
from sksstruct.utils.typing import PathLike

_LEXEMES = re.compile(
    r'"(?P<text>[^"\n]*)"|(?P<mark>[{}\[\]:])|(?P<word>[^\s,:{}\[\]"]+)'
)
_MARKS = {"{": "}", "[": "]"}
# What sums of scores lose by rounding, for each unit of their size.
_LOST = 1e-12
# Entries that may be written out: as many as characters, or a few more.
_MORE_ENTRIES = 1_000_000


def load_cfn(path: PathLike) -> FactorGraph:
    """Read a cost function network.

    Parameters
    ----------
    path : path-like
        A ``.cfn`` file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed. Cost
        functions with a "type" raise an error that names it.

    Returns
    -------
    graph : FactorGraph
        Scores are minus the costs. With "mustbe" as ``"<12.5"``, labelings are
        forbidden if their total cost is not below 12.5: `must_exceed` is -12.5, up to
        rounding. With ``">12.5"`` scores are the costs, which are maximized, and their
        total must exceed 12.5. Costs that no labeling can make up for score -inf.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line or the cost function.

    Examples
    --------
    >>> from sksstruct.datasets import load_cfn
    >>> with open("small.cfn", "w") as file:
    ...     _ = file.write('''{
    ...         "problem": {"name": "two", "mustbe": "<10.0"},
    ...         "variables": {"a": 2, "b": 2},
    ...         "functions": {"f": {"scope": ["a", "b"], "costs": [0.0, 1.5, 1.5, 0.0]}}
    ...     }''')
    >>> load_cfn("small.cfn").score([0, 1])
    -1.5
    """
    name = os.fspath(path)
    text = read_bytes(path).decode("utf-8", "replace")
    with reading(name):
        try:
            whole = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_refuse)
        except (json.JSONDecodeError, RecursionError, _Constant):
            whole = _Lenient(text, name).parse()
        try:
            return _Network(whole, len(text)).build()
        except _NoNumber as error:
            found = re.search(rf"(?<![^\s,\[\]\"]){re.escape(error.word)}", text)
            line = text.count("\n", 0, found.start() if found else 0) + 1
            raise ValueError(f"{name}, line {line}: {error}") from None


class _NoNumber(ValueError):
    """A word in the place of a number."""

    def __init__(self, message, word):
        super().__init__(message)
        self.word = str(word)


class _Pairs(list):
    """Names and values of an object, in the order of the file."""


class _Constant(ValueError):
    """A number that JSON does not have."""


def _refuse(text):
    raise _Constant(text)


class _Lenient:
    """Parser of the format without quotes and commas."""

    def __init__(self, text, name):
        self._text, self._name = text, name
        self._matches = _LEXEMES.finditer(text)
        self._ahead = next(self._matches, None)
        self._last = 0

    def _fail(self, message):
        line = self._text.count("\n", 0, self._last) + 1
        raise ValueError(f"{self._name}, line {line}: {message}")

    def _next(self):
        found = self._ahead
        if found is None:
            self._fail("the file ends within an object or a list")
        self._ahead = next(self._matches, None)
        # what lies between has to be blanks and commas
        between = self._text[self._last : found.start()]
        if between.strip(" \t\r\n,"):
            self._fail(f"{between.strip()[:20]!r} was not expected")
        self._last = found.end()
        return found.lastgroup, found[found.lastgroup]

    def parse(self):
        """The object of the file."""
        kind, mark = self._next()
        if (kind, mark) != ("mark", "{"):
            self._fail("the file must begin with {")
        whole = self._container(mark, 0)
        if self._ahead is not None or self._text[self._last :].strip():
            self._fail("there is more after the last }")
        return whole

    def _container(self, mark, depth):
        """An object or a list, after its mark."""
        if depth > 8:
            self._fail("objects are nested too deeply")
        items = _Pairs() if mark == "{" else []
        while True:
            kind, value = self._next()
            if kind == "mark" and value == _MARKS[mark]:
                return items
            colon = self._ahead is not None and self._ahead[0] == ":"
            if mark == "{" and kind != "mark" and colon:
                self._next()
                items.append((value, self._value(*self._next(), depth)))
            elif mark == "{":
                items.append((None, self._value(kind, value, depth)))
            else:
                items.append(self._value(kind, value, depth))

    def _value(self, kind, value, depth):
        if kind == "mark":
            if value not in _MARKS:
                self._fail(f"{value!r:.80} was not expected")
            return self._container(value, depth + 1)
        return value if kind == "text" else _number_or_word(value)


def _number_or_word(word):
    """A number if it is written as one."""
    if re.fullmatch(r"-?[0-9]{1,18}", word):
        return int(word)
    if re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", word):
        return float(word)
    return word


class _Network:
    """The graph of a file that has been parsed."""

    def __init__(self, whole, length):
        sections = _fields(whole, "the file")
        unknown = sorted(set(sections) - {"problem", "variables", "functions"})
        if unknown:
            raise ValueError(f"there is a section {unknown[0]!r:.80}")
        problem = _fields(sections.get("problem", _Pairs()), "problem")
        self._sign, self._top = _read_mustbe(problem.get("mustbe", "<inf"))
        self._read_variables(sections.get("variables", _Pairs()))
        self._functions = sections.get("functions", _Pairs())
        self._left = length + _MORE_ENTRIES
        states = sum(self._sizes)
        if states > self._left:
            raise ValueError(f"the variables have {states} states")
        self._parts = Parts(self._sizes, share=16)

    def _read_variables(self, pairs):
        self._index, self._sizes, self._states = {}, [], []
        for name, domain in _named(pairs, "variables"):
            names = domain if isinstance(domain, list) else None
            size = len(domain) if names is not None else domain
            if not _is_integer(size) or size < 1:
                raise ValueError(
                    f"variable {name!r:.80} must have a list of states or their "
                    f"number, got {domain!r:.80}: intervals are not read"
                )
            self._index[name] = len(self._sizes)
            self._sizes.append(size)
            index = {str(x): k for k, x in enumerate(names or ())}
            if names is not None and len(index) < size:
                raise ValueError(
                    f"variable {name!r:.80} has two states of the same name"
                )
            self._states.append(index)

    def build(self):
        """The graph of all cost functions."""
        if not isinstance(self._functions, list):
            raise ValueError("functions must be an object")
        functions = []
        for f, item in enumerate(self._functions):
            name, body = item if isinstance(self._functions, _Pairs) else (None, item)
            what = f"cost function {f if name is None else f'{name!r:.80}'}"
            functions.append((what, *self._read_function(_fields(body, what), what)))
        self._forbid([values for *_, values in functions])
        for what, scope, values in functions:
            if not self._parts.add(scope, values):
                raise ValueError(f"{what} has costs that are too large to be added")
        return self._parts.build()

    def _forbid(self, tables):
        """Scores that no labeling can make up for become -inf; what is left of the
        bound is one on the total."""
        high = [float(values.max()) for values in tables]
        # nothing is forbidden, or everything
        if self._top == np.inf or min(high, default=0.0) == -np.inf:
            return
        # what sums of decimals lose must not decide
        lost = _LOST * max(1.0, abs(self._top), sum(map(abs, high)))
        least, lowest = lost - self._top, 0.0
        for values, top in zip(tables, high, strict=True):
            values[values + (sum(high) - top) <= least] = -np.inf
            lowest += float(values[values > -np.inf].min(initial=top))
        if lowest <= least:
            self._parts.must_exceed = least

    def _read_function(self, body, what):
        """Scope and scores of a cost function."""
        if "type" in body:
            raise ValueError(
                f"{what} is of type {body['type']!r:.80}, which is not read"
            )
        scope = self._read_scope(body.get("scope"), what)
        shape = tuple(self._sizes[v] for v in scope)
        size = math.prod(shape)
        if size > self._left:
            raise ValueError(f"{what} has {size} entries, too many to write out")
        self._left -= size
        costs = body.get("costs")
        if not isinstance(costs, list):
            raise ValueError(f"{what} has no list of costs")
        if "defaultcost" in body:
            values = self._read_tuples(scope, shape, body["defaultcost"], costs, what)
        else:
            values = _numbers(costs, what)
            if len(values) != size:
                raise ValueError(f"{what} needs {size} costs, got {len(values)}")
        scores = -self._sign * values
        if not scores.max(initial=-np.inf) < np.inf:
            raise ValueError(f"{what} has an infinite cost that is not forbidden")
        return scope, scores.reshape(shape)

    def _read_scope(self, names, what):
        if not isinstance(names, list):
            raise ValueError(f"{what} has no scope")
        scope = []
        for name in names:
            # by name first: a variable may be called 0
            v = self._index.get(str(name), name if _is_integer(name) else -1)
            if not 0 <= v < len(self._sizes):
                raise ValueError(f"{what}: there is no variable {name!r:.80}")
            scope.append(v)
        if len(set(scope)) < len(scope) or len(scope) > 64:
            raise ValueError(f"{what} names a variable twice, or more than 64")
        return scope

    def _read_tuples(self, scope, shape, default, items, what):
        """Costs of tuples of states, each followed by its cost; others cost default."""
        width = len(scope) + 1
        if len(items) % width:
            raise ValueError(f"{what} must list {width - 1} states and a cost in turns")
        values = np.full(shape, _numbers([default], what)[0])
        costs = _numbers(items[width - 1 :: width], what)
        seen = set()
        for k, cost in enumerate(costs):
            given = items[k * width : (k + 1) * width - 1]
            states = tuple(
                self._state(v, x, what) for v, x in zip(scope, given, strict=True)
            )
            if states in seen:
                raise ValueError(f"{what} has the tuple {given!r:.80} twice")
            seen.add(states)
            values[states] = cost
        return values.reshape(-1)

    def _state(self, v, x, what):
        """Number of a state that is given by its name or number."""
        state = self._states[v].get(str(x), x if _is_integer(x) else -1)
        if not 0 <= state < self._sizes[v]:
            raise ValueError(f"{what}: there is no state {x!r:.80} of variable {v}")
        return state


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _named(pairs, what):
    """Pairs of an object, whose names have to be there and to differ."""
    if not isinstance(pairs, _Pairs):
        raise ValueError(f"{what} must be an object")
    names = [name for name, _ in pairs]
    if None in names or len(set(names)) < len(names):
        raise ValueError(f"{what} must have different names")
    return pairs


def _fields(pairs, what):
    return dict(_named(pairs, what))


def _numbers(values, what):
    """Costs as an array; the word "inf" is a number here."""
    if any(isinstance(x, float) and math.isinf(x) for x in values):
        raise ValueError(f"{what} has a cost that is too large")
    words = {"inf": np.inf, "-inf": -np.inf}
    values = [words.get(x, x) if isinstance(x, str) else x for x in values]
    for x in values:
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise _NoNumber(f"{what} has the cost {x!r:.80}, which is not a number", x)
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{what} has a cost that is too large") from None
    return array


def _read_mustbe(text):
    """Sign of the costs, and the bound that a forbidden total reaches, times it."""
    found = re.fullmatch(r"([<>])\s*(-?inf|[-+.0-9eE]+)", str(text).strip())
    try:
        sign = {"<": 1.0, ">": -1.0}[found[1]]
        top = sign * float(found[2])
    except (TypeError, ValueError):
        raise ValueError(f"mustbe must be like '<12.5', got {text!r:.80}") from None
    return sign, top
