"""Max-product, sum-product and max-marginals on trees and forests.

    max or log-sum-exp over y of  sum_v unary[v, y_v] + sum_(u, v) pairwise[y_u, y_v]

Messages pass once from children to parents (max-product, Algorithm 7 of Pillutla et
al., 2018) and once back (marginals, Algorithm 9). A message to a child is computed from
all other messages, which are summed from both ends of the list of children. Subtraction
of the child's message from a total would lose digits, and be NaN for -inf.

Ties in max-product: each root takes its lowest maximizing state, then each variable
takes its lowest maximizing state, given its neighbor on the path to the root. On a
chain 0, 1, ..., T-1 this is Viterbi's rule.

K. Pillutla, V. Roulet, S. M. Kakade and Z. Harchaoui, "A smoother way to train
structured prediction models", NeurIPS 2018.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.inference.trees._tree cimport Tree
from sksstruct.utils._pointers cimport (
    const_doubles, const_intps, doubles, int32s, intps,
)
from sksstruct.utils._simd cimport sks_axpy, sks_logplus, sks_maxplus

from sksstruct.inference._checks import check_flat_variables
from sksstruct.inference.trees._arrays import (
    forest_arrays, labeling_arrays, pack_tables, place_rows, split_pairs, split_rows,
    sweep_arrays, sweep_starts, tree_results,
)


cdef inline void add_row(Py_ssize_t ld, const double* row, double* out) noexcept nogil:
    """out += row"""
    sks_axpy(ld, 1.0, row, out)


cdef class Forest(Tree):
    """Potentials on a forest, packed for message passing.

    Parameters
    ----------
    unary, edges, pairwise
        See `max_product`.
    both : bool
        Whether messages pass from parents to children, too.
    """

    def __init__(self, unary, edges, pairwise, bint both=False):
        flat, sizes = check_flat_variables(unary)
        Tree.__init__(self, len(sizes), edges)
        cdef Py_ssize_t k, edge
        cdef bint turned, shared
        tables, which, self._starts = forest_arrays(self.edges, flat, sizes, pairwise)
        self._up, self._down = intps(self._starts[0]), intps(self._starts[1])
        cdef const Py_ssize_t* table = const_intps(which)
        shared = len(tables) == 1
        # Edges may share tables: each pair of a table and a direction, numbered by its
        # key, is stored once. The row kernels read tables from source to target: rows
        # are the source's states.
        for k in range(1, self.n_variables + 1):
            edge = self._edge_above[k]
            if edge >= 0:
                turned = self._ends[2 * edge] != self._order[k]
                self._up[k] = turned if shared else 2 * table[edge] + turned
                # max-product and the k best send no messages to children
                self._down[k] = self._up[k] ^ 1 if both else -1
        self._packed = pack_tables(tables, *self._starts, int(sizes.max()))
        self.table_entries, self._tables = len(self._packed), doubles(self._packed)
        where, self._rows = place_rows(sizes, self._arrays[2])
        self._size, self._ld = int32s(self._rows[0]), int32s(self._rows[1])
        self._first, self._theta = intps(self._rows[2]), doubles(self._rows[3])
        cdef const double* scores = const_doubles(flat)
        cdef const Py_ssize_t* source = const_intps(where)
        for k in range(1, self.n_variables + 1):
            memcpy(self._theta + self._first[k], scores + source[self._order[k]],
                   self._size[k] * sizeof(double))

    def split(self, flat):
        """Return the rows of all variables, in original order, from padded rows."""
        return split_rows(flat, self._arrays[2], *self._rows)

    cdef double* _row(self, double* values, Py_ssize_t variable) noexcept nogil:
        """Return the row of a variable in an array that has the layout of `_theta`."""
        return values + self._first[variable]

    # ---- the best labeling ----

    def max_product(self):
        """Find the best labeling and its score; overwrites the scores."""
        labeling, places = labeling_arrays(self.n_variables)
        cdef int32_t* labels = int32s(labeling)
        cdef int32_t* by_place = int32s(places)
        with nogil:
            self._maximize_up(self._theta)
            self._read_down(self._theta, by_place, labels)
        return labeling, self._theta[0]

    def trees(self):
        """Return the roots of all trees and their scores, after `max_product`."""
        cdef Py_ssize_t k, count = self._below[1] - 1
        root_array, score_array = tree_results(count)
        cdef Py_ssize_t* roots = intps(root_array)
        cdef double* scores = doubles(score_array)
        cdef double* row
        # roots in the order in which their scores were added up
        for k in range(count, 0, -1):
            row = self._row(self._theta, k)
            roots[count - k] = self._order[k]
            scores[count - k] = row[best_state(self._size[k], row)]
        return root_array, score_array

    cdef void _maximize_up(self, double* delta) noexcept nogil:
        """Turn scores of states into best scores of the subtrees below the states."""
        cdef Py_ssize_t child, parent
        # children come before their parents, so that each row is complete when its
        # message is computed
        for child in range(self.n_variables, 0, -1):
            parent = self._above[child]
            sks_maxplus(self._size[child], self._ld[parent], self._row(delta, child),
                        self._tables + self._up[child], self._row(delta, parent))

    cdef void _read_down(self, double* delta, int32_t* by_place,
                         int32_t* labels) noexcept nogil:
        """Label each variable given its parent; the root of roots has label 0.

        by_place (n_variables + 1,) is scratch; its entry 0 is the label of the root.
        """
        cdef Py_ssize_t k, parent
        # Storing maximizers on the way up would prevent vectorization; finding a
        # maximizer again takes one column of a table.
        for k in range(1, self.n_variables + 1):
            parent = self._above[k]
            by_place[k] = <int32_t> best_state_given(
                self._size[k], self._row(delta, k),
                self._tables + self._up[k] + by_place[parent], self._ld[parent])
            labels[self._order[k]] = by_place[k]

    # ---- marginals ----

    def two_passes(self, bint sums):
        """Compute beliefs, scores of pairs, and the log-partition or best score.

        Parameters
        ----------
        sums : bool
            Whether messages are log-sum-exp. If not, messages are maxima, and pairs
            are not scored.

        Returns
        -------
        beliefs : ndarray
            Padded and flat; see `split`.
        pairs : list
            One table for each edge, from its first variable to its second. Without
            sums, None for each edge.
        value : float
            Log-partition function, or best score.
        """
        first_messages, first_pairs = sweep_starts(self.n_variables)
        cdef Py_ssize_t* first_message = intps(first_messages)
        cdef Py_ssize_t* first_pair = intps(first_pairs)
        cdef Py_ssize_t k, parent, widest = self._ld[0], n_pairs = 0
        for k in range(1, self.n_variables + 1):
            parent = self._above[k]
            # a message to a parent has the length of the parent's row
            first_message[k + 1] = first_message[k] + self._ld[parent]
            widest = max(widest, self._ld[k])
            # a root has no edge, and no pairs
            if sums and parent:
                first_pair[k] = n_pairs
                n_pairs += <Py_ssize_t> self._size[k] * self._size[parent]
        # Messages from children and messages from parents are added to separate copies
        # of the scores.
        ups, beliefs, memory, scores, room = sweep_arrays(
            self._rows[3], first_message[self.n_variables + 1], n_pairs,
            (self.most_children + 2) * widest)
        cdef Sweep sweep = Sweep(
            sums, doubles(ups), doubles(beliefs), doubles(memory), first_message,
            doubles(room), doubles(scores), first_pair)
        with nogil:
            self._send_up(&sweep)
            # parents come before their children, which receive messages from them
            for k in range(self.n_variables + 1):
                self._send_down(&sweep, k)
        pairs = split_pairs(scores, first_pairs, self.edges, self._arrays, self._rows)
        return beliefs, pairs, sweep.belief[0]

    cdef void _send(self, bint sums, Py_ssize_t source, Py_ssize_t target,
                    const double* values, Py_ssize_t table, double* out) noexcept nogil:
        """Add the message of `source`, whose row is `values`, to a row of `target`."""
        if sums:
            sks_logplus(self._size[source], self._ld[target], values,
                        self._tables + table, out)
        else:
            sks_maxplus(self._size[source], self._ld[target], values,
                        self._tables + table, out)

    cdef void _send_up(self, Sweep* sweep) noexcept nogil:
        """First pass: store all messages to parents, and add them up."""
        cdef Py_ssize_t child, parent
        cdef double* message
        # single messages are stored, as the second pass sums all but one of them
        for child in range(self.n_variables, 0, -1):
            parent = self._above[child]
            message = sweep.messages + sweep.first_message[child]
            self._send(sweep.sums, child, parent, self._row(sweep.up, child),
                       self._up[child], message)
            add_row(self._ld[parent], message, self._row(sweep.up, parent))

    cdef void _send_down(self, Sweep* sweep, Py_ssize_t parent) noexcept nogil:
        """Second pass: complete the belief of a variable, and send to its children."""
        cdef Py_ssize_t ld = self._ld[parent], child
        cdef Py_ssize_t first = self._below[parent], end = self._below[parent + 1]
        cdef double* cavity = sweep.scratch
        cdef double* after = sweep.scratch + (end - first + 1) * ld
        # The row of `belief` has the variable's own scores and the parent's message.
        # Row j of the scratch becomes this row plus the messages of the children before
        # the j-th; the backward loop adds the messages of the children after it. The
        # result is the cavity of the j-th child, the sum of all messages but its own,
        # without subtraction, and in time linear in the number of children.
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
        """Write the scores of all pairs of states of a child and of its parent."""
        cdef Py_ssize_t parent = self._above[child], state, state_of_parent
        cdef Py_ssize_t n_parent = self._size[parent]
        cdef const double* below = self._row(sweep.up, child)
        cdef const double* table = self._tables + self._up[child]
        cdef double* out = sweep.pair_scores + sweep.first_pair[child]
        # the score of a pair: the child's subtree, the table, and the parent's other
        # messages
        for state in range(self._size[child]):
            for state_of_parent in range(n_parent):
                out[state_of_parent] = (
                    below[state] + table[state_of_parent] + cavity[state_of_parent])
            out += n_parent
            table += self._ld[parent]
