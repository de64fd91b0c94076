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

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.parts._sums cimport (
    Spring, grid_ld, scratch_size, sum_product,
)
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.models.parts._placements cimport BoundPlacements
from sksstruct.models.protocols._bound_model cimport Workspace, in_range
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import bmmf, parts_max_marginals, parts_max_product


# final: nobody derives from it
@cython.final
cdef class BoundParts(BoundPlacements):
    """Parts bound to data.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of parts.
    offsets, scales : ndarray of shape (n_edges, 2)
        Mean displacements, and units of the remaining displacements, for rows and for
        columns.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost; None for prediction.
    """

    oracles = ("max", "topk", "exp")
    cdef const Py_ssize_t[:, ::1] _edges
    cdef const double[:, ::1] _offsets, _scales
    cdef Py_ssize_t first_spring
    cdef Tree _tree
    # the same for oracles that are not compiled, and for estimators
    cdef readonly object edges, offsets, scales

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys,
                  other_keys, other_weights, *, shapes, edges, offsets, scales, **_):
        self._edges = edges
        self._offsets, self._scales = offsets, scales
        self.edges, self.offsets, self.scales = edges, offsets, scales
        self.first_spring = self.n_weights - 4 * len(edges)
        self._tree = Tree(self.n_parts, edges)
        # the largest image need not be the one that takes most memory
        self.belief_size = max(
            self._sums_memory(height, width)
            for height, width in np.unique(shapes, axis=0))
        self._structure.append(edges)
        self._n_springs = len(edges)

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

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        return in_range(self.n_parts, y, 0, self._n_positions(i))

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

    cdef Py_ssize_t _sums_memory(self, Py_ssize_t height,
                                 Py_ssize_t width) noexcept nogil:
        """Return how many numbers of memory `expect` needs for an image."""
        return (self.n_parts * height * grid_ld(width)
                + scratch_size(self.n_parts, height, width)
                + self._edges.shape[0] * (4 + <Py_ssize_t> sizeof(Spring) // 8) + 1)

    cdef int expect(self, Workspace workspace, Py_ssize_t i, double mu, double* means,
                    double* value) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t n_edges = self._edges.shape[0], edge, axis
        cdef Py_ssize_t end = height * width * self.ld
        cdef double* grids = ws.beliefs
        cdef double* scratch = grids + self.n_parts * height * grid_ld(width)
        cdef double* moments = scratch + scratch_size(self.n_parts, height, width)
        cdef Spring* springs = <Spring*> (moments + 4 * n_edges)
        cdef double scale
        self._load_springs(workspace.w, 1.0 / mu, springs)
        self._load_grids(i, 1.0 / mu, ws.theta, grids)
        value[0] = ws.constant + mu * sum_product(
            self._tree, height, width, springs, grids, scratch, moments)
        memset(means, 0, (end + 4 * n_edges) * sizeof(double))
        # without any placement that is allowed
        if value[0] == -INFINITY:
            return 0
        self._store_grids(i, grids, means)
        for edge in range(n_edges):
            for axis in range(2):
                scale = self._scales[edge, axis]
                means[end + 4 * edge + axis] = moments[4 * edge + axis] / scale
                # quadratic weights count against the score
                means[end + 4 * edge + 2 + axis] = (
                    -moments[4 * edge + 2 + axis] / (scale * scale))
        return 0

    cdef void _load_springs(self, const double* weights, double factor,
                            Spring* springs) noexcept nogil:
        """Write the springs in positions: weights are of displacements in units."""
        cdef Py_ssize_t edge, axis
        cdef const double* own
        cdef double scale
        for edge in range(self._edges.shape[0]):
            own = weights + self.first_spring + 4 * edge
            for axis in range(2):
                scale = self._scales[edge, axis]
                springs[edge].offset[axis] = self._offsets[edge, axis]
                springs[edge].linear[axis] = factor * own[axis] / scale
                springs[edge].quadratic[axis] = (
                    factor * own[2 + axis] / (scale * scale))

    cdef void _load_grids(self, Py_ssize_t i, double factor, const double* table,
                          double* grids) noexcept nogil:
        """Write a grid for each part, where tables have a row for each position."""
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t ld = grid_ld(width), part, row, column
        for part in range(self.n_parts):
            for row in range(height):
                for column in range(width):
                    grids[column] = factor * table[
                        (row * width + column) * self.ld + part]
                for column in range(width, ld):
                    grids[column] = -INFINITY
                grids += ld

    cdef void _store_grids(self, Py_ssize_t i, const double* grids,
                           double* table) noexcept nogil:
        """The inverse of `_load_grids`."""
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t part, row, column
        for part in range(self.n_parts):
            for row in range(height):
                for column in range(width):
                    table[(row * width + column) * self.ld + part] = grids[column]
                grids += grid_ld(width)

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

        def max_product(scores):
            found, score = parts_max_product(scores.reshape(unary.shape), *springs)
            return found[:, 0] * unary.shape[2] + found[:, 1], score

        return bmmf(max_marginals, unary.reshape(len(unary), -1), k,
                    max_product=max_product)[0]
