"""Weighted constraint satisfaction problems in toulbar2's text format.

A file consists of blank-separated tokens: a name, the number of variables, the size of
the largest domain, the number of cost functions, and the top cost; then the number of
states of each variable; then each cost function as the size of its scope, the scope, a
default cost, the number of tuples with another cost, and these tuples, each followed by
its cost. A negative scope size marks a table that later functions can share: such a
function has minus the number of the table in place of the number of tuples.
"""

import math

import numpy as np

from sksstruct.datasets._keywords import Keywords
from sksstruct.datasets._parts import Parts, list_factors, write_out
from sksstruct.datasets._scan import read_tuples
from sksstruct.datasets._text import open_write, tokens_of
from sksstruct.factor_graphs import FactorGraph
from sksstruct.utils.typing import PathLike


def load_wcsp(path: PathLike) -> FactorGraph:
    """Read a weighted constraint satisfaction problem.

    Parameters
    ----------
    path : path-like
        A ``.wcsp`` file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed. These
        keyword cost functions become tables: comparisons, ``disj``, ``sdisj``,
        ``alldiff``, ``salldiff``, ``clique``, the knapsacks and ``wregular``. Other
        keywords, functions whose tables would be too large, and interval domains raise
        an error.

    Returns
    -------
    graph : FactorGraph
        Scores are minus the costs, and -inf for costs that reach the top cost given on
        the first line. A labeling whose total cost reaches the top cost is forbidden,
        too: if such a labeling may exist, `must_exceed` is half a unit above minus the
        top cost.

    Raises
    ------
    ValueError
        If the file is not valid; the error names the line.

    Examples
    --------
    >>> from sksstruct.datasets import load_wcsp
    >>> with open("small.wcsp", "w") as file:
    ...     _ = file.write("two 2 2 1 10\\n2 2\\n2 0 1 5 1\\n0 0 0\\n")
    >>> graph = load_wcsp("small.wcsp")  # cost 5, but 0 for the states (0, 0)
    >>> graph.score([0, 0]), graph.score([0, 1])
    (0.0, -5.0)
    """
    with tokens_of(path) as tokens:
        tokens.next("the name")
        n = tokens.integer("the number of variables", 0, tokens.left)
        largest = tokens.integer("the largest domain", 0)
        m = tokens.integer("the number of cost functions", 0, tokens.left)
        top = tokens.integer("the top cost", 1)
        reader = _Reader(tokens, _read_sizes(tokens, n, largest), top)
        for f in range(m):
            reader.read_function(f)
        tokens.finish("cost function")
        # from 2 ** 52 on, 0.5 is lost in rounding: allow totals that round to the top
        must_exceed = 0.5 - top if top < 2**52 else math.nextafter(-top, -math.inf)
        # no bound is needed if no labeling can reach the top cost
        if reader.lowest <= must_exceed:
            reader.parts.must_exceed = must_exceed
        return reader.parts.build()


def _read_sizes(tokens, n, largest):
    """Read the number of states of each variable."""
    sizes = []
    for v in range(n):
        size = tokens.integer(f"the states of variable {v}")
        if size < 1:
            tokens.fail(
                f"variable {v} has {size} states: interval domains are not read"
            )
        if size > largest:
            tokens.fail(
                f"variable {v} must have at most {largest} states, the largest domain "
                f"by the first line, got {size}"
            )
        sizes.append(size)
    # limit the states, as the graph takes memory even for states without costs
    if sum(sizes) > max(len(tokens.data), 1000):
        tokens.fail(
            f"the variables have {sum(sizes)} states in all, too many for the file: at "
            f"most {max(len(tokens.data), 1000)} are read"
        )
    return sizes


class _Reader:
    """Reader of cost functions into `parts`."""

    def __init__(self, tokens, sizes, top):
        self.parts, self.lowest = Parts(sizes, share=0), 0.0
        self._tokens, self._sizes, self._top = tokens, sizes, top
        self._shared = []
        # limit of the entries of all tables: the bytes of the file, and a million more
        self._entries_left = len(tokens.data) + 1_000_000
        self._keywords = Keywords(tokens, sizes, top, self._reserve)

    def read_function(self, f):
        tokens = self._tokens
        most = min(len(self._sizes), 64)
        arity = tokens.integer(f"the arity of cost function {f}", -most, most)
        scope = self._read_scope(f, abs(arity))
        default = tokens.integer(f"the default cost of function {f}")
        if default == -1:
            self._read_keyword(f, scope)
            return
        if default < 0:
            tokens.fail(f"the default cost of function {f} is negative")
        count = tokens.integer(f"the number of tuples of function {f}")
        if count < 0:
            self._add(scope, *self._find_shared(scope, -count))
        elif not scope:
            self._add_constant(default, count)
        else:
            table = self._read_table(f, scope, default, count)
            low = _lowest(table)
            if arity < 0:
                self._shared.append((table, low))
            self._add(scope, table, low)

    def _add(self, scope, table, low):
        self.lowest += low
        self.parts.add(scope, table)

    def _read_scope(self, f, arity):
        last = len(self._sizes) - 1
        scope = [
            self._tokens.integer(f"a variable of cost function {f}", 0, last)
            for _ in range(arity)
        ]
        if len(set(scope)) < len(scope):
            self._tokens.fail(f"cost function {f} names a variable twice")
        return scope

    def _find_shared(self, scope, number):
        """Return the shared table with a number, from 1 on, and its lowest score."""
        if number > len(self._shared):
            self._tokens.fail(
                f"shared cost function {number} is not among the {len(self._shared)} "
                "that were read so far"
            )
        table, low = self._shared[number - 1]
        if table.shape != tuple(self._sizes[v] for v in scope):
            self._tokens.fail(
                f"the scope {scope} does not fit shared cost function {number}, which "
                f"has shape {table.shape}"
            )
        # limit the time: the table of a single variable is added to the unary scores
        # each time that it is shared
        if len(scope) == 1:
            self._entries_left -= table.size
            if self._entries_left < 0:
                self._tokens.fail(
                    "shared cost functions of single variables have too many entries "
                    "for the file"
                )
        return table, low

    def _read_keyword(self, f, scope):
        """Read a function with a keyword; it may be decomposed into several tables."""
        if not scope:
            self._tokens.fail(f"cost function {f} has a keyword, but no variables")
        word = self._tokens.next("a keyword")
        for part, costs in self._keywords.read(word, scope):
            scores = np.where(costs >= self._top, -np.inf, -costs)
            self._add(part, scores, _lowest(scores))

    def _reserve(self, shape):
        """Count the entries of a table, or raise an error beyond the limit."""
        size = math.prod(shape)
        if size > self._entries_left:
            self._tokens.fail(
                f"a cost function has a table of {size} entries, too many for the "
                f"file: at most {self._entries_left} more are read"
            )
        self._entries_left -= size

    def _add_constant(self, default, count):
        if count:
            self._tokens.fail(f"a constant cost must have 0 tuples, got {count}")
        self.parts.offset -= math.inf if default >= self._top else float(default)
        self.lowest -= float(default) if default < self._top else 0.0

    def _read_table(self, f, scope, default, count):
        """Read the table of scores of a cost function that lists tuples of states."""
        tokens, top = self._tokens, self._top
        shape = tuple(self._sizes[v] for v in scope)
        self._reserve(shape)
        if count * (len(shape) + 1) > tokens.left:
            tokens.fail(
                f"the {count} tuples of cost function {f} do not fit into the file"
            )
        # costs are compared with `top` as integers: beyond 2 ** 53 floats have gaps
        scores = np.full(shape, -np.inf if default >= top else -float(default))
        read_tuples(tokens, np.array(shape), count, top, scores.reshape(-1), f)
        return scores


def _lowest(scores):
    """Return the lowest score except for -inf; 0 if all scores are -inf."""
    low = float(scores.min())
    if low == -math.inf:
        low = float(scores[scores > -math.inf].min(initial=0.0))
    return low


def dump_wcsp(
    graph: FactorGraph, path: PathLike, *, name: str = "graph", top: int | None = None
) -> None:
    """Write a graph whose scores are integers of at most zero.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are compressed.
    name : str, default="graph"
        Name of the problem, without blanks.
    top : int, default=None
        Cost that stands for -inf. None: one more than the sum of the largest finite
        costs, or the bound of `must_exceed` of the graph.

    Examples
    --------
    >>> from sksstruct import FactorGraph
    >>> from sksstruct.datasets import dump_wcsp
    >>> dump_wcsp(FactorGraph([[0, -2], [-1, 0]]), "small.wcsp", name="two")
    >>> with open("small.wcsp") as file:
    ...     file.readline()
    'two 2 2 2 4\\n'
    """
    factors = [
        (scope, write_out(table, weight))
        for scope, table, weight in list_factors(graph)
    ]
    total = sum(_largest_cost(scope, values) for scope, values in factors)
    # the smallest integer of at least -must_exceed: costs must be below it
    bound = None if graph.must_exceed == -math.inf else math.ceil(-graph.must_exceed)
    if top is None:
        top = total + 1 if bound is None else bound
    if bound is not None and (top != bound or top < 1):
        raise ValueError(
            f"top = {top} must be positive, and {bound} for a graph with must_exceed = "
            f"{graph.must_exceed}"
        )
    if not (total < top or top == bound) or not top < 2**53:
        raise ValueError(
            f"top = {top} must be above all costs together, {total}, and below 2 ** 53"
        )
    if name.split() != [name]:
        raise ValueError(f"name must be one word, got {name!r}")
    if (graph.evidence >= 0).any():
        raise ValueError(
            "graph must not have evidence, which .wcsp files lack: give the observed "
            "states unary scores"
        )
    with open_write(path) as file:
        sizes = [str(k) for k in graph.n_states]
        largest = int(graph.n_states.max(initial=0))
        file.write(f"{name} {len(sizes)} {largest} {len(factors)} {top}\n")
        file.write(" ".join(sizes) + "\n")
        for scope, values in factors:
            file.writelines(_function_lines(scope, values, top))


def _largest_cost(scope, values):
    """Return the largest finite cost; raise an error if costs are not integers."""
    finite = values[values > -np.inf]
    if (finite > 0).any() or (finite != np.round(finite)).any():
        raise ValueError(
            f"the factor of {tuple(int(v) for v in scope)} must have integer scores of "
            "at most zero, because costs are nonnegative integers"
        )
    return int(-finite.min()) if finite.size else 0


def _function_lines(scope, values, top):
    """Yield the lines of a cost function, which list the tuples of nonzero cost."""
    head = " ".join(str(int(v)) for v in (len(scope), *scope))
    if not scope:
        yield f"{head} {int(-values)} 0\n"
        return
    yield f"{head} 0 {np.count_nonzero(values)}\n"
    for states in np.argwhere(values != 0):
        cost = values[tuple(states)]
        cost = top if cost == -np.inf else int(-cost)
        yield " ".join(str(int(x)) for x in (*states, cost)) + "\n"
