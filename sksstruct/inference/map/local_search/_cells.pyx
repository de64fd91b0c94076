"""Cells: parts of a graph in which each of some labelings is kept or left as a whole.

Given some labelings, two neighbors are in one cell if any two of the labelings that
agree at one of them agree at the other. A cell has a state for each of the different
labelings of it. Where all labelings agree nothing is left to choose, and there is no
cell. The cells are the variables of another, much smaller problem, whose score is that
of the labeling that is put together: block spins (Houdayer and Martin, Hierarchical
approach for computing spin glass ground states, Phys. Rev. E 64, 2001), for any number
of labelings and states, and factors of any order. Cells of two labelings have no common
factor.
"""

import numpy as np

cimport cython
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp

from sksstruct.inference.map.core._problem cimport (
    Problem, arity_of, variable_at,
)

# Cells of variables that have none, or none yet.
cdef enum:
    FIXED = -1
    UNSEEN = -2


@cython.final
cdef class Cells:
    """Cells of some labelings of a problem.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    labelings : array-like of shape (n_labelings, n_variables)
        At most 255 labelings.

    Attributes
    ----------
    n_cells : int
        Number of cells.
    cell : ndarray of shape (n_variables,), int32
        The cell of each variable; -1: all labelings agree.
    first : ndarray of shape (n_cells + 1,), intp
        Where the states of each cell begin.
    labeling : ndarray of shape (first[-1],), int32
        Labels of each state of each cell. State 0 is that of the first labeling.
    n_touched : ndarray of shape (n_factors,), int32
        Number of cells in the scope of each factor, edges first.
    """

    cdef Problem _problem
    cdef const int32_t[:, ::1] _labelings
    # by variable: which labelings agree, as the number of a class for each of them
    cdef uint8_t[:, ::1] _classes
    cdef int32_t[::1] _cell, _touched, _scratch
    cdef Py_ssize_t[::1] _first
    cdef int32_t[::1] _labeling
    cdef readonly Py_ssize_t n_cells
    cdef readonly object cell, first, labeling, n_touched
    cdef int32_t[::1] _n_touched

    def __init__(self, Problem problem, labelings):
        n = problem.n_variables
        self._problem = problem
        self._labelings = np.ascontiguousarray(labelings, dtype=np.int32)
        k = self._labelings.shape[0]
        self._classes = np.zeros((n, k), dtype=np.uint8)
        self.cell = np.full(n, UNSEEN, dtype=np.int32)
        self._cell, self._scratch = self.cell, np.zeros(n, dtype=np.int32)
        with nogil:
            self._classify()
            self._grow_all()
        self.first = np.zeros(self.n_cells + 1, dtype=np.intp)
        self._first = self.first
        self._count_states()
        self.labeling = np.zeros(self.first[self.n_cells], dtype=np.int32)
        self._labeling = self.labeling
        self._find_states()
        self.n_touched = np.zeros(problem.n_factors, dtype=np.int32)
        self._n_touched = self.n_touched
        widest = np.diff(problem.arrays.scope_first).max(initial=2)
        self._touched = np.zeros(widest, dtype=np.int32)
        self._count_touched()

    # ---- the cells ----

    cdef void _classify(self) noexcept nogil:
        """Number the different states of each variable, as they come."""
        cdef Py_ssize_t variable, i, j
        cdef uint8_t n_classes
        for variable in range(self._problem.n_variables):
            n_classes = 0
            for i in range(self._labelings.shape[0]):
                for j in range(i):
                    if self._labelings[j, variable] == self._labelings[i, variable]:
                        self._classes[variable, i] = self._classes[variable, j]
                        break
                else:
                    self._classes[variable, i] = n_classes
                    n_classes += 1
            if n_classes == 1:
                self._cell[variable] = FIXED

    cdef void _grow_all(self) noexcept nogil:
        """Give all variables at which labelings differ their cells."""
        cdef Py_ssize_t variable
        self.n_cells = 0
        for variable in range(self._problem.n_variables):
            if self._cell[variable] == UNSEEN:
                self._grow(self._problem, variable)
                self.n_cells += 1

    cdef void _grow(self, Problem problem, Py_ssize_t start) noexcept nogil:
        """Make the next cell, of all variables like one that are connected to it."""
        cdef Py_ssize_t head = 0, size = 1, i, k, variable, factor
        # a queue of variables, whose neighbors have to be looked at
        self._scratch[0] = start
        self._cell[start] = self.n_cells
        while head < size:
            variable = self._scratch[head]
            head += 1
            for i in range(problem.in_first[variable], problem.in_first[variable + 1]):
                factor = problem.in_factor[i]
                for k in range(problem.scope_first[factor],
                               problem.scope_first[factor + 1]):
                    size = self._join(start, size, problem.scope[k])

    cdef Py_ssize_t _join(self, Py_ssize_t start, Py_ssize_t size,
                          Py_ssize_t variable) noexcept nogil:
        """Add a variable to the queue if it belongs to the cell; the new size."""
        cdef size_t n_bytes = self._labelings.shape[0]
        if (self._cell[variable] != UNSEEN
                or memcmp(&self._classes[variable, 0], &self._classes[start, 0],
                          n_bytes)):
            return size
        self._cell[variable] = self.n_cells
        self._scratch[size] = variable
        return size + 1

    # ---- their states ----

    cdef void _count_states(self) noexcept nogil:
        """Find where the states of each cell begin."""
        cdef Py_ssize_t variable, cell, i
        cdef uint8_t last
        for variable in range(self._problem.n_variables):
            cell = self._cell[variable]
            # all variables of a cell say the same
            if cell >= 0 and not self._first[cell + 1]:
                last = 0
                for i in range(self._labelings.shape[0]):
                    last = max(last, self._classes[variable, i])
                self._first[cell + 1] = last + 1
        for cell in range(self.n_cells):
            self._first[cell + 1] += self._first[cell]

    cdef void _find_states(self) noexcept nogil:
        """Find a labeling for each state of each cell."""
        cdef Py_ssize_t variable, cell, i
        for variable in range(self._problem.n_variables):
            cell = self._cell[variable]
            if cell < 0:
                continue
            # the first one of a class is the last to be written
            for i in range(self._labelings.shape[0] - 1, -1, -1):
                self._labeling[self._first[cell] + self._classes[variable, i]] = i

    # ---- factors ----

    cdef Py_ssize_t _touch(self, Py_ssize_t factor) noexcept nogil:
        """List the cells in the scope of a factor; their number."""
        cdef Py_ssize_t k, i, cell, count = 0
        for k in range(arity_of(self._problem, factor)):
            cell = self._cell[variable_at(self._problem, factor, k)]
            if cell < 0:
                continue
            for i in range(count):
                if self._touched[i] == cell:
                    break
            else:
                self._touched[count] = cell
                count += 1
        # ascending, so that factors of the same cells have tables of the same shape
        _sort(self._touched, count)
        return count

    cdef void _count_touched(self) noexcept nogil:
        """Count the cells of each factor."""
        cdef Py_ssize_t factor
        for factor in range(self._problem.n_factors):
            self._n_touched[factor] = self._touch(factor)

    def scopes(self, factors, Py_ssize_t size):
        """Return the cells of some factors that have equally many.

        Parameters
        ----------
        factors : ndarray of shape (n,), intp
            Factors; larger factors are numbered after the edges.
        size : int
            Number of cells of each factor.

        Returns
        -------
        scopes : ndarray of shape (n, size), int32
            The cells, in ascending order.
        """
        cdef const Py_ssize_t[::1] of = factors
        cdef int32_t[:, ::1] out = np.zeros((len(factors), size), dtype=np.int32)
        cdef Py_ssize_t i, k
        with nogil:
            for i in range(of.shape[0]):
                self._touch(of[i])
                for k in range(size):
                    out[i, k] = self._touched[k]
        return np.asarray(out)

    def unaries(self):
        """Return the scores of the states of each cell, with factors of one cell only.

        Returns
        -------
        unaries : ndarray of shape (first[-1],)
            The scores.
        """
        cdef Problem problem = self._problem
        cdef double[::1] out = np.zeros(self._first[self.n_cells])
        cdef Py_ssize_t variable, cell, k, i, factor
        with nogil:
            for variable in range(problem.n_variables):
                cell = self._cell[variable]
                if cell < 0:
                    continue
                for k in range(self._first[cell], self._first[cell + 1]):
                    i = self._labelings[self._labeling[k], variable]
                    out[k] += problem.unary[problem.first[variable] + i]
            for factor in range(problem.n_factors):
                if self._n_touched[factor] == 1:
                    self._touch(factor)
                    self._add(factor, 1, &out[self._first[self._touched[0]]])
        return np.asarray(out)

    def tables(self, factors, starts, Py_ssize_t n_entries):
        """Return the scores of factors of several cells, which may share tables.

        Parameters
        ----------
        factors, starts : ndarray of shape (n,), intp
            Factors, and where the table of each begins. The last cell varies fastest.
        n_entries : int
            Number of entries of all tables.

        Returns
        -------
        entries : ndarray of shape (n_entries,)
            The sums of the factors of each table.
        """
        cdef const Py_ssize_t[::1] of = factors, begin = starts
        cdef double[::1] out = np.zeros(n_entries)
        cdef Py_ssize_t i
        with nogil:
            for i in range(of.shape[0]):
                self._add(of[i], self._touch(of[i]), &out[begin[i]])
        return np.asarray(out)

    cdef void _add(self, Py_ssize_t factor, Py_ssize_t count,
                   double* out) noexcept nogil:
        """Add the scores of a factor for all states of the cells it has touched."""
        cdef Py_ssize_t i, k, entry, rest, size, n_entries = 1
        for i in range(count):
            n_entries *= self._size(self._touched[i])
        for entry in range(n_entries):
            # the index of the entry is a number whose digits are the states
            rest = entry
            for i in range(count - 1, -1, -1):
                size = self._size(self._touched[i])
                self._choose(factor, self._touched[i], rest % size)
                rest //= size
            for k in range(arity_of(self._problem, factor)):
                i = variable_at(self._problem, factor, k)
                if self._cell[i] < 0:
                    self._scratch[i] = self._labelings[0, i]
            out[entry] += self._problem.entry_at(factor, &self._scratch[0])

    cdef Py_ssize_t _size(self, Py_ssize_t cell) noexcept nogil:
        """Number of states of a cell."""
        return self._first[cell + 1] - self._first[cell]

    cdef void _choose(self, Py_ssize_t factor, Py_ssize_t cell,
                      Py_ssize_t state) noexcept nogil:
        """Give the variables of a factor that are in a cell a state of the cell."""
        cdef Py_ssize_t k, variable
        cdef Py_ssize_t labeling = self._labeling[self._first[cell] + state]
        for k in range(arity_of(self._problem, factor)):
            variable = variable_at(self._problem, factor, k)
            if self._cell[variable] == cell:
                self._scratch[variable] = self._labelings[labeling, variable]


cdef void _sort(int32_t[::1] values, Py_ssize_t size) noexcept nogil:
    """Sort the first values, of which there are few."""
    cdef Py_ssize_t i, k
    cdef int32_t value
    for i in range(1, size):
        value, k = values[i], i
        while k and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
