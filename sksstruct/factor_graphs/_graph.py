"""The factor graph: scores of variables, of edges, and of larger factors."""

import numbers
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.factor_graphs._checks import (
    check_shape,
    checked_edge_tables,
    checked_edges,
    checked_evidence,
    checked_factor,
    checked_state_names,
    checked_unaries,
    checked_weights,
    iterator_of,
    number_of_state,
    table_maker,
)
from sksstruct.factor_graphs._tables import DenseTable, Table
from sksstruct.utils._layout import object_array
from sksstruct.utils.entries import taken
from sksstruct.utils.state import Versioned, required

# Attributes in a pickle, from which all other attributes are computed.
_STATE = ("n_states", "unaries", "edges", "tables", "edge_tables", "edge_weights",
          "factor_scopes", "factor_tables", "offset", "evidence",
          "must_exceed")  # fmt: skip


class FactorGraph(Versioned):
    """Variables with states, and factors that score the states of some of them.

    The score of a labeling x, to be maximized, is ::

        offset + sum_i unary_i[x_i] + sum_(u,v) weight_uv table_uv[x_u, x_v]
               + sum_f table_f[x_f]

    Many edges may share a table. Arrays are copied, so that you may change them
    afterwards; a `DenseTable` that you pass to several graphs is copied once. An edge
    ``(v, u)`` has the same scores as ``(u, v)`` with the transposed table. Graphs are
    immutable and can be pickled. `FactorGraphBuilder` builds a graph step by step, and
    `sksstruct.datasets` has functions that read graphs from files.

    Parameters
    ----------
    unaries : sequence of array-likes, or array-like of shape (n_variables, n_states)
        Scores of the states of each variable, as many as it has states. -inf forbids a
        state.
    edges : array-like of shape (n_edges, 2), default=None
        Pairs of different variables. A pair may occur several times.
    tables : table or sequence of tables, default=None
        A table is an array of two dimensions or a `Table`, such as `Potts`. All edges
        share a single table. A sequence has a table for each edge, unless `edge_tables`
        is given.
    edge_tables : array-like of shape (n_edges,), default=None
        Index into `tables` for each edge. None: edge e has ``tables[e]``.
    edge_weights : array-like of shape (n_edges,), default=None
        Weights that multiply the tables of the edges. None: all are 1.
    factors : sequence of (scope, table), default=None
        Scores of any number of variables. Each factor is a sequence of different
        variables, and a table with a dimension for each variable. Factors of two
        variables become edges.
    evidence : dict, default=None
        Observed states, numbers or names, by variable. A labeling that does not agree
        with the evidence is forbidden.
    offset : float, default=0.0
        Constant that is added to the score of every labeling; -inf forbids all
        labelings.
    must_exceed : float, default=-inf
        A labeling whose total score is not above this number is forbidden. MAP solvers
        take this bound into account; marginals do not.
    state_names : sequence of sequences of str, default=None
        Names of the states of each variable, or None for a variable whose states have
        no names. Labelings and evidence may then have names in place of numbers, and
        `sksstruct.LPMAPPredictor` predicts names.

    Attributes
    ----------
    n_variables, n_edges, n_factors : int
        Sizes; `n_factors` counts factors of three or more variables.
    n_states : ndarray of shape (n_variables,)
        Number of states of each variable.
    unaries, first_state : ndarrays of shape (n_states.sum(),) and (n_variables + 1,)
        The scores of all variables, concatenated, and the offsets of the variables.
    edges, edge_tables, edge_weights : ndarrays
        The edges, including factors of two variables, the index of the table of each
        edge, and the weights; `edge_weights` is None if all are 1.
    factor_scopes : tuple of ndarrays
        Scopes of the factors of three or more variables.
    factor_tables : ndarray of shape (n_factors,)
        Index into `tables` for each factor of three or more variables.
    tables : tuple of Table
        All tables.
    evidence : ndarray of shape (n_variables,)
        Observed states, -1 for a variable that is not observed.
    offset, must_exceed : float
        The parameters.
    state_names : tuple of tuple of str, or None
        The names; None if no state has a name.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> graph = FactorGraph([[0, 1], [0, 0], [2, 0]], [(0, 1), (1, 2)], Potts(2))
    >>> graph.score([1, 1, 0])
    4.0
    """

    n_variables: int
    n_edges: int
    n_factors: int
    n_states: np.ndarray
    unaries: np.ndarray
    first_state: np.ndarray
    edges: np.ndarray
    edge_tables: np.ndarray
    edge_weights: np.ndarray | None
    factor_scopes: tuple[np.ndarray, ...]
    factor_tables: np.ndarray
    tables: tuple[Table, ...]
    evidence: np.ndarray
    offset: float
    must_exceed: float
    state_names: tuple[tuple[str, ...] | None, ...] | None

    def __init__(
        self,
        unaries: ArrayLike | Sequence[ArrayLike],
        edges: ArrayLike | None = None,
        tables: Table | ArrayLike | Sequence[Table | ArrayLike] | None = None,
        *,
        edge_tables: ArrayLike | None = None,
        edge_weights: ArrayLike | None = None,
        factors: Sequence[tuple[ArrayLike, Table | ArrayLike]] | None = None,
        evidence: dict[int, int | str] | None = None,
        offset: float = 0.0,
        must_exceed: float = -np.inf,
        state_names: Sequence[Sequence[str] | None] | None = None,
    ) -> None:
        self.n_states, self.first_state, self.unaries = checked_unaries(unaries)
        self.state_names = checked_state_names(state_names, self.n_states)
        n = self.n_variables = len(self.n_states)
        edges = checked_edges(edges, n)
        tables, edge_tables = checked_edge_tables(tables, edge_tables, len(edges))
        weights = checked_weights(edge_weights, len(edges))
        if not (isinstance(offset, numbers.Real) and offset < np.inf):
            raise ValueError(f"offset must be a finite number or -inf, got {offset!r}")
        if not (isinstance(must_exceed, numbers.Real) and must_exceed < np.inf):
            raise ValueError(
                f"must_exceed must be a finite number or -inf, got {must_exceed!r}"
            )
        self.offset, self.must_exceed = float(offset), float(must_exceed)
        pairs = self._add_factors(factors, tables)
        if pairs:
            pairs = np.array(pairs, dtype=np.int32)
            edges = np.concatenate([edges, pairs[:, :2]])
            edge_tables = np.concatenate([edge_tables, pairs[:, 2]])
            if weights is not None:
                weights = np.concatenate([weights, np.ones(len(pairs))])
        self.edges, self.edge_tables, self.edge_weights = edges, edge_tables, weights
        self.tables = tuple(tables)
        self.n_edges = len(edges)
        self._check_edges()
        self._complete(evidence)

    def _add_factors(self, factors, tables):
        """Set the factors of three or more variables; append new tables to `tables`.

        Factors of one variable are added to the scores of the variable. Factors of two
        variables are returned, as (variable, variable, index of the table).
        """
        scopes, of_factor, pairs = [], [], []
        index = {id(table): t for t, table in enumerate(tables)}
        make = table_maker(factors)
        for f, factor in enumerate(iterator_of(factors, "factors")):
            scope, table = checked_factor(factor, f, self.n_variables, make)
            check_shape(table, self.n_states[scope], f"factors[{f}]")
            if len(scope) == 1:
                part = slice(*self.first_state[scope[0] : scope[0] + 2])
                with np.errstate(over="ignore"):
                    self.unaries[part] += table.dense()
                continue
            t = index.setdefault(id(table), len(tables))
            if t == len(tables):
                tables.append(table)
            if len(scope) == 2:
                pairs.append((*scope, t))
            else:
                scopes.append(scope)
                of_factor.append(t)
        self.factor_scopes = tuple(scopes)
        self.factor_tables = np.array(of_factor, dtype=np.int32)
        return pairs

    @classmethod
    def _assemble(cls, n_states, unaries, edges, edge_tables, tables, scopes,
                  factor_tables, offset, evidence, edge_weights=None,
                  must_exceed=-np.inf):  # fmt: skip
        """Build a graph of valid parts without checks and intermediate lists."""
        graph = object.__new__(cls)
        graph.n_states = np.array(n_states, dtype=np.int32)
        graph.first_state = np.zeros(len(n_states) + 1, dtype=np.intp)
        np.cumsum(graph.n_states, out=graph.first_state[1:])
        graph.unaries, graph.n_variables = unaries, len(n_states)
        graph.state_names = None
        graph.edges = np.asarray(edges, dtype=np.int32).reshape(-1, 2)
        graph.edge_tables = np.asarray(edge_tables, dtype=np.int32)
        graph.edge_weights, graph.must_exceed = edge_weights, float(must_exceed)
        graph.factor_scopes = tuple(scopes)
        graph.factor_tables = np.array(factor_tables, dtype=np.int32)
        graph.tables, graph.offset = tuple(tables), float(offset)
        graph._complete(evidence)
        return graph

    def _complete(self, evidence):
        self.n_edges, self.n_factors = len(self.edges), len(self.factor_scopes)
        largest = self.unaries.max(initial=0.0)
        if not largest < np.inf:
            v = int(np.searchsorted(self.first_state, self.unaries.argmax(), "right"))
            raise ValueError(
                f"the unary scores of variable {v - 1} have a sum that is too large "
                "for float64"
            )
        self.evidence = checked_evidence(evidence, self.n_states, self.state_names)
        self._freeze()

    def _check_edges(self):
        """Check the shapes of tables, and the signs of weights of tables with -inf."""
        for t, edges in self.edges_by_table():
            table, sizes = self.tables[t], self.n_states[self.edges[edges]]
            wrong = (sizes != table.shape).any(axis=1) if len(table.shape) == 2 else [1]
            if np.any(wrong):
                e = edges[int(np.argmax(wrong))]
                check_shape(table, self.n_states[self.edges[e]], f"edges[{e}]")
            if self.edge_weights is not None and isinstance(table, DenseTable):
                low = self.edge_weights[edges].min()
                if low <= 0 and table.values.min() == -np.inf:
                    raise ValueError(
                        "edge_weights of tables with -inf must be positive, edge "
                        f"{edges[int(np.argmin(self.edge_weights[edges]))]} has {low:g}"
                    )

    def edges_by_table(self) -> Iterator[tuple[int, np.ndarray]]:
        """Edges, grouped by their table.

        Yields
        ------
        table : int
            Index into `tables`.
        edges : ndarray of int
            The edges with this table.
        """
        yield from _by_table(self.edge_tables)

    def factors_by_table(self) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Factors of three or more variables, grouped by their table.

        Yields
        ------
        table : int
            Index into `tables`.
        factors : ndarray of int
            The factors with this table.
        scopes : ndarray of shape (n_factors_of_table, n_variables_of_table)
            Scopes of these factors.
        """
        scopes = self.factor_scopes
        for t, factors in _by_table(self.factor_tables):
            yield t, factors, np.array([scopes[f] for f in factors.tolist()])

    def _listed(self):
        """Yield scope, table and weight of all edges, then of all larger factors."""
        weights = self.edge_weights
        ones = np.ones(self.n_edges) if weights is None else weights
        for scope, t, weight in zip(self.edges, self.edge_tables, ones, strict=True):
            yield scope, self.tables[t], weight
        for scope, t in zip(self.factor_scopes, self.factor_tables, strict=True):
            yield scope, self.tables[t], 1.0

    def _freeze(self):
        for value in (*vars(self).values(), *self.factor_scopes):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        self.__dict__["_frozen"] = True

    def __setattr__(self, name, value):
        if "_frozen" in self.__dict__:
            raise AttributeError("factor graphs are immutable")
        super().__setattr__(name, value)

    def __delattr__(self, name):
        raise AttributeError("factor graphs are immutable")

    def _state(self):
        state = taken(self, _STATE)
        # without names, the state is that of older versions, which had no state_names
        names = {} if self.state_names is None else {"state_names": self.state_names}
        return {**state, **names}

    def _restore(self, state):
        """Restore by the constructor, as kernels trust that all indices are valid."""
        if "_frozen" in self.__dict__:
            raise AttributeError("factor graphs are immutable")
        parts = required(state, _STATE, "FactorGraph")
        n_states, unaries, *parts, must_exceed = parts
        *parts, scopes, of_factor, offset, evidence = parts
        edges, tables, edge_tables, edge_weights = parts
        ends = np.cumsum(n_states)
        if np.ndim(n_states) != 1 or np.shape(unaries) != (ends[-1:].sum(),):
            raise ValueError(
                "the state of a FactorGraph must have sum(n_states) unaries, got shape "
                f"{np.shape(unaries)}"
            )
        evidence = np.asarray(evidence)
        if len(scopes) != len(of_factor) or evidence.shape != n_states.shape:
            raise ValueError(
                "the state of a FactorGraph must have as many factor_tables as "
                "factor_scopes, and evidence of each variable"
            )
        self.__init__(
            np.split(unaries, ends[:-1]) if len(ends) else [],
            edges,
            list(tables),
            edge_tables=edge_tables,
            edge_weights=edge_weights,
            factors=[
                (scope, tables[t]) for scope, t in zip(scopes, of_factor, strict=True)
            ],
            evidence={int(v): int(evidence[v]) for v in np.flatnonzero(evidence != -1)},
            offset=offset,
            must_exceed=must_exceed,
            state_names=state.get("state_names"),
        )

    def __repr__(self):
        rest = f", n_factors={self.n_factors}" if self.n_factors else ""
        return (
            f"FactorGraph(n_variables={self.n_variables}, "
            f"max_states={self.n_states.max(initial=0)}, n_edges={self.n_edges}{rest})"
        )

    def unary(self, variable: int) -> np.ndarray:
        """Scores of the states of one variable.

        Parameters
        ----------
        variable : int
            The variable.

        Returns
        -------
        scores : ndarray of shape (n_states[variable],)
            A read-only view of the scores.
        """
        return self.unaries[self.first_state[variable] : self.first_state[variable + 1]]

    def check_labeling(self, labeling: ArrayLike, name: str = "labeling") -> np.ndarray:
        """Convert a labeling to an array, or raise an error that names the variable.

        Parameters
        ----------
        labeling : array-like of int or str of shape (n_variables,)
            State of each variable, by number or by name.
        name : str, default="labeling"
            Name of the argument in errors.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), intp
            The labeling as an array.
        """
        try:
            x = np.asarray(labeling)
        except ValueError:
            raise ValueError(
                f"{name} must be {self.n_variables} integers, one state for each "
                "variable"
            ) from None
        if x.shape != (self.n_variables,):
            raise ValueError(
                f"{name} must have shape ({self.n_variables},), got {x.shape}"
            )
        if self.state_names is not None and x.dtype.kind in "UO":
            # read `labeling` and not `x`, in which NumPy has converted numbers beside
            # names to strings
            states = labeling.tolist() if isinstance(labeling, np.ndarray) else labeling
            names = self.state_names
            numbers = [number_of_state(s, v, names, name) for v, s in enumerate(states)]
            x = np.array(numbers)
        if x.size and x.dtype.kind not in "iu":
            raise ValueError(f"{name} must be integers, got {x.dtype}")
        wrong = (x < 0) | (x >= self.n_states)
        if wrong.any():
            v = int(np.argmax(wrong))
            raise ValueError(
                f"{name} has state {x[v]} at variable {v}, which has "
                f"{self.n_states[v]} states"
            )
        return x.astype(np.intp)

    def named(self, labeling: ArrayLike) -> np.ndarray:
        """A labeling with the names of the states.

        Parameters
        ----------
        labeling : array-like of int or str of shape (n_variables,)
            State of each variable.

        Returns
        -------
        labeling : ndarray of shape (n_variables,)
            Array of dtype object with the names of states, and numbers of states
            without a name; an array of numbers if no state has a name.
        """
        x = self.check_labeling(labeling)
        if self.state_names is None:
            return x
        rows = zip(x.tolist(), self.state_names, strict=True)
        return object_array([k if row is None else row[k] for k, row in rows])

    def score(self, labeling: ArrayLike) -> float:
        """Score of a labeling.

        Parameters
        ----------
        labeling : array-like of int or str of shape (n_variables,)
            State of each variable, by number or by name.

        Returns
        -------
        score : float
            The score. -inf if the labeling is forbidden, does not agree with the
            evidence, or has a total score that is not above `must_exceed`.

        Raises
        ------
        ValueError
            If the sum of the scores overflows.
        """
        x = self.check_labeling(labeling)
        if ((self.evidence >= 0) & (self.evidence != x)).any():
            return -np.inf
        total = self.offset
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._scores_of(x):
                total += part
        # entries are finite or -inf: NaN and +inf are overflows
        if np.isnan(total) or total == np.inf:
            raise ValueError(
                "the scores of labeling have a sum that is too large for float64: "
                "scale the scores of the graph"
            )
        return float(total) if total > self.must_exceed else -np.inf

    def _scores_of(self, x):
        """Yield partial sums of the score: of variables, and of each table."""
        yield self.unaries[self.first_state[:-1] + x].sum()
        states = x.tolist()
        if self.n_edges:
            u, v = x[self.edges.T]
            for t, edges in self.edges_by_table():
                table = self.tables[t]
                # fast path: most tables of large graphs have one factor
                if len(edges) == 1 and isinstance(table, DenseTable):
                    scores = table.values[u[edges[0]], v[edges[0]]]
                else:
                    scores = table.scores(u[edges], v[edges])
                if self.edge_weights is not None:
                    scores = scores * self.edge_weights[edges]
                yield scores.sum()
        for t, factors in _by_table(self.factor_tables):
            table = self.tables[t]
            if len(factors) > 1:
                scopes = np.array([self.factor_scopes[f] for f in factors])
                yield table.scores(*x[scopes.T]).sum()
                continue
            place = tuple([states[v] for v in self.factor_scopes[factors[0]].tolist()])
            if isinstance(table, DenseTable):
                yield table.values[place]
            else:
                yield table.scores(*place).sum()

    def with_evidence(self, evidence: dict[int, int | str] | None) -> "FactorGraph":
        """The same graph with other observed states, which shares the tables.

        Parameters
        ----------
        evidence : dict or None
            Observed states, numbers or names, by variable.

        Returns
        -------
        graph : FactorGraph
            A new graph.
        """
        graph = object.__new__(FactorGraph)
        graph.__dict__.update(self.__dict__)
        states = checked_evidence(evidence, self.n_states, self.state_names)
        graph.__dict__["evidence"] = states
        graph.evidence.flags.writeable = False
        return graph


def _by_table(tables):
    """Yield each index in `tables`, and the positions at which it occurs."""
    if not len(tables):
        return
    order = np.argsort(tables, kind="stable")
    starts = np.flatnonzero(np.diff(tables[order], prepend=-1))
    ends = [*starts.tolist(), len(order)]
    for t, (begin, end) in zip(
        tables[order[starts]].tolist(), pairwise(ends), strict=True
    ):
        yield t, order[begin:end]
