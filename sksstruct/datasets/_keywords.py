"""WCSP cost functions with a keyword, as tables.

The supported keywords of toulbar2's format are comparisons of two variables, and
conditions on more variables. A condition is decomposed into tables of pairs if that is
exact, and otherwise becomes one table of all variables. Other keywords are an error.
"""

import itertools

import numpy as np


class Keywords:
    """Reader of the parameters of keyword cost functions.

    Parameters
    ----------
    tokens : Tokens
        The file.
    sizes : sequence of int
        Number of states of each variable.
    top : int
        Cost that forbids a tuple.
    reserve : callable
        ``reserve(shape)`` is called before memory is allocated, and may raise an error.
    """

    def __init__(self, tokens, sizes, top, reserve):
        self._tokens, self._sizes, self._top = tokens, sizes, top
        self._reserve = reserve

    def read(self, word, scope):
        """Read the parameters of a cost function, and yield its tables of costs.

        Parameters
        ----------
        word : bytes
            The keyword.
        scope : list of int
            The variables.

        Yields
        ------
        scope, costs : list of int, ndarray of float64
            Tables whose sum is the cost function. Costs of at least `top` forbid.
        """
        name = word.decode("ascii", "replace")
        reader = {
            **dict.fromkeys((">=", ">", "<=", "<", "="), self._compare),
            "disj": self._disjoin, "sdisj": self._disjoin, "clique": self._clique,
            "alldiff": self._all_differ, "salldiff": self._differ,
            "wregular": self._follow,
            **dict.fromkeys(("knapsack", "knapsackp", "knapsackv"), self._fill),
        }.get(name)  # fmt: skip
        if reader is None:
            self._tokens.fail(f"cost functions {name[:20]!r} are not supported")
        yield from reader(name, scope)

    def _number(self, low=None):
        return self._tokens.integer("a parameter of a cost function", low)

    def _states(self, scope, more=1):
        """Reserve memory; return the states of a scope's variables, as `np.indices`."""
        shape = tuple(self._sizes[v] for v in scope)
        self._reserve((*shape, more))
        return np.indices(shape, dtype=np.float64, sparse=True)

    def _pair(self, name, scope):
        if len(scope) != 2:
            self._tokens.fail(f"{name!r} must have 2 variables, got {len(scope)}")

    def _compare(self, name, scope):
        """Read a comparison such as x >= y + constant, whose cost is its violation.

        A violation above delta costs top.
        """
        self._pair(name, scope)
        constant, delta = self._number(), self._number()
        x, y = self._states(scope)
        excess = (x - y - constant) if name.startswith("<") else (y + constant - x)
        if name in ("<", ">"):
            excess = excess + 1.0
        excess = np.abs(excess) if name == "=" else np.maximum(excess, 0.0)
        yield scope, np.where(excess <= delta, excess, float(self._top))

    def _disjoin(self, name, scope):
        """Read the disjunction x >= y + csty or y >= x + cstx.

        In disj, a violation has a cost. In sdisj, it is forbidden, except if a variable
        has its last value, which has a cost; larger values are forbidden.
        """
        self._pair(name, scope)
        after_x, after_y = self._number(), self._number()
        rest = [self._number() for _ in range(1 if name == "disj" else 4)]
        x, y = self._states(scope)
        holds = (x >= y + after_y) | (y >= x + after_x)
        if name == "disj":
            yield scope, np.where(holds, 0.0, float(rest[0]))
            return
        last_x, last_y, cost_x, cost_y = rest
        holds = (x <= last_x) & (y <= last_y) & (holds | (x == last_x) | (y == last_y))
        costs = cost_x * (x == last_x) + cost_y * (y == last_y)
        yield scope, np.where(holds, costs, float(self._top))

    def _differ(self, name, scope):
        """Read a cost of each variable, or of each pair, that repeats a value."""
        kind = self._tokens.next(f"the kind of {name}")
        if kind not in (b"var", b"dec", b"decbi"):
            self._tokens.fail(f"{name} must be var, dec or decbi, got {kind[:20]!r}")
        cost = self._number(0)
        # dec and decbi are sums over pairs; so is var if any repetition is forbidden
        if kind != b"var" or cost >= self._top:
            for pair in itertools.combinations(scope, 2):
                x, y = self._states(pair)
                yield list(pair), cost * (x == y).astype(np.float64)
            return
        columns = self._states(scope)
        largest = max(self._sizes[v] for v in scope)
        different = sum(
            np.logical_or.reduce(np.broadcast_arrays(*(x == k for x in columns)))
            for k in range(largest)
        )
        yield scope, cost * (len(scope) - different.astype(np.float64))

    def _all_differ(self, name, scope):
        """Require different values, except for a list of values that may repeat."""
        free = [self._number() for _ in range(self._count(name))]
        if self._count(name):
            self._tokens.fail("alldiff with moved costs is not supported: expected 0")
        for pair in itertools.combinations(scope, 2):
            x, y = self._states(pair)
            same = (x == y) & ~np.isin(x, free)
            yield list(pair), np.where(same, float(self._top), 0.0)

    def _count(self, name):
        """Read the number of parameters that follow."""
        most = self._tokens.left
        return self._tokens.integer(f"a number of parameters of {name}", 0, most)

    def _clique(self, name, scope):
        """Require that at most one variable has a value of the variable's list."""
        if self._number() != 1:
            self._tokens.fail("clique must allow at most 1 variable: expected 1")
        chosen = []
        for v in scope:
            mask = np.zeros(self._sizes[v], dtype=bool)
            for value in self._values(self._number(0), v):
                mask[value] = True
            chosen.append(mask)
        for (u, a), (v, b) in itertools.combinations(
            zip(scope, chosen, strict=True), 2
        ):
            self._states([u, v])
            yield [u, v], np.where(a[:, None] & b, float(self._top), 0.0)

    def _values(self, count, v):
        """Read `count` values of variable `v`."""
        what, high = f"a value of variable {v}", self._sizes[v] - 1
        return self._tokens.integers(count, what, 0, high).tolist()

    def _fill(self, name, scope):
        """Require that the weights of the values sum to at least the capacity."""
        capacity = self._number()
        weights = [np.zeros(self._sizes[v]) for v in scope]
        if name == "knapsack":
            for v, row in zip(scope, weights, strict=True):
                if len(row) != 2:
                    self._tokens.fail(
                        f"variables of knapsack must have 2 states, variable {v} has "
                        f"{len(row)}"
                    )
                row[1] = self._number()
        elif name == "knapsackp":
            for v, row in zip(scope, weights, strict=True):
                for _ in range(self._number(0)):
                    (value,) = self._values(1, v)
                    row[value] = self._number()
        else:
            place = {v: row for v, row in zip(scope, weights, strict=True)}
            for _ in range(self._number(0)):
                v = self._number()
                if v not in place:
                    self._tokens.fail(f"variable {v} is not in the scope")
                (value,) = self._values(1, v)
                place[v][value] = self._number()
        total = sum(
            row[x.astype(np.intp)]
            for row, x in zip(weights, self._states(scope), strict=True)
        )
        yield scope, np.where(total >= capacity, 0.0, float(self._top))

    def _follow(self, name, scope):
        """Read an automaton, and yield the costs of its cheapest paths.

        The cost of a labeling is that of the cheapest path that reads its values in
        order.
        """
        n = self._tokens.integer("the number of states of an automaton", 1, 10_000)
        last = n - 1

        def read_states():
            costs = np.full(n, np.inf)
            for _ in range(self._number(0)):
                state = self._tokens.integer("a state of an automaton", 0, last)
                costs[state] = self._number(0)
            return costs

        paths, final = read_states(), read_states()
        steps = self._tokens.integers(
            4 * self._number(0), "a step of an automaton", 0, 2**53
        ).reshape(-1, 4)
        if steps.size and steps[:, [0, 2]].max() > last:
            self._tokens.fail(f"an automaton has a step beyond its {n} states")
        # costs[x_1, ..., x_t, s]: cheapest path that reads x_1 to x_t and ends in s
        self._states(scope, n)
        costs = paths
        for v in scope:
            size = self._sizes[v]
            after = np.full((*costs.shape[:-1], size, n), np.inf)
            for start, value, end, cost in steps.tolist():
                if value < size:
                    np.minimum(
                        after[..., value, end],
                        costs[..., start] + cost,
                        out=after[..., value, end],
                    )
            costs = after
        total = (costs + final).min(axis=-1)
        yield scope, np.where(np.isfinite(total), total, float(self._top))
