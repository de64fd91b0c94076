"""Parts on a grid, held by springs of several types.

A labeling is the position of each part, as in `_parts.pyx`, and then the type of each
edge. Score of positions l_p and types t_e, with features F of every position, and with
d_e = (l_v - l_u - offset_{e,t}) / scale_e for an edge e = (u, v) of type t, by rows and
by columns (Osokin et al., 2016, I.4):

    sum_p F[l_p] . W[:, p] + bias[p]
        + sum_e linear_{e,t} . d_e - quadratic_{e,t} . d_e^2 + bias_{e,t}
        + sum_e F[l_u] . V[:, (e, t, 0)] + F[l_v] . V[:, (e, t, 1)]

The last line is there if types depend on the image. The loss is that of the positions.

There is a second table for V then: a row for each position, and two columns for each
type of each edge. The keys beyond the tables are those of a spring, one for each
displacement of a type of an edge: types are numbered edge by edge, and displacements
counted as in `_parts.pyx`. The five weights of a type (linear by rows and by columns,
then quadratic, then the bias) lie beyond those of the blocks, and each is a row of its
own.
"""

cimport cython

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.parts._placements cimport BoundPlacements
from sksstruct.models.protocols._bound_model cimport in_range
from sksstruct.models.tables._table cimport BoundTable, TableScratch, TableWorkspace

from sksstruct.inference import bmmf
from sksstruct.inference.parts._typed import TypedPartsTree


# final: nobody derives from it
@cython.final
cdef class BoundTypedParts(BoundPlacements):
    """Parts and types of their springs bound to data.

    Parameters
    ----------
    shapes : ndarray of shape (n_examples, 2), intp
        Heights and widths.
    edges : ndarray of shape (n_edges, 2), intp
        Pairs of parts.
    offsets : ndarray of shape (n_edges, n_types, 2)
        Displacements of each type, for rows and for columns.
    scales : ndarray of shape (n_edges, 2)
        Units of the remaining displacements.
    units : ndarray of shape (n_examples,) or None
        Distances at which a part counts as lost; None for prediction.
    """

    oracles = ("max",)
    oracle_note = (
        "parts with n_types > 1 have the max oracle only: sums and the k best "
        "labelings would have to go through the types of all edges")

    cdef const Py_ssize_t[:, ::1] _edges
    cdef const double[:, :, ::1] _offsets
    cdef const double[:, ::1] _scales
    cdef Py_ssize_t n_edges, n_types, first_spring
    # the same for oracles, which are not compiled
    cdef readonly object edges, offsets, scales

    def __cinit__(self, blocks, sizes, y_true, example_weights, max_keys,
                  other_keys, other_weights, *, shapes, edges, offsets, scales, **_):
        self._edges = edges
        self._offsets, self._scales = offsets, scales
        self.edges, self.offsets, self.scales = edges, offsets, scales
        self.n_edges, self.n_types = offsets.shape[:2]
        self.first_spring = self.n_weights - other_weights
        self._n_springs = self.n_edges * self.n_types
        # types are those of their offsets
        self._structure += [edges, offsets]

    def springs(self, w):
        """Return views of the weights of types, (n_edges, n_types, ...).

        These are two linear and two quadratic weights, and the bias.
        """
        table = w[self.first_spring:].reshape(self.n_edges, self.n_types, 5)
        return table[..., :2], table[..., 2:4], table[..., 4]

    def views(self, w):
        linear, quadratic, bias = self.springs(w)
        views = {**BoundTable.views(self, w), "linear": linear,
                 "quadratic": quadratic, "type_intercept": bias}
        if self._layout.n_blocks > 1:
            coef = self.block(w, 1)[0].T
            shape = self.n_edges, self.n_types, 2, coef.shape[1]
            views["type_coef"] = coef.reshape(shape)
        return views

    # ---- springs: keys and rows of weights beyond those of the tables ----

    cdef inline Py_ssize_t _type_of(self, Py_ssize_t i, Py_ssize_t key,
                                    double* displacement) noexcept nogil:
        """Return the number of a key's type, and write d_e, by rows and by columns."""
        cdef Py_ssize_t n_rows = 2 * self._shapes[i, 0] - 1
        cdef Py_ssize_t n_columns = 2 * self._shapes[i, 1] - 1
        cdef Py_ssize_t number = key // (n_rows * n_columns)
        cdef Py_ssize_t edge = number // self.n_types, t = number % self.n_types
        # the middle of either axis stands for no displacement at all
        cdef Py_ssize_t row = key // n_columns - number * n_rows - n_rows // 2
        cdef Py_ssize_t column = key % n_columns - n_columns // 2
        displacement[0] = (row - self._offsets[edge, t, 0]) / self._scales[edge, 0]
        displacement[1] = (column - self._offsets[edge, t, 1]) / self._scales[edge, 1]
        return number

    cdef double other_score(self, Py_ssize_t i, Py_ssize_t key,
                            const double* weights) noexcept nogil:
        cdef double[2] moved
        cdef Py_ssize_t axis, number = self._type_of(i, key, moved)
        cdef const double* spring = weights + self.first_spring + 5 * number
        cdef double value = spring[4]
        for axis in range(2):
            value += (spring[axis] * moved[axis]
                      - spring[2 + axis] * moved[axis] * moved[axis])
        return value

    cdef int add_other(self, TableScratch* ws, Py_ssize_t i, Py_ssize_t key,
                       double change) except -1 nogil:
        cdef double[2] moved
        cdef Py_ssize_t axis, number = self._type_of(i, key, moved)
        # the last rows of weights are those of the types, five for each
        cdef Py_ssize_t row = self.n_rows + 5 * (number - self.n_edges * self.n_types)
        cdef double* spring = ws.g + self.first_spring + 5 * number
        for axis in range(2):
            spring[axis] += change * moved[axis]
            spring[2 + axis] -= change * moved[axis] * moved[axis]
        spring[4] += change
        for axis in range(5):
            self.touch_row(ws, row + axis)
        return 0

    # ---- labelings ----

    cdef int is_labeling(self, Py_ssize_t i, const int32_t* y) except -1 nogil:
        # positions, and types of the springs
        return (in_range(self.n_parts, y, 0, self._n_positions(i))
                and in_range(self.n_edges, y + self.n_parts, 0, self.n_types))

    cdef Py_ssize_t indicator(self, Py_ssize_t i, const int32_t* y,
                              int32_t* keys) except -1 nogil:
        cdef Py_ssize_t height = self._shapes[i, 0], width = self._shapes[i, 1]
        cdef Py_ssize_t part, edge, number, row, column, u, v
        cdef Py_ssize_t end = height * width * self.ld, count = self.n_parts, second
        for part in range(self.n_parts):
            keys[part] = <int32_t> (y[part] * self.ld + part)
        # no key twice: types have columns of their own, one for each end
        if self._layout.n_blocks > 1:
            second = self._blocks[1].ld
            for edge in range(self.n_edges):
                number = edge * self.n_types + y[self.n_parts + edge]
                u, v = y[self._edges[edge, 0]], y[self._edges[edge, 1]]
                keys[count] = <int32_t> (end + u * second + 2 * number)
                keys[count + 1] = <int32_t> (end + v * second + 2 * number + 1)
                count += 2
            end += height * width * second
        for edge in range(self.n_edges):
            number = edge * self.n_types + y[self.n_parts + edge]
            u, v = y[self._edges[edge, 0]], y[self._edges[edge, 1]]
            row, column = v // width - u // width, v % width - u % width
            # the inverse of `_type_of`, counted from the end of the tables
            row += number * (2 * height - 1) + height - 1
            keys[count] = <int32_t> (
                end + row * (2 * width - 1) + column + width - 1)
            count += 1
        return count

    # ---- oracles ----

    def _problem(self, TableWorkspace workspace, Py_ssize_t i):
        """Return scores of positions, (n_parts, height, width), and the springs."""
        height, width = self._shapes[i, 0], self._shapes[i, 1]
        end = height * width * self.ld
        table = workspace.theta[:end].reshape(height, width, self.ld)
        # an image for each part, where tables have a row for each position
        unary = np.ascontiguousarray(table[:, :, :self.n_parts].transpose(2, 0, 1))
        ends = None
        if self._layout.n_blocks > 1:
            n_columns, ld = self._blocks[1].n_columns, self._blocks[1].ld
            table = workspace.theta[end:end + height * width * ld]
            table = table.reshape(height * width, ld)[:, :n_columns]
            shape = self.n_edges, self.n_types, 2, height, width
            ends = np.ascontiguousarray(table.T).reshape(shape)
        linear, quadratic, bias = self.springs(workspace._held)
        # in positions: the weights are of displacements in units
        scales = self.scales[:, None]
        springs = (self.edges, self.offsets, quadratic / scales ** 2, linear / scales,
                   np.ascontiguousarray(bias), ends)
        return unary, springs

    def find(self, TableWorkspace workspace, Py_ssize_t i):
        unary, springs = self._problem(workspace, i)
        positions, types, _ = TypedPartsTree(unary, *springs).solve()
        cells = positions[:, 0] * unary.shape[2] + positions[:, 1]
        return np.concatenate([cells, types]).astype(np.int32)

    def find_topk(self, TableWorkspace workspace, Py_ssize_t i, Py_ssize_t k):
        """Return the k best placements, each with its best types.

        These are not the k best labelings, which smoothing by l2 would need.
        """
        unary, springs = self._problem(workspace, i)

        # the search takes parts for variables, and their positions for states
        def max_marginals(scores):
            tree = TypedPartsTree(scores.reshape(unary.shape), *springs)
            return tree.max_marginals().reshape(len(unary), -1)

        placements = bmmf(max_marginals, unary.reshape(len(unary), -1), k)[0]
        types = [self._best_types(cells, unary.shape[2], *springs[1:])
                 for cells in placements]
        return np.concatenate([placements, types], axis=1)

    def _best_types(self, cells, width, offsets, quadratic, linear, bias, ends):
        """Return the first best type of each edge at given positions."""
        places = np.stack(np.divmod(cells, width), axis=1)
        u, v = self.edges.T
        moved = (places[v] - places[u])[:, None] - offsets
        scores = bias + (linear * moved - quadratic * moved ** 2).sum(axis=2)
        if ends is not None:
            edge, (rows, columns) = np.arange(self.n_edges), places.T
            scores += ends[edge, :, 0, rows[u], columns[u]]
            scores += ends[edge, :, 1, rows[v], columns[v]]
        return scores.argmax(axis=1)
