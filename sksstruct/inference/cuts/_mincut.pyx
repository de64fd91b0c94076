"""Max-product on binary pairwise graphs by minimum cuts.

The kernel finds the labeling y of binary variables with the highest score. The score is
the sum of a number for each label and of an entry of a table s for each edge (u, v). A
table is supermodular, and its energy -s submodular, if s00 + s11 >= s01 + s10. Up to a
constant the energy is then

    a y_u + b y_v + q y_u (1 - y_v) + p (1 - y_u) y_v,   p, q >= 0
    p + q = s00 + s11 - s01 - s10,   a = s00 - s10 - q,   b = s00 - s01 - p

(Kolmogorov and Zabih, 2004; Algorithm 11 of Pillutla et al., 2018, with costs that sum
to the energy). So labelings are cuts: label 1 is the side of the source, the arc u -> v
has capacity q (`forward`) and v -> u has p (`backward`), and each variable has the
score of label 1 over label 0, less what its edges charge it for a and b, as an arc from
the source, or to the sink where it is negative.

The flow between variables is kept. For other scores it is reduced to the new
capacities, and the imbalance moves to the variables. The search then starts close to
its end (Kohli and Torr, 2005). Max-marginals continue from the search trees themselves
(Kohli and Torr, 2008).

The cut closest to the source is used: label 1 only where every best labeling has it.
"""

from contextlib import contextmanager
from threading import Lock

import numpy as np

cimport cython
from libc.math cimport INFINITY, fabs, isfinite, isinf
from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.inference.cuts._maxflow cimport FlowNode, FlowTrees

from sksstruct.inference._checks import check_edges, check_scores, convert_scores

# Tables may miss supermodularity by this part of their size. Tables that are sums or
# products of others, as learned ones are, miss it by their last digits.
cdef double SLACK = 1e-10


cdef double copy_scores(Py_ssize_t n, const double* scores,
                        double* out) noexcept nogil:
    """Copy scores, and add up their sizes."""
    cdef Py_ssize_t i, k
    # Four sums, which need not wait for each other.
    cdef double[4] totals = [0.0, 0.0, 0.0, 0.0]
    for i in range(0, n - 3, 4):
        for k in range(4):
            out[i + k] = scores[i + k]
            totals[k] += fabs(scores[i + k])
    for i in range(n - n % 4, n):
        out[i] = scores[i]
        totals[0] += fabs(scores[i])
    return (totals[0] + totals[1]) + (totals[2] + totals[3])


def own_scores(name, scores):
    """Return a copy of scores, the sum of finite |scores|, and whether all are finite.

    Raises ValueError for NaN and +inf.
    """
    cdef const double[::1] given = np.ascontiguousarray(scores).reshape(-1)
    cdef Py_ssize_t size = given.shape[0]
    # one more, so that there is always a first one
    copy = np.empty(size + 1)
    cdef double[::1] out = copy
    cdef double total = 0.0
    if size:
        total = copy_scores(size, &given[0], &out[0])
    copy = copy[:size].reshape(scores.shape)
    # Nothing is infinite, and nothing NaN, if the sum is neither.
    if isfinite(total):
        return copy, total, True
    check_scores(name, scores)
    return copy, np.abs(copy[np.isfinite(copy)]).sum(), False


cdef class Snapshot:
    """Capacities and search trees at one moment, to be restored later."""

    def __init__(self, FlowTrees trees):
        self._residual = np.array(trees._residual)
        self._terminal = np.array(trees._terminal)
        self._nodes = np.array(trees._nodes)

    cdef void save(self, FlowTrees trees) noexcept nogil:
        """Take everything as it is now."""
        cdef Py_ssize_t n = self._terminal.shape[0]
        memcpy(&self._residual[0], &trees._residual[0],
               self._residual.shape[0] * sizeof(double))
        memcpy(&self._terminal[0], &trees._terminal[0], n * sizeof(double))
        memcpy(&self._nodes[0], &trees._nodes[0], n * sizeof(FlowNode))

    cdef void restore(self, FlowTrees trees) noexcept nogil:
        """Put everything back.

        Lists of active variables and orphans are empty between two searches; `_now`
        goes on, so that all times that are put back are past.
        """
        cdef Py_ssize_t n = self._terminal.shape[0]
        memcpy(&trees._residual[0], &self._residual[0],
               self._residual.shape[0] * sizeof(double))
        memcpy(&trees._terminal[0], &self._terminal[0], n * sizeof(double))
        memcpy(&trees._nodes[0], &self._nodes[0], n * sizeof(FlowNode))


cdef class CutKernel(FlowTrees):
    """Scores as capacities, on a graph with its flow."""

    def __init__(self, edges, n_variables=None):
        # Checked before they are counted: edges may be anything that a user gives.
        if n_variables is None:
            n_variables = 1 + int(check_edges(edges, 2**31).max(initial=0))
        if isinstance(n_variables, bool) or not isinstance(
                n_variables, (int, np.integer)) or n_variables < 1:
            raise ValueError(
                f"n_variables must be an integer of at least 1, got {n_variables!r}")
        FlowTrees.__init__(self, check_edges(edges, n_variables), n_variables)
        self._lock = Lock()

    def solve(self, unary, pairwise):
        """Find the best labeling.

        Parameters
        ----------
        unary : array-like of shape (n_variables, 2)
            Scores of labels 0 and 1; ``-inf`` forbids a label.
        pairwise : array-like of shape (n_edges, 2, 2) or (2, 2)
            Table of scores of each edge, or one for all edges. Rows are labels of the
            first variable of the edge. ``-inf`` forbids a pair of labels.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            Label of each variable. If several labelings are best, it is the one that
            has label 1 only where all of them have it.
        score : float
            Its score; ``-inf`` if every labeling is forbidden.

        Raises
        ------
        ValueError
            If the shapes do not match, an entry is NaN or ``+inf``, or the table of an
            edge is not supermodular; the error names the edge.
        RuntimeError
            If another thread is using the object.
        """
        with self._alone():
            self._load(unary, pairwise)
            with nogil:
                # The trees are new for each problem; only the flow is kept.
                self._start()
                self._maximize()
                self._keep()
            return self._labeling()

    def max_marginals(self):
        """Compute the max-marginals of the problem that was solved last.

        Returns
        -------
        max_marginals : ndarray of shape (n_variables, 2)
            Score of the best labeling that has each label at each variable; ``-inf`` if
            all such labelings are forbidden.

        Raises
        ------
        ValueError
            If no problem has been solved yet.
        """
        with self._alone():
            return self._max_marginals()

    def _max_marginals(self):
        if self._unary is None:
            raise ValueError("max_marginals needs a problem: call solve first")
        labeling, score = self._labeling()
        cdef const int32_t[::1] labels = labeling
        cdef int32_t[::1] changed = np.empty(self._n, dtype=np.int32)
        out = np.full((self._n, 2), -np.inf)
        out[np.arange(self._n), labeling] = score
        cdef double[:, ::1] table = out
        cdef const double[:, ::1] unary = self._unary
        cdef const double[:, :, ::1] pairwise = self._pairwise
        cdef Snapshot solved = Snapshot(self)
        with nogil:
            self._change_each(labels, unary, pairwise, solved, changed, table)
        # Where every labeling is forbidden the scores that came out mean nothing.
        if score == -INFINITY:
            out[:] = -np.inf
        return out

    @cython.final
    cdef void _change_each(
        self, const int32_t[::1] labels, const double[:, ::1] unary,
        const double[:, :, ::1] pairwise, Snapshot solved, int32_t[::1] changed,
        double[:, ::1] table
    ) noexcept nogil:
        """Write the score of the best labeling with each variable's other label."""
        cdef Py_ssize_t variable
        # From the trees of the best labeling a variable's other label is a small step:
        # most of the flow stays as it is. Copying them back takes the step back.
        for variable in range(self._n):
            self._force(variable, -self._big if labels[variable] else self._big)
            self._maximize()
            # If the label is forbidden, nothing makes the variable take it.
            if self._from_source(variable) != labels[variable]:
                self._read_labels(changed)
                table[variable, 1 - labels[variable]] = self._score(
                    changed, unary, pairwise)
            solved.restore(self)

    @contextmanager
    def _alone(self):
        """Refuse to solve two problems at the same time."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "this MinCut is solving another problem: use one for each thread")
        try:
            yield
        finally:
            self._lock.release()

    def _load(self, unary, pairwise):
        """Check scores; compute capacities from them and the flow that was kept."""
        # An error must not leave scores that capacities no longer belong to.
        self._unary = None
        unary, pairwise = self._check(unary, pairwise)
        unary, of_unary, _ = own_scores("unary", unary)
        pairwise, of_pairwise, finite = own_scores("pairwise", pairwise)
        # A shared table counts for every edge.
        if len(pairwise) == 1:
            of_pairwise *= max(self._m, 1)
        # More than any two labelings can differ by, so that it is never worth paying.
        self._big = 4.0 * (of_unary + of_pairwise + 1.0)
        if not np.isfinite(self._big):
            raise ValueError("the scores are too large for floating-point arithmetic")
        cdef const double[:, ::1] scores = unary
        cdef const double[:, :, ::1] tables = pairwise
        cdef bint forbids = not finite
        cdef Py_ssize_t refused
        with nogil:
            refused = self._fill(scores, tables, forbids)
        if refused >= 0:
            first, second = self._ends[refused, 0], self._ends[refused, 1]
            shown = pairwise[0 if len(pairwise) == 1 else refused].tolist()
            raise ValueError(
                f"edges[{refused}], between variables {first} and {second}, is not "
                f"submodular: its scores {shown} favor different labels; the sum of "
                "the diagonal must not be less than that of the other two")
        self._unary, self._pairwise = unary, pairwise

    def _check(self, unary, pairwise):
        """Return scores of the right shapes, with one table or one for each edge."""
        n, m = self._n, self._m
        unary = convert_scores("unary", unary)
        pairwise = np.zeros((2, 2)) if pairwise is None and not m else pairwise
        pairwise = convert_scores("pairwise", pairwise)
        if unary.shape != (n, 2):
            raise ValueError(f"unary must have shape {(n, 2)}, got {unary.shape}")
        if pairwise.shape != (2, 2) and pairwise.shape != (m, 2, 2) and m:
            raise ValueError(
                f"pairwise must have shape (2, 2) or {(m, 2, 2)}, got {pairwise.shape}")
        # Without edges tables of any shape are accepted, and are not used.
        if not m:
            check_scores("pairwise", pairwise)
            pairwise = np.zeros((2, 2))
        return unary, pairwise.reshape(-1, 2, 2)

    @cython.final
    cdef Py_ssize_t _fill(self, const double[:, ::1] scores,
                          const double[:, :, ::1] tables, bint forbids) noexcept nogil:
        """Make all capacities; returns an edge that is not submodular, or -1.

        forbids: whether the tables may have entries that are -inf.
        """
        cdef Py_ssize_t variable, edge
        cdef const double* table
        cdef double soft[4]
        cdef bint shared = tables.shape[0] == 1
        for variable in range(self._n):
            self._terminal[variable] = self._difference(
                scores[variable, 1], scores[variable, 0])
        for edge in range(self._m):
            table = &tables[0 if shared else edge, 0, 0]
            if forbids:
                # a copy, to write on; the terminals of both ends are set by now
                memcpy(soft, table, 4 * sizeof(double))
                self._soften(soft, self._ends[edge, 0], self._ends[edge, 1])
                table = soft
            if not self._fill_edge(edge, table):
                return edge
        return -1

    @cython.final
    cdef bint _fill_edge(self, Py_ssize_t edge, const double* table) noexcept nogil:
        """Make the capacities of an edge, and charge its ends with what they leave.

        The table is s00, s01, s10, s11. False if it is not supermodular.
        """
        # p + q of the header, and what it has left for the first and second variable
        cdef double both = table[0] + table[3] - table[1] - table[2]
        cdef double first = table[0] - table[2], second = table[0] - table[1]
        cdef double forward, backward, flow
        cdef int32_t arc = self._arc_of[edge]
        # Rounding can leave a little less than nothing; more is refused.
        if both < 0.0:
            if both < -SLACK * (fabs(table[0]) + fabs(table[1]) + fabs(table[2])
                                + fabs(table[3])):
                return False
            both = 0.0
        # Any split of p + q is exact; this one leaves as little as can be between the
        # first variable and the terminals.
        forward = 0.0 if first < 0.0 else (both if first > both else first)
        backward = both - forward
        # The flow kept, as far as it fits. It enters at one end and leaves at the
        # other, which the terminals make up for: no cut costs more or less for it.
        flow = self._flow[edge]
        flow = -backward if flow < -backward else (forward if flow > forward else flow)
        self._residual[arc] = forward - flow
        self._residual[self._arcs[arc].sister] = backward + flow
        # For `_keep`: what the forward arc has left without flow. The flow itself is in
        # the residual capacities from here on.
        self._flow[edge] = forward
        self._terminal[self._ends[edge, 0]] -= (first - forward) + flow
        self._terminal[self._ends[edge, 1]] -= (second - backward) - flow
        return True

    @cython.final
    cdef double _difference(self, double one, double zero) noexcept nogil:
        """Score of label 1 over label 0."""
        # Two forbidden labels: either will do, as the score is -inf with both.
        if isinf(one):
            return 0.0 if isinf(zero) else -self._big
        return self._big if isinf(zero) else one - zero

    @cython.final
    cdef void _soften(self, double* table, Py_ssize_t first,
                      Py_ssize_t second) noexcept nogil:
        """Replace -inf by a score too low to be chosen; keep the table supermodular.

        A label forbidden together with both labels of the other variable is forbidden
        by its own; the entries are then free, and copied from the other label.
        """
        cdef Py_ssize_t k, _
        if not (isinf(table[0]) or isinf(table[1]) or isinf(table[2])
                or isinf(table[3])):
            return
        # Twice, as copies can complete a row or column that was passed already.
        for _ in range(2):
            self._absorb(table, 0, 1, 2, first, self._big)
            self._absorb(table, 2, 3, -2, first, -self._big)
            self._absorb(table, 0, 2, 1, second, self._big)
            self._absorb(table, 1, 3, -1, second, -self._big)
        for k in range(4):
            if isinf(table[k]):
                table[k] = -self._big
        # All forbidden: the score of any labeling says so, and big numbers in every
        # entry would only cost digits.
        if table[0] == table[3] == table[1] == table[2] == -self._big:
            for k in range(4):
                table[k] = 0.0

    @cython.final
    cdef void _absorb(self, double* table, int entry, int partner, int other,
                      Py_ssize_t variable, double capacity) noexcept nogil:
        """Forbid a label by terminal capacity if both its entries are -inf.

        The entries of the variable's other label are `other` further.
        """
        if isinf(table[entry]) and isinf(table[partner]):
            self._terminal[variable] += capacity
            table[entry] = table[entry + other]
            table[partner] = table[partner + other]

    @cython.final
    cdef void _keep(self) noexcept nogil:
        """The flow between variables, for the next problem."""
        # `_fill_edge` stored the capacities of the forward arcs here.
        cdef Py_ssize_t edge
        for edge in range(self._m):
            self._flow[edge] -= self._residual[self._arc_of[edge]]

    def _labeling(self):
        """Return the labeling that the trees imply, and its score."""
        labeling = np.empty(self._n, dtype=np.int32)
        self._read_labels(labeling)
        return labeling, self._score(labeling, self._unary, self._pairwise)

    @cython.final
    cdef void _read_labels(self, int32_t[::1] labels) noexcept nogil:
        """Label 1 for the source's side of the cut."""
        cdef Py_ssize_t variable
        # Free variables could be on either side; label 0 makes the source's smallest.
        for variable in range(self._n):
            labels[variable] = self._from_source(variable)

    @cython.final
    cdef double _score(self, const int32_t[::1] labels, const double[:, ::1] unary,
                       const double[:, :, ::1] pairwise) noexcept nogil:
        """Score of a labeling.

        From the scores themselves: capacities have big numbers in the place of -inf.
        """
        cdef Py_ssize_t variable, edge
        cdef bint shared = pairwise.shape[0] == 1
        cdef double total = 0.0
        for variable in range(self._n):
            total += unary[variable, labels[variable]]
        for edge in range(self._m):
            total += pairwise[0 if shared else edge, labels[self._ends[edge, 0]],
                              labels[self._ends[edge, 1]]]
        return total


class MinCut(CutKernel):
    """Solver for the best labelings of binary variables whose pairs favor agreement.

    The graph may have cycles. The solver keeps the flow of one problem for the next.
    Solving several problems on the same graph with one object is therefore faster than
    solving each of them from scratch.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2)
        Pairs of variables. Two variables may have several edges.
    n_variables : int, default=None
        Number of variables; None: the largest variable of an edge, plus one.

    Notes
    -----
    If several labelings are best, the solver returns the one that has label 1 only
    where all of them have it. Arithmetic is in double precision. The algorithm of
    Boykov and Kolmogorov [1]_ finds the flow. It is reused as in Kohli and Torr [2]_.

    References
    ----------
    .. [1] Y. Boykov and V. Kolmogorov, "An experimental comparison of min-cut/max-flow
       algorithms for energy minimization in vision", PAMI 26(9), 2004.
    .. [2] P. Kohli and P. H. S. Torr, "Efficiently solving dynamic Markov random fields
       using graph cuts", ICCV 2005.

    Examples
    --------
    >>> from sksstruct.inference import MinCut
    >>> solver = MinCut([(0, 1), (1, 2)])
    >>> labeling, score = solver.solve([[0, 3], [1, 0], [2, 0]], [[1, 0], [0, 1]])
    >>> labeling.tolist(), score
    ([1, 0, 0], 7.0)
    """

    def __init__(self, edges, n_variables=None):
        super().__init__(edges, n_variables)


def min_cut(unary, edges, pairwise):
    """Find the best labeling of binary variables whose pairs favor agreement.

    The graph may have cycles.

    Parameters
    ----------
    unary : array-like of shape (n_variables, 2)
        Scores of labels 0 and 1; ``-inf`` forbids a label.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables.
    pairwise : array-like of shape (n_edges, 2, 2) or (2, 2)
        Table of scores s of each edge, or one for all edges. Each table must be
        supermodular: ``s00 + s11 >= s01 + s10``. The energy, which is minus the score,
        is then submodular.

    Returns
    -------
    labeling : ndarray of shape (n_variables,), int32
        Label of each variable. If several labelings are best, it is the one that has
        label 1 only where all of them have it.
    score : float
        Its score; ``-inf`` if every labeling is forbidden.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or ``+inf``, or the table of an edge
        is not supermodular; the error names the edge.

    See Also
    --------
    MinCut : Solver that keeps the flow for the next problem on the same graph.

    References
    ----------
    V. Kolmogorov and R. Zabih, "What energy functions can be minimized via graph
    cuts?", PAMI 26(2), 2004.

    Examples
    --------
    >>> from sksstruct.inference import min_cut
    >>> labeling, score = min_cut([[0, 3], [1, 0]], [(0, 1)], [[5, 0], [0, 5]])
    >>> labeling.tolist(), score
    ([1, 1], 8.0)
    """
    return _solve_alone(unary, edges, pairwise)[1]


def min_cut_max_marginals(unary, edges, pairwise):
    """Compute max-marginals of binary variables whose pairs favor agreement.

    Parameters
    ----------
    unary, edges, pairwise : array-like
        See `min_cut`.

    Returns
    -------
    max_marginals : ndarray of shape (n_variables, 2)
        Score of the best labeling that has each label at each variable; ``-inf`` if all
        such labelings are forbidden.

    Raises
    ------
    ValueError
        In the cases of `min_cut`.

    References
    ----------
    P. Kohli and P. H. S. Torr, "Measuring uncertainty in graph cut solutions",
    Computer Vision and Image Understanding 112(1), 2008.

    Examples
    --------
    >>> from sksstruct.inference import min_cut_max_marginals
    >>> unary, table = [[0, 3], [1, 0]], [[5, 0], [0, 5]]
    >>> min_cut_max_marginals(unary, [(0, 1)], table).tolist()
    [[6.0, 8.0], [6.0, 8.0]]
    """
    return _solve_alone(unary, edges, pairwise)[0].max_marginals()


def _solve_alone(unary, edges, pairwise):
    """Return a solver for one problem, and the labeling and score that it found."""
    unary = convert_scores("unary", unary, ndim=2)
    if not len(unary) or unary.shape[1] != 2:
        raise ValueError(
            f"unary must have shape (n_variables, 2), got shape {unary.shape}")
    solver = MinCut(edges, len(unary))
    return solver, solver.solve(unary, pairwise)
