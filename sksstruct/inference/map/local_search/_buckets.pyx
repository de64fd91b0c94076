"""Buckets: the tables that wait for each variable of a window to be eliminated.

A part is a table over some variables of the window. It lies in the bucket of the one
among them that is eliminated first. At the beginning there is a part for each variable,
its scores given the neighbors outside of the window, for each edge inside of it, and
for each larger factor that has a variable in it; an elimination makes another part.
"""

import numpy as np

cimport cython
from libc.stdlib cimport free

from sksstruct.inference.map.core._problem cimport entry_from, other_end
from sksstruct.inference.map.local_search._window cimport candidate, candidates_at
from sksstruct.utils._memory cimport reserve


@cython.final
cdef class Buckets:
    """Buckets for windows of a problem; arrays grow with the largest window."""

    def __cinit__(self, Problem problem):
        self.head = np.zeros(problem.n_variables, dtype=np.intp)
        self._kept = np.zeros(problem.n_variables, dtype=np.int32)

    def __dealloc__(self):
        free(self.entries)
        free(self.parts)

    cdef Py_ssize_t add(self, Py_ssize_t n_entries) except -1 nogil:
        """Add a part without a scope, of so many entries that are not set; its index.

        Pointers to parts and entries are not valid any more.
        """
        cdef Part* part
        reserve(<void**>&self.parts, &self._parts_capacity, self.n_parts + 1,
                sizeof(Part))
        reserve(<void**>&self.entries, &self._entries_capacity,
                self._n_entries + n_entries, sizeof(double))
        # filed by whoever fills it: only then is its scope known
        part = &self.parts[self.n_parts]
        part.start, part.count = self._n_entries, 0
        self._n_entries += n_entries
        self.n_parts += 1
        return self.n_parts - 1

    cdef void file(self, EliminationOrder order, Py_ssize_t part) noexcept nogil:
        """Put a part into the bucket of the place of its scope with the lowest rank."""
        cdef Part* table = &self.parts[part]
        cdef Py_ssize_t k, place = table.scope[0]
        # whoever is eliminated first has to maximize over everything it is in
        for k in range(1, table.count):
            if order.rank[table.scope[k]] < order.rank[place]:
                place = table.scope[k]
        # at the head of the list: sums over a bucket begin with the last part filed
        table.next = self.head[place]
        self.head[place] = part

    cdef int load(self, Problem problem, Window window, EliminationOrder order,
                  int32_t* labeling) except -1 nogil:
        """Fill the buckets with the scores of a window, given the labeling outside.

        The labeling is written to in between, and comes back as it was.
        """
        cdef Py_ssize_t place, variable, i, edge, factor
        # arrays stay as large as the largest window so far
        self.n_parts = self._n_entries = 0
        for place in range(window.size):
            self.head[place] = -1
        for place in range(window.size):
            # who keeps its state has left the window: others see it from outside
            if order.rank[place] < 0:
                continue
            self._load_variable(problem, window, order, labeling, place)
            variable = window.variable[place]
            # every edge inside comes with its first end; variables, edges and factors
            # in this order, on which the rounding of sums depends
            for i in range(problem.in_first[variable],
                           problem.in_larger[variable]):
                edge = problem.in_factor[i]
                if (problem.ends[edge][0] == variable
                        and window.place[problem.ends[edge][1]] >= 0):
                    self._load_edge(problem, window, order, edge)
            for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
                # and every larger factor with its first variable that is inside
                factor = problem.in_factor[i]
                if _first_inside(problem, window, factor) == variable:
                    self._load_factor(problem, window, order, labeling, factor)
        return 0

    cdef int _load_variable(self, Problem problem, Window window,
                            EliminationOrder order, const int32_t* labeling,
                            Py_ssize_t place) except -1 nogil:
        """Add the scores of one variable, given its neighbors outside of the window."""
        cdef Py_ssize_t variable = window.variable[place], i, k, edge, other, state
        cdef Py_ssize_t size = window.n_candidates[variable], part = self.add(size)
        cdef double* out = self.entries + self.parts[part].start
        self.parts[part].count, self.parts[part].scope[0] = 1, place
        # its candidates in their order, as in all other parts
        for k in range(size):
            state = candidate(window, problem, variable, k)
            out[k] = problem.unary[problem.first[variable] + state]
        for i in range(problem.in_first[variable], problem.in_larger[variable]):
            edge = problem.in_factor[i]
            other = other_end(problem, edge, variable)
            # edges inside have a part of their own
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
        """Add the scores of an edge inside of the window."""
        cdef Py_ssize_t first = problem.ends[edge][0], second = problem.ends[edge][1]
        cdef Py_ssize_t n_rows = window.n_candidates[first]
        cdef Py_ssize_t n_cols = window.n_candidates[second]
        cdef Py_ssize_t part = self.add(n_rows * n_cols), i, j
        cdef Part* table = &self.parts[part]
        cdef double* out = self.entries + table.start
        # in the order of the table: the first end slow, the second one fast
        table.count = 2
        table.scope[0], table.scope[1] = window.place[first], window.place[second]
        # by `entry`, which knows all kinds of tables, and weights
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
        """Add the scores of a larger factor, given its variables outside."""
        cdef Py_ssize_t i, k, variable, entry, rest, part, n_entries = 1
        cdef Part* table
        # the number of entries has to be known before there is a part to write to
        for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            if window.place[problem.scope[i]] >= 0:
                n_entries *= window.n_candidates[problem.scope[i]]
        part = self.add(n_entries)
        table = &self.parts[part]
        for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
            # in the order of the scope, as in a dense table
            variable = problem.scope[i]
            if window.place[variable] >= 0:
                table.scope[table.count] = window.place[variable]
                self._kept[table.count] = labeling[variable]
                table.count += 1
        # scores of larger factors are functions of a labeling: write each into it
        for entry in range(n_entries):
            # the index of the entry is a number whose digits are the candidates
            rest = entry
            for k in range(table.count - 1, -1, -1):
                variable = window.variable[table.scope[k]]
                labeling[variable] = candidate(
                    window, problem, variable, rest % window.n_candidates[variable])
                rest //= window.n_candidates[variable]
            self.entries[table.start + entry] = problem.higher_entry(factor, labeling)
        # as it was, for other parts and for whoever brought it
        for k in range(table.count):
            labeling[window.variable[table.scope[k]]] = self._kept[k]
        self.file(order, part)
        return 0

    cdef double value(self, Problem problem, Window window,
                      const int32_t* labeling) noexcept nogil:
        """Sum of the entries of all parts at a labeling, whose states are candidates.
        """
        cdef Py_ssize_t part, k, variable, index, entry
        cdef const Part* table
        cdef double total = 0.0
        # every part as it is in the sums of an elimination
        for part in range(self.n_parts):
            table = &self.parts[part]
            entry = 0
            for k in range(table.count):
                variable = window.variable[table.scope[k]]
                # of few candidates in any order, which is why they are looked through
                index = 0
                while candidate(window, problem, variable, index) != labeling[variable]:
                    index += 1
                entry = entry * candidates_at(window, table.scope[k]) + index
            total += self.entries[table.start + entry]
        return total


cdef inline Py_ssize_t _first_inside(Problem problem, Window window,
                                     Py_ssize_t factor) noexcept nogil:
    """The first variable of a larger factor that is in the window; -1: none is."""
    cdef Py_ssize_t i
    # in the order of the scope, which is the same for all variables that ask
    for i in range(problem.scope_first[factor], problem.scope_first[factor + 1]):
        if window.place[problem.scope[i]] >= 0:
            return problem.scope[i]
    return -1
