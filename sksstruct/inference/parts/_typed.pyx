"""Max-product on trees of parts whose springs are of several types.

Every edge e = (u, v) has a type t, which is found together with the positions, and
scores

    bias[e, t] + first[e, t, l_u] + second[e, t, l_v] + linear . d - quadratic . d^2

with d = l_v - l_u - offset, and offset, linear and quadratic of (e, t). A message is
the highest of those of the types, at each position of the receiver: one distance
transform for each, `_parts.pyx`. So max-marginals of positions are those of
`PartsTree`, with the best types.

Ties: positions as there; of types the first.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.parts._parts cimport Deformation, PartsTree


cdef class TypedPartsTree(PartsTree):
    """Checked scores of positions and of the springs of each type.

    Parameters
    ----------
    unary : ndarray of shape (n_parts, height, width)
        Scores of positions.
    edges : ndarray of shape (n_edges, 2)
        Pairs of parts, without a cycle.
    offsets, quadratic, linear : ndarray of shape (n_edges, n_types, 2)
        Springs, for rows and for columns.
    bias : ndarray of shape (n_edges, n_types)
        Scores of types.
    ends : ndarray of shape (n_edges, n_types, 2, height, width), or None
        Scores of types at the position of the first and of the second part of an edge.
    """

    cdef Py_ssize_t n_types
    # the type that the deformation is asked for
    cdef Py_ssize_t _type
    cdef bint _has_ends
    cdef const double[:, :, ::1] _type_offsets, _type_quadratic, _type_linear
    cdef const double[:, ::1] _bias
    # each grid as a row
    cdef const double[:, :, :, ::1] _end_scores
    # scratch of `_deform`: what is sent, the message of a type, and the best of all
    cdef double[:, ::1] _grids

    def __init__(self, unary, edges, offsets, quadratic, linear, bias, ends=None):
        parts = unary, edges, offsets[:, 0], quadratic[:, 0], linear[:, 0]
        PartsTree.__init__(self, *parts)
        self.n_types = bias.shape[1]
        self._type_offsets, self._type_quadratic = offsets, quadratic
        self._type_linear, self._bias = linear, bias
        self._grids = np.empty((3, self._cells))
        self._has_ends = ends is not None
        if self._has_ends:
            self._end_scores = ends.reshape(*ends.shape[:3], self._cells)

    cdef Deformation _deformation(self, Py_ssize_t child, bint up,
                                  Py_ssize_t axis) noexcept nogil:
        cdef Py_ssize_t edge = self._edge[child], t = self._type
        cdef double sign = 1.0 if (self._ends[edge, 1] == child) != up else -1.0
        cdef Deformation deformation
        deformation.quadratic = self._type_quadratic[edge, t, axis]
        deformation.linear = sign * self._type_linear[edge, t, axis]
        deformation.offset = sign * self._type_offsets[edge, t, axis]
        return deformation

    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil:
        """Add the highest of the messages of all types.

        where, if not NULL, gets for each type what that of `PartsTree` gets, and after
        these the best type for each position of the receiver.
        """
        cdef Py_ssize_t edge = self._edge[child], cells = self._cells, t, cell
        # the end of the edge that sends: the child's if the message goes up
        cdef Py_ssize_t end = (self._ends[edge, 1] == child) == up
        cdef double* sent = &self._grids[0, 0]
        cdef double* message = &self._grids[1, 0]
        cdef double* best = &self._grids[2, 0]
        cdef int32_t* best_type = NULL
        cdef int32_t* position = NULL
        if where != NULL:
            best_type = where + self.n_types * 2 * cells
            memset(best_type, 0, cells * sizeof(int32_t))
        for cell in range(cells):
            sent[cell], best[cell] = values[cell], -INFINITY
        for t in range(self.n_types):
            self._type = t
            for cell in range(cells):
                message[cell] = self._bias[edge, t]
            if self._has_ends:
                # of the receiver's end to the message, of the sender's to what is sent
                for cell in range(cells):
                    message[cell] += self._end_scores[edge, t, 1 - end, cell]
                    sent[cell] = values[cell] + self._end_scores[edge, t, end, cell]
            if where != NULL:
                position = where + t * 2 * cells
            PartsTree._deform(self, child, up, sent, message, position)
            for cell in range(cells):
                # strictly: the first of ties
                if message[cell] > best[cell]:
                    best[cell] = message[cell]
                    if where != NULL:
                        best_type[cell] = <int32_t> t
        for cell in range(cells):
            out[cell] += best[cell]

    def solve(self):
        """Find the best positions, (n_parts, 2), types, (n_edges,), and their score."""
        cdef Py_ssize_t n = self.n_variables, k, child, parent
        cdef double[:, ::1] belief = np.array(self._unary).reshape(n, self._cells)
        cdef int32_t[:, ::1] where = np.zeros(
            (n, (2 * self.n_types + 1) * self._cells), dtype=np.int32)
        cdef double score
        positions = np.zeros((n, 2), dtype=np.int32)
        types = np.zeros(len(self.edges), dtype=np.int32)
        cdef int32_t[:, ::1] found = positions
        cdef int32_t[::1] found_types = types
        with nogil:
            # children before parents, whose beliefs their messages complete
            for k in range(n, 0, -1):
                child = self._order[k]
                parent = self._parent[child]
                if parent != self.root:
                    self._deform(child, True, &belief[child, 0], &belief[parent, 0],
                                 &where[child, 0])
            score = self._place_all(belief, where, found, found_types)
        return positions, types, score

    cdef double _place_all(self, const double[:, ::1] belief,
                           const int32_t[:, ::1] where, int32_t[:, ::1] found,
                           int32_t[::1] types) noexcept nogil:
        """Choose positions and types from the roots down; returns their score."""
        cdef Py_ssize_t width = self.width, k, part, parent, cell, t
        cdef double score = 0.0
        for k in range(1, self.n_variables + 1):
            part = self._order[k]
            parent = self._parent[part]
            if parent == self.root:
                cell = best_cell(self._cells, &belief[part, 0])
                score += belief[part, cell]
                found[part, 0] = <int32_t> (cell // width)
                found[part, 1] = <int32_t> (cell % width)
            else:
                cell = found[parent, 0] * width + found[parent, 1]
                t = where[part, 2 * self.n_types * self._cells + cell]
                types[self._edge[part]] = <int32_t> t
                # the row first: the best column depends on it
                found[part, 0] = where[part, 2 * t * self._cells + cell]
                cell = found[part, 0] * width + found[parent, 1]
                found[part, 1] = where[part, (2 * t + 1) * self._cells + cell]
        return score


cdef Py_ssize_t best_cell(Py_ssize_t n_cells, const double* scores) noexcept nogil:
    """Return the first of the highest scores."""
    cdef Py_ssize_t cell, best = 0
    for cell in range(n_cells):
        if scores[cell] > scores[best]:
            best = cell
    return best
