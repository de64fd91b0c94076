"""Max-product, sum-product and max-marginals on trees and forests.

    max or log-sum-exp over y of  sum_v unary[v, y_v] + sum_(u, v) pairwise[y_u, y_v]

Messages go up once (max-product, Algorithm 7 of Pillutla et al., 2018) and down once
(marginals, Algorithm 9). A variable's message to a child sums its other messages anew,
from both ends of the list of children, so that nothing is subtracted: that would cost
digits, and has no meaning for -inf.

Ties in max-product: each root takes its lowest maximising state, then each variable,
given its neighbor on the way to the root, the lowest. On a chain 0, 1, ..., T-1 that
is Viterbi's rule.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state_given
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._simd cimport sks_axpy, sks_logplus, sks_maxplus

from sksstruct.inference._checks import check_sums, check_tables, check_variables
from sksstruct.inference.trees._tree import starts_of
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
        Whether messages go down too.
    """

    def __init__(self, unary, edges, pairwise, bint both=False):
        self.unary = check_variables(unary)
        Tree.__init__(self, len(self.unary), edges)
        n = self.n_variables
        # the root of roots has one state, whose score is 0
        sizes = np.array([len(row) for row in self.unary] + [1], dtype=np.intp)
        tables, which = check_tables(pairwise, self.edges, sizes)
        flat = np.concatenate(self.unary)
        # no sum has more terms than twice the variables and edges
        check_sums("unary and pairwise", 4 * n, flat, *tables)
        self._size = sizes
        ld = np.array([padded_length(int(size)) for size in sizes], dtype=np.intp)
        self._ld = ld
        self._first = first = starts_of(ld)
        # all rows in one array, padded as the row kernels want them
        self._theta = theta = aligned_zeros(first[n + 1])
        where = np.repeat(first[:n] - np.cumsum(sizes[:n]) + sizes[:n], sizes[:n])
        theta[where + np.arange(len(flat))] = flat
        self._pack(tables, which, both)

    def _pack(self, tables, which, both):
        """Store each table once in each direction that messages take through it."""
        # The row kernels take a table from source to target: rows are the source's
        # states. Max-product and the K best send no messages down.
        n = self.n_variables
        edge, parent = np.asarray(self._edge)[:n], np.asarray(self._parent)[:n]
        up, down = np.zeros(n + 1, dtype=np.intp), np.zeros(n + 1, dtype=np.intp)
        # at 0: zeros for the edges to the root of roots
        place = max(4 * max(self._size), max(self._ld))
        child = np.flatnonzero(parent != self.root)
        forward = self.edges[edge[child], 0] == child if len(child) else edge[:0] > 0
        packed = {}
        for target, turned in ((up, ~forward), (down, forward))[:2 if both else 1]:
            # Many edges may share a table: one copy for each pair of table and
            # direction, whose number is the key.
            keys = 2 * which[edge[child]] + turned
            distinct, inverse = np.unique(keys, return_inverse=True)
            offsets = np.zeros(len(distinct), dtype=np.intp)
            for k, key in enumerate(distinct.tolist()):
                if key not in packed:
                    table = tables[key // 2].T if key % 2 else tables[key // 2]
                    packed[key] = place, table
                    place += table.shape[0] * padded_length(table.shape[1])
                offsets[k] = packed[key][0]
            target[child] = offsets[inverse]
        self.table_entries = place
        self._tables = memory = aligned_zeros(place)
        for offset, table in packed.values():
            rows, columns = table.shape
            ld = padded_length(columns)
            memory[offset:offset + rows * ld].reshape(rows, ld)[:, :columns] = table
        self._up, self._down = up, down

    def split(self, flat):
        """The rows of all variables from flat padded ones."""
        flat = np.asarray(flat)
        return [flat[self._first[v]:self._first[v] + self._size[v]]
                for v in range(self.n_variables)]

    cdef double* _row(self, double* values, Py_ssize_t variable) noexcept nogil:
        """The row of a variable."""
        return values + self._first[variable]

    # ---- the best labeling ----

    def max_product(self):
        """Best labeling and its score."""
        cdef double[::1] memory = np.array(self._theta)
        cdef Py_ssize_t n = self.n_variables
        labeling = np.zeros(n + 1, dtype=np.int32)
        cdef int32_t[::1] labels = labeling
        with nogil:
            self._maximise_up(&memory[0])
            self._read_down(&memory[0], &labels[0])
        return labeling[:n], float(memory[self._first[n]])

    cdef void _maximise_up(self, double* delta) noexcept nogil:
        """Turn scores of states into best scores of the subtrees below them."""
        cdef Py_ssize_t k, child, parent
        # children before their parents, whose rows must be complete when they are sent
        for k in range(self.n_variables, 0, -1):
            child = self._order[k]
            parent = self._parent[child]
            sks_maxplus(self._size[child], self._ld[parent], self._row(delta, child),
                        &self._tables[self._up[child]], self._row(delta, parent))

    cdef void _read_down(self, double* delta, int32_t* labels) noexcept nogil:
        """Label each variable given its parent; the root of roots has label 0."""
        cdef Py_ssize_t k, variable, parent
        # Maximisers were not stored on the way up. To find them again takes one column
        # of each table; to store them would keep the kernel from whole vectors.
        for k in range(1, self.n_variables + 1):
            variable = self._order[k]
            parent = self._parent[variable]
            labels[variable] = <int32_t> best_state_given(
                self._size[variable], self._row(delta, variable),
                &self._tables[self._up[variable]] + labels[parent], self._ld[parent])

    # ---- marginals ----

    def two_passes(self, bint sums):
        """Beliefs of all variables, scores of pairs, and the value of the root.

        Parameters
        ----------
        sums : bool
            Whether messages are log-sum-exp; else they are maxima, and pairs are not
            scored.

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
        cdef Py_ssize_t widest = max(self._ld)
        # Two copies of the scores: what is below a variable must be told from what is
        # above it.
        cdef double[::1] up = np.array(self._theta)
        cdef double[::1] belief = np.array(self._theta)
        cdef Py_ssize_t[::1] first_message = np.zeros(n + 1, dtype=np.intp)
        # a message has the row of the parent
        for k in range(n):
            first_message[k + 1] = first_message[k] + self._ld[self._parent[k]]
        cdef double[::1] messages = aligned_zeros(first_message[n])
        cdef double[::1] scratch = aligned_zeros((self.most_children + 2) * widest)
        cdef Py_ssize_t[::1] first_pair = self._places_of_pairs(sums)
        cdef double[::1] pair_scores = np.empty(first_pair[n])
        cdef Sweep sweep = Sweep(sums, &up[0], &belief[0], &messages[0],
                                 &first_message[0], &scratch[0], &pair_scores[0],
                                 &first_pair[0])
        with nogil:
            self._send_up(&sweep)
            # parents before their children, who get what is above them
            for k in range(n + 1):
                self._send_down(&sweep, self._order[k])
        pairs = self._split_pairs(np.asarray(pair_scores), first_pair)
        return belief, pairs, float(belief[self._first[n]])

    def _places_of_pairs(self, bint wanted):
        """Where the scores of pairs of each child begin, or -1; last, their number."""
        cdef Py_ssize_t child, total = 0
        cdef Py_ssize_t[::1] first_pair = np.full(self.n_variables + 1, -1, np.intp)
        for child in range(self.n_variables if wanted else 0):
            if self._edge[child] >= 0:
                first_pair[child] = total
                total += self._size[child] * self._size[self._parent[child]]
        # at least one, so that there is an address
        first_pair[self.n_variables] = max(total, 1)
        return first_pair

    def _split_pairs(self, flat, const Py_ssize_t[::1] first_pair):
        """A table for each edge, from its first variable to its second."""
        cdef Py_ssize_t child
        tables = [None] * len(self.edges)
        for child in range(self.n_variables):
            if first_pair[child] >= 0:
                edge, parent = self._edge[child], self._parent[child]
                shape = self._size[child], self._size[parent]
                table = flat[first_pair[child]:][:shape[0] * shape[1]].reshape(shape)
                # the child was the row, whichever end of the edge it is
                tables[edge] = table if self._ends[edge, 0] == child else table.T
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
        cdef Py_ssize_t k, child, parent
        cdef double* message
        # A message is kept beside the sum: the way down needs sums without it.
        for k in range(self.n_variables, 0, -1):
            child = self._order[k]
            parent = self._parent[child]
            message = sweep.messages + sweep.first_message[child]
            self._send(sweep.sums, child, parent, self._row(sweep.up, child),
                       self._up[child], message)
            add_row(self._ld[parent], message, self._row(sweep.up, parent))

    cdef void _send_down(self, Sweep* sweep, Py_ssize_t parent) noexcept nogil:
        """The second pass at one variable: its belief, and messages to its children."""
        cdef Py_ssize_t ld = self._ld[parent], j, child
        cdef Py_ssize_t n_children = self._children[parent + 1] - self._children[parent]
        cdef const Py_ssize_t* children = &self._child_of[0] + self._children[parent]
        cdef double* cavity = sweep.scratch
        cdef double* after = sweep.scratch + (n_children + 1) * ld
        # The row of `belief` has the variable's own scores and what is above it. Row j
        # of the scratch becomes these and the messages of the children before the j-th;
        # those of the children after it are added on the way back. That makes the
        # cavity of the j-th child, all but its own message, without a difference, and
        # for all children in time that is linear in their number.
        memcpy(cavity, self._row(sweep.belief, parent), ld * sizeof(double))
        for j in range(n_children):
            memcpy(cavity + ld, cavity, ld * sizeof(double))
            cavity += ld
            add_row(ld, sweep.messages + sweep.first_message[children[j]], cavity)
        memcpy(self._row(sweep.belief, parent), cavity, ld * sizeof(double))
        memset(after, 0, ld * sizeof(double))
        for j in range(n_children - 1, -1, -1):
            child = children[j]
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
        cdef Py_ssize_t parent = self._parent[child], state, state_of_parent
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
