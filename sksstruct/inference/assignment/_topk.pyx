"""The k best assignments, by shortest cycles in residual graphs.

A part of the set of assignments (see `_best_first`) fixes the states of some rows and
forbids some states of other rows. The part has dual prices u of its rows and v of its
columns that prove its best assignment: the arc lengths

    row r to column c        -score(r, c) - u_r - v_c
    column c to its row      0
    free column c to F       v_c
    F to a taken column c    -v_c
    row r to F               -score(r, alone) - u_r, F to r minus that if r is alone

are not negative. Any other assignment differs by a cycle, whose length is its loss. The
second best assignment has the shortest cycle, which Dijkstra's method finds from each
row. A search ends at the length of the shortest cycle so far, and rows whose cycles are
known to be longer are not searched: cycles of a larger part are no longer. These bounds
from prices save most of the work (Miller, Stone and Cox, 1997, for Murty's method).

The same search yields prices for the new assignment: prices rise by the lengths of
shortest paths, which keeps all arc lengths nonnegative.

Nodes are the columns, the rows without a column, which only F leads to, and F. The
predecessor of a node on a path is a row, by its number; F, as -1; or a free column,
numbered after the rows.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from sksstruct.inference.assignment._assign cimport assign, assignment_memory
from sksstruct.inference.search._best_first cimport (
    MOST_WANTED, BestFirst, Part, insert_least, rounded_up,
)
from sksstruct.utils._memory cimport reserve


cdef class AssignmentSearch(BestFirst):
    """The k best assignments; the caller calls `prepare`, sets scores, calls `find`."""

    def __dealloc__(self):
        free(self.scores)
        free(self._prices)
        free(self._flags)
        free(self._owner)
        free(self._length)
        free(self._before)
        free(self._reached)
        free(self._extended)
        free(self._columns)

    # ---- memory ----

    cdef int prepare(self, Py_ssize_t n_rows, Py_ssize_t n_columns,
                     bint alone) except -1 nogil:
        """Reserve memory for a problem; if `alone`, rows may stay without a column."""
        cdef Py_ssize_t width = n_columns + (n_rows if alone else 0)
        cdef Py_ssize_t n_nodes = n_columns + n_rows + 1
        self.n_variables = self.n_rows = n_rows
        self.n_columns, self.alone, self.n_states = n_columns, alone, n_columns + alone
        reserve(<void**> &self.scores, &self._score_capacity, n_rows * self.n_states,
                sizeof(double))
        reserve(<void**> &self._owner, &self._owner_capacity, n_columns,
                sizeof(int32_t))
        reserve(<void**> &self._length, &self._node_capacity, n_nodes, sizeof(double))
        reserve(<void**> &self._before, &self._before_capacity, n_nodes,
                sizeof(int32_t))
        reserve(<void**> &self._reached, &self._reached_capacity, n_nodes,
                sizeof(int32_t))
        reserve(<void**> &self._extended, &self._extended_capacity,
                n_rows * width + assignment_memory(width), sizeof(double))
        reserve(<void**> &self._columns, &self._column_capacity, n_rows,
                sizeof(Py_ssize_t))
        return 0

    cdef int reserve_part(self, Py_ssize_t part) except -1 nogil:
        BestFirst.reserve_part(self, part)
        reserve(<void**> &self._prices, &self._price_capacity,
                (part + 1) * (2 * self.n_rows + self.n_columns), sizeof(double))
        reserve(<void**> &self._flags, &self._flag_capacity,
                (part + 1) * self.n_rows * (self.n_states + 1), 1)
        return 0

    cdef double* _row_prices(self, Py_ssize_t part) noexcept nogil:
        """Return the dual prices of a part's rows, followed by those of its columns."""
        return self._prices + part * (2 * self.n_rows + self.n_columns)

    cdef double* _bounds(self, Py_ssize_t part) noexcept nogil:
        """Return, for each row of a part, a lower bound on the loss if it changes."""
        return self._row_prices(part) + self.n_rows + self.n_columns

    cdef unsigned char* _allowed(self, Py_ssize_t part) noexcept nogil:
        """Return whether a part allows states of rows, then whether rows are fixed."""
        return self._flags + part * self.n_rows * (self.n_states + 1)

    # ---- parts ----

    cdef bint start(self) except -1 nogil:
        cdef Py_ssize_t row, column, n = self.n_columns
        cdef Py_ssize_t width = n + (self.n_rows if self.alone else 0)
        cdef double* out = self._extended
        cdef double* prices = out + self.n_rows * width
        cdef double largest = 0.0
        for column in range(self.n_rows * self.n_states):
            if self.scores[column] > -INFINITY:
                largest = max(largest, fabs(self.scores[column]))
        self._size = self.n_rows * largest
        for row in range(self.n_rows):
            for column in range(width):
                out[column] = -INFINITY
            memcpy(out, self.scores + row * self.n_states, n * sizeof(double))
            if self.alone:
                out[n + row] = self.scores[row * self.n_states + n]
            out += width
        if not assign(self.n_rows, width, self._extended, prices, self._columns):
            return False
        self._parts[0].score = 0.0
        for row in range(self.n_rows):
            column = min(self._columns[row], n)
            self.labeling(0)[row] = <int32_t> column
            self._parts[0].score += self.scores[row * self.n_states + column]
        # `assign` writes the column prices `width` entries after the row prices
        memcpy(self._row_prices(0), prices, self.n_rows * sizeof(double))
        memcpy(self._row_prices(0) + self.n_rows, prices + width, n * sizeof(double))
        memset(self._allowed(0), 1, self.n_rows * self.n_states)
        memset(self._allowed(0) + self.n_rows * self.n_states, 0, self.n_rows)
        memset(self._bounds(0), 0, self.n_rows * sizeof(double))
        self._parts[0].next_score, self._parts[0].stale = self._parts[0].score, True
        return True

    cdef int refresh(self, Py_ssize_t part, Py_ssize_t wanted) except -1 nogil:
        cdef Part* current = self._parts + part
        cdef double* bounds = self._bounds(part)
        cdef const unsigned char* fixed = (
            self._allowed(part) + self.n_rows * self.n_states)
        cdef double shortest = INFINITY, length, limit
        cdef double[MOST_WANTED] least
        cdef Py_ssize_t row, k, count = min(wanted, MOST_WANTED)
        for k in range(count):
            least[k] = INFINITY
        self._load_part(part)
        self._swap_all(part, count, least)
        for row in range(self.n_rows):
            limit = rounded_up(least[count - 1], self._size)
            if fixed[row] or bounds[row] > limit:
                continue
            length = self._shortest_cycle(part, row, limit)
            bounds[row] = min(length, limit)
            if length < shortest:
                shortest, current.variable = length, row
                insert_least(count, least, length)
        current.next_score, current.stale = current.score - shortest, False
        return 0

    cdef bint split(self, Py_ssize_t part, Py_ssize_t other) except -1 nogil:
        cdef Py_ssize_t n = self.n_rows * (self.n_states + 1), row, state
        cdef Py_ssize_t start = self._parts[part].variable
        cdef unsigned char* allowed
        cdef Part* new = self._parts + other
        cdef double length
        self._load_part(part)
        # the cycle is searched again, for its path and for the lengths of shortest
        # paths, from which the new part's prices follow
        length = self._shortest_cycle(
            part, start, rounded_up(self._bounds(part)[start], self._size))
        memcpy(self.labeling(other), self.labeling(part),
               self.n_rows * sizeof(int32_t))
        state = self._change(start, self.labeling(other))
        memcpy(self._row_prices(other), self._row_prices(part),
               (self.n_rows + self.n_columns) * sizeof(double))
        self._reprice(part, other, start, length)
        allowed = self._allowed(other)
        memcpy(allowed, self._allowed(part), n)
        allowed[self.n_rows * self.n_states + start] = 1
        # the score is computed as a sum of scores, as prices accumulate rounding errors
        new.score = 0.0
        for row in range(self.n_rows):
            new.score += self.scores[row * self.n_states + self.labeling(other)[row]]
            # an assignment whose score is x below the new part's best score is
            # x + length below the best score of `part`
            self._bounds(other)[row] = 0.0
            if self.labeling(other)[row] == self.labeling(part)[row]:
                self._bounds(other)[row] = max(self._bounds(part)[row] - length, 0.0)
        new.next_score, new.stale = new.score, True
        # `part` forbids the new state of row `start`, which makes its next score an
        # upper bound
        self._allowed(part)[start * self.n_states + state] = 0
        self._parts[part].stale = True
        return True

    cdef void _swap_all(self, Py_ssize_t part, Py_ssize_t count,
                        double* least) noexcept nogil:
        """Insert the losses of score of all swaps of two rows' columns into `least`.

        The second best assignment loses at most the least of these losses.
        """
        cdef const unsigned char* allowed = self._allowed(part)
        cdef Py_ssize_t n = self.n_states, row, column, other, current
        cdef double lost, total
        for row in range(self.n_rows):
            current = self.labeling(part)[row]
            if current == self.n_columns or self._owner[current] < 0:
                continue
            total = self.scores[row * n + current]
            for other in range(row):
                column = self.labeling(part)[other]
                if column == self.n_columns or self._owner[column] < 0:
                    continue
                lost = total + self.scores[other * n + column] - (
                    self.scores[row * n + column] + self.scores[other * n + current])
                if lost < least[count - 1] and (
                        allowed[row * n + column] and allowed[other * n + current]):
                    insert_least(count, least, max(lost, 0.0))

    # ---- shortest cycles ----

    cdef void _load_part(self, Py_ssize_t part) noexcept nogil:
        """Find the row of each column: -1 for free columns, -2 if the row is fixed."""
        cdef const unsigned char* fixed = (
            self._allowed(part) + self.n_rows * self.n_states)
        cdef Py_ssize_t row, column
        for column in range(self.n_columns):
            self._owner[column] = -1
        for row in range(self.n_rows):
            column = self.labeling(part)[row]
            if column < self.n_columns:
                self._owner[column] = -2 if fixed[row] else <int32_t> row

    cdef inline void _relax(self, Py_ssize_t node, double length,
                            Py_ssize_t before) noexcept nogil:
        """Record a path to a node if it is shorter, and not longer than the limit."""
        if length < self._length[node] and length <= self._limit:
            if self._length[node] == INFINITY:
                self._reached[self._n_reached] = <int32_t> node
                self._n_reached += 1
            self._length[node], self._before[node] = length, <int32_t> before

    cdef void _leave_row(self, Py_ssize_t part, Py_ssize_t row,
                         double reached) noexcept nogil:
        """Relax the arcs from a row to columns and to F, in Dijkstra's method.

        `reached` is the length of the shortest path to the row.
        """
        cdef Py_ssize_t n = self.n_columns, column, current = self.labeling(part)[row]
        cdef const double* scores = self.scores + row * self.n_states
        cdef const double* prices = self._row_prices(part) + self.n_rows
        cdef const unsigned char* allowed = self._allowed(part) + row * self.n_states
        cdef double price = self._row_prices(part)[row]
        # the paths to most columns are longer than the limit, and the paths over
        # forbidden pairs are infinitely long
        cdef double highest = self._limit - reached + price
        for column in range(n):
            if -scores[column] - prices[column] <= highest and (
                    allowed[column] and column != current
                    and self._owner[column] != -2):
                # rounding may make a length slightly negative
                self._relax(column, reached + max(
                    -scores[column] - price - prices[column], 0.0), row)
        if self.alone and current != n and allowed[n]:
            self._relax(n + self.n_rows, reached + max(-scores[n] - price, 0.0), row)

    cdef void _leave_free(self, Py_ssize_t part, double reached) noexcept nogil:
        """Relax the arcs of F: to assigned columns, and to rows without a column."""
        cdef const double* prices = self._row_prices(part)
        cdef const unsigned char* fixed = (
            self._allowed(part) + self.n_rows * self.n_states)
        cdef Py_ssize_t n = self.n_columns, column, row
        for column in range(n):
            if self._owner[column] >= 0:
                self._relax(
                    column, reached + max(-prices[self.n_rows + column], 0.0), -1)
        for row in range(self.n_rows):
            if self.labeling(part)[row] == n and not fixed[row]:
                self._relax(n + row, reached + max(
                    prices[row] + self.scores[row * self.n_states + n], 0.0), -1)

    cdef double _shortest_cycle(self, Py_ssize_t part, Py_ssize_t start,
                                double limit) noexcept nogil:
        """Return the length of the shortest cycle through a row, up to a limit.

        The result is INFINITY if the cycle is longer.
        """
        cdef Py_ssize_t n = self.n_columns, k, node, place, done = 0
        cdef Py_ssize_t free_node = n + self.n_rows
        cdef Py_ssize_t target = self.labeling(part)[start]
        cdef double least
        target = target if target < n else n + start
        for node in range(free_node + 1):
            self._length[node] = INFINITY
        self._limit, self._n_reached = limit, 0
        self._leave_row(part, start, 0.0)
        while done < self._n_reached:
            # nodes with final lengths come first in the list of reached nodes
            place = done
            for k in range(done + 1, self._n_reached):
                if self._length[self._reached[k]] < self._length[self._reached[place]]:
                    place = k
            node, self._reached[place] = self._reached[place], self._reached[done]
            self._reached[done] = <int32_t> node
            done += 1
            least = self._length[node]
            if node == target:
                return least
            if node == free_node:
                self._leave_free(part, least)
            elif node >= n:
                self._leave_row(part, node - n, least)
            elif self._owner[node] >= 0:
                self._leave_row(part, self._owner[node], least)
            else:
                self._relax(free_node, least + max(
                    self._row_prices(part)[self.n_rows + node], 0.0),
                    self.n_rows + node)
        return INFINITY

    cdef Py_ssize_t _change(self, Py_ssize_t start, int32_t* labeling) noexcept nogil:
        """Change an assignment by the cycle found; return the new state of `start`."""
        cdef Py_ssize_t n = self.n_columns, free_node = n + self.n_rows
        cdef Py_ssize_t node = labeling[start], before, next_node
        node = node if node < n else n + start
        while True:
            before = self._before[node]
            if before < 0:
                node = free_node
            elif before >= self.n_rows:
                node = before - self.n_rows
            else:
                # the row takes the column `node`, or none if the node is no column
                next_node = labeling[before]
                labeling[before] = <int32_t> min(node, n)
                if before == start:
                    return labeling[before]
                node = next_node if next_node < n else n + before

    cdef void _reprice(self, Py_ssize_t part, Py_ssize_t other, Py_ssize_t start,
                       double length) noexcept nogil:
        """Change dual prices by shortest path lengths, cut off at the cycle's length.

        The prices of the part `other` are those of its best assignment, which differs
        from that of `part` by this cycle.
        """
        cdef double* prices = self._row_prices(other)
        cdef Py_ssize_t n = self.n_columns, row, column, node
        # the price of F must stay zero: its path length is subtracted from all changes
        cdef double of_free = min(self._length[n + self.n_rows], length)
        for row in range(self.n_rows):
            node = self.labeling(part)[row]
            node = node if node < n else n + row
            prices[row] += of_free
            if row != start:
                prices[row] -= min(self._length[node], length)
        for column in range(n):
            prices[self.n_rows + column] += (
                min(self._length[column], length) - of_free)
