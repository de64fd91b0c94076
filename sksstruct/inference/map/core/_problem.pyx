"""A factor graph as the solvers see it: flat arrays, and pointers to tables.

Variables 0, ..., n_variables - 1 have their states one after the other in flat vectors,
from first[v] to first[v + 1]. An edge has two ends, a table that it may share with
others, and a weight; factors of three or more variables ("higher") have a scope and a
table. Factors of any size are numbered together, edges first. What a table scores, and
how messages go through it, is in `_tables`.
"""

import numpy as np

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._tables cimport (
    DENSE, POTTS, entry_of, holds, send, specify,
)
from sksstruct.inference.map.core._index import offsets, places_by
from sksstruct.utils._memory cimport resize

cdef extern from "sksstruct/utils/_clock.h" nogil:
    double sks_seconds()

# Work between looks at the clock, in entries of tables: less than a millisecond.
cdef double CREDIT = 200_000.0
# Seconds between looks for signals, for which other threads have to wait.
cdef double SIGNALS = 0.05


@cython.final
cdef class MAPProblem:
    """Pointers into a graph without evidence and without -inf.

    Parameters
    ----------
    graph : FactorGraph
        The graph; the problem keeps it alive.
    penalty : float, default=0.0
        Score of a condition that does not hold, instead of -inf.
    """

    def __cinit__(self, graph, penalty=0.0):
        cdef Py_ssize_t table
        self.graph, self.penalty = graph, penalty
        self.n_variables, self.n_edges = graph.n_variables, graph.n_edges
        self.n_higher = graph.n_factors
        self.states, self.first = graph.n_states, graph.first_state
        self.max_states = int(graph.n_states.max(initial=1))
        # a copy, as views that are not const take no arrays that are read-only
        self.unary = np.array(graph.unaries)
        self.ends = graph.edges
        self.weighted = graph.edge_weights is not None
        # a view has to show something, which nobody reads without weights
        self.weights = graph.edge_weights if self.weighted else np.ones(1)
        self._owners = []
        # zeroed: a pointer that a kind of table has no use for is NULL
        self.specs = <TableSpec*>calloc(max(1, len(graph.tables)), sizeof(TableSpec))
        if not self.specs:
            raise MemoryError
        resize(<void**>&self.scratch.value, self.max_states * sizeof(double))
        resize(<void**>&self.scratch.index, self.max_states * sizeof(Py_ssize_t))
        # what only larger factors use gets no messages, and needs no preparation
        uses = np.bincount(graph.edge_tables, minlength=len(graph.tables))
        for table in range(len(graph.tables)):
            specify(&self.specs[table], graph.tables[table], uses[table], self._owners)
        self._deadline = INFINITY
        self._index_factors()

    def _index_factors(self):
        """Flatten the scopes of all factors; list the factors of each variable."""
        graph = self.graph
        sizes = [np.full(self.n_edges, 2), [len(s) for s in graph.factor_scopes]]
        sizes = np.concatenate(sizes).astype(np.intp)
        scope = np.concatenate([graph.edges.ravel(), *graph.factor_scopes])
        self.n_factors, self.scope_first = len(sizes), offsets(sizes)
        self.scope = scope = scope.astype(np.int32)
        self.table_of = np.concatenate([graph.edge_tables, graph.factor_tables])
        # sums over the factors of a variable are rounded in this order everywhere
        first, places = places_by(scope, self.n_variables)
        factors = np.repeat(np.arange(self.n_factors, dtype=np.int32), sizes)
        self.in_first, self.in_place, self.in_factor = first, places, factors[places]
        n_edges = np.bincount(graph.edges.ravel(), minlength=self.n_variables)
        self.in_larger = first[:self.n_variables] + n_edges

    def __dealloc__(self):
        free(self.specs)
        free(self.scratch.value)
        free(self.scratch.index)

    # ---- time ----

    def limit_time(self, seconds):
        """Make kernels stop after some time.

        Parameters
        ----------
        seconds : float
            Seconds from now.
        """
        self._deadline = sks_seconds() + seconds
        self.is_late, self._credit = False, 0.0

    cdef bint _look(self) except -1 nogil:
        """Look at the clock, and for signals."""
        cdef double now = sks_seconds()
        self._credit = CREDIT
        if now >= self._next_signals:
            self._next_signals = now + SIGNALS
            with gil:
                PyErr_CheckSignals()
        self.is_late = now >= self._deadline
        return self.is_late

    # ---- scores ----

    cdef double higher_entry(self, Py_ssize_t factor,
                             const int32_t* labeling) noexcept nogil:
        """Score of a factor of three or more variables."""
        cdef const TableSpec* table = &self.specs[self.table_of[factor]]
        cdef Py_ssize_t begin = self.scope_first[factor]
        cdef Py_ssize_t end = self.scope_first[factor + 1]
        cdef Py_ssize_t k, variable, at = 0, n_true = 0, last = 0
        if table.kind == DENSE:
            # the last variable of the scope runs fastest
            for k in range(begin, end):
                variable = self.scope[k]
                at = at * self.states[variable] + labeling[variable]
            return table.data[at]
        # a literal is true in state 1, or in state 0 where it is negated
        for k in range(begin, end):
            last = labeling[self.scope[k]] != <int32_t>table.data[k - begin]
            n_true += last
        return 0.0 if holds(table, n_true, last) else self.penalty

    def labeling_score(self, labeling):
        """Return the score of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,), int32
            States.

        Returns
        -------
        score : float
            Its score, with penalties instead of -inf.
        """
        cdef Py_ssize_t variable, factor
        cdef const int32_t[::1] states = np.ascontiguousarray(labeling, dtype=np.int32)
        cdef double total = 0.0
        # an empty array has no first state to point at
        if not self.n_variables:
            return 0.0
        with nogil:
            for variable in range(self.n_variables):
                total += self.unary[self.first[variable] + states[variable]]
            for factor in range(self.n_factors):
                total += self.entry_at(factor, &states[0])
        return total

    # ---- messages ----

    cdef void add_states(self, Py_ssize_t edge, bint backward, Py_ssize_t state,
                         double* out) noexcept nogil:
        """out[j] += score of (state, j), or with backward of (j, state)."""
        cdef const TableSpec* table = &self.specs[self.table_of[edge]]
        cdef double weight = self.weight(edge)
        cdef Py_ssize_t j
        # one branch for each kind outside of its loop, since this is called for every
        # edge of every variable that a search visits
        if table.kind == DENSE and backward:
            for j in range(table.rows):
                out[j] += weight * table.data[j * table.cols + state]
        elif table.kind == DENSE:
            for j in range(table.cols):
                out[j] += weight * table.data[state * table.cols + j]
        # the other kinds are symmetric: backward makes no difference
        elif table.kind == POTTS:
            for j in range(table.cols):
                out[j] += weight * table.differ
            # the one that agrees was counted as different
            out[state] += weight * (table.agree - table.differ)
        else:
            for j in range(table.cols):
                out[j] += weight * entry_of(table, state, j)

    cdef void message(self, Py_ssize_t edge, bint backward, const double* incoming,
                      double* out) noexcept nogil:
        """out = max-plus product of incoming with the scores of an edge.

        From its first end to its second, or with backward the other way.
        """
        send(&self.specs[self.table_of[edge]], self.weight(edge), backward, incoming,
             out, &self.scratch)

    def max_product(self, Py_ssize_t edge, values, bint backward=False):
        """Return the message of one edge.

        Parameters
        ----------
        edge : int
            The edge (u, v).
        values : ndarray of shape (n_states[u],), or of v with backward
            Added to the scores of the edge.
        backward : bool, default=False
            Whether the message goes from v to u.

        Returns
        -------
        message : ndarray of shape (n_states[v],), or of u with backward
            Maxima over the states of the sender.
        """
        cdef const double[::1] incoming = np.ascontiguousarray(values, dtype=np.float64)
        cdef Py_ssize_t sender = self.ends[edge, 1 if backward else 0]
        cdef Py_ssize_t receiver = self.ends[edge, 0 if backward else 1]
        cdef double[::1] out = np.empty(self.states[receiver])
        if incoming.shape[0] != self.states[sender]:
            raise ValueError("values must have an entry for each state")
        self.message(edge, backward, &incoming[0], &out[0])
        return np.asarray(out)

    def best_states(self, scores=None):
        """Return the best state of each variable by itself, of equals the first.

        Parameters
        ----------
        scores : ndarray of shape (n_states.sum(),), default=None
            Scores of the states; None: those of the graph.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States.
        """
        cdef const double[::1] flat = self.unary if scores is None else scores
        cdef int32_t[::1] states = np.zeros(self.n_variables, dtype=np.int32)
        cdef Py_ssize_t variable, k, first
        for variable in range(self.n_variables):
            first = self.first[variable]
            for k in range(1, self.states[variable]):
                if flat[first + k] > flat[first + states[variable]]:
                    states[variable] = k
        return np.asarray(states)

    def indicator(self, labeling):
        """Return the marginals of a labeling.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            1 at the state of each variable, 0 elsewhere.
        """
        # one state of each variable, which is a vertex of the local polytope
        flat = np.zeros(self.first[self.n_variables])
        first = np.asarray(self.graph.first_state)
        flat[first[:self.n_variables] + labeling] = 1.0
        return flat
