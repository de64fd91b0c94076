"""What a reader of factor graphs collects, without an object for each number."""

from array import array

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph


class Parts:
    """Scores by scope, in the order of a file.

    Parameters
    ----------
    sizes : sequence of int
        Number of states of each variable.
    share : int
        Tables of more entries are looked up, so that equal ones are kept once; small
        ones take less memory than knowing them again.
    """

    def __init__(self, sizes, share):
        self._sizes, self._share = sizes, share
        self._begin = np.zeros(len(sizes) + 1, dtype=np.intp)
        np.cumsum(sizes, out=self._begin[1:])
        self._unaries = np.zeros(self._begin[-1])
        self._edges, self._edge_tables = array("i"), array("i")
        self._scopes, self._scope_tables = [], []
        self._tables, self._known = [], {}
        self.offset = 0.0

    def add(self, scope, values):
        """Add scores of the variables of a scope; tell whether they are in range.

        Parameters
        ----------
        scope : sequence of int
            Variables.
        values : ndarray
            Their scores, which nobody else holds.

        Returns
        -------
        fits : bool
            False where sums are too large for floating-point numbers.
        """
        if len(scope) == 0:
            self.offset += float(values.reshape(-1)[0])
            return abs(self.offset) < np.inf
        if len(scope) == 1:
            part = self._unaries[self._begin[scope[0]] : self._begin[scope[0] + 1]]
            with np.errstate(over="ignore"):
                part += values
            return bool(part.max() < np.inf)
        t = len(self._tables)
        if values.size > self._share:
            t = self._known.setdefault((values.shape, values.tobytes()), t)
        if t == len(self._tables):
            self._tables.append(DenseTable._own(values))
        if len(scope) == 2:
            self._edges.extend(scope)
            self._edge_tables.append(t)
        else:
            self._scopes.append(np.array(scope, dtype=np.intp))
            self._scope_tables.append(t)
        return True

    def build(self, evidence=None):
        """The graph.

        Parameters
        ----------
        evidence : dict of int to int, default=None
            Observed states.

        Returns
        -------
        graph : FactorGraph
            Of all that was added.
        """
        self._known = {}
        return FactorGraph._assemble(
            self._sizes, self._unaries, self._edges, self._edge_tables, self._tables,
            self._scopes, self._scope_tables, self.offset, evidence,
        )  # fmt: skip
