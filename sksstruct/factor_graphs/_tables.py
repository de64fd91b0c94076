"""Tables of scores: dense arrays, or functions of a few parameters.

A table is immutable, and several factors may share it. Kernels read the `kind` and the
`parameters` of a table; this file defines their meaning.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

# The kinds of tables in kernels (see inference/map/core/_tables.pxd).
DENSE, POTTS, LINEAR, QUADRATIC, LOGIC = range(5)
# Largest number of entries of a parametric table that is converted to a dense array.
_MAX_DENSE = 1 << 26


class Table:
    """A table of scores; subclasses define its entries.

    Attributes
    ----------
    shape : tuple of int
        Number of states of each variable.

    Examples
    --------
    >>> from sksstruct.factor_graphs import Potts
    >>> table = Potts(3, agree=1.0)
    >>> table.shape
    (3, 3)
    >>> table.scores([0, 0], [0, 2]).tolist()
    [1.0, 0.0]
    >>> table.dense().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    # slots save memory: a graph may have millions of tables
    __slots__ = ()
    kind: ClassVar[int | None] = None
    # the condition and the budget of a `Logic`, None for other tables
    condition: Any = None
    limit: Any = None
    shape: tuple[int, ...]

    def __setattr__(self, name, value):
        if hasattr(self, name):
            raise AttributeError("tables are immutable")
        object.__setattr__(self, name, value)

    def scores(self, *states: ArrayLike) -> np.ndarray:
        """Scores of joint states.

        Parameters
        ----------
        *states : array-likes of int, one for each variable
            States, broadcast against each other.

        Returns
        -------
        scores : ndarray of float64
            Scores of the joint states.
        """
        raise NotImplementedError

    def dense(self) -> np.ndarray:
        """Convert the table to an array.

        Returns
        -------
        table : ndarray of shape `shape`
            All scores.
        """
        size = int(np.prod(self.shape, dtype=object))
        if size > _MAX_DENSE:
            raise ValueError(
                f"{self!r} has {size} entries, too many for a dense array: at most "
                f"{_MAX_DENSE} are allowed"
            )
        return np.ascontiguousarray(self.scores(*np.indices(self.shape, sparse=True)))


class DenseTable(Table):
    """A table that stores all scores; arrays are converted to this kind.

    Parameters
    ----------
    values : array-like of numbers
        Scores, which are copied once; -inf forbids a joint state. Factors and graphs
        share the table without further copies.

    Examples
    --------
    >>> from sksstruct.factor_graphs import DenseTable, FactorGraph
    >>> table = DenseTable([[0.0, -1.0, 2.0], [0.5, 0.0, 0.0]])
    >>> graph = FactorGraph([[0.0, 0.0], [0.0, 0.0, 0.0]], [(0, 1)], table)
    >>> graph.score([0, 2])
    2.0
    """

    __slots__ = ("values",)
    kind = DENSE

    def __init__(self, values: ArrayLike) -> None:
        try:
            values = np.array(values, dtype=np.float64, order="C")
        except (TypeError, ValueError):
            raise ValueError("a table must be an array of numbers") from None
        if values.ndim == 0 or values.size == 0:
            raise ValueError(f"a table must have entries, got shape {values.shape}")
        if not values.max() < np.inf:
            raise ValueError(
                "a table must be finite or -inf, and has an entry that is NaN or +inf"
            )
        values.flags.writeable = False
        self.values = values

    @classmethod
    def _own(cls, values):
        """Make a table that takes over an array, without checks or a copy."""
        table = object.__new__(cls)
        values.flags.writeable = False
        object.__setattr__(table, "values", values)
        return table

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.values.shape

    def __repr__(self):
        return f"DenseTable(shape={self.shape})"

    def __reduce__(self):
        # unpickle by the constructor, which makes the array read-only; skops supports
        # no other function
        return DenseTable, (self.values,)

    def scores(self, *states: ArrayLike) -> np.ndarray:
        return self.values[states]

    def dense(self) -> np.ndarray:
        return self.values


def _number(value, name, low, high=np.inf):
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in [{low}, {high}], got {value!r}")
    return float(value)


def _count(value, name, low=1):
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


class _Square(Table):
    """Base of tables of two variables with the same number of states."""

    __slots__ = ("parameters", "shape")

    def __repr__(self):
        rest = ", ".join(f"{value:g}" for value in self.parameters)
        return f"{type(self).__name__}({self.shape[0]}, {rest})"

    def __reduce__(self):
        return type(self), (self.shape[0], *self.parameters)


class Potts(_Square):
    """Two variables score `agree` if their states are equal, and `differ` otherwise.

    Parameters
    ----------
    n_states : int
        Number of states of both variables.
    agree, differ : float, default=1.0, 0.0
        Finite scores.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> table = Potts(2, agree=0.5, differ=-0.5)
    >>> graph = FactorGraph([[0, 1], [0, 0]], [(0, 1)], table)
    >>> graph.score([1, 1]), graph.score([1, 0])
    (1.5, 0.5)
    """

    __slots__ = ()
    kind = POTTS

    def __init__(self, n_states: int, agree: float = 1.0, differ: float = 0.0) -> None:
        n_states = _count(n_states, "n_states")
        limits = -np.finfo(float).max, np.finfo(float).max
        self.shape = (n_states, n_states)
        self.parameters = (
            _number(agree, "agree", *limits),
            _number(differ, "differ", *limits),
        )

    def scores(self, *states: ArrayLike) -> np.ndarray:
        u, v = states
        return np.where(np.equal(u, v), *self.parameters)


class _Distance(_Square):
    __slots__ = ()

    def __init__(
        self, n_states: int, scale: float = 1.0, limit: float = np.inf
    ) -> None:
        n_states = _count(n_states, "n_states")
        self.shape = (n_states, n_states)
        self.parameters = (
            _number(scale, "scale", 0.0, np.finfo(float).max),
            _number(limit, "limit", 0.0),
        )

    def scores(self, *states: ArrayLike) -> np.ndarray:
        scale, limit = self.parameters
        return -np.minimum(scale * self._distance(*states), limit)


class TruncatedLinear(_Distance):
    """Two variables score ``-min(scale * |x_u - x_v|, limit)``.

    Parameters
    ----------
    n_states : int
        Number of states of both variables.
    scale : float, default=1.0
        Cost of each step between the states; it must not be negative.
    limit : float, default=inf
        Largest cost, at which the cost is truncated.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, TruncatedLinear
    >>> table = TruncatedLinear(4, scale=1.0, limit=2.0)
    >>> graph = FactorGraph([[0] * 4, [0] * 4], [(0, 1)], table)
    >>> [graph.score([0, state]) for state in range(4)]
    [0.0, -1.0, -2.0, -2.0]
    """

    __slots__ = ()
    kind = LINEAR

    @staticmethod
    def _distance(u, v):
        return np.abs(np.subtract(u, v, dtype=np.float64))


class TruncatedQuadratic(_Distance):
    """Two variables score ``-min(scale * (x_u - x_v) ** 2, limit)``.

    Parameters
    ----------
    n_states : int
        Number of states of both variables.
    scale : float, default=1.0
        Cost of a squared distance of 1; it must not be negative.
    limit : float, default=inf
        Largest cost, at which the cost is truncated.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, TruncatedQuadratic
    >>> table = TruncatedQuadratic(4, scale=1.0, limit=5.0)
    >>> graph = FactorGraph([[0] * 4, [0] * 4], [(0, 1)], table)
    >>> [graph.score([0, state]) for state in range(4)]
    [0.0, -1.0, -4.0, -5.0]
    """

    __slots__ = ()
    kind = QUADRATIC

    @staticmethod
    def _distance(u, v):
        return np.subtract(u, v, dtype=np.float64) ** 2


class Logic(Table):
    """A condition on binary variables: score 0 if the condition holds, otherwise -inf.

    Parameters
    ----------
    condition : {"xor", "atmostone", "or", "orout", "xorout", "budget"}
        "xor": exactly one variable is 1; "atmostone": at most one variable is 1; "or":
        at least one variable is 1; "orout": the last variable is 1 if and only if at
        least one other variable is 1; "xorout": the last variable is 1 if exactly one
        other variable is 1, and 0 if no other variable is 1; "budget": at most `limit`
        variables are 1.
    n_variables : int
        Number of variables; at least one, or two for "orout" and "xorout".
    negated : sequence of bool, default=None
        Variables that are negated: their state 0 counts as 1.
    limit : int, default=None
        Number of variables that may be 1, for "budget" only.

    Examples
    --------
    >>> from sksstruct import FactorGraph, LPMAPPredictor
    >>> from sksstruct.factor_graphs import Logic
    >>> scores = [[0.0, 3.0], [0.0, 1.0], [0.0, 2.0]]
    >>> two = FactorGraph(scores, factors=[((0, 1, 2), Logic("budget", 3, limit=2))])
    >>> LPMAPPredictor(random_state=0).predict([two])[0].tolist()
    [1, 0, 1]
    """

    __slots__ = ("condition", "limit", "negated", "shape")
    kind = LOGIC
    conditions = ("xor", "atmostone", "or", "orout", "xorout", "budget")

    def __init__(
        self,
        condition: Literal["xor", "atmostone", "or", "orout", "xorout", "budget"],
        n_variables: int,
        negated: Sequence[bool] | np.ndarray | None = None,
        limit: int | None = None,
    ) -> None:
        if condition not in self.conditions:
            raise ValueError(
                f"condition must be one of {self.conditions}, got {condition!r}"
            )
        low = 2 if condition.endswith("out") else 1
        n = _count(n_variables, "n_variables", low)
        if (condition == "budget") != (limit is not None):
            raise ValueError(
                "limit must be an integer with condition='budget', and None otherwise, "
                f"got limit={limit!r} and condition={condition!r}"
            )
        self.condition = condition
        self.limit = None if limit is None else min(_count(limit, "limit", 0), n)
        self.shape = (2,) * n
        negated = np.zeros(n, dtype=bool) if negated is None else np.array(negated)
        if negated.shape != (n,) or negated.dtype != bool:
            raise ValueError(
                f"negated must be {n} bools, one for each variable, got {negated!r:.80}"
            )
        negated.flags.writeable = False
        self.negated = negated

    def __repr__(self):
        rest = "" if self.limit is None else f", limit={self.limit}"
        return f"Logic({self.condition!r}, {len(self.shape)}{rest})"

    def __reduce__(self):
        return Logic, (self.condition, len(self.shape), self.negated, self.limit)

    def scores(self, *states: ArrayLike) -> np.ndarray:
        on = [np.asarray(x) != n for x, n in zip(states, self.negated, strict=True)]
        last = on.pop() if self.condition.endswith("out") else None
        count = sum((x.astype(np.intp) for x in on), start=np.intp(0))
        holds = {
            "xor": lambda: count == 1,
            "atmostone": lambda: count <= 1,
            "or": lambda: count >= 1,
            "orout": lambda: (count >= 1) == last,
            "xorout": lambda: count == last,
            "budget": lambda: count <= self.limit,
        }[self.condition]()
        return np.where(holds, 0.0, -np.inf)


def as_table(table):
    """Convert an array, or a `Logic` of one or two variables, to a `DenseTable`."""
    if isinstance(table, Logic) and len(table.shape) <= 2:
        return DenseTable._own(table.dense())
    return table if isinstance(table, Table) else DenseTable(table)


class TableStore:
    """Converter of arrays to tables that maps equal arrays to one table.

    Arrays are compared by their numbers, because the caller may change an array and
    pass the same object again.
    """

    def __init__(self):
        self._known = {}

    def __call__(self, table):
        converted = as_table(table)
        if converted is table:
            return converted
        key = converted.shape, hashlib.blake2b(converted.values).digest()
        return self._known.setdefault(key, converted)
