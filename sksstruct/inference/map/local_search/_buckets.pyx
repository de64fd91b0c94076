"""Buckets: tables grouped by the variable whose elimination reads them.

A part is a table over some variables of the window, and lies in the bucket of the first
one to be eliminated. `load` makes a part for each variable (unary scores, and edges to
fixed neighbors), for each edge inside the window, and for each larger factor with a
variable in the window; each elimination adds a part. The order and the maxima are in
other files.
"""

import numpy as np

cimport cython
from libc.stdlib cimport free

from sksstruct.inference.map.core._problem cimport entry_from, other_end
from sksstruct.inference.map.local_search._window cimport candidate, candidates_at
from sksstruct.utils._memory cimport reserve


@cython.final
cdef class Buckets:
    """Tables of a window, in buckets by the variable whose elimination reads them.

    Arrays grow with the largest window.
    """

    def __cinit__(self, Problem problem):
        self.head = np.zeros(problem.n_variables, dtype=np.intp)
        self._saved_states = np.zeros(problem.n_variables, dtype=np.int32)

    def __dealloc__(self):
        free(self.entries)
        free(self.parts)

    cdef Py_ssize_t add(self, Py_ssize_t n_entries) except -1 nogil:
        """Add a part with uninitialized entries and an empty scope; return its index.

        Invalidates pointers to parts and entries.
        """
        cdef Part* part
        reserve(<void**>&self.parts, &self._parts_capacity, self.n_parts + 1,
                sizeof(Part))
        reserve(<void**>&self.entries, &self._entries_capacity,
                self._n_entries + n_entries, sizeof(double))
        # the caller sets the scope, and then calls `file`
        part = &self.parts[self.n_parts]
        part.start, part.count = self._n_entries, 0
        self._n_entries += n_entries
        self.n_parts += 1
        return self.n_parts - 1

    cdef void file(self, EliminationOrder order, Py_ssize_t part) noexcept nogil:
        """Put a part into the bucket of its place that is eliminated first."""
        cdef Part* table = &self.parts[part]
        cdef Py_ssize_t k, place = table.scope[0]
        # the place of the lowest rank is eliminated first
        for k in range(1, table.count):
            if order.rank[table.scope[k]] < order.rank[place]:
                place = table.scope[k]
        # the part is prepended: sums over a bucket begin with the part filed last
        table.next = self.head[place]
        self.head[place] = part

    cdef int load(self, Problem problem, Window window, EliminationOrder order,
                  int32_t* labeling) except -1 nogil:
        """Fill the buckets with the scores of a window given the labeling outside.

        The labeling is changed meanwhile, and restored at the end.
        """
        cdef Py_ssize_t place, variable, i, edge, factor
        # arrays keep the size of the largest window so far
        self.n_parts = self._n_entries = 0
        for place in range(window.size):
            self.head[place] = -1
        for place in range(window.size):
            # variables with fixed states have left the window
            if order.rank[place] < 0:
                continue
            self._load_variable(problem, window, order, labeling, place)
            variable = window.variable[place]
            # inner edges are loaded with their first end; the order of the parts is
            # fixed, since the rounding of sums depends on the order
            for i in range(problem.in_first[variable],
                           problem.in_larger[variable]):
                edge = problem.in_factor[i]
                if (problem.ends[edge][0] == variable
                        and window.place[problem.ends[edge][1]] >= 0):
                    self._load_edge(problem, window, order, edge)
            for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
                # larger factors are loaded with their first variable in the window
                factor = problem.in_factor[i]
                if _first_inside(problem, window, factor) == variable:
                    self._load_factor(problem, window, order, labeling, factor)
        return 0

    cdef int _load_variable(self, Problem problem, Window window,
                            EliminationOrder order, const int32_t* labeling,
                            Py_ssize_t place) except -1 nogil:
        """Add the part of a variable: unary scores, and edges to fixed neighbors."""
        cdef Py_ssize_t variable = window.variable[place], i, k, edge, other, state
        cdef Py_ssize_t size = window.n_candidates[variable], part = self.add(size)
        cdef double* out = self.entries + self.parts[part].start
        self.parts[part].count, self.parts[part].scope[0] = 1, place
        for k in range(size):
            state = candidate(window, problem, variable, k)
            out[k] = problem.unary[problem.first[variable] + state]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, variable)
            # edges inside the window have parts of their own
            if window.place[other] >= 0:
                continue
            for k in range(size):
                state = candidate(window, problem, variable, k)
                out[k] += entry_from(problem, edge, variable, state, labeling[other])
        self.file(order, part)
        return 0

    cdef int _load_edge(self, Problem problem, Window window,
                        EliminationOrder order,
                        Py_ssize_t edge) except -1 nogil:
        """Add the part of an edge inside the window."""
        cdef Py_ssize_t first = problem.ends[edge][0], second = problem.ends[edge][1]
        cdef Py_ssize_t n_rows = window.n_candidates[first]
        cdef Py_ssize_t n_cols = window.n_candidates[second]
        cdef Py_ssize_t part = self.add(n_rows * n_cols), i, j
        cdef Part* table = &self.parts[part]
        cdef double* out = self.entries + table.start
        # rows for the first end, as in the table of the edge
        table.count = 2
        table.scope[0], table.scope[1] = window.place[first], window.place[second]
        # `entry` handles weights and all kinds of tables
        for i in range(n_rows):
            for j in range(n_cols):
                out[0] = problem.entry(edge, candidate(window, problem, first, i),
                                       candidate(window, problem, second, j))
                out += 1
        self.file(order, part)
        return 0

    cdef int _load_factor(self, Problem problem, Window window,
                          EliminationOrder order, int32_t* labeling,
                          Py_ssize_t factor) except -1 nogil:
        """Add the part of a larger factor given its variables outside the window."""
        cdef Py_ssize_t i, k, variable, entry, rest, part, n_entries = 1
        cdef Part* table
        # `add` needs the number of entries
        for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            if window.place[problem.scope[i]] >= 0:
                n_entries *= window.n_candidates[problem.scope[i]]
        part = self.add(n_entries)
        table = &self.parts[part]
        for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            # axes in the order of the scope, as in a dense table
            variable = problem.scope[i]
            if window.place[variable] >= 0:
                table.scope[table.count] = window.place[variable]
                self._saved_states[table.count] = labeling[variable]
                table.count += 1
        # `higher_entry` scores a labeling: the candidates of each entry are written to
        # the labeling
        for entry in range(n_entries):
            # the digits of the entry's index are the candidates
            rest = entry
            for k in range(table.count - 1, -1, -1):
                variable = window.variable[table.scope[k]]
                labeling[variable] = candidate(
                    window, problem, variable, rest % window.n_candidates[variable])
                rest //= window.n_candidates[variable]
            self.entries[table.start + entry] = problem.higher_entry(factor, labeling)
        # restore the labeling
        for k in range(table.count):
            labeling[window.variable[table.scope[k]]] = self._saved_states[k]
        self.file(order, part)
        return 0

    cdef double value(self, Problem problem, Window window,
                      const int32_t* labeling) noexcept nogil:
        """Return the sum of all parts' entries at the states of a labeling."""
        cdef Py_ssize_t part, k, variable, index, entry
        cdef const Part* table
        cdef double total = 0.0
        for part in range(self.n_parts):
            table = &self.parts[part]
            entry = 0
            for k in range(table.count):
                variable = window.variable[table.scope[k]]
                # a linear search, as candidates are few and in any order
                index = 0
                while candidate(window, problem, variable, index) != labeling[variable]:
                    index += 1
                entry = entry * candidates_at(window, table.scope[k]) + index
            total += self.entries[table.start + entry]
        return total


cdef inline Py_ssize_t _first_inside(Problem problem, Window window,
                                     Py_ssize_t factor) noexcept nogil:
    """Return the first variable of a larger factor in the window, or -1."""
    cdef Py_ssize_t i
    for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
        if window.place[problem.scope[i]] >= 0:
            return problem.scope[i]
    return -1
