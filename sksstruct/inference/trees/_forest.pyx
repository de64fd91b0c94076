"""Max-product, sum-product and max-marginals on trees and forests.

    max or log-sum-exp over y of  sum_v unary[v, y_v] + sum_(u, v) pairwise[y_u, y_v]

Messages go up once (max-product, Algorithm 7 of Pillutla et al., 2018) and down once
(marginals, Algorithm 9). A variable's message to a child sums its other messages anew,
from both ends of the list of children, so that nothing is subtracted: that would cost
digits, and has no meaning for -inf.

Ties in max-product: each root takes its lowest maximizing state, then each variable,
given its neighbor on the way to the root, the lowest. On a chain 0, 1, ..., T-1 that
is Viterbi's rule.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._simd cimport sks_axpy, sks_logplus, sks_maxplus

from sksstruct.inference._checks import check_flat_variables, check_sums, check_tables
from sksstruct.inference.trees._arrays import starts_of
from sksstruct.utils._layout import aligned_zeros, padded_length


cdef inline void add_row(Py_ssize_t ld, const double* row, double* out) noexcept nogil:
    """out += row"""
    sks_axpy(ld, 1.0, row, out)


cdef class Forest(Tree):
    """Potentials on a forest, packed for message passing.

    Parameters
    ----------
    unary, edges, pairwise
        As `max_product` takes them.
    both : bool
        Whether messages go down, too.
    """

    def __init__(self, unary, edges, pairwise, bint both=False):
        flat, sizes = check_flat_variables(unary)
        Tree.__init__(self, len(sizes), edges)
        tables, which = check_tables(pairwise, self.edges, sizes)
        # no sum has more terms than twice the variables and edges
        check_sums("unary and pairwise", 4 * self.n_variables, flat, *tables)
        self._place_rows(flat, sizes)
        self._pack(tables, which, both)

    def _place_rows(self, const double[::1] flat, const Py_ssize_t[::1] sizes):
        """Copy the scores of states to rows in the order of the variables."""
        cdef Py_ssize_t n = self.n_variables, k
        cdef const Py_ssize_t[::1] where = starts_of(sizes)
        # padded as the row kernels want them
        cdef const int32_t[::1] padded = np.array(
            [padded_length(size) for size in range(np.max(sizes) + 1)], dtype=np.int32)
        self._size, self._ld = np.empty((2, n + 1), dtype=np.int32)
        self._first = np.zeros(n + 2, dtype=np.intp)
        for k in range(n + 1):
            # the root of roots has one state, whose score is 0
            self._size[k] = <int32_t> sizes[self._order[k]] if k else 1
            self._ld[k] = padded[self._size[k]]
            self._first[k + 1] = self._first[k] + self._ld[k]
        self._theta = aligned_zeros(self._first[n + 1])
        for k in range(1, n + 1):
            memcpy(&self._theta[self._first[k]], &flat[where[self._order[k]]],
                   self._size[k] * sizeof(double))

    def _pack(self, tables, const Py_ssize_t[::1] which, bint both):
        """Store each table once in each direction that messages take through it."""
        # The row kernels take a table from source to target: rows are the source's
        # states. Max-product and the K best send no messages down.
        cdef Py_ssize_t n = self.n_variables, k, edge, key, step
        cdef bint turned, shared = len(tables) == 1
        self._up = np.zeros(n + 1, dtype=np.intp)
        self._down = np.zeros(n + 1, dtype=np.intp)
        # at 0: zeros for the edges to the root of roots
        place = max(4 * int(np.max(self._size)), int(np.max(self._ld)))
        # Many edges may share a table: one copy for each pair of table and direction,
        # whose number is the key.
        cdef Py_ssize_t[::1] offset = np.full(2 * len(tables), -1, dtype=np.intp)
        packed = []
        for step in range(2 if both else 1):
            for k in range(1, n + 1):
                edge = self._edge_above[k]
                if edge < 0:
                    continue
                turned = (self._ends[2 * edge] == self._order[k]) == step
                key = turned if shared else 2 * which[edge] + turned
                if offset[key] < 0:
                    table = tables[key // 2].T if turned else tables[key // 2]
                    offset[key] = place
                    packed.append((place, table))
                    place += table.shape[0] * padded_length(table.shape[1])
                if step:
                    self._down[k] = offset[key]
                else:
                    self._up[k] = offset[key]
        self.table_entries = place
        self._tables = memory = aligned_zeros(place)
        for start, table in packed:
            rows, columns = table.shape
            ld = padded_length(columns)
            memory[start:start + rows * ld].reshape(rows, ld)[:, :columns] = table

    def split(self, flat):
        """Return the rows of all variables, in original order, from padded ones."""
        cdef Py_ssize_t k
        flat = np.asarray(flat)
        rows = [None] * self.n_variables
        for k in range(1, self.n_variables + 1):
            rows[self._order[k]] = flat[self._first[k]:self._first[k] + self._size[k]]
        return rows

    cdef double* _row(self, double* values, Py_ssize_t variable) noexcept nogil:
        """The row of a variable."""
        return values + self._first[variable]

    # ---- the best labeling ----

    def max_product(self):
        """Find the best labeling and its score; overwrites the scores."""
        cdef Py_ssize_t n = self.n_variables
        labeling = np.empty(n, dtype=np.int32)
        cdef int32_t[::1] labels = labeling
        cdef int32_t[::1] by_place = np.zeros(n + 1, dtype=np.int32)
        with nogil:
            self._maximize_up(&self._theta[0])
            self._read_down(&self._theta[0], &by_place[0], &labels[0])
        return labeling, float(self._theta[0])

    def trees(self):
        """Return the roots of all trees and their scores, after `max_product`."""
        cdef Py_ssize_t k, count = self._below[1] - 1
        cdef Py_ssize_t[::1] roots = np.empty(count, dtype=np.intp)
        cdef double[::1] scores = np.empty(count)
        cdef double* row
        # in the order in which they were added up
        for k in range(count, 0, -1):
            row = self._row(&self._theta[0], k)
            roots[count - k] = self._order[k]
            scores[count - k] = row[best_state(self._size[k], row)]
        return np.asarray(roots), np.asarray(scores)

    cdef void _maximize_up(self, double* delta) noexcept nogil:
        """Turn scores of states into best scores of the subtrees below them."""
        cdef Py_ssize_t child, parent
        # children before their parents, whose rows must be complete when they are sent
        for child in range(self.n_variables, 0, -1):
            parent = self._above[child]
            sks_maxplus(self._size[child], self._ld[parent], self._row(delta, child),
                        &self._tables[self._up[child]], self._row(delta, parent))

    cdef void _read_down(self, double* delta, int32_t* by_place,
                         int32_t* labels) noexcept nogil:
        """Label each variable given its parent; the root of roots has label 0.

        by_place (n_variables + 1,) is scratch, with the label of the root.
        """
        cdef Py_ssize_t k, parent
        # Maximizers were not stored on the way up. To find them again takes one column
        # of each table; to store them would keep the kernel from whole vectors.
        for k in range(1, self.n_variables + 1):
            parent = self._above[k]
            by_place[k] = <int32_t> best_state_given(
                self._size[k], self._row(delta, k),
                &self._tables[self._up[k]] + by_place[parent], self._ld[parent])
            labels[self._order[k]] = by_place[k]

    # ---- marginals ----

    def two_passes(self, bint sums):
        """Compute beliefs of all variables, scores of pairs, and the value of the root.

        Parameters
        ----------
        sums : bool
            Whether messages are log-sum-exp. Otherwise they are maxima, and pairs are
            not scored.

        Returns
        -------
        beliefs : memoryview
            Padded and flat; see `split`.
        pairs : list
            One table for each edge, in its direction; None without sums.
        value : float
            Log-partition function or best score.
        """
        cdef Py_ssize_t n = self.n_variables, k
        cdef Py_ssize_t widest = np.max(self._ld)
        # Two copies of the scores: what is below a variable must be told from what is
        # above it.
        cdef double[::1] up = np.array(self._theta)
        cdef double[::1] belief = np.array(self._theta)
        cdef Py_ssize_t[::1] first_message = np.zeros(n + 2, dtype=np.intp)
        # a message has the row of the parent
        for k in range(1, n + 1):
            first_message[k + 1] = first_message[k] + self._ld[self._above[k]]
        cdef double[::1] messages = aligned_zeros(first_message[n + 1])
        cdef double[::1] scratch = aligned_zeros((self.most_children + 2) * widest)
        cdef Py_ssize_t[::1] first_pair = self._places_of_pairs(sums)
        cdef double[::1] pair_scores = np.empty(first_pair[0])
        cdef Sweep sweep = Sweep(sums, &up[0], &belief[0], &messages[0],
                                 &first_message[0], &scratch[0], &pair_scores[0],
                                 &first_pair[0])
        with nogil:
            self._send_up(&sweep)
            # parents before their children, who get what is above them
            for k in range(n + 1):
                self._send_down(&sweep, k)
        pairs = self._split_pairs(np.asarray(pair_scores), first_pair)
        return belief, pairs, float(belief[0])

    def _places_of_pairs(self, bint wanted):
        """Return where the scores of pairs of each child begin, or -1 if it has none.

        The first entry is the number of all these scores, at least one.
        """
        cdef Py_ssize_t child, total = 0
        cdef Py_ssize_t[::1] first_pair = np.full(self.n_variables + 1, -1, np.intp)
        for child in range(1, self.n_variables + 1 if wanted else 0):
            # roots hang from no edge
            if self._above[child]:
                first_pair[child] = total
                total += (<Py_ssize_t> self._size[child]
                          * self._size[self._above[child]])
        # at least one, so that there is an address
        first_pair[0] = max(total, 1)
        return first_pair

    def _split_pairs(self, flat, const Py_ssize_t[::1] first_pair):
        """Return a table for each edge, from its first variable to its second."""
        cdef Py_ssize_t child, variable, edge
        tables = [None] * len(self.edges)
        for child in range(1, self.n_variables + 1):
            if first_pair[child] >= 0:
                variable, edge = self._order[child], self._edge_above[child]
                shape = self._size[child], self._size[self._above[child]]
                table = flat[first_pair[child]:][:shape[0] * shape[1]].reshape(shape)
                # the child was the row, whichever end of the edge it is
                tables[edge] = table if self._ends[2 * edge] == variable else table.T
        return tables

    cdef void _send(self, bint sums, Py_ssize_t source, Py_ssize_t target,
                    const double* values, Py_ssize_t table, double* out) noexcept nogil:
        """Add the message of one variable to another, given what the first has."""
        if sums:
            sks_logplus(self._size[source], self._ld[target], values,
                        &self._tables[table], out)
        else:
            sks_maxplus(self._size[source], self._ld[target], values,
                        &self._tables[table], out)

    cdef void _send_up(self, Sweep* sweep) noexcept nogil:
        """The first pass: all messages to parents, which are kept and added up."""
        cdef Py_ssize_t child, parent
        cdef double* message
        # A message is kept beside the sum: the way down needs sums without it.
        for child in range(self.n_variables, 0, -1):
            parent = self._above[child]
            message = sweep.messages + sweep.first_message[child]
            self._send(sweep.sums, child, parent, self._row(sweep.up, child),
                       self._up[child], message)
            add_row(self._ld[parent], message, self._row(sweep.up, parent))

    cdef void _send_down(self, Sweep* sweep, Py_ssize_t parent) noexcept nogil:
        """The second pass at one variable: its belief, and messages to its children."""
        cdef Py_ssize_t ld = self._ld[parent], child
        cdef Py_ssize_t first = self._below[parent], end = self._below[parent + 1]
        cdef double* cavity = sweep.scratch
        cdef double* after = sweep.scratch + (end - first + 1) * ld
        # The row of `belief` has the variable's own scores and what is above it. Row j
        # of the scratch becomes these and the messages of the children before the j-th;
        # those of the children after it are added on the way back. That makes the
        # cavity of the j-th child, all but its own message, without a difference, and
        # for all children in time that is linear in their number.
        memcpy(cavity, self._row(sweep.belief, parent), ld * sizeof(double))
        for child in range(first, end):
            memcpy(cavity + ld, cavity, ld * sizeof(double))
            cavity += ld
            add_row(ld, sweep.messages + sweep.first_message[child], cavity)
        memcpy(self._row(sweep.belief, parent), cavity, ld * sizeof(double))
        memset(after, 0, ld * sizeof(double))
        for child in range(end - 1, first - 1, -1):
            cavity -= ld
            add_row(ld, after, cavity)
            add_row(ld, sweep.messages + sweep.first_message[child], after)
            self._send(sweep.sums, parent, child, cavity, self._down[child],
                       self._row(sweep.belief, child))
            if sweep.first_pair[child] >= 0:
                self._score_pairs(sweep, child, cavity)

    cdef void _score_pairs(self, Sweep* sweep, Py_ssize_t child,
                           const double* cavity) noexcept nogil:
        """Scores of the states of a child and of its parent together."""
        cdef Py_ssize_t parent = self._above[child], state, state_of_parent
        cdef Py_ssize_t n_parent = self._size[parent]
        cdef const double* below = self._row(sweep.up, child)
        cdef const double* table = &self._tables[self._up[child]]
        cdef double* out = sweep.pair_scores + sweep.first_pair[child]
        # below the child, between them, and all that the parent has from elsewhere
        for state in range(self._size[child]):
            for state_of_parent in range(n_parent):
                out[state_of_parent] = (
                    below[state] + table[state_of_parent] + cavity[state_of_parent])
            out += n_parent
            table += self._ld[parent]
