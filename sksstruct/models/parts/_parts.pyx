"""Parts on a grid: a position for each part, and springs between them.

Score of positions l, with features F of every position and d_e = l_v - l_u - offset_e
for an edge e = (u, v), in units of scale_e (Osokin et al., 2016, I.4):

    sum_p F[l_p] . W[:, p] + bias[p]  +  sum_e linear_e . d_e - quadratic_e . d_e^2

quadratic >= 0, so that messages are distance transforms. The features of a spring
depend on the labeling: its keys, one for each displacement, lie beyond the table, and
its four weights (linear and quadratic, of rows and of columns) beyond the block's.

The loss is the mean over the parts of min(1, |l_p - truth_p|^2 / unit^2).
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import bmmf, parts_max_marginals, parts_max_product


cdef class BoundParts(BoundTable):
    """Parts bound to data.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of parts.
    offsets, scales : ndarray of shape (n_edges, 2)
        Mean displacements, and units of what is left.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost.
    """

    cdef const Py_ssize_t[:, ::1] _shapes
    cdef const Py_ssize_t[:, ::1] _edges
    cdef const double[:, ::1] _offsets, _scales
    cdef const double[::1] _units
    cdef Py_ssize_t n_parts, ld, first_spring
    cdef readonly object edges, offsets, scales

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys,
                  other_keys, other_weights, *, shapes, edges, offsets, scales, units):
        self.n_parts, self.ld = blocks[0][2], self._blocks[0].ld
        self._shapes, self._edges = shapes, edges
        self._offsets, self._scales = offsets, scales
        self.edges, self.offsets, self.scales = edges, offsets, scales
        self.first_spring = self.n_weights - 4 * len(edges)
        self._structure += [shapes, edges]
        if self._labeled:
            self._units = units

    def springs(self, w):
        """Linear and quadratic weights, each (n_edges, 2), views of flat ones."""
        table = w[self.first_spring:].reshape(-1, 2, 2)
        return table[:, 0], table[:, 1]

    def views(self, w):
        linear, quadratic = self.springs(w)
        return {**BoundTable.views(self, w), "linear": linear, "quadratic": quadratic}

    # The displacement that a key stands for, less the offset, in units.
    cdef inline double _displacement(self, Py_ssize_t i, Py_ssize_t key,
                                     Py_ssize_t axis) noexcept nogil:
        cdef Py_ssize_t height = 2 * self._shapes[i, 0] - 1
        cdef Py_ssize_t width = 2 * self._shapes[i, 1] - 1, e = key // (height * width)
        key -= e * height * width
        key = key % width - (width // 2) if axis else key // width - (height // 2)
        return (key - self._offsets[e, axis]) / self._scales[e, axis]

    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil:
        cdef Py_ssize_t e = key // (
            (2 * self._shapes[i, 0] - 1) * (2 * self._shapes[i, 1] - 1)), axis
        cdef const double* w = weights + self.first_spring + 4 * e
        cdef double d, value = 0.0
        for axis in range(2):
            d = self._displacement(i, key, axis)
            value += w[axis] * d - w[2 + axis] * d * d
        return value

    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil:
        cdef Py_ssize_t e = key // (
            (2 * self._shapes[i, 0] - 1) * (2 * self._shapes[i, 1] - 1)), axis
        cdef double* g = ws.g + self.first_spring + 4 * e
        cdef double d
        for axis in range(2):
            d = self._displacement(i, key, axis)
            g[axis] += change * d
            g[2 + axis] -= change * d * d
        for axis in range(4):
            self.touch_row(ws, self.n_rows - 4 * self._edges.shape[0] + 4 * e + axis)
        return 0

    cdef inline double _miss(self, Py_ssize_t i, Py_ssize_t p,
                             Py_ssize_t place) noexcept nogil:
        cdef Py_ssize_t width = self._shapes[i, 1]
        cdef Py_ssize_t y_true = self._y_true[self._starts[i] + p]
        cdef double row = place // width - y_true // width
        cdef double column = place % width - y_true % width
        row = (row * row + column * column) / (self._units[i] * self._units[i])
        return (row if row < 1.0 else 1.0) / self.n_parts

    cdef int add_loss(self, TableScratch* ws, Py_ssize_t i,
                      double scale) except -1 nogil:
        cdef Py_ssize_t x, p
        for x in range(self._shapes[i, 0] * self._shapes[i, 1]):
            for p in range(self.n_parts):
                ws.theta[x * self.ld + p] += scale * self._miss(i, p, x)
        return 0

    cdef int loss(self, Py_ssize_t i, const int32_t* y, double* value) except -1 nogil:
        cdef Py_ssize_t p
        value[0] = 0.0
        for p in range(self.n_parts):
            value[0] += self._miss(i, p, y[p])
        return 0

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t p, e, row, column, start = height * width * self.ld
        for p in range(self.n_parts):
            keys[p] = <int32_t> (y[p] * self.ld + p)
        for e in range(self._edges.shape[0]):
            row = y[self._edges[e, 1]] // width - y[self._edges[e, 0]] // width
            column = y[self._edges[e, 1]] % width - y[self._edges[e, 0]] % width
            keys[self.n_parts + e] = <int32_t> (
                start + (e * (2 * height - 1) + row + height - 1) * (2 * width - 1)
                + column + width - 1)
        return self.n_parts + self._edges.shape[0]

    def _problem(self, TableWorkspace workspace, Py_ssize_t i):
        """Scores of positions, (n_parts, height, width), and the springs."""
        height, width = self._shapes[i, 0], self._shapes[i, 1]
        unary = workspace.theta[:height * width * self.ld].reshape(height, width, self.ld)
        unary = np.ascontiguousarray(unary[:, :, :self.n_parts].transpose(2, 0, 1))
        linear, quadratic = self.springs(workspace._held)
        springs = (self.edges, self.offsets, quadratic / self.scales ** 2,
                   linear / self.scales)
        return unary, springs

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        unary, springs = self._problem(workspace, i)
        rows, columns = parts_max_product(unary, *springs).labeling.T
        return (rows * unary.shape[2] + columns).astype(np.int32)

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        unary, springs = self._problem(workspace, i)

        def max_marginals(scores):
            scores = scores.reshape(unary.shape)
            return parts_max_marginals(scores, *springs).reshape(len(unary), -1)

        return bmmf(max_marginals, unary.reshape(len(unary), -1), k)[0]
