"""Max-product on trees of parts in a grid, by distance transforms.

Every variable is a position (row, column). An edge (u, v) scores the displacement
d = position of v - position of u - offset, for rows and columns alike, by

    linear d - quadratic d^2,   quadratic >= 0

A message is thus a maximum over parabolas of one width, one for each position of the
sender, first along the rows of the grid, then along its columns. The upper envelope of
n parabolas takes O(n), and a table would take n^2 (generalized distance transform,
Felzenszwalb and Huttenlocher, "Distance transforms of sampled functions", 2012,
Algorithm 1, with maxima instead of minima).

Edges may have several types of springs. The type t of an edge is maximized over
together with the positions, and scores

    bias[e, t] + first[e, t, l_u] + second[e, t, l_v] + linear . d - quadratic . d^2

with the offset, linear and quadratic of (e, t). A message is, at each position of the
receiver, the maximum over the types, each of which takes one distance transform.

Ties: each root takes its first position in the order of rows, then of columns. Given
the position of its parent, a part takes the first best row, then the first best column
in this row, up to rounding, and an edge takes its first best type.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._pointers cimport const_doubles, doubles, int32s

from sksstruct.inference.parts._arrays import (
    check_images, marginal_arrays, product_arrays, spring_arrays,
)

# Parabolas with a smaller `quadratic` are treated as lines: the peak of a parabola is
# moved by linear / (2 quadratic), which may overflow.
cdef double FLAT = 1e-100


cdef struct Hull:
    # senders of the parabolas in the upper envelope, from left to right, and the
    # position from which each parabola is the highest
    Py_ssize_t count
    int32_t* sender
    double* start


cdef void send_lines(Py_ssize_t n, const double* values, const Deformation* deformation,
                     double* out, int32_t* argument) noexcept nogil:
    """Compute the message of `send` without quadratic terms.

    The parabolas are then lines of equal slope, one of which is the highest everywhere.
    """
    cdef Py_ssize_t sender, receiver, best = 0
    cdef double linear = deformation.linear, highest = -INFINITY
    # As in `form_hull`, the first best sender wins ties. If all values are -inf, sender
    # 0 makes every result -inf.
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
    """Compute the upper envelope in x of values[z] - quadratic (x - z)^2 over all z."""
    cdef Py_ssize_t sender, last, top = -1
    cdef double cross = -INFINITY
    for sender in range(n):
        # -inf is no parabola, and has no crossings
        if values[sender] == -INFINITY:
            continue
        # The new parabola is the highest to the right of its crossing with the last
        # parabola. If this crossing is left of the start of the last parabola, the last
        # parabola is nowhere the highest.
        while top >= 0:
            last = hull.sender[top]
            cross = ((values[last] - values[sender]) / quadratic
                     + <double> (sender * sender - last * last)) / (
                2.0 * (sender - last))
            # if the crossing equals this start, three parabolas meet in a point, and
            # the middle parabola is the highest nowhere else
            if cross > hull.start[top]:
                break
            top -= 1
        top += 1
        hull.sender[top] = <int32_t> sender
        hull.start[top] = cross if top else -INFINITY
    hull.count = top + 1


cdef void send(Py_ssize_t n, const double* values, const Deformation* deformation,
               double* out, int32_t* argument, Hull* hull) noexcept nogil:
    """Write out[x] = max_z values[z] + linear d - quadratic d^2, d = x - z - offset.

    argument[x] is a maximizer z. `hull` has a capacity of n parabolas.
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
    # Completing the square moves all peaks by the same shift. The hull is therefore
    # computed without the shift, and receivers are shifted instead.
    shift = offset + linear / (2.0 * quadratic)
    for receiver in range(n):
        # Starts and receivers both increase, so that `place` increases at most n times
        # in total. Exactly at a start, where two parabolas are equal, the previous
        # parabola counts: of equal senders the first.
        while (place + 1 < hull.count
               and receiver - shift > hull.start[place + 1]):
            place += 1
        sender = hull.sender[place]
        d = receiver - sender - offset
        out[receiver] = values[sender] + d * (linear - quadratic * d)
        argument[receiver] = <int32_t> sender


cdef inline void add_row(Py_ssize_t n, const double* row, double* out) noexcept nogil:
    """Add n numbers, `row`, to those of `out`."""
    cdef Py_ssize_t k
    for k in range(n):
        out[k] += row[k]


cdef class PartsTree(Tree):
    """Tree of parts, with checked scores of positions and of deformations.

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
        self.unary = unary = check_images(unary)
        Tree.__init__(self, len(unary), edges)
        self._list_children()
        self.height, self.width = unary.shape[1:]
        self._cells = self.height * self.width
        self.springs, memory, rows = spring_arrays(
            unary, self.edges, offsets, quadratic, linear, bias)
        self._offsets = const_doubles(self.springs[0])
        self._quadratic = const_doubles(self.springs[1])
        self._linear = const_doubles(self.springs[2])
        self._owned = bias, ends, memory, rows
        if bias is not None:
            self.n_types, self._bias = bias.shape[1], const_doubles(bias)
        if ends is not None:
            self._end_scores = const_doubles(ends)
        cdef Py_ssize_t longest = max(self.height, self.width)
        self._grids = doubles(memory)
        self._between = self._grids + 3 * self._cells
        self._column = self._between + self._cells
        self._sent = self._column + longest
        self._hull_start = self._sent + longest
        self._argument = int32s(rows)
        self._hull_sender = self._argument + longest

    @cython.final
    cdef Deformation _deformation(self, Py_ssize_t child, Py_ssize_t t, bint up,
                                  Py_ssize_t axis) noexcept nogil:
        """Return the deformation of the edge above a child, of type t, in one axis.

        Axis 0 is rows, and axis 1 is columns. `up` is whether the child is the sender.
        """
        cdef Py_ssize_t edge = self._edge[child]
        # d is the displacement from the first end of the edge to the second
        cdef Py_ssize_t spring = 2 * (edge * max(self.n_types, 1) + t) + axis
        cdef bint along = (self._ends[2 * edge + 1] == child) != up
        cdef double sign = 1.0 if along else -1.0
        cdef Deformation deformation
        deformation.quadratic = self._quadratic[spring]
        deformation.linear = sign * self._linear[spring]
        deformation.offset = sign * self._offsets[spring]
        return deformation

    @cython.final
    cdef const double* _ends_of(self, Py_ssize_t edge, Py_ssize_t t,
                                Py_ssize_t end) noexcept nogil:
        """Return the scores of a type at all positions of one end of an edge."""
        return self._end_scores + (2 * (edge * self.n_types + t) + end) * self._cells

    @cython.final
    cdef void _deform(self, Py_ssize_t child, bint up, const double* values,
                      double* out, int32_t* where) noexcept nogil:
        """Add the message of the edge above a child, up or down, to `out`.

        The message is the maximum over types. `where` is NULL, or receives the
        backpointers of `_transform` for each type and, if edges have types, the best
        type for each position of the receiver.
        """
        cdef Py_ssize_t edge = self._edge[child], cells = self._cells, t, cell
        # the end of the edge that sends: the child's end if the message is sent up
        cdef Py_ssize_t end = (self._ends[2 * edge + 1] == child) == up
        cdef double* sent
        cdef double* message
        cdef double* best
        cdef const double* received
        cdef const double* given
        cdef int32_t* best_type = NULL
        cdef int32_t* position = NULL
        if not self.n_types:
            self._transform(child, 0, up, values, out, where)
            return
        sent, message = self._grids, self._grids + cells
        best = message + cells
        if where != NULL:
            best_type = where + self.n_types * 2 * cells
            memset(best_type, 0, cells * sizeof(int32_t))
        for cell in range(cells):
            sent[cell], best[cell] = values[cell], -INFINITY
        for t in range(self.n_types):
            for cell in range(cells):
                message[cell] = self._bias[edge * self.n_types + t]
            if self._end_scores != NULL:
                # scores at the sender's end are added before the transform, scores at
                # the receiver's end after it
                received = self._ends_of(edge, t, 1 - end)
                given = self._ends_of(edge, t, end)
                for cell in range(cells):
                    message[cell] += received[cell]
                    sent[cell] = values[cell] + given[cell]
            if where != NULL:
                position = where + t * 2 * cells
            self._transform(child, t, up, sent, message, position)
            for cell in range(cells):
                # strict comparison: the first type wins ties
                if message[cell] > best[cell]:
                    best[cell] = message[cell]
                    if where != NULL:
                        best_type[cell] = <int32_t> t
        add_row(cells, best, out)

    @cython.final
    cdef void _transform(self, Py_ssize_t child, Py_ssize_t t, bint up,
                         const double* values, double* out,
                         int32_t* where) noexcept nogil:
        """Add the distance transform of `values` to `out`, for one edge and type t.

        The edge is the one above a child, which sends if `up`. `where` is NULL, or
        receives the sender's best position for each position of the receiver: the
        sender's row for each cell of the receiver, followed by the sender's column for
        each pair of a sender's row and a receiver's column.
        """
        cdef Py_ssize_t height = self.height, width = self.width, row, column
        cdef Deformation in_rows = self._deformation(child, t, up, 1)
        cdef Deformation in_columns = self._deformation(child, t, up, 0)
        cdef Hull hull
        hull.sender, hull.start = self._hull_sender, self._hull_start
        # The score is the sum of a term of rows and a term of columns: maximize over
        # columns within each row, then over rows.
        for row in range(height):
            send(width, values + row * width, &in_rows, self._between + row * width,
                 self._argument, &hull)
            if where != NULL:
                memcpy(where + (height + row) * width, self._argument,
                       width * sizeof(int32_t))
        for column in range(width):
            # copy the column, as hulls need contiguous values
            for row in range(height):
                self._column[row] = self._between[row * width + column]
            send(height, self._column, &in_columns, self._sent,
                 self._argument, &hull)
            for row in range(height):
                out[row * width + column] += self._sent[row]
            if where != NULL:
                for row in range(height):
                    where[row * width + column] = self._argument[row]

    def max_product(self):
        """Return the best positions (n_parts, 2), types, and their score."""
        beliefs, wheres, positions, types = product_arrays(self)
        cdef Py_ssize_t k, child, parent, cells = self._cells
        # backpointers of a part: two per type and cell, and the best type per cell
        cdef Py_ssize_t size = (2 * self.n_types + 1 if self.n_types else 2) * cells
        cdef double* belief = doubles(beliefs)
        cdef int32_t* where = int32s(wheres)
        cdef int32_t* found = int32s(positions)
        cdef int32_t* found_types = int32s(types)
        cdef double score
        with nogil:
            # children before parents, as messages of children complete the parents'
            # beliefs
            for k in range(self.n_variables, 0, -1):
                child = self._order[k]
                parent = self._parent[child]
                if parent != self.root:
                    self._deform(child, True, belief + child * cells,
                                 belief + parent * cells, where + child * size)
            score = self._place(belief, where, size, found, found_types)
        return positions, types, score

    @cython.final
    cdef double _place(self, const double* belief, const int32_t* where,
                       Py_ssize_t size, int32_t* found, int32_t* types) noexcept nogil:
        """Choose the best position and type of each part; return their score.

        Roots have the best positions of their beliefs, and all other parts follow the
        backpointers of their parents' positions.
        """
        cdef const int32_t* backpointers
        cdef Py_ssize_t width = self.width, k, part, parent, cell, t = 0
        cdef double score = 0.0
        for k in range(1, self.n_variables + 1):
            part = self._order[k]
            parent = self._parent[part]
            if parent == self.root:
                cell = best_state(self._cells, belief + part * self._cells)
                score += belief[part * self._cells + cell]
                found[2 * part] = <int32_t> (cell // width)
                found[2 * part + 1] = <int32_t> (cell % width)
                continue
            backpointers = where + part * size
            cell = found[2 * parent] * width + found[2 * parent + 1]
            if self.n_types:
                t = backpointers[2 * self.n_types * self._cells + cell]
                types[self._edge[part]] = <int32_t> t
            # the row comes first, as the best column depends on it
            found[2 * part] = backpointers[2 * t * self._cells + cell]
            cell = found[2 * part] * width + found[2 * parent + 1]
            found[2 * part + 1] = backpointers[(2 * t + 1) * self._cells + cell]
        return score

    def max_marginals(self):
        """Compute the best score of a placement for each position of each part."""
        ups, out, memory, bests = marginal_arrays(self)
        cdef Py_ssize_t k, n = self.n_variables
        # scores of subtrees are separate from the results, which receive messages from
        # parents, too: a message must not depend on the message in the other direction
        cdef double* up = doubles(ups)
        cdef double* belief = doubles(out)
        cdef double* message = doubles(memory)
        # scratch for the children of one part, see `_send_down`
        cdef double* sums = message + n * self._cells
        cdef double* best = doubles(bests)
        with nogil:
            self._send_up(up, message, best)
            for k in range(1, n + 1):
                if self._parent[self._order[k]] == self.root:
                    self._add_other_trees(self._order[k], best, belief)
                self._send_down(self._order[k], message, belief, sums)
        return out

    @cython.final
    cdef void _send_up(self, double* up, double* message,
                       double* best) noexcept nogil:
        """Send messages to all parents; write the score of each root's tree to best.

        `up` has the scores of positions on entry, and scores of subtrees on return.
        """
        cdef Py_ssize_t k, part, parent, cell, cells = self._cells
        # place 0 of the order is the root of roots, which is not a part
        for k in range(self.n_variables, 0, -1):
            part = self._order[k]
            parent = self._parent[part]
            if parent != self.root:
                self._deform(part, True, up + part * cells, message + part * cells,
                             NULL)
                add_row(cells, message + part * cells, up + parent * cells)
                continue
            for cell in range(cells):
                if up[part * cells + cell] > best[part]:
                    best[part] = up[part * cells + cell]

    @cython.final
    cdef void _add_other_trees(self, Py_ssize_t root, const double* best,
                               double* belief) noexcept nogil:
        """Add the best scores of all other trees to the scores of a root."""
        cdef Py_ssize_t part, cell
        cdef double total = 0.0
        # the sum is computed for each root: subtracting the root's own score from a
        # total would leave rounding errors, or NaN for -inf
        for part in range(self.n_variables):
            if part != root and self._parent[part] == self.root:
                total += best[part]
        for cell in range(self._cells):
            belief[root * self._cells + cell] += total

    @cython.final
    cdef void _send_down(self, Py_ssize_t parent, const double* message,
                         double* belief, double* sums) noexcept nogil:
        """Complete the belief of a part, and send messages to its children.

        The belief already has the message from the part's parent. The message to a
        child excludes the child's own message. As subtraction fails at -inf, two
        running sums are added, over the children before and after the child.
        """
        cdef Py_ssize_t first = self._children[parent], k, child
        cdef Py_ssize_t cells = self._cells
        cdef Py_ssize_t count = self._children[parent + 1] - first
        cdef size_t row = cells * sizeof(double)
        # sums[k]: belief plus messages of the first k children
        memcpy(sums, belief + parent * cells, row)
        for k in range(count):
            child = self._child_of[first + k]
            memcpy(sums + (k + 1) * cells, sums + k * cells, row)
            add_row(cells, message + child * cells, sums + (k + 1) * cells)
        memcpy(belief + parent * cells, sums + count * cells, row)
        # sums[count + 1]: messages of the children after child k
        memset(sums + (count + 1) * cells, 0, row)
        for k in range(count - 1, -1, -1):
            child = self._child_of[first + k]
            add_row(cells, sums + (count + 1) * cells, sums + k * cells)
            add_row(cells, message + child * cells, sums + (count + 1) * cells)
            self._deform(child, False, sums + k * cells, belief + child * cells, NULL)
