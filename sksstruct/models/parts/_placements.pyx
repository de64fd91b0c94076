"""The loss of positions of parts, the mean of min(1, |l_p - truth_p|^2 / unit^2).

The first table of an example has a row for each position, row * width + column, and a
column for each part; rows are `ld` apart. A labeling begins with the position of each
part, and whatever follows costs nothing.
"""

from libc.stdint cimport int32_t

from sksstruct.models.tables._table cimport BoundTable, TableScratch


cdef inline double miss(BoundPlacements model, Py_ssize_t i, Py_ssize_t part,
                        Py_ssize_t position) noexcept nogil:
    """Return what a part at some position adds to the loss."""
    cdef Py_ssize_t width = model._shapes[i, 1]
    cdef Py_ssize_t observed = model._y_true[model._starts[i] + part]
    cdef double row = position // width - observed // width
    cdef double column = position % width - observed % width
    cdef double square = (row * row + column * column) / (
        model._units[i] * model._units[i])
    # a part that is lost costs the same wherever it is
    return (square if square < 1.0 else 1.0) / model.n_parts


cdef class BoundPlacements(BoundTable):
    """Base of the models with springs of one type and of several.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost; None for prediction.
    """

    def __cinit__(self, blocks, *_, shapes, units, **__):
        self.n_parts, self.ld = blocks[0][2], self._blocks[0].ld
        self._shapes = self.shapes = shapes
        # positions are numbered by the widths, and tables may be as long with others
        self._structure.append(shapes)
        if self._labeled:
            self._units = units

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t position, part
        for position in range(self._n_positions(i)):
            for part in range(self.n_parts):
                ws.theta[position * self.ld + part] += (
                    scale * miss(self, i, part, position))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t part
        value[0] = 0.0
        for part in range(self.n_parts):
            value[0] += miss(self, i, part, y[part])
        return 0

    cdef Py_ssize_t _n_positions(self, Py_ssize_t i) noexcept nogil:
        """Return the number of positions of an image."""
        return self._shapes[i, 0] * self._shapes[i, 1]

    cdef Py_ssize_t other_keys(self, Py_ssize_t i) noexcept nogil:
        # a key for each displacement
        return self._n_springs * (
            (2 * self._shapes[i, 0] - 1) * (2 * self._shapes[i, 1] - 1))
