"""Factors in the order of a file: `Parts` for readers, `list_factors` for writers."""

from array import array

import numpy as np

from sksstruct.factor_graphs import DenseTable, FactorGraph, Table


def list_factors(graph):
    """List all factors of a graph: offset, variables, edges, and larger factors.

    Parameters
    ----------
    graph : FactorGraph
        A graph.

    Returns
    -------
    factors : list of tuple of (scope, table, weight)
        A table is an array or a `Table`; `write_out` turns it and its weight into an
        array. The offset, with an empty scope, is left out if it is zero.
    """
    factors = [((), np.array(graph.offset), 1.0)] if graph.offset else []
    factors += [((v,), graph.unary(v), 1.0) for v in range(graph.n_variables)]
    return factors + [(tuple(scope), *rest) for scope, *rest in graph._listed()]


def check_total(graph):
    """Raise an error if a graph forbids labelings by their total scores."""
    if graph.must_exceed > -np.inf:
        raise ValueError(
            f"graph must not have must_exceed, got {graph.must_exceed}: the file "
            "format has no bound on the total score"
        )


def write_out(table, weight):
    """Convert the table and the weight of a factor of `list_factors` to an array."""
    values = table.dense() if isinstance(table, Table) else table
    return values if weight == 1.0 else values * weight


class Parts:
    """Collector of the factors of a file, with few Python objects.

    Parameters
    ----------
    sizes : sequence of int
        Number of states of each variable.
    share : int
        Tables with more entries than this are looked up, so that equal tables are
        stored once. For smaller tables the look-up would take more memory than it
        saves.
    """

    def __init__(self, sizes, share):
        self._sizes, self._share = sizes, share
        self._begin = np.zeros(len(sizes) + 1, dtype=np.intp)
        np.cumsum(sizes, out=self._begin[1:])
        self._unaries = np.zeros(self._begin[-1])
        self._edges, self._edge_tables = array("i"), array("i")
        self._scopes, self._scope_tables = [], []
        self._tables, self._known = [], {}
        self.offset, self.must_exceed = 0.0, -np.inf

    def add(self, scope, values):
        """Add the scores of a scope; return whether sums of scores are finite.

        Parameters
        ----------
        scope : sequence of int
            Variables.
        values : ndarray
            Scores of the joint states of the variables; they are copied.

        Returns
        -------
        fits : bool
            False if sums are too large for floating-point numbers.
        """
        if len(scope) == 0:
            self.offset += float(values.reshape(-1)[0])
            return self.offset < np.inf
        if len(scope) == 1:
            part = self._unaries[self._begin[scope[0]] : self._begin[scope[0] + 1]]
            with np.errstate(over="ignore"):
                part += values
            return bool(part.max() < np.inf)
        self._add_table(scope, values)
        return True

    def add_all(self, first, scopes, entries, values):
        """Add the scores of many scopes.

        Parameters
        ----------
        first : ndarray of shape (n_factors + 1,)
            Offsets of the scopes.
        scopes : ndarray of int
            Variables of all scopes, concatenated.
        entries : ndarray of shape (n_factors,)
            Number of scores of each scope.
        values : ndarray of shape (entries.sum(),)
            Scores of all scopes, concatenated; they are copied.

        Returns
        -------
        fits : bool
            False if sums are too large for floating-point numbers.
        """
        arity, begin = np.diff(first), np.cumsum(entries) - entries
        self.offset += float(values[begin[arity == 0]].sum())
        single = arity == 1
        if single.any():
            self._add_singles(
                scopes[first[:-1][single]], values[np.repeat(single, entries)]
            )
        sizes, larger = self._sizes, np.flatnonzero(arity > 1)
        ends = (begin + entries)[larger].tolist()
        firsts, lasts = first[larger].tolist(), first[larger + 1].tolist()
        for a, b, i, j in zip(begin[larger].tolist(), ends, firsts, lasts, strict=True):
            scope = scopes[i:j].tolist()
            self._add_table(scope, values[a:b].reshape([sizes[v] for v in scope]))
        return self.offset < np.inf and self._unaries.max(initial=0.0) < np.inf

    def _add_singles(self, variables, values):
        """Add the scores of single variables, which are concatenated in `values`."""
        sizes = np.diff(self._begin)[variables]
        ends = np.cumsum(sizes)
        shift = np.repeat(self._begin[variables] - ends + sizes, sizes)
        with np.errstate(over="ignore"):
            np.add.at(self._unaries, shift + np.arange(len(values)), values)

    def _add_table(self, scope, values):
        """Add an edge or a larger factor; the values are copied."""
        t = len(self._tables)
        if values.size > self._share:
            # the bytes of the key are also the memory of the table
            key = values.shape, values.tobytes()
            t = self._known.setdefault(key, t)
            if t == len(self._tables):
                self._tables.append(
                    DenseTable._own(np.frombuffer(key[1]).reshape(key[0]))
                )
        else:
            self._tables.append(DenseTable._own(values.copy()))
        if len(scope) == 2:
            self._edges.extend(scope)
            self._edge_tables.append(t)
        else:
            self._scopes.append(np.array(scope, dtype=np.intp))
            self._scope_tables.append(t)

    def build(self, evidence=None):
        """Build the graph of all factors that were added.

        Parameters
        ----------
        evidence : dict of int to int, default=None
            Observed states by variable.

        Returns
        -------
        graph : FactorGraph
            The graph.
        """
        self._known = {}
        return FactorGraph._assemble(
            self._sizes, self._unaries, self._edges, self._edge_tables, self._tables,
            self._scopes, self._scope_tables, self.offset, evidence,
            must_exceed=self.must_exceed,
        )  # fmt: skip
