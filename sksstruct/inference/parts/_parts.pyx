"""Max-product on trees of parts in a grid, by distance transforms.

Every variable is a position (row, column). An edge (u, v) scores the displacement
d = position of v - position of u - offset, for rows and columns alike, by

    linear d - quadratic d^2,   quadratic >= 0

A message is then a maximum over parabolas of one width, one for each position of the
sender, first along the rows of the grid, then along its columns. The upper envelope of
n parabolas costs O(n), where a table would cost n^2 (generalized distance transform,
Felzenszwalb and Huttenlocher, "Distance transforms of sampled functions", 2012,
Algorithm 1, with maxima for minima).

Edges may have several types of springs. The type t of an edge is found together with
the positions, and scores

    bias[e, t] + first[e, t, l_u] + second[e, t, l_v] + linear . d - quadratic . d^2

with the offset, linear and quadratic of (e, t). A message is the highest of those of
the types, at each position of the receiver: one distance transform for each.

Ties: each root takes its first position in the order of rows, then of columns. A part's
position, given its parent's, is that of the parabola that comes first in a row, then
in a column, up to rounding. Of types it is the first.
"""

from typing import NamedTuple

import numpy as np

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state
from sksstruct.inference.trees._tree cimport Tree

from sksstruct.inference._checks import check_scores, check_sums

# Parabolas flatter than this are treated as lines: their peaks, at offsets that are
# divided by it, may be further away than floating-point numbers reach.
cdef double FLAT = 1e-100


cdef struct Hull:
    # senders whose parabolas make up the upper envelope, from left to right, and from
    # where on each of them is the highest
    Py_ssize_t count
    int32_t* sender
    double* start


cdef void send_lines(Py_ssize_t n, const double* values, const Deformation* deformation,
                     double* out, int32_t* argument) noexcept nogil:
    """`send` where parabolas are lines of one slope: the highest is so everywhere."""
    cdef Py_ssize_t sender, receiver, best = 0
    cdef double linear = deformation.linear, highest = -INFINITY
    # The first of ties, as everywhere. If all are -inf, it is the first of all, whose
    # value makes every result -inf.
    for sender in range(n):
        if values[sender] - linear * sender > highest:
            highest = values[sender] - linear * sender
            best = sender
    for receiver in range(n):
        out[receiver] = values[best] + linear * (
            receiver - best - deformation.offset)
        argument[receiver] = <int32_t> best


cdef void form_hull(Py_ssize_t n, const double* values, double quadratic,
                    Hull* hull) noexcept nogil:
    """The upper envelope of values[z] - quadratic (x - z)^2 over all z, in x."""
    cdef Py_ssize_t sender, last, top = -1
    cdef double cross = -INFINITY
    for sender in range(n):
        # no parabola at all, and no numbers to compute a crossing from
        if values[sender] == -INFINITY:
            continue
        # The new parabola is the highest to the right of where it crosses the last
        # one. Where that is left of the last one's own start, nothing remains of it.
        while top >= 0:
            last = hull.sender[top]
            cross = ((values[last] - values[sender]) / quadratic
                     + <double> (sender * sender - last * last)) / (
                2.0 * (sender - last))
            # Equal: three meet in a point, and the one between is best nowhere else.
            if cross > hull.start[top]:
                break
            top -= 1
        top += 1
        hull.sender[top] = <int32_t> sender
        hull.start[top] = cross if top else -INFINITY
    hull.count = top + 1


cdef void send(Py_ssize_t n, const double* values, const Deformation* deformation,
               double* out, int32_t* argument, Hull* hull) noexcept nogil:
    """out[x] = max over z of values[z] + linear d - quadratic d^2, d = x - z - offset.

    argument[x] is a z that reaches it. hull has space for n parabolas.
    """
    cdef Py_ssize_t receiver, place = 0, sender
    cdef double quadratic = deformation.quadratic, linear = deformation.linear
    cdef double offset = deformation.offset, shift, d
    if quadratic < FLAT:
        send_lines(n, values, deformation, out, argument)
        return
    form_hull(n, values, quadratic, hull)
    if not hull.count:
        for receiver in range(n):
            out[receiver] = -INFINITY
            argument[receiver] = 0
        return
    # Completing the square moves the peak of the parabola of z from z to z + shift, by
    # the same for all: the hull stays as it is, and receivers are looked up in it.
    shift = offset + linear / (2.0 * quadratic)
    for receiver in range(n):
        # Starts increase, and so do receivers: all these steps together are n at most.
        # On a start itself the parabola before it counts, the first of ties.
        while (place + 1 < hull.count
               and receiver - shift > hull.start[place + 1]):
            place += 1
        sender = hull.sender[place]
        d = receiver - sender - offset
        out[receiver] = values[sender] + d * (linear - quadratic * d)
        argument[receiver] = <int32_t> sender


cdef inline void add_row(Py_ssize_t n, const double* row, double* out) noexcept nogil:
    """out += row."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] += row[k]


cdef class PartsTree(Tree):
    """Checked scores of positions and deformations on a tree.

    Cells number the positions row by row.

    Parameters
    ----------
    unary, edges, offsets, quadratic, linear : array-like
        See `parts_max_product`; with types the last three are of shape (n_edges,
        n_types, 2).
    bias : ndarray of shape (n_edges, n_types), default=None
        Scores of types; None: edges have no types.
    ends : ndarray of shape (n_edges, n_types, 2, height, width), default=None
        Scores of types at the position of the first and of the second part of an edge.
    """

    def __init__(self, unary, edges, offsets, quadratic, linear, bias=None, ends=None):
        unary = np.ascontiguousarray(check_scores("unary", unary, ndim=3))
        if not unary.size:
            raise ValueError(
                f"unary must have parts, rows and columns, got shape {unary.shape}")
        Tree.__init__(self, unary.shape[0], edges)
        self._list_children()
        self.height, self.width = unary.shape[1], unary.shape[2]
        self._cells = self.height * self.width
        self._unary = unary
        # of an edge without types these count as one
        shape = len(self.edges), 1 if bias is None else bias.shape[1], 2
        given = shape[::2] if bias is None else shape
        offsets = self._by_edge("offsets", offsets, given)
        quadratic = self._by_edge("quadratic", quadratic, given)
        linear = self._by_edge("linear", linear, given)
        self._offsets, self._quadratic, self._linear = (
            offsets.reshape(shape), quadratic.reshape(shape), linear.reshape(shape))
        # After the shapes of all three, which tell better where a mistake is.
        negative = np.argwhere(quadratic < 0)
        if len(negative):
            e = int(negative[0, 0])
            raise ValueError(
                f"quadratic[{e}], of the edge {tuple(self.edges[e].tolist())}, is "
                f"negative: {quadratic[e].tolist()}. It is what a squared "
                "displacement costs, and must not reward it")
        # the largest displacements there can be; what overflows here is refused
        with np.errstate(over="ignore"):
            farthest = np.abs(offsets) + unary.shape[1:]
            squared = farthest**2
            deformation = (quadratic * farthest + np.abs(linear)) * farthest
        check_sums("unary, offsets, quadratic and linear", 4 * self.n_variables,
                   unary, squared, deformation)
        longest = max(self.height, self.width)
        self._between = np.empty((self.height, self.width))
        self._column = np.empty(longest)
        self._sent = np.empty(longest)
        self._argument = np.empty(longest, dtype=np.int32)
        self._hull_sender = np.empty(longest, dtype=np.int32)
        self._hull_start = np.empty(longest)
        self.n_types = 0 if bias is None else bias.shape[1]
        if self.n_types:
            self._bias, self._grids = bias, np.empty((3, self._cells))
        self._has_ends = ends is not None
        if self._has_ends:
            self._end_scores = ends.reshape(*ends.shape[:3], self._cells)

    def _by_edge(self, name, values, shape):
        """Broadcast values to one number for rows and one for columns of each edge."""
        # -inf and +inf would make NaN of products and differences; of the two, scores
        # may be -inf, so that it is refused here
        values = check_scores(name, 0.0 if values is None else values)
        try:
            values = np.broadcast_to(values, shape)
        except ValueError:
            raise ValueError(
                f"{name} must be broadcastable to shape {shape}, a number for "
                "rows and one for columns of each edge, got shape "
                f"{values.shape}"
            ) from None
        if np.isneginf(values).any():
            raise ValueError(f"{name} has an entry that is -inf")
        return np.ascontiguousarray(values)

    @cython.final
    cdef Deformation _deformation(self, Py_ssize_t child, Py_ssize_t t, bint up,
                                  Py_ssize_t axis) noexcept nogil:
        """How the edge of a child, of type t, scores rows (axis 0) or columns (1)."""
        cdef Py_ssize_t edge = self._edge[child]
        # d counts from the first of the edge to the second
        cdef bint along = (self._ends[edge, 1] == child) != up
        cdef double sign = 1.0 if along else -1.0
        cdef Deformation deformation
        deformation.quadratic = self._quadratic[edge, t, axis]
        deformation.linear = sign * self._linear[edge, t, axis]
        deformation.offset = sign * self._offsets[edge, t, axis]
        return deformation

    @cython.final
    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil:
        """Add the message along the edge of a child, to its parent (up) or from it.

        It is the highest of those of the types. where, if not NULL, gets for each type
        what `_transform` writes, and after these the best type for each position of the
        receiver, if there are types.
        """
        cdef Py_ssize_t edge = self._edge[child], cells = self._cells, t, cell
        # the end of the edge that sends: the child's if the message goes up
        cdef Py_ssize_t end = (self._ends[edge, 1] == child) == up
        cdef double* sent
        cdef double* message
        cdef double* best
        cdef int32_t* best_type = NULL
        cdef int32_t* position = NULL
        if not self.n_types:
            self._transform(child, 0, up, values, out, where)
            return
        sent, message, best = &self._grids[0, 0], &self._grids[1, 0], &self._grids[2, 0]
        if where != NULL:
            best_type = where + self.n_types * 2 * cells
            memset(best_type, 0, cells * sizeof(int32_t))
        for cell in range(cells):
            sent[cell], best[cell] = values[cell], -INFINITY
        for t in range(self.n_types):
            for cell in range(cells):
                message[cell] = self._bias[edge, t]
            if self._has_ends:
                # of the receiver's end to the message, of the sender's to what is sent
                for cell in range(cells):
                    message[cell] += self._end_scores[edge, t, 1 - end, cell]
                    sent[cell] = values[cell] + self._end_scores[edge, t, end, cell]
            if where != NULL:
                position = where + t * 2 * cells
            self._transform(child, t, up, sent, message, position)
            for cell in range(cells):
                # strictly: the first of ties
                if message[cell] > best[cell]:
                    best[cell] = message[cell]
                    if where != NULL:
                        best_type[cell] = <int32_t> t
        add_row(cells, best, out)

    @cython.final
    cdef void _transform(self, Py_ssize_t child, Py_ssize_t t, bint up,
                         const double* values, double* out,
                         int32_t* where) noexcept nogil:
        """Add the distance transform along the edge of a child, of type t.

        where, if not NULL, gets the best sender's position for each receiver's: its
        row for the receiver's cell, and after these, its column for the sender's row
        and receiver's column.
        """
        cdef Py_ssize_t height = self.height, width = self.width, row, column
        cdef Deformation in_rows = self._deformation(child, t, up, 1)
        cdef Deformation in_columns = self._deformation(child, t, up, 0)
        cdef Hull hull
        hull.sender, hull.start = &self._hull_sender[0], &self._hull_start[0]
        # The score is a sum over both coordinates, so that the maximum over positions
        # is one over columns within each row, and then one over rows.
        for row in range(height):
            send(width, values + row * width, &in_rows, &self._between[row, 0],
                 &self._argument[0], &hull)
            if where != NULL:
                memcpy(where + (height + row) * width, &self._argument[0],
                       width * sizeof(int32_t))
        for column in range(width):
            # hulls are formed of numbers that follow each other
            for row in range(height):
                self._column[row] = self._between[row, column]
            send(height, &self._column[0], &in_columns, &self._sent[0],
                 &self._argument[0], &hull)
            for row in range(height):
                out[row * width + column] += self._sent[row]
            if where != NULL:
                for row in range(height):
                    where[row * width + column] = self._argument[row]

    def max_product(self):
        """Find the best positions, (n_parts, 2), types, if any, and their score."""
        cdef Py_ssize_t n = self.n_variables, k, child, parent
        cdef double[:, ::1] belief = np.array(self._unary).reshape(n, self._cells)
        # of each type two numbers for a cell, and the best type
        per_cell = 2 * self.n_types + 1 if self.n_types else 2
        cdef int32_t[:, ::1] where = np.zeros((n, per_cell * self._cells), np.int32)
        cdef double score
        positions = np.zeros((n, 2), dtype=np.int32)
        types = np.zeros(len(self.edges) if self.n_types else 0, dtype=np.int32)
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
            score = self._place(belief, where, found, found_types)
        return positions, types, score

    @cython.final
    cdef double _place(self, const double[:, ::1] belief, const int32_t[:, ::1] where,
                       int32_t[:, ::1] found, int32_t[::1] types) noexcept nogil:
        """Choose positions and types from the roots down; returns their score."""
        cdef Py_ssize_t width = self.width, k, part, parent, cell, t = 0
        cdef double score = 0.0
        for k in range(1, self.n_variables + 1):
            part = self._order[k]
            parent = self._parent[part]
            if parent == self.root:
                cell = best_state(self._cells, &belief[part, 0])
                score += belief[part, cell]
                found[part, 0] = <int32_t> (cell // width)
                found[part, 1] = <int32_t> (cell % width)
                continue
            cell = found[parent, 0] * width + found[parent, 1]
            if self.n_types:
                t = where[part, 2 * self.n_types * self._cells + cell]
                types[self._edge[part]] = <int32_t> t
            # the row first: the best column depends on it
            found[part, 0] = where[part, 2 * t * self._cells + cell]
            cell = found[part, 0] * width + found[parent, 1]
            found[part, 1] = where[part, (2 * t + 1) * self._cells + cell]
        return score

    def max_marginals(self):
        """Compute the score of the best placement with each part at each position."""
        cdef Py_ssize_t n = self.n_variables
        # Kept apart from the results, which get messages from above as well, so that
        # no message depends on one that went the other way.
        cdef double[:, ::1] up = np.array(self._unary).reshape(n, self._cells)
        out = np.array(self._unary).reshape(n, self._cells)
        cdef double[:, ::1] belief = out
        cdef double[:, ::1] message = np.zeros((n, self._cells))
        # for the children of one part at a time, see `_send_down`
        cdef double[:, ::1] sums = np.zeros((self.most_children + 2, self._cells))
        cdef double[::1] best = np.full(n, -np.inf)
        cdef Py_ssize_t k
        with nogil:
            self._send_up(up, message, best)
            for k in range(1, n + 1):
                if self._parent[self._order[k]] == self.root:
                    self._add_other_trees(self._order[k], best, belief)
                self._send_down(self._order[k], message, belief, sums)
        return out.reshape(n, self.height, self.width)

    @cython.final
    cdef void _send_up(self, double[:, ::1] up, double[:, ::1] message,
                       double[::1] best) noexcept nogil:
        """Send messages to all parents; best gets the score of the tree of each root.

        up starts as the scores of positions, and ends as what subtrees score.
        """
        cdef Py_ssize_t k, part, parent, cell
        # position 0 of the order is the variable that all trees hang from
        for k in range(self.n_variables, 0, -1):
            part = self._order[k]
            parent = self._parent[part]
            if parent != self.root:
                self._deform(part, True, &up[part, 0], &message[part, 0], NULL)
                add_row(self._cells, &message[part, 0], &up[parent, 0])
                continue
            for cell in range(self._cells):
                if up[part, cell] > best[part]:
                    best[part] = up[part, cell]

    @cython.final
    cdef void _add_other_trees(self, Py_ssize_t root, const double[::1] best,
                               double[:, ::1] belief) noexcept nogil:
        """Add the other trees at their best to the scores of a root."""
        cdef Py_ssize_t part, cell
        cdef double total = 0.0
        # Summed up for each root: taking its own from a total would leave rounding,
        # or NaN where it is -inf.
        for part in range(self.n_variables):
            if part != root and self._parent[part] == self.root:
                total += best[part]
        for cell in range(self._cells):
            belief[root, cell] += total

    @cython.final
    cdef void _send_down(self, Py_ssize_t parent, const double[:, ::1] message,
                         double[:, ::1] belief, double[:, ::1] sums) noexcept nogil:
        """Complete the belief of a part, and send to each child what the others say.

        The belief has the message from the part's own parent by now. A child must not
        get its own message back. Subtracting it would fail at -inf, so it is left out
        of two running sums, over the children before it and those after it.
        """
        cdef Py_ssize_t first = self._children[parent], k, child
        cdef Py_ssize_t count = self._children[parent + 1] - first
        cdef size_t row = self._cells * sizeof(double)
        # sums[k]: belief and messages of the first k children
        memcpy(&sums[0, 0], &belief[parent, 0], row)
        for k in range(count):
            child = self._child_of[first + k]
            memcpy(&sums[k + 1, 0], &sums[k, 0], row)
            add_row(self._cells, &message[child, 0], &sums[k + 1, 0])
        memcpy(&belief[parent, 0], &sums[count, 0], row)
        # sums[count + 1]: messages of the children after k
        memset(&sums[count + 1, 0], 0, row)
        for k in range(count - 1, -1, -1):
            child = self._child_of[first + k]
            add_row(self._cells, &sums[count + 1, 0], &sums[k, 0])
            add_row(self._cells, &message[child, 0], &sums[count + 1, 0])
            self._deform(child, False, &sums[k, 0], &belief[child, 0], NULL)


class Placement(NamedTuple):
    """Best positions of parts.

    Parameters
    ----------
    labeling : ndarray of shape (n_parts, 2), int32
        Row and column of each part.
    score : float
        Their score; ``-inf`` if every placement is forbidden.

    Examples
    --------
    >>> from sksstruct.inference import parts_max_product
    >>> hand, elbow = [[0.0, 0.0, 2.0]], [[1.0, 0.0, 0.0]]
    >>> best = parts_max_product([hand, elbow], [(0, 1)], [(0, -1)], 0.5)
    >>> best.labeling.tolist(), best.score
    ([[0, 2], [0, 0]], 2.5)
    """

    labeling: np.ndarray
    score: float


def parts_max_product(unary, edges, offsets, quadratic, linear=None):
    """Find the best positions of the parts of a tree in an image.

    A placement of the parts at ``l`` has the score

        ``sum_p unary[p, l_p] + sum_e linear[e] . d_e - quadratic[e] . d_e^2``

    with ``d_e = l_v - l_u - offsets[e]`` for an edge ``e = (u, v)``. The time for each
    edge is linear in the number of positions.

    Parameters
    ----------
    unary : array-like of shape (n_parts, height, width)
        Score of each part at each position; ``-inf`` forbids it.
    edges : array-like of shape (n_edges, 2)
        Pairs of parts, without a cycle.
    offsets : float or array-like of shape (n_edges, 2)
        Displacement of the second part from the first that costs nothing, in rows and
        columns. It does not have to be an integer.
    quadratic : float or array-like of shape (n_edges, 2)
        Cost of a squared displacement in rows and in columns; not negative.
    linear : float or array-like of shape (n_edges, 2), default=None
        Score of a displacement; None: 0.

    Returns
    -------
    result : Placement
        Positions and score. If several placements are best, the same arguments always
        give the same one.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or infinite, an edge closes a cycle,
        a quadratic cost is negative, or sums could overflow.

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
    found = PartsTree(unary, edges, offsets, quadratic, linear).max_product()
    return Placement(found[0], found[2])


def parts_max_marginals(unary, edges, offsets, quadratic, linear=None):
    """Compute the score of the best placement that has each part at each position.

    Parameters
    ----------
    unary, edges, offsets, quadratic, linear : array-like
        See `parts_max_product`.

    Returns
    -------
    max_marginals : ndarray of shape (n_parts, height, width)
        Scores; ``-inf`` if every placement is forbidden.

    Raises
    ------
    ValueError
        In the cases of `parts_max_product`.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_max_marginals
    >>> unary = np.array([[[0.0, 2.0]], [[1.0, 0.0]]])
    >>> parts_max_marginals(unary, [(0, 1)], 0.0, 1.0).tolist()
    [[[1.0, 2.0]], [[2.0, 2.0]]]
    """
    return PartsTree(unary, edges, offsets, quadratic, linear).max_marginals()
