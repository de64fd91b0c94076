"""Max-product on trees of parts in a grid, by distance transforms.

Every variable is a position (row, column). An edge (p, q) scores the displacement
d = position of q - position of p - offset, for rows and columns alike, by

    linear d - quadratic d^2,   quadratic >= 0

A message is then a maximum over parabolas of one width, first along columns, then
along rows: their upper envelope costs O(positions), where a table would cost its
square (generalized distance transform, Felzenszwalb and Huttenlocher, 2012).

Ties: each root takes its first position in the order of rows, then of columns. A part's
position, given its parent's, is that of the parabola that comes first in a row, then
in a column, up to rounding.
"""

from typing import NamedTuple

import numpy as np

from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._tree cimport Tree

from sksstruct.inference._checks import check_scores


cdef void envelope(Py_ssize_t n, const double* f, double quadratic, double linear,
                   double offset, double* out, int32_t* arg, int32_t* hull,
                   double* start) noexcept nogil:
    """out[x] = max over z of f[z] + linear d - quadratic d^2, d = x - z - offset.

    arg[x] is a z that reaches it. hull (n,) and start (n,) are scratch.
    """
    cdef Py_ssize_t z, x, top = -1, k
    cdef double peak, cross, d, best, shift
    if quadratic < 1e-100:
        # a line of one slope through each: the highest is so everywhere
        best = -INFINITY
        k = 0
        for z in range(n):
            if f[z] - linear * z > best:
                best = f[z] - linear * z
                k = z
        for x in range(n):
            out[x] = f[k] + linear * (x - k - offset)
            arg[x] = <int32_t> k
        return
    # the peak of the parabola of z is at z + shift, its own coordinate being z
    shift = offset + linear / (2.0 * quadratic)
    for z in range(n):
        if f[z] == -INFINITY:
            continue
        while top >= 0:
            k = hull[top]
            # from here on z is higher than k
            cross = ((f[k] - f[z]) / quadratic + <double> (z * z - k * k)) / (
                2.0 * (z - k))
            if cross > start[top]:
                break
            top -= 1
        top += 1
        hull[top] = <int32_t> z
        start[top] = cross if top else -INFINITY
    if top < 0:
        for x in range(n):
            out[x] = -INFINITY
            arg[x] = 0
        return
    k = 0
    for x in range(n):
        peak = x - shift
        while k < top and peak > start[k + 1]:
            k += 1
        d = x - hull[k] - offset
        out[x] = f[hull[k]] + d * (linear - quadratic * d)
        arg[x] = hull[k]


cdef class PartsTree(Tree):
    """Scores of positions and deformations on a tree, checked."""

    cdef readonly Py_ssize_t height, width
    cdef const double[:, :, ::1] _unary
    cdef const double[:, ::1] _offsets, _quadratic, _linear
    cdef double[::1] _row, _column, _start
    cdef double[:, ::1] _between
    cdef int32_t[::1] _argument, _hull

    def __init__(self, unary, edges, offsets, quadratic, linear):
        unary = np.ascontiguousarray(check_scores("unary", unary, ndim=3))
        if not unary.size:
            raise ValueError(
                f"unary must have parts, rows and columns, got shape {unary.shape}")
        Tree.__init__(self, unary.shape[0], edges)
        self.height, self.width = unary.shape[1], unary.shape[2]
        self._unary = unary
        m = len(self.edges)
        checked = []
        for name, values in (
                ("offsets", offsets), ("quadratic", quadratic), ("linear", linear)):
            values = check_scores(name, 0.0 if values is None else values)
            try:
                values = np.broadcast_to(values, (m, 2))
            except ValueError:
                raise ValueError(
                    f"{name} must be broadcastable to shape {(m, 2)}, a number for "
                    "rows and one for columns of each edge, got shape "
                    f"{values.shape}"
                ) from None
            if np.isneginf(values).any():
                raise ValueError(f"{name} has an entry that is -inf")
            checked.append(np.ascontiguousarray(values))
        self._offsets, self._quadratic, self._linear = checked
        negative = np.argwhere(checked[1] < 0)
        if len(negative):
            e = int(negative[0, 0])
            raise ValueError(
                f"quadratic[{e}], of the edge {tuple(self.edges[e].tolist())}, is "
                f"negative: {checked[1][e].tolist()}. It is what a squared "
                "displacement costs, and must not reward it")
        longest = max(self.height, self.width)
        self._row = np.empty(longest)
        self._column = np.empty(longest)
        self._start = np.empty(longest)
        self._hull = np.empty(longest, dtype=np.int32)
        self._argument = np.empty(longest, dtype=np.int32)
        self._between = np.empty((self.height, self.width))

    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil:
        """Message along the edge of a child, to its parent (up) or from it.

        where, if not NULL, gets the best sender's position for each receiver's: its
        row for the receiver, and its column for the sender's row and receiver's column.
        """
        cdef Py_ssize_t e = self._edge[child], r, c
        cdef Py_ssize_t height = self.height, width = self.width
        # d counts from the first of the edge to the second
        cdef bint along = (self._ends[e, 1] == child) != up
        cdef double sign = 1.0 if along else -1.0
        for r in range(height):
            envelope(width, values + r * width, self._quadratic[e, 1],
                     sign * self._linear[e, 1], sign * self._offsets[e, 1],
                     &self._between[r, 0], &self._argument[0], &self._hull[0],
                     &self._start[0])
            if where != NULL:
                memcpy(where + (height + r) * width, &self._argument[0],
                       width * sizeof(int32_t))
        for c in range(width):
            for r in range(height):
                self._row[r] = self._between[r, c]
            envelope(height, &self._row[0], self._quadratic[e, 0],
                     sign * self._linear[e, 0], sign * self._offsets[e, 0],
                     &self._column[0], &self._argument[0], &self._hull[0],
                     &self._start[0])
            for r in range(height):
                out[r * width + c] += self._column[r]
            if where != NULL:
                for r in range(height):
                    where[r * width + c] = self._argument[r]

    def max_product(self):
        """Best positions and their score."""
        cdef Py_ssize_t n = self.n_variables, cells = self.height * self.width
        cdef Py_ssize_t width = self.width, k, v, p, x, best
        cdef double[:, ::1] belief = np.array(self._unary).reshape(n, cells)
        cdef int32_t[:, ::1] where = np.zeros((n, 2 * cells), dtype=np.int32)
        cdef double score = 0.0
        positions = np.zeros((n, 2), dtype=np.int32)
        cdef int32_t[:, ::1] found = positions
        with nogil:
            for k in range(n, 0, -1):
                v = self._order[k]
                p = self._parent[v]
                if p != self.root:
                    self._deform(v, True, &belief[v, 0], &belief[p, 0], &where[v, 0])
            for k in range(1, n + 1):
                v = self._order[k]
                p = self._parent[v]
                if p == self.root:
                    best = 0
                    for x in range(cells):
                        if belief[v, x] > belief[v, best]:
                            best = x
                    score += belief[v, best]
                    found[v, 0] = <int32_t> (best // width)
                    found[v, 1] = <int32_t> (best % width)
                else:
                    x = found[p, 0] * width + found[p, 1]
                    found[v, 0] = where[v, x]
                    found[v, 1] = where[
                        v, cells + found[v, 0] * width + found[p, 1]]
        return positions, score

    def max_marginals(self):
        """Score of the best placement with each part at each position."""
        cdef Py_ssize_t n = self.n_variables, cells = self.height * self.width
        cdef Py_ssize_t k, v, p, c, j, m, x
        cdef double[:, ::1] up = np.array(self._unary).reshape(n, cells)
        out = np.array(self._unary).reshape(n, cells)
        cdef double[:, ::1] belief = out
        cdef double[:, ::1] message = np.zeros((n, cells))
        cdef double[:, ::1] sums = np.zeros((self.most_children + 2, cells))
        cdef double[::1] best = np.full(n, -np.inf)
        cdef double total
        with nogil:
            for k in range(n, 0, -1):
                v = self._order[k]
                p = self._parent[v]
                if p != self.root:
                    self._deform(v, True, &up[v, 0], &message[v, 0], NULL)
                    for x in range(cells):
                        up[p, x] += message[v, x]
                else:
                    for x in range(cells):
                        best[v] = up[v, x] if up[v, x] > best[v] else best[v]
            for k in range(1, n + 1):
                p = self._order[k]
                if self._parent[p] == self.root:
                    # the other trees at their best
                    total = 0.0
                    for v in range(n):
                        if v != p and self._parent[v] == self.root:
                            total += best[v]
                    for x in range(cells):
                        belief[p, x] += total
                m = self._children[p + 1] - self._children[p]
                memcpy(&sums[0, 0], &belief[p, 0], cells * sizeof(double))
                for j in range(m):
                    c = self._child_of[self._children[p] + j]
                    for x in range(cells):
                        sums[j + 1, x] = sums[j, x] + message[c, x]
                memcpy(&belief[p, 0], &sums[m, 0], cells * sizeof(double))
                memset(&sums[m + 1, 0], 0, cells * sizeof(double))
                for j in range(m - 1, -1, -1):
                    c = self._child_of[self._children[p] + j]
                    for x in range(cells):
                        sums[j, x] += sums[m + 1, x]
                        sums[m + 1, x] += message[c, x]
                    self._deform(c, False, &sums[j, 0], &belief[c, 0], NULL)
        return out.reshape(n, self.height, self.width)


class Placement(NamedTuple):
    """Best positions of parts.

    Parameters
    ----------
    labeling : ndarray of shape (n_parts, 2), int32
        Row and column of each part.
    score : float
        Their score; ``-inf`` if every placement is forbidden.
    """

    labeling: np.ndarray
    score: float


def parts_max_product(unary, edges, offsets, quadratic, linear=None):
    """Best positions of the parts of a tree in an image.

    Placing the parts at ``l`` scores

        ``sum_p unary[p, l_p] + sum_e linear[e] . d_e - quadratic[e] . d_e^2``

    with ``d_e = l_v - l_u - offsets[e]`` for an edge ``e = (u, v)``, in O(positions)
    for each edge.

    Parameters
    ----------
    unary : array-like of shape (n_parts, height, width)
        Score of each part at each position; ``-inf`` forbids it.
    edges : array-like of shape (n_edges, 2)
        Pairs of parts, without a cycle.
    offsets : float or array-like of shape (n_edges, 2)
        Displacement of the second part from the first that costs nothing, in rows and
        columns; need not be whole.
    quadratic : float or array-like of shape (n_edges, 2)
        Cost of a squared displacement of rows and of columns, not negative.
    linear : float or array-like of shape (n_edges, 2), default=None
        Score of a displacement; None: 0.

    Returns
    -------
    result : Placement
        Positions and score. Among several best placements always the same for the same
        arguments.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or infinite, an edge closes a cycle,
        or a quadratic cost is negative.

    References
    ----------
    P. F. Felzenszwalb and D. P. Huttenlocher, "Distance transforms of sampled
    functions", Theory of Computing 8(19), 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_max_product
    >>> unary = np.zeros((2, 3, 4))
    >>> unary[0, 1, 0] = unary[1, 1, 3] = 5.0
    >>> result = parts_max_product(unary, [(0, 1)], [(0, 2)], 1.0)
    >>> result.labeling.tolist(), result.score
    ([[1, 0], [1, 3]], 9.0)
    """
    return Placement(
        *PartsTree(unary, edges, offsets, quadratic, linear).max_product())


def parts_max_marginals(unary, edges, offsets, quadratic, linear=None):
    """Score of the best placement that has each part at each position.

    Parameters
    ----------
    unary : array-like of shape (n_parts, height, width)
        Score of each part at each position; ``-inf`` forbids it.
    edges : array-like of shape (n_edges, 2)
        Pairs of parts, without a cycle.
    offsets : float or array-like of shape (n_edges, 2)
        Displacement that costs nothing; see `parts_max_product`.
    quadratic : float or array-like of shape (n_edges, 2)
        Cost of a squared displacement, not negative.
    linear : float or array-like of shape (n_edges, 2), default=None
        Score of a displacement; None: 0.

    Returns
    -------
    max_marginals : ndarray of shape (n_parts, height, width)
        Scores; ``-inf`` where every placement is forbidden.

    Raises
    ------
    ValueError
        As `parts_max_product` does.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_max_marginals
    >>> unary = np.array([[[0.0, 2.0]], [[1.0, 0.0]]])
    >>> parts_max_marginals(unary, [(0, 1)], 0.0, 1.0).tolist()
    [[[1.0, 2.0]], [[2.0, 2.0]]]
    """
    return PartsTree(unary, edges, offsets, quadratic, linear).max_marginals()
