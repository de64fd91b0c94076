"""Building a factor graph piece by piece."""

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

    States may have names, which labelings then have, too:

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
            Scores of its states; as a dict, by their names. Their order is that of the
            dimensions of tables.

        Returns
        -------
        variable : int
            Number of the variable, to be used in scopes.
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
            Different variables; none at all for a constant.
        table : array-like or Table
            Scores, with a dimension for each variable. An array is copied, so that you
            may use it again for other scores; equal arrays are stored once. Factors
            that share a large table take less time to add if you pass a `DenseTable`.
        weight : float, default=1.0
            Number that multiplies the scores of a factor of two variables; for other
            factors it has to be 1.
        """
        scope = list(scope)
        if len(scope) != 2 and weight != 1.0:
            raise ValueError("weight is for factors of two variables")
        if not scope:
            self._offset += float(table)
            return
        table = self._store(table)
        if len(scope) == 2:
            # the list of tables keeps the table, and so its id
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
            Its state, by number or by name.
        """
        self._evidence[variable] = state

    def build(self) -> FactorGraph:
        """Build the graph of all that has been added so far.

        Returns
        -------
        graph : FactorGraph
            Checked and immutable.
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
