"""Cost function networks in toulbar2's JSON format.

A file has an object with "problem", "variables" and "functions". The format allows more
than JSON: quotes and commas may be left out, and functions need no names. Files in JSON
are read by `json`, all other files by `_Lenient`; `_Network` builds the graph.
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
# Bound on the relative rounding error of sums of scores.
_ROUNDING = 1e-12
# The tables may have as many entries as the file has characters, plus this number.
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
        total must exceed 12.5. A cost with which no labeling can satisfy "mustbe"
        scores -inf.

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
            word = re.search(rf"(?<![^\s,\[\]\"]){re.escape(error.word)}", text)
            line = text.count("\n", 0, word.start() if word else 0) + 1
            raise ValueError(f"{name}, line {line}: {error}") from None


class _NoNumber(ValueError):
    """The error for a word in place of a number."""

    def __init__(self, message, word):
        super().__init__(message)
        self.word = str(word)


class _Pairs(list):
    """Pairs of names and values of an object, in the order of the file."""


class _Constant(ValueError):
    """The error for a number that is not JSON, such as Infinity."""


def _refuse(text):
    raise _Constant(text)


class _Lenient:
    """Parser of files that are not JSON, in which quotes and commas may be left out."""

    def __init__(self, text, name):
        self._text, self._name = text, name
        self._matches = _LEXEMES.finditer(text)
        self._ahead = next(self._matches, None)
        self._last = 0

    def _fail(self, message):
        line = self._text.count("\n", 0, self._last) + 1
        raise ValueError(f"{self._name}, line {line}: {message}")

    def _next(self):
        lexeme = self._ahead
        if lexeme is None:
            self._fail("the file ends within an object or a list")
        self._ahead = next(self._matches, None)
        # only blanks and commas may be between two lexemes
        between = self._text[self._last : lexeme.start()]
        if between.strip(" \t\r\n,"):
            self._fail(
                f"expected a name, a number, a text or one of {{ }} [ ] :, got "
                f"{between.strip()[:20]!r}"
            )
        self._last = lexeme.end()
        return lexeme.lastgroup, lexeme[lexeme.lastgroup]

    def parse(self):
        """Parse the file, which contains one object."""
        kind, mark = self._next()
        if (kind, mark) != ("mark", "{"):
            self._fail("the file must begin with {")
        whole = self._container(mark, 0)
        if self._ahead is not None or self._text[self._last :].strip():
            self._fail("expected the end of the file after the last }")
        return whole

    def _container(self, mark, depth):
        """Parse an object or a list, of which the opening mark has been read."""
        if depth > 8:
            self._fail("objects and lists must not be nested more than 8 deep")
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
                self._fail(f"expected a value, got {value!r:.80}")
            return self._container(value, depth + 1)
        return value if kind == "text" else _number_or_word(value)


def _number_or_word(word):
    """Convert a word to an int or a float if it is a decimal number."""
    if re.fullmatch(r"-?[0-9]{1,18}", word):
        return int(word)
    if re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", word):
        return float(word)
    return word


class _Network:
    """Builder of the graph of a parsed file."""

    def __init__(self, whole, length):
        sections = _fields(whole, "the file")
        unknown = sorted(set(sections) - {"problem", "variables", "functions"})
        if unknown:
            raise ValueError(
                f"sections must be problem, variables and functions, got "
                f"{unknown[0]!r:.80}"
            )
        problem = _fields(sections.get("problem", _Pairs()), "problem")
        self._sign, self._top = _read_mustbe(problem.get("mustbe", "<inf"))
        self._read_variables(sections.get("variables", _Pairs()))
        self._functions = sections.get("functions", _Pairs())
        self._left = length + _MORE_ENTRIES
        states = sum(self._sizes)
        if states > self._left:
            raise ValueError(
                f"the variables have {states} states in all, too many for the file: "
                f"at most {self._left} are read"
            )
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
        """Build the graph of all cost functions."""
        if not isinstance(self._functions, list):
            raise ValueError(
                f"functions must be an object, got {self._functions!r:.80}"
            )
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
        """Replace scores by -inf if no labeling with them satisfies "mustbe".

        Such a score misses the bound even with the best scores of all other tables. If
        sums of the remaining scores may still miss the bound, `must_exceed` is set.
        """
        high = [float(values.max()) for values in tables]
        # without a bound nothing is forbidden; with a table of -inf everything is
        if self._top == np.inf or min(high, default=0.0) == -np.inf:
            return
        # a margin, so that rounding errors of decimals do not forbid labelings
        margin = _ROUNDING * max(1.0, abs(self._top), sum(map(abs, high)))
        least, lowest = margin - self._top, 0.0
        for values, top in zip(tables, high, strict=True):
            values[values + (sum(high) - top) <= least] = -np.inf
            lowest += float(values[values > -np.inf].min(initial=top))
        if lowest <= least:
            self._parts.must_exceed = least

    def _read_function(self, body, what):
        """Return the scope and the scores of a cost function."""
        if "type" in body:
            raise ValueError(
                f"{what} is of type {body['type']!r:.80}, which is not supported: "
                "list its costs"
            )
        scope = self._read_scope(body.get("scope"), what)
        shape = tuple(self._sizes[v] for v in scope)
        size = math.prod(shape)
        if size > self._left:
            raise ValueError(
                f"{what} has a table of {size} entries, too many for the file: at most "
                f"{self._left} more are read"
            )
        self._left -= size
        costs = body.get("costs")
        if not isinstance(costs, list):
            raise ValueError(f"{what} must have a list costs, got {costs!r:.80}")
        if "defaultcost" in body:
            values = self._read_tuples(scope, shape, body["defaultcost"], costs, what)
        else:
            values = _numbers(costs, what)
            if len(values) != size:
                raise ValueError(f"{what} needs {size} costs, got {len(values)}")
        scores = -self._sign * values
        if not scores.max(initial=-np.inf) < np.inf:
            raise ValueError(
                f"{what} has a cost whose score is infinite: costs must be finite, or "
                "infinite on the side that mustbe forbids"
            )
        return scope, scores.reshape(shape)

    def _read_scope(self, names, what):
        if not isinstance(names, list):
            raise ValueError(f"{what} must have a list scope, got {names!r:.80}")
        scope = []
        for name in names:
            # look up the name before the number: a variable may be named 0
            v = self._index.get(str(name), name if _is_integer(name) else -1)
            if not 0 <= v < len(self._sizes):
                raise ValueError(
                    f"{what} has the variable {name!r:.80} in its scope, which is not "
                    "in variables"
                )
            scope.append(v)
        if len(set(scope)) < len(scope) or len(scope) > 64:
            raise ValueError(
                f"the scope of {what} must be at most 64 different variables, got "
                f"{names!r:.80}"
            )
        return scope

    def _read_tuples(self, scope, shape, default, items, what):
        """Read a list of tuples of states with costs; other tuples cost `default`."""
        width = len(scope) + 1
        if len(items) % width:
            raise ValueError(
                f"{what} with a defaultcost must list {width - 1} states and a cost, "
                f"again and again, got {len(items)} numbers"
            )
        values = np.full(shape, _numbers([default], what)[0])
        costs = _numbers(items[width - 1 :: width], what)
        seen = set()
        for k, cost in enumerate(costs):
            names = items[k * width : (k + 1) * width - 1]
            states = tuple(
                self._state(v, x, what) for v, x in zip(scope, names, strict=True)
            )
            if states in seen:
                raise ValueError(f"{what} has the tuple {names!r:.80} twice")
            seen.add(states)
            values[states] = cost
        return values.reshape(-1)

    def _state(self, v, x, what):
        """Return the index of a state of variable `v`, given by its name or index."""
        state = self._states[v].get(str(x), x if _is_integer(x) else -1)
        if not 0 <= state < self._sizes[v]:
            raise ValueError(
                f"{what} has the state {x!r:.80} of variable {v}, which has "
                f"{self._sizes[v]} states"
            )
        return state


def _is_integer(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _named(pairs, what):
    """Check that all names of an object exist and differ; return its pairs."""
    if not isinstance(pairs, _Pairs):
        raise ValueError(f"{what} must be an object, got {pairs!r:.80}")
    names = [name for name, _ in pairs]
    if None in names or len(set(names)) < len(names):
        raise ValueError(
            f"{what} must have a name for each entry, and all names must differ, got "
            f"{names!r:.80}"
        )
    return pairs


def _fields(pairs, what):
    return dict(_named(pairs, what))


def _numbers(values, what):
    """Convert costs to an array; the words "inf" and "-inf" are numbers in a file."""
    if any(isinstance(x, float) and math.isinf(x) for x in values):
        raise ValueError(f"{what} has a cost that is too large for float64")
    words = {"inf": np.inf, "-inf": -np.inf}
    values = [words.get(x, x) if isinstance(x, str) else x for x in values]
    for x in values:
        if isinstance(x, bool) or not isinstance(x, (int, float)):
            raise _NoNumber(f"{what} has the cost {x!r:.80}, which is not a number", x)
    try:
        array = np.array(values, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"{what} has a cost that is too large for float64") from None
    return array


def _read_mustbe(text):
    """Return 1 if costs are minimized, else -1; and the bound on them, times that sign.

    The bound is that of "mustbe" on the total cost of a labeling.
    """
    bound = re.fullmatch(r"([<>])\s*(-?inf|[-+.0-9eE]+)", str(text).strip())
    try:
        sign = {"<": 1.0, ">": -1.0}[bound[1]]
        top = sign * float(bound[2])
    except (TypeError, ValueError):
        raise ValueError(f"mustbe must be like '<12.5', got {text!r:.80}") from None
    return sign, top
