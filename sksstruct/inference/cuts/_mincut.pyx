"""Max-product on binary pairwise graphs by minimum cuts.

The kernel finds the labeling y of binary variables with the highest score. The score is
the sum of a term for each label and of an entry of a table s for each edge (u, v). A
table is supermodular, and its energy -s submodular, if s00 + s11 >= s01 + s10. Up to a
constant the energy is then

    a y_u + b y_v + q y_u (1 - y_v) + p (1 - y_u) y_v,   p, q >= 0
    p + q = s00 + s11 - s01 - s10,   a = s00 - s10 - q,   b = s00 - s01 - p

(Kolmogorov and Zabih, 2004; Algorithm 11 of Pillutla et al., 2018, with costs that sum
to the energy). Labelings thus correspond to cuts: variables of label 1 are on the side
of the source, the arc u -> v has capacity q (`forward`) and v -> u has p (`backward`).
Each variable has terminal capacity: the score of label 1 minus that of label 0, minus a
and b of its edges, from the source if positive, to the sink if negative.

The flow between variables is the initial flow of the next problem: flow that exceeds
the new capacities is reduced, and the imbalance moves to the terminal capacities. The
search then needs few augmentations (Kohli and Torr, 2005). Max-marginals continue from
the search trees of the best labeling (Kohli and Torr, 2008).

The cut closest to the source is returned: label 1 only where every best labeling has
label 1.
"""

cimport cython
from libc.math cimport fabs, isinf
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.cuts._maxflow cimport FlowNode, FlowTrees
from sksstruct.utils._pointers cimport const_doubles, const_int32s, doubles, int32s

# Relative violation of supermodularity that counts as a rounding error, as in tables
# that are sums or products of learned tables.
cdef double SLACK = 1e-10


cdef double copy_scores(Py_ssize_t n, const double* scores,
                        double* out) noexcept nogil:
    """Copy scores, and return the sum of their absolute values."""
    cdef Py_ssize_t i, k
    # four independent sums: additions need not wait for each other
    cdef double[4] totals = [0.0, 0.0, 0.0, 0.0]
    for i in range(0, n - 3, 4):
        for k in range(4):
            out[i + k] = scores[i + k]
            totals[k] += fabs(scores[i + k])
    for i in range(n - n % 4, n):
        out[i] = scores[i]
        totals[0] += fabs(scores[i])
    return (totals[0] + totals[1]) + (totals[2] + totals[3])


def copied(scores, out):
    """Copy scores, and return the sum of their absolute values."""
    return copy_scores(out.size, const_doubles(scores), doubles(out))


cdef class CutKernel(FlowTrees):
    """Minimum cuts for scores of binary variables; reuses the last problem's flow."""

    def _fill(self, unary, pairwise, double big, bint forbids):
        """Set all capacities; return an edge that is not supermodular, or -1.

        Parameters
        ----------
        unary : ndarray of shape (n_variables, 2)
            Scores of the variables, to which the kernel keeps a pointer.
        pairwise : ndarray of shape (n_edges, 2, 2) or (1, 2, 2)
            Tables of the edges, to which the kernel keeps a pointer.
        big : float
            A cost that exceeds the difference of the scores of any two labelings.
        forbids : bool
            Whether entries may be -inf.
        """
        cdef Py_ssize_t refused
        self._unary, self._pairwise = const_doubles(unary), const_doubles(pairwise)
        self._scores = unary, pairwise
        self._step = 0 if len(pairwise) == 1 else 4
        self._big = big
        with nogil:
            refused = self._fill_all(forbids)
        return refused

    def _cut(self):
        """Find the largest flow for the current capacities."""
        with nogil:
            # trees are new for each problem; only the flow is reused
            self._start()
            self._maximize()
            self._store_flow()

    def _label(self, labeling):
        """Write the labeling that the trees imply, and return its score."""
        cdef int32_t* labels = int32s(labeling)
        self._read_labels(labels)
        return self._score(labels)

    def _change_each(self, labeling, changed, kept, out):
        """Write, by variable, the score of the best labeling with its other label.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,), int32
            The best labeling.
        changed : ndarray of shape (n_variables,), int32
            Scratch.
        kept : ndarray of shape (2 * n_edges + 3 * n_variables,)
            Scratch.
        out : ndarray of shape (n_variables, 2)
            The scores; entries of the best labeling are not changed.
        """
        cdef const int32_t* labels = const_int32s(labeling)
        cdef int32_t* others = int32s(changed)
        cdef double* snapshot = doubles(kept)
        cdef double* table = doubles(out)
        cdef Py_ssize_t variable
        with nogil:
            self._save(snapshot)
            # Forcing a variable's other label changes the trees of the best labeling by
            # little, as most of the flow stays. Restoring the trees undoes the change.
            for variable in range(self._n):
                self._force(variable, -self._big if labels[variable] else self._big)
                self._maximize()
                # a forbidden label may cost more than `big`: the variable then keeps
                # its label
                if self._from_source(variable) != labels[variable]:
                    self._read_labels(others)
                    table[2 * variable + 1 - labels[variable]] = self._score(others)
                self._restore(snapshot)

    @cython.final
    cdef void _save(self, double* kept) noexcept nogil:
        """Copy the residual capacities and the search trees to `kept`."""
        cdef Py_ssize_t m = 2 * self._m, n = self._n
        memcpy(kept, self._residual, m * sizeof(double))
        memcpy(kept + m, self._terminal, n * sizeof(double))
        memcpy(kept + m + n, self._nodes, n * sizeof(FlowNode))

    @cython.final
    cdef void _restore(self, const double* kept) noexcept nogil:
        """Restore the residual capacities and the search trees from `kept`.

        The queues of active variables and orphans are empty between two searches.
        `_now` is not restored, so that all restored times are earlier than `_now`.
        """
        cdef Py_ssize_t m = 2 * self._m, n = self._n
        memcpy(self._residual, kept, m * sizeof(double))
        memcpy(self._terminal, kept + m, n * sizeof(double))
        memcpy(self._nodes, kept + m + n, n * sizeof(FlowNode))

    @cython.final
    cdef Py_ssize_t _fill_all(self, bint forbids) noexcept nogil:
        """Set all capacities; return an edge that is not supermodular, or -1."""
        cdef Py_ssize_t variable, edge
        cdef const double* table
        cdef double soft[4]
        for variable in range(self._n):
            self._terminal[variable] = self._difference(
                self._unary[2 * variable + 1], self._unary[2 * variable])
        for edge in range(self._m):
            table = self._pairwise + self._step * edge
            if forbids:
                # `_soften` replaces -inf in a copy of the table, because `_score` needs
                # the -inf
                memcpy(soft, table, 4 * sizeof(double))
                self._soften(soft, self._ends[2 * edge], self._ends[2 * edge + 1])
                table = soft
            if not self._fill_edge(edge, table):
                return edge
        return -1

    @cython.final
    cdef bint _fill_edge(self, Py_ssize_t edge, const double* table) noexcept nogil:
        """Set the capacities of an edge; subtract a and b from its ends' terminals.

        The table is s00, s01, s10, s11. Returns False if the table is not supermodular.
        """
        # In the notation of the head of this file, `both` is p + q, `first` is a + q
        # and `second` is b + p. `first` and `second` are divided among arcs and
        # terminals.
        cdef double both = table[0] + table[3] - table[1] - table[2]
        cdef double first = table[0] - table[2], second = table[0] - table[1]
        cdef double forward, backward, flow
        cdef int32_t arc = self._arc_of[edge]
        # a slightly negative sum is rounding; a more negative sum is refused
        if both < 0.0:
            if both < -SLACK * (fabs(table[0]) + fabs(table[1]) + fabs(table[2])
                                + fabs(table[3])):
                return False
            both = 0.0
        # Any division of p + q is exact. This division leaves as little terminal
        # capacity as possible at the first variable.
        forward = 0.0 if first < 0.0 else (both if first > both else first)
        backward = both - forward
        # Start with the flow of the last problem, limited to the new capacities. The
        # terminal capacities of both ends compensate this flow, which therefore
        # changes the cost of no cut.
        flow = self._flow[edge]
        flow = -backward if flow < -backward else (forward if flow > forward else flow)
        self._residual[arc] = forward - flow
        self._residual[self._arcs[arc].sister] = backward + flow
        # `_store_flow` needs the forward capacity without flow; the flow itself is in
        # the residual capacities from here on.
        self._flow[edge] = forward
        self._terminal[self._ends[2 * edge]] -= (first - forward) + flow
        self._terminal[self._ends[2 * edge + 1]] -= (second - backward) - flow
        return True

    @cython.final
    cdef double _difference(self, double one, double zero) noexcept nogil:
        """Score of label 1 minus that of label 0; `big` replaces infinity."""
        # two forbidden labels: any difference is right, as the score is -inf
        if isinf(one):
            return 0.0 if isinf(zero) else -self._big
        return self._big if isinf(zero) else one - zero

    @cython.final
    cdef void _soften(self, double* table, Py_ssize_t first,
                      Py_ssize_t second) noexcept nogil:
        """Replace -inf by a score that no best labeling has; keep supermodularity.

        A label that is forbidden together with both labels of the other variable is
        forbidden by terminal capacity; its entries become those of the other label.
        """
        cdef Py_ssize_t k, _
        if not (isinf(table[0]) or isinf(table[1]) or isinf(table[2])
                or isinf(table[3])):
            return
        # twice, as replaced entries can complete a row or column that was tested before
        for _ in range(2):
            self._absorb(table, 0, 1, 2, first, self._big)
            self._absorb(table, 2, 3, -2, first, -self._big)
            self._absorb(table, 0, 2, 1, second, self._big)
            self._absorb(table, 1, 3, -1, second, -self._big)
        for k in range(4):
            if isinf(table[k]):
                table[k] = -self._big
        # If all four pairs of labels are forbidden, `_score` returns -inf for every
        # labeling: the capacities do not matter, and large ones would lose digits.
        if table[0] == table[3] == table[1] == table[2] == -self._big:
            for k in range(4):
                table[k] = 0.0

    @cython.final
    cdef void _absorb(self, double* table, int entry, int partner, int other,
                      Py_ssize_t variable, double capacity) noexcept nogil:
        """Forbid a label by terminal capacity if both entries of the label are -inf.

        The entries of the variable's other label are at distance `other`.
        """
        if isinf(table[entry]) and isinf(table[partner]):
            self._terminal[variable] += capacity
            table[entry] = table[entry + other]
            table[partner] = table[partner + other]

    @cython.final
    cdef void _store_flow(self) noexcept nogil:
        """Store the flow between variables for the next problem."""
        # `_fill_edge` has stored the capacities of the forward arcs in `_flow`
        cdef Py_ssize_t edge
        for edge in range(self._m):
            self._flow[edge] -= self._residual[self._arc_of[edge]]

    @cython.final
    cdef void _read_labels(self, int32_t* labels) noexcept nogil:
        """Write label 1 for the variables on the source's side of the cut."""
        cdef Py_ssize_t variable
        # free variables may be on either side; label 0 gives the smallest source side
        for variable in range(self._n):
            labels[variable] = self._from_source(variable)

    @cython.final
    cdef double _score(self, const int32_t* labels) noexcept nogil:
        """Return the score of a labeling.

        The sum is of scores, as capacities have big numbers in place of -inf.
        """
        cdef Py_ssize_t variable, edge
        cdef double total = 0.0
        for variable in range(self._n):
            total += self._unary[2 * variable + labels[variable]]
        for edge in range(self._m):
            total += self._pairwise[self._step * edge
                                    + 2 * labels[self._ends[2 * edge]]
                                    + labels[self._ends[2 * edge + 1]]]
        return total
