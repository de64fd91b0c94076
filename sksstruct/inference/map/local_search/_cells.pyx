"""Cells: parts of a graph that take their states from one labeling as a whole.

Given several labelings, two neighbors are in one cell if the same labelings are equal
to each other at both neighbors. A cell has one state for each of its distinct
labelings. Variables at which all labelings are equal are in no cell. The cells are the
variables of a much smaller problem, whose score is that of the combined labeling: block
spins (Houdayer and Martin, Hierarchical approach for computing spin glass ground
states, Phys. Rev. E 64, 2001), for any number of labelings and states, and factors of
any order. With two labelings, no factor has variables of two cells. `Crossover` solves
the smaller problem.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp

from sksstruct.inference.map.core._problem cimport (
    Problem, arity_of, variable_at,
)
from sksstruct.utils._pointers cimport (
    const_int32s, const_intps, doubles, int32s, intps, uint8s,
)

# Values of `_cell` for variables in no cell, and for variables without a cell so far.
cdef enum:
    FIXED = -1
    UNSEEN = -2


cdef class CellParts:
    """Kernel that finds cells and computes their scores, in the arrays of `Cells`."""

    cdef Problem _problem
    cdef object _owned
    cdef Py_ssize_t _n_labelings
    # the labelings, one row each
    cdef const int32_t* _labelings
    # class of each labeling at each variable: labelings with equal states have the same
    # class; classes are numbered in order of first appearance
    cdef uint8_t* _classes
    cdef int32_t* _cell
    cdef int32_t* _listed
    cdef int32_t* _scratch
    cdef Py_ssize_t* _first
    cdef int32_t* _labeling
    cdef int32_t* _n_touched
    cdef readonly Py_ssize_t n_cells

    def __init__(self, Problem problem, arrays):
        self._problem, self._owned = problem, arrays
        self._n_labelings = len(arrays.labelings)
        self._labelings, self._classes = (
            const_int32s(arrays.labelings), uint8s(arrays.classes))
        self._cell, self._scratch = int32s(arrays.cell), int32s(arrays.scratch)
        self._listed = int32s(arrays.touched)
        self._n_touched = int32s(arrays.n_touched)
        with nogil:
            self._classify()
            self._grow_all()
            self._count_touched()

    # ---- the cells ----

    cdef void _classify(self) noexcept nogil:
        """Write the class of each labeling at each variable to `_classes`."""
        cdef Py_ssize_t variable, i, j
        cdef Py_ssize_t n = self._problem.n_variables, n_labelings = self._n_labelings
        cdef uint8_t n_classes
        cdef uint8_t* classes = self._classes
        cdef const int32_t* labels = self._labelings
        for variable in range(n):
            n_classes = 0
            for i in range(n_labelings):
                for j in range(i):
                    if labels[j * n + variable] == labels[i * n + variable]:
                        classes[i] = classes[j]
                        break
                else:
                    classes[i] = n_classes
                    n_classes += 1
            self._cell[variable] = FIXED if n_classes == 1 else UNSEEN
            classes += n_labelings

    cdef inline int32_t _label(self, Py_ssize_t labeling,
                               Py_ssize_t variable) noexcept nogil:
        """The state of a variable in a labeling."""
        return self._labelings[labeling * self._problem.n_variables + variable]

    cdef void _grow_all(self) noexcept nogil:
        """Assign all variables at which labelings differ to cells."""
        cdef Py_ssize_t variable
        self.n_cells = 0
        for variable in range(self._problem.n_variables):
            if self._cell[variable] == UNSEEN:
                self._grow_cell(self._problem, variable)
                self.n_cells += 1

    cdef void _grow_cell(self, Problem problem, Py_ssize_t start) noexcept nogil:
        """Make the next cell: `start`, and connected variables of the same classes.
        """
        cdef Py_ssize_t head = 0, size = 1, i, k, variable, factor
        # `_scratch` is a queue of variables whose neighbors may join the cell
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
        """Add a variable to the queue if the cell contains it; return the new size."""
        cdef Py_ssize_t n = self._n_labelings
        if (self._cell[variable] != UNSEEN
                or memcmp(self._classes + variable * n, self._classes + start * n, n)):
            return size
        self._cell[variable] = self.n_cells
        self._scratch[size] = variable
        return size + 1

    # ---- states of cells ----

    def count_states(self, first):
        """Write the offset of each cell's states to `first`, which must be zero."""
        cdef Py_ssize_t variable, cell, i
        cdef uint8_t last
        self._first = intps(first)
        for variable in range(self._problem.n_variables):
            cell = self._cell[variable]
            # all variables of a cell have the same classes
            if cell >= 0 and not self._first[cell + 1]:
                last = 0
                for i in range(self._n_labelings):
                    last = max(last, self._classes[variable * self._n_labelings + i])
                self._first[cell + 1] = last + 1
        for cell in range(self.n_cells):
            self._first[cell + 1] += self._first[cell]

    def find_states(self, labeling):
        """Write the first labeling with each state of each cell to `labeling`."""
        cdef Py_ssize_t variable, cell, i, k
        self._labeling = int32s(labeling)
        for variable in range(self._problem.n_variables):
            cell = self._cell[variable]
            if cell < 0:
                continue
            # the loop is backward, so that the first labeling of a class is written
            # last
            for i in range(self._n_labelings - 1, -1, -1):
                k = self._classes[variable * self._n_labelings + i]
                self._labeling[self._first[cell] + k] = i

    # ---- factors ----

    cdef Py_ssize_t _list_cells(self, Py_ssize_t factor) noexcept nogil:
        """List the cells in the scope of a factor; return their number."""
        cdef Py_ssize_t k, i, cell, count = 0
        for k in range(arity_of(self._problem, factor)):
            cell = self._cell[variable_at(self._problem, factor, k)]
            if cell < 0:
                continue
            for i in range(count):
                if self._listed[i] == cell:
                    break
            else:
                self._listed[count] = cell
                count += 1
        # ascending, so that factors of the same cells have tables of the same shape
        _sort(self._listed, count)
        return count

    cdef void _count_touched(self) noexcept nogil:
        """Count the cells in the scope of each factor."""
        cdef Py_ssize_t factor
        for factor in range(self._problem.n_factors):
            self._n_touched[factor] = self._list_cells(factor)

    def find_scopes(self, factors, Py_ssize_t size, out):
        """Write the cells of factors that all have `size` cells to `out`."""
        cdef const Py_ssize_t* ids = const_intps(factors)
        cdef int32_t* scopes = int32s(out)
        cdef Py_ssize_t i, k, n = len(factors)
        with nogil:
            for i in range(n):
                self._list_cells(ids[i])
                for k in range(size):
                    scopes[i * size + k] = self._listed[k]

    def add_unaries(self, out):
        """Add up the scores of each state of each cell in `out`.

        These are scores of variables, and of factors with variables of a single cell.
        """
        cdef double* scores = doubles(out)
        cdef Problem problem = self._problem
        cdef Py_ssize_t variable, cell, k, i, factor
        with nogil:
            for variable in range(problem.n_variables):
                cell = self._cell[variable]
                if cell < 0:
                    continue
                for k in range(self._first[cell], self._first[cell + 1]):
                    i = self._label(self._labeling[k], variable)
                    scores[k] += problem.unary[problem.first[variable] + i]
            for factor in range(problem.n_factors):
                if self._n_touched[factor] == 1:
                    self._list_cells(factor)
                    self._add(factor, 1, scores + self._first[self._listed[0]])

    def add_tables(self, factors, starts, out):
        """Add the scores of factors to tables over the states of several cells."""
        cdef const Py_ssize_t* ids = const_intps(factors)
        cdef const Py_ssize_t* begin = const_intps(starts)
        cdef double* scores = doubles(out)
        cdef Py_ssize_t i, n = len(factors)
        with nogil:
            for i in range(n):
                self._add(ids[i], self._list_cells(ids[i]), scores + begin[i])

    cdef void _add(self, Py_ssize_t factor, Py_ssize_t count,
                   double* out) noexcept nogil:
        """Add the scores of a factor for all joint states of its listed cells to `out`.
        """
        cdef Py_ssize_t i, k, entry, rest, size, n_entries = 1
        for i in range(count):
            n_entries *= self._size(self._listed[i])
        for entry in range(n_entries):
            # the digits of the entry's index are the states of the cells
            rest = entry
            for i in range(count - 1, -1, -1):
                size = self._size(self._listed[i])
                self._set_states(factor, self._listed[i], rest % size)
                rest //= size
            for k in range(arity_of(self._problem, factor)):
                i = variable_at(self._problem, factor, k)
                if self._cell[i] < 0:
                    self._scratch[i] = self._label(0, i)
            out[entry] += self._problem.entry_at(factor, self._scratch)

    cdef Py_ssize_t _size(self, Py_ssize_t cell) noexcept nogil:
        """Number of states of a cell."""
        return self._first[cell + 1] - self._first[cell]

    cdef void _set_states(self, Py_ssize_t factor, Py_ssize_t cell,
                          Py_ssize_t state) noexcept nogil:
        """Set the variables of a factor that are in a cell to a state of the cell."""
        cdef Py_ssize_t k, variable
        cdef Py_ssize_t labeling = self._labeling[self._first[cell] + state]
        for k in range(arity_of(self._problem, factor)):
            variable = variable_at(self._problem, factor, k)
            if self._cell[variable] == cell:
                self._scratch[variable] = self._label(labeling, variable)


cdef void _sort(int32_t* values, Py_ssize_t size) noexcept nogil:
    """Sort the first `size` values by insertion, as the values are few."""
    cdef Py_ssize_t i, k
    cdef int32_t value
    for i in range(1, size):
        value, k = values[i], i
        while k and values[k - 1] > value:
            values[k] = values[k - 1]
            k -= 1
        values[k] = value
