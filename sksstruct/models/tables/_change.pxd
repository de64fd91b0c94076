cimport cython
from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._weights cimport Weights
from sksstruct.models.tables._blocks cimport Block, WeightBlocks, n_rows_of
from sksstruct.models.tables._gram cimport GramMatrices


cdef struct RowChange:
    # list of the rows of a block in which d may be nonzero, counted from the example's
    # first row in the block
    int32_t* rows
    # for each row of the example, 1 if `_list_rows` has added the row to the list
    char* listed
    # length of the list
    Py_ssize_t count


cdef struct Change:
    # change of the mean parameters: a number for each entry of the tables of rows
    double* d
    # list of the keys (indices into d) that were written since the last scan, each
    # once, and a flag for each key, 1 if it is in the list; if a scan searches all rows
    # of the first block, the keys of this block are not listed
    int32_t* keys
    char* key_listed
    Py_ssize_t n_keys
    # for each block the rows that a scan has found; whether d was scanned since the
    # last write
    RowChange* blocks
    bint scanned
    # change of each cell (a weight of the shared block or beyond the blocks), the list
    # of the changed cells, each once, and a flag for each cell, 1 if it is in the list
    double* cells
    int32_t* changed_cells
    char* cell_listed
    Py_ssize_t n_changed_cells
    # scratch: the sum of the rows of d in a block, a row of features as a dense vector,
    # and F^T d of a block
    double* bias
    double* spread
    double* product


cdef struct Extents:
    # keys from `dense` on are listed when they are written; keys from `rows` on belong
    # to cells
    Py_ssize_t dense, rows
    # feature of the shared block in the example, which multiplies changes of its cells
    double factor


cdef inline void list_cell(Change* change, Py_ssize_t cell) noexcept nogil:
    """Add a cell to the list of changed cells, unless the list has it already."""
    if not change.cell_listed[cell]:
        change.cell_listed[cell] = 1
        change.changed_cells[change.n_changed_cells] = <int32_t> cell
        change.n_changed_cells += 1


cdef inline void add_cell(Change* change, Py_ssize_t cell,
                          double value) noexcept nogil:
    """Add a value to the change of a weight that is a cell."""
    change.cells[cell] += value
    list_cell(change, cell)


cdef inline void add_cells(Change* change, Py_ssize_t first, Py_ssize_t n_cells,
                           const double* values, double tiny) noexcept nogil:
    """Add those changes of consecutive cells that exceed tiny in absolute value.

    Smaller changes would make the list of changed cells as long as a table.
    """
    # local copies: a compiler reloads fields of a struct after each write to a flag
    cdef double* cells = change.cells + first
    cdef char* listed = change.cell_listed + first
    cdef int32_t* changed = change.changed_cells
    cdef Py_ssize_t n_changed = change.n_changed_cells, k
    for k in range(n_cells):
        if values[k] > tiny or values[k] < -tiny:
            cells[k] += values[k]
            if not listed[k]:
                listed[k] = 1
                changed[n_changed] = <int32_t> (first + k)
                n_changed += 1
    change.n_changed_cells = n_changed


cdef inline void add_key(Change* change, const Extents* extents, int32_t key,
                         double value) noexcept nogil:
    """Add a value to the change of the mean parameter of a key."""
    if key >= extents.rows:
        add_cell(change, key - extents.rows, extents.factor * value)
        return
    change.d[key] += value
    if key >= extents.dense and not change.key_listed[key]:
        change.key_listed[key] = 1
        change.keys[change.n_keys] = key
        change.n_keys += 1


cdef inline void clear_cells(Change* change) noexcept nogil:
    """Make the change of all cells zero."""
    cdef const int32_t* changed = change.changed_cells
    cdef double* cells = change.cells
    cdef char* listed = change.cell_listed
    cdef Py_ssize_t k
    for k in range(change.n_changed_cells):
        cells[changed[k]] = 0.0
        listed[changed[k]] = 0
    change.n_changed_cells = 0


cdef inline double plus_cells(const Change* change, double total) noexcept nogil:
    """Return a total plus the squared changes of all cells."""
    cdef Py_ssize_t k
    # each cell is listed once, so that its square counts once
    for k in range(change.n_changed_cells):
        total += change.cells[change.changed_cells[k]] ** 2
    return total


cdef inline double without_rounding(double change, double tiny) noexcept nogil:
    """Return a change, or zero if its absolute value is below tiny."""
    # a product avoids a branch; NaN stays NaN, as comparisons with NaN are false
    cdef bint is_tiny = change * change < tiny * tiny
    return change * (1 - is_tiny)


cdef inline void set_mean(
    Change* change, Py_ssize_t ld, Py_ssize_t rows_end, double tiny, Py_ssize_t n_keys,
    const int32_t* keys, const double* values, double coef
) noexcept nogil:
    """Set a change of zero to coef times sparse mean parameters; list rows and cells.

    The layout must have one block that is not shared, and the example must be one for
    which a scan searches all rows of this block. Keys ascend; keys from `rows_end` on
    belong to cells.
    """
    cdef double* d = change.d
    cdef double* cells = change.cells - rows_end
    cdef char* listed = change.cell_listed - rows_end
    cdef int32_t* rows = change.blocks[0].rows
    cdef int32_t* changed = change.changed_cells
    cdef Py_ssize_t n_rows = 0, n_cells = 0, k = 0, row, last = -1
    cdef double rows_of_key = 1.0 / ld, value
    cdef bint changes
    # The loop has no branches, which the processor would mispredict: a row that must
    # not be listed is written after the list's end, where the next row overwrites it.
    while k < n_keys and keys[k] < rows_end:
        value = without_rounding(coef * values[k], tiny)
        changes = value != 0.0
        d[keys[k]] = value
        # a multiplication is faster than a division; 0.5 keeps the floor exact
        row = <Py_ssize_t> ((keys[k] + 0.5) * rows_of_key)
        rows[n_rows] = <int32_t> row
        n_rows += changes & (row != last)
        last += changes * (row - last)
        k += 1
    for k in range(k, n_keys):
        cells[keys[k]], listed[keys[k]] = coef * values[k], 1
        changed[n_cells] = <int32_t> (keys[k] - rows_end)
        n_cells += 1
    change.blocks[0].count, change.n_changed_cells = n_rows, n_cells
    change.scanned = True


# a final class has no virtual calls
@cython.final
cdef class Changes:
    # methods: see `_change.pyx`
    cdef WeightBlocks _layout
    cdef readonly GramMatrices grams
    cdef Py_ssize_t _max_rows, _n_examples
    # whether there is only one block of rows, in which every example has one row
    cdef bint _one_row

    cdef int prepare(self, Workspace workspace, Change* change,
                     Py_ssize_t n_keys) except -1
    cdef Extents extents(self, Py_ssize_t i) noexcept nogil
    cdef void scan(self, Change* change, Py_ssize_t i) noexcept nogil
    cdef int norm_of_rows(self, Change* change, Py_ssize_t i,
                          double* value) except -1 nogil
    cdef void scatter(self, Change* change, Py_ssize_t i, double scale,
                      double* out) noexcept nogil
    cdef void touch(self, const Change* change, Py_ssize_t i,
                    Weights weights) noexcept nogil
    cdef void clear(self, Change* change, Py_ssize_t i) noexcept nogil
    cdef int products(self, Change* change, Py_ssize_t i,
                      double* table) except -1 nogil
    cdef void prefetch(self, Py_ssize_t i, bint soon) noexcept nogil
    # steps of the methods above
    cdef void _list_rows(self, Change* change, Py_ssize_t i) noexcept nogil
    cdef void _form_product(self, Change* change, Py_ssize_t number, Py_ssize_t i,
                            const double* d) noexcept nogil
    cdef double _clear_product(self, Change* change, Py_ssize_t number,
                               Py_ssize_t i) noexcept nogil
