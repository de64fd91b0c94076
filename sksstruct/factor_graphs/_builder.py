"""Builder of a factor graph, one variable or factor at a time."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.factor_graphs._graph import FactorGraph
from sksstruct.factor_graphs._tables import Table, TableStore
from sksstruct.utils.typing import Integers


class FactorGraphBuilder:
    """Builder of a factor graph to which you add variables and factors one by one.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraphBuilder, Potts
    >>> builder = FactorGraphBuilder()
    >>> sky = builder.add_variable([0.0, 1.0])
    >>> sea = builder.add_variable([0.5, 0.0])
    >>> builder.add_factor([sky, sea], Potts(2))
    >>> builder.build().score([1, 1])
    2.0

    States may have names, which may then stand for states in labelings:

    >>> builder = FactorGraphBuilder()
    >>> sky = builder.add_variable({"gray": 0.0, "blue": 1.0})
    >>> sea = builder.add_variable({"gray": 0.5, "blue": 0.0})
    >>> builder.add_factor([sky, sea], Potts(2))
    >>> builder.build().score(["blue", "blue"])
    2.0
    """

    def __init__(self) -> None:
        self._unaries, self._factors, self._evidence = [], [], {}
        self._names = []
        self._edges, self._tables, self._weights = [], [], []
        self._index, self._offset = {}, 0.0
        self._store = TableStore()

    def add_variable(self, scores: ArrayLike | Mapping[str, float]) -> int:
        """Add a variable.

        Parameters
        ----------
        scores : array-like of shape (n_states,), or dict of str to float
            Scores of the states, in the order of the entries of tables. A dict has the
            scores by the names of the states.

        Returns
        -------
        variable : int
            Number of the variable, for scopes.
        """
        names = None
        if isinstance(scores, Mapping):
            names, scores = list(scores), list(scores.values())
        self._names.append(names)
        self._unaries.append(np.array(scores, dtype=np.float64))
        return len(self._unaries) - 1

    def add_factor(
        self, scope: Integers, table: ArrayLike | Table, weight: float = 1.0
    ) -> None:
        """Add a factor over variables that have been added.

        Parameters
        ----------
        scope : sequence of int
            Different variables; an empty scope for a constant.
        table : array-like or Table
            Scores, with a dimension for each variable. An array is copied, so that you
            may change it afterwards; equal arrays are stored once. Factors that share a
            large table take less time to add if you pass a `DenseTable`.
        weight : float, default=1.0
            Factor of the scores of a factor of two variables; for other factors it must
            be 1.
        """
        scope = list(scope)
        if len(scope) != 2 and weight != 1.0:
            raise ValueError(
                f"weight must be 1 for a factor of {len(scope)} variables, got "
                f"{weight!r}: only factors of two variables have weights"
            )
        if not scope:
            self._offset += float(table)
            return
        table = self._store(table)
        if len(scope) == 2:
            # `_tables` keeps the table alive, so that its id stays unique
            t = self._index.setdefault(id(table), len(self._tables))
            if t == len(self._tables):
                self._tables.append(table)
            self._edges.append((*scope, t))
            self._weights.append(weight)
        else:
            self._factors.append((scope, table))

    def observe(self, variable: int, state: int | str) -> None:
        """Record the observed state of a variable.

        Parameters
        ----------
        variable : int
            The variable.
        state : int or str
            Number or name of the observed state.
        """
        self._evidence[variable] = state

    def build(self) -> FactorGraph:
        """Build the graph of all variables and factors that were added so far.

        Returns
        -------
        graph : FactorGraph
            The graph, checked and immutable.
        """
        edges = np.array(self._edges).reshape(-1, 3) if self._edges else None
        return FactorGraph(
            self._unaries,
            edges=None if edges is None else edges[:, :2],
            tables=self._tables or None,
            edge_tables=None if edges is None else edges[:, 2],
            edge_weights=self._weights if set(self._weights) - {1.0} else None,
            factors=self._factors,
            evidence=self._evidence,
            offset=self._offset,
            state_names=self._names,
        )
