"""Parts on a grid: a position for each part, and springs between them.

Score of positions l_p of the parts p, with features F of every position, and with
d_e = (l_v - l_u - offset_e) / scale_e for an edge e = (u, v), by rows and by columns
(Osokin et al., 2016, I.4):

    sum_p F[l_p] . W[:, p] + bias[p]  +  sum_e linear_e . d_e - quadratic_e . d_e^2

quadratic >= 0, so that messages are distance transforms. The loss is the mean over the
parts of min(1, |l_p - truth_p|^2 / unit^2).

A labeling is the position of each part, row * width + column. The table has a row for
each position and a column for each part; rows are `ld` apart, the parts and a padding.
The features of a spring depend on the labeling: its keys, one for each displacement of
an edge, lie beyond the table. Displacements are between 1 - height and height - 1, and
1 - width and width - 1; keys count them from zero, edge by edge, the rows first. The
four weights of an edge (linear by rows and by columns, then quadratic) lie beyond those
of the block, and each is a row of its own. An axis is 0 for rows, 1 for columns.
"""

cimport cython

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.parts._loss cimport truncated_distance
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import bmmf, parts_max_marginals, parts_max_product


# final: nobody derives from it, and the loss of every position is a call
@cython.final
cdef class BoundParts(BoundTable):
    """Parts bound to data.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of parts.
    offsets, scales : ndarray of shape (n_edges, 2)
        Mean displacements, and units of what is left, by rows and by columns.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost; None for prediction.
    """

    cdef const Py_ssize_t[:, ::1] _shapes
    cdef const Py_ssize_t[:, ::1] _edges
    cdef const double[:, ::1] _offsets, _scales
    cdef const double[::1] _units
    cdef Py_ssize_t n_parts, ld, first_spring
    # the same for oracles, which are not compiled
    cdef readonly object edges, offsets, scales

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys,
                  other_keys, other_weights, *, shapes, edges, offsets, scales, units):
        self.n_parts, self.ld = blocks[0][2], self._blocks[0].ld
        self._shapes, self._edges = shapes, edges
        self._offsets, self._scales = offsets, scales
        self.edges, self.offsets, self.scales = edges, offsets, scales
        self.first_spring = self.n_weights - 4 * len(edges)
        # positions are numbered by the widths, and tables may be as long with others
        self._structure += [shapes, edges]
        if self._labeled:
            self._units = units

    def springs(self, w):
        """Return linear and quadratic weights, (n_edges, 2) each, as views."""
        table = w[self.first_spring:].reshape(-1, 2, 2)
        return table[:, 0], table[:, 1]

    def views(self, w):
        linear, quadratic = self.springs(w)
        # the table's, and those beyond it
        return {**BoundTable.views(self, w), "linear": linear, "quadratic": quadratic}

    # ---- springs: keys and rows of weights beyond those of the table ----

    cdef inline Py_ssize_t _edge_of(self, Py_ssize_t i, Py_ssize_t key,
                                    double* displacement) noexcept nogil:
        """Return the edge of a key, and write d_e, by rows and by columns."""
        cdef Py_ssize_t n_rows = 2 * self._shapes[i, 0] - 1
        cdef Py_ssize_t n_columns = 2 * self._shapes[i, 1] - 1
        cdef Py_ssize_t edge = key // (n_rows * n_columns)
        # the middle of either axis stands for no displacement at all
        cdef Py_ssize_t row = key // n_columns - edge * n_rows - n_rows // 2
        cdef Py_ssize_t column = key % n_columns - n_columns // 2
        displacement[0] = (row - self._offsets[edge, 0]) / self._scales[edge, 0]
        displacement[1] = (column - self._offsets[edge, 1]) / self._scales[edge, 1]
        return edge

    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil:
        cdef double[2] moved
        cdef Py_ssize_t axis, edge = self._edge_of(i, key, moved)
        cdef const double* spring = weights + self.first_spring + 4 * edge
        cdef double value = 0.0
        for axis in range(2):
            value += (spring[axis] * moved[axis]
                      - spring[2 + axis] * moved[axis] * moved[axis])
        return value

    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil:
        cdef double[2] moved
        cdef Py_ssize_t axis, edge = self._edge_of(i, key, moved)
        # the last rows of weights are those of the springs, four for each edge
        cdef Py_ssize_t row = self.n_rows - 4 * self._edges.shape[0] + 4 * edge
        cdef double* spring = ws.g + self.first_spring + 4 * edge
        for axis in range(2):
            spring[axis] += change * moved[axis]
            spring[2 + axis] -= change * moved[axis] * moved[axis]
        for axis in range(4):
            self.touch_row(ws, row + axis)
        return 0

    # ---- the loss ----

    cdef inline double _miss(self, Py_ssize_t i, Py_ssize_t part,
                             Py_ssize_t position) noexcept nogil:
        """Return what a part at some position adds to the loss."""
        return truncated_distance(
            position, self._y_true[self._starts[i] + part], self._shapes[i, 1],
            self._units[i]) / self.n_parts

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t position, part
        for position in range(self._shapes[i, 0] * self._shapes[i, 1]):
            for part in range(self.n_parts):
                ws.theta[position * self.ld + part] += (
                    scale * self._miss(i, part, position))
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t part
        value[0] = 0.0
        for part in range(self.n_parts):
            value[0] += self._miss(i, part, y[part])
        return 0

    # ---- labelings ----

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t part, edge, row, column
        cdef Py_ssize_t n_edges = self._edges.shape[0], end = height * width * self.ld
        # no key twice: parts have columns of their own, and edges ranges of keys
        for part in range(self.n_parts):
            keys[part] = <int32_t> (y[part] * self.ld + part)
        for edge in range(n_edges):
            row = y[self._edges[edge, 1]] // width - y[self._edges[edge, 0]] // width
            column = y[self._edges[edge, 1]] % width - y[self._edges[edge, 0]] % width
            # the inverse of `_edge_of`, counted from the end of the table
            row += edge * (2 * height - 1) + height - 1
            keys[self.n_parts + edge] = <int32_t> (
                end + row * (2 * width - 1) + column + width - 1)
        return self.n_parts + n_edges

    # ---- oracles ----

    def _problem(self, TableWorkspace workspace, Py_ssize_t i):
        """Return scores of positions, (n_parts, height, width), and the springs."""
        height, width = self._shapes[i, 0], self._shapes[i, 1]
        table = workspace.theta[:height * width * self.ld]
        table = table.reshape(height, width, self.ld)[:, :, :self.n_parts]
        # an image for each part, where tables have a row for each position
        unary = np.ascontiguousarray(table.transpose(2, 0, 1))
        linear, quadratic = self.springs(workspace._held)
        # in positions: the weights are of displacements in units
        springs = (self.edges, self.offsets, quadratic / self.scales ** 2,
                   linear / self.scales)
        return unary, springs

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        unary, springs = self._problem(workspace, i)
        rows, columns = parts_max_product(unary, *springs).labeling.T
        return (rows * unary.shape[2] + columns).astype(np.int32)

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        unary, springs = self._problem(workspace, i)

        # the search takes parts for variables, and their positions for states
        def max_marginals(scores):
            scores = scores.reshape(unary.shape)
            return parts_max_marginals(scores, *springs).reshape(len(unary), -1)

        return bmmf(max_marginals, unary.reshape(len(unary), -1), k)[0]
