"""A factor graph as the solvers read it: flat arrays, and pointers to tables.

The states of variables 0, ..., n_variables - 1 are consecutive in flat vectors, from
first[v] to first[v + 1]. An edge has two ends, a table that other edges may share, and
a weight; factors of three or more variables ("higher") have a scope and a table. All
factors are numbered together, edges first. Scores of tables, and messages through them,
are in `_tables`.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY
from libc.stdlib cimport calloc, free

from sksstruct.inference.map.core._tables cimport (
    DENSE, POTTS, entry_of, holds, send, specify,
)
from sksstruct.utils._pointers cimport (
    const_doubles, const_int32s, const_intps, doubles, int32s, intps,
)

cdef extern from "sksstruct/utils/_clock.h" nogil:
    double sks_seconds()

# Work between readings of the clock, in entries of tables: less than a millisecond.
cdef double CREDIT = 200_000.0
# Seconds between checks for signals, which take the GIL and may wait for other threads.
cdef double SIGNALS = 0.05


cdef class Problem:
    """Pointers into the arrays of `MAPProblem`."""

    def __init__(self, arrays, n_higher, penalty):
        cdef Py_ssize_t k
        self.arrays, self.penalty, self._deadline = arrays, penalty, INFINITY
        self.n_variables, self.n_edges = len(arrays.states), len(arrays.ends)
        self.n_higher, self.n_factors = n_higher, self.n_edges + n_higher
        self.max_states = len(arrays.value)
        self.states, self.first = const_int32s(arrays.states), const_intps(arrays.first)
        self.unary, self.ends = doubles(arrays.unary), <Pair*>const_int32s(arrays.ends)
        if arrays.weights is not None:
            self.weights = const_doubles(arrays.weights)
        self.scope_first = const_intps(arrays.scope_first)
        self.scope, self.table_of = (
            const_int32s(arrays.scope), const_int32s(arrays.table_of))
        self.in_first, self.in_larger = (
            const_intps(arrays.in_first), const_intps(arrays.in_larger))
        self.in_factor, self.in_place = (
            const_int32s(arrays.in_factor), const_int32s(arrays.in_place))
        self.scratch.value = doubles(arrays.value)
        self.scratch.index = intps(arrays.index)
        # zeroed, so that pointers that a kind of table does not use are NULL
        self._n_tables = len(arrays.tables)
        self.specs = <TableSpec*>calloc(max(1, self._n_tables), sizeof(TableSpec))
        if not self.specs:
            raise MemoryError
        for k in range(self._n_tables):
            specify(&self.specs[k], arrays.tables[k], arrays.uses[k])

    def __dealloc__(self):
        cdef Py_ssize_t k
        for k in range(self._n_tables if self.specs != NULL else 0):
            free(self.specs[k].row_high)
        free(self.specs)

    # ---- time ----

    def limit_time(self, seconds):
        """Set the deadline at which kernels stop, in seconds from now."""
        self._deadline = sks_seconds() + seconds
        self.is_late, self._credit = False, 0.0

    cdef bint _look(self) except -1 nogil:
        """Read the clock, and check for signals."""
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
        """Score of a factor of three or more variables at a labeling."""
        cdef const TableSpec* table = &self.specs[self.table_of[factor]]
        cdef Py_ssize_t begin = self.scope_first[factor]
        cdef Py_ssize_t end = self.scope_first[factor + 1]
        cdef Py_ssize_t k, variable, entry_index = 0, n_true = 0, last = 0
        if table.kind == DENSE:
            # the last variable of the scope changes fastest
            for k in range(begin, end):
                variable = self.scope[k]
                entry_index = entry_index * self.states[variable] + labeling[variable]
            return table.data[entry_index]
        # a literal is true in state 1 of its variable; a negated literal, in state 0
        for k in range(begin, end):
            last = labeling[self.scope[k]] != <int32_t>table.data[k - begin]
            n_true += last
        return 0.0 if holds(table, n_true, last) else self.penalty

    def score_of(self, labeling):
        """Return the score of a labeling, with penalties instead of -inf."""
        cdef Py_ssize_t variable, factor
        cdef const int32_t* states = const_int32s(labeling)
        cdef double total = 0.0
        with nogil:
            for variable in range(self.n_variables):
                total += self.unary[self.first[variable] + states[variable]]
            for factor in range(self.n_factors):
                total += self.entry_at(factor, states)
        return total

    def find_best(self, scores, labeling):
        """Write each variable's first best state to `labeling`, which must be zero."""
        cdef Py_ssize_t variable, k, first
        cdef const double* flat = const_doubles(scores)
        cdef int32_t* states = int32s(labeling)
        for variable in range(self.n_variables):
            first = self.first[variable]
            for k in range(1, self.states[variable]):
                if flat[first + k] > flat[first + states[variable]]:
                    states[variable] = k

    # ---- messages ----

    cdef void add_states(self, Py_ssize_t edge, bint backward, Py_ssize_t state,
                         double* out) noexcept nogil:
        """Add an edge's scores given the state of one end to `out`.

        `state` is of the first end, and `out` has an entry for each state of the second
        end; with `backward`, the ends are swapped.
        """
        cdef const TableSpec* table = &self.specs[self.table_of[edge]]
        cdef double weight = self.weight(edge)
        cdef Py_ssize_t j
        # one loop for each kind of table: a test inside a loop would be made for each
        # state
        if table.kind == DENSE and backward:
            for j in range(table.rows):
                out[j] += weight * table.data[j * table.cols + state]
        elif table.kind == DENSE:
            for j in range(table.cols):
                out[j] += weight * table.data[state * table.cols + j]
        # all other kinds are symmetric, so that `backward` makes no difference
        elif table.kind == POTTS:
            for j in range(table.cols):
                out[j] += weight * table.differ
            # the loop has added `differ` for the equal state, too
            out[state] += weight * (table.agree - table.differ)
        else:
            for j in range(table.cols):
                out[j] += weight * entry_of(table, state, j)

    cdef void message(self, Py_ssize_t edge, bint backward, const double* incoming,
                      double* out) noexcept nogil:
        """Write the max-plus product of incoming scores and an edge's scores to `out`.

        The message goes from the first end to the second, or back if backward.
        """
        send(&self.specs[self.table_of[edge]], self.weight(edge), backward, incoming,
             out, &self.scratch)

    def send(self, Py_ssize_t edge, bint backward, values, out):
        """Write a message to the array `out`; see `message`."""
        self.message(edge, backward, const_doubles(values), doubles(out))


def sort_by_counting(keys, ends, places):
    """Write the positions of all keys to `places`, sorted by key.

    Parameters
    ----------
    keys : ndarray of int32
        Keys, from 0 to the length of `ends` minus 1.
    ends : ndarray of intp
        For each key the first index in `places`; on return, the index after the last
        one.
    places : ndarray of int32
        Indices of key 0, then those of key 1, and so on.
    """
    cdef Py_ssize_t k, n = len(keys)
    cdef const int32_t* key = const_int32s(keys)
    cdef Py_ssize_t* end = intps(ends)
    cdef int32_t* place = int32s(places)
    with nogil:
        for k in range(n):
            place[end[key[k]]] = <int32_t>k
            end[key[k]] += 1
