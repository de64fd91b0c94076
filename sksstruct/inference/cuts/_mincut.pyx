"""Max-product on binary pairwise graphs by minimum cuts.

A table of scores s is supermodular, and its energy -s submodular, if
s00 + s11 >= s01 + s10. Up to a constant the energy -s is then

    a y_u + b y_v + q y_u (1 - y_v) + p (1 - y_u) y_v,   p, q >= 0
    p + q = s00 + s11 - s01 - s10,   a = s00 - s10 - q,   b = s00 - s01 - p

(Algorithm 11 of Pillutla et al., 2018, with costs that sum to the energy), so that
labelings are cuts: label 1 on the side of the source, an arc u -> v of capacity
q, v -> u of capacity p, and for each variable the score of label 1 over label 0 as an
arc from the source, or to the sink where it is negative.

The flow between variables is kept: for other scores it is cut down to the new
capacities, and what it does not balance any more is put on the variables, so that the
search starts close to the end (Kohli and Torr, 2005). Max-marginals go on from the
search trees themselves.

The cut nearest to the source is taken: label 1 only where every best labeling has it.
"""

from contextlib import contextmanager
from threading import Lock

import numpy as np

from libc.math cimport INFINITY, fabs, isinf
from libc.stdint cimport int8_t, int32_t
from libc.string cimport memcpy

from sksstruct.inference.cuts._maxflow cimport FlowTrees

from sksstruct.inference._checks import check_edges, check_scores

# Tables may miss supermodularity by this part of their size: rounding.
cdef double SLACK = 1e-10


cdef class CutKernel(FlowTrees):
    """Scores as capacities, on a graph with its flow."""

    cdef double _big
    cdef object _lock, _unary, _pairwise

    def __init__(self, edges, n_variables=None):
        if n_variables is None:
            n_variables = 1 + int(check_edges(edges, 2**31).max(initial=0))
        if isinstance(n_variables, bool) or not isinstance(
                n_variables, (int, np.integer)) or n_variables < 1:
            raise ValueError(
                f"n_variables must be an integer of at least 1, got {n_variables!r}")
        FlowTrees.__init__(self, check_edges(edges, n_variables), n_variables)
        self._lock = Lock()

    def solve(self, unary, pairwise):
        """Best labeling.

        Parameters
        ----------
        unary : array-like of shape (n_variables, 2)
            Scores of labels 0 and 1; ``-inf`` forbids a label.
        pairwise : array-like of shape (n_edges, 2, 2) or (2, 2)
            Table of scores of each edge, or one for all: the labels of the edge's
            first variable are the rows. ``-inf`` forbids a pair.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            Labels. Among several best labelings the one with label 1 only where all of
            them have it.
        score : float
            Its score; ``-inf`` if every labeling is forbidden.

        Raises
        ------
        ValueError
            If the shapes do not fit, an entry is NaN or ``+inf``, or the table of an
            edge prefers its variables to differ.
        RuntimeError
            If another thread uses the object at the same time.
        """
        with self._alone():
            self._load(unary, pairwise)
            with nogil:
                self._start()
                self._maximise()
                self._keep()
            return self._labeling()

    def max_marginals(self):
        """Max-marginals of the problem solved last, by a cut for every variable.

        Returns
        -------
        max_marginals : ndarray of shape (n_variables, 2)
            For each variable and label the score of the best labeling that has it;
            ``-inf`` where all of them are forbidden.

        Raises
        ------
        ValueError
            If there is no problem solved yet.
        """
        with self._alone():
            return self._max_marginals()

    def _max_marginals(self):
        if self._unary is None:
            raise ValueError("max_marginals needs a problem: call solve first")
        cdef Py_ssize_t v, n = self._n
        labeling, score = self._labeling()
        cdef int32_t[::1] labels = labeling
        out = np.full((n, 2), -np.inf)
        out[np.arange(n), labeling] = score
        cdef double[:, ::1] table = out
        cdef const double[:, ::1] unary = self._unary
        cdef const double[:, :, ::1] pairwise = self._pairwise
        cdef bint shared = len(self._pairwise) == 1
        state = self._state()
        copies = [np.array(array) for array in state]
        cdef double[::1] residual = copies[0], terminal = copies[1]
        cdef int32_t[::1] parent = copies[2], time = copies[3], distance = copies[4]
        cdef int8_t[::1] side = copies[5]
        with nogil:
            for v in range(n):
                # `_force` does nothing that copying these back does not undo
                self._force(v, -self._big if labels[v] else self._big)
                self._maximise()
                if self._from_source(v) != labels[v]:
                    table[v, 1 - labels[v]] = self._value(unary, pairwise, shared)
                if self._m:
                    memcpy(&self._residual[0], &residual[0], 2 * self._m * 8)
                memcpy(&self._terminal[0], &terminal[0], n * 8)
                memcpy(&self._parent[0], &parent[0], n * 4)
                memcpy(&self._time[0], &time[0], n * 4)
                memcpy(&self._distance[0], &distance[0], n * 4)
                memcpy(&self._side[0], &side[0], n)
        if score == -INFINITY:
            out[:] = -np.inf
        return out

    @contextmanager
    def _alone(self):
        """The flow and the trees are of one problem at a time."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "this MinCut is solving another problem: use one for each thread")
        try:
            yield
        finally:
            self._lock.release()

    def _state(self):
        return [
            np.asarray(self._residual), np.asarray(self._terminal),
            np.asarray(self._parent), np.asarray(self._time),
            np.asarray(self._distance), np.asarray(self._side),
        ]

    def _load(self, unary, pairwise):
        """Check scores; capacities from them and from the flow kept."""
        cdef Py_ssize_t n = self._n, m = self._m, e
        self._unary = None
        # copies, for max_marginals
        unary = np.array(check_scores("unary", unary), order="C")
        pairwise = np.zeros((2, 2)) if pairwise is None and not m else pairwise
        pairwise = np.array(check_scores("pairwise", pairwise), order="C")
        if unary.shape != (n, 2):
            raise ValueError(f"unary must have shape {(n, 2)}, got {unary.shape}")
        if pairwise.shape != (2, 2) and pairwise.shape != (m, 2, 2) and m:
            raise ValueError(
                f"pairwise must have shape (2, 2) or {(m, 2, 2)}, got {pairwise.shape}")
        if not m:
            pairwise = np.zeros((2, 2))
        pairwise = pairwise.reshape(-1, 2, 2)
        finite = [np.abs(x[np.isfinite(x)]).sum() for x in (unary, pairwise)]
        # More than any two labelings can differ by, so that it is never worth paying.
        if len(pairwise) == 1:
            finite[1] *= max(m, 1)
        self._big = 4.0 * (finite[0] + finite[1] + 1.0)
        if not np.isfinite(self._big):
            raise ValueError("the scores are too large for floating-point arithmetic")
        cdef const double[:, ::1] scores = unary
        cdef const double[:, :, ::1] tables = pairwise
        cdef bint shared = len(pairwise) == 1
        with nogil:
            e = self._fill(scores, tables, shared)
        if e >= 0:
            u, v = self._ends[e, 0], self._ends[e, 1]
            shown = pairwise[0 if shared else e].tolist()
            raise ValueError(
                f"edges[{e}], between variables {u} and {v}, is not submodular: its "
                f"scores {shown} favour different labels; the sum of the diagonal must "
                "not be less than that of the other two")
        self._unary, self._pairwise = unary, pairwise

    cdef Py_ssize_t _fill(self, const double[:, ::1] scores,
                          const double[:, :, ::1] tables, bint shared) noexcept nogil:
        """Capacities from scores and the flow kept; an edge that is refused, or -1."""
        cdef Py_ssize_t e, u, v
        cdef double p, q, a, b, flow
        cdef double table[4]
        cdef int32_t arc
        for v in range(self._n):
            self._terminal[v] = self._difference(scores[v, 1], scores[v, 0])
        for e in range(self._m):
            u, v = self._ends[e, 0], self._ends[e, 1]
            memcpy(table, &tables[0 if shared else e, 0, 0], 4 * sizeof(double))
            self._soften(table, u, v)
            q = table[0] + table[3] - table[1] - table[2]
            if q < 0.0:
                if q < -SLACK * (fabs(table[0]) + fabs(table[1]) + fabs(table[2])
                                 + fabs(table[3])):
                    return e
                q = 0.0
            # q as close as can be to what leaves nothing for the variables
            p = q
            a = table[0] - table[2]
            b = table[0] - table[1]
            q = 0.0 if a < 0.0 else (p if a > p else a)
            p -= q
            # the flow kept, as far as it fits
            flow = self._flow[e]
            flow = -p if flow < -p else (q if flow > q else flow)
            arc = self._arc[e]
            self._residual[arc] = q - flow
            self._residual[self._sister[arc]] = p + flow
            self._flow[e] = q  # for _keep: residual of the forward arc without flow
            self._terminal[u] -= (a - q) + flow
            self._terminal[v] -= (b - p) - flow
        return -1

    cdef double _difference(self, double one, double zero) noexcept nogil:
        """Score of label 1 over label 0."""
        if isinf(one):
            return 0.0 if isinf(zero) else -self._big
        return self._big if isinf(zero) else one - zero

    cdef void _soften(self, double* table, Py_ssize_t u,
                      Py_ssize_t v) noexcept nogil:
        """Replace -inf by what is never worth taking, keeping the table supermodular.

        A label forbidden together with both labels of the other variable is forbidden
        by its own; the entries are then free, and copied from the other label.
        """
        cdef Py_ssize_t k, _
        for _ in range(2):
            if isinf(table[0]) and isinf(table[1]):
                self._terminal[u] += self._big
                table[0], table[1] = table[2], table[3]
            if isinf(table[2]) and isinf(table[3]):
                self._terminal[u] -= self._big
                table[2], table[3] = table[0], table[1]
            if isinf(table[0]) and isinf(table[2]):
                self._terminal[v] += self._big
                table[0], table[2] = table[1], table[3]
            if isinf(table[1]) and isinf(table[3]):
                self._terminal[v] -= self._big
                table[1], table[3] = table[0], table[2]
        for k in range(4):
            if isinf(table[k]):
                table[k] = -self._big
        # all forbidden: the score of any labeling says so
        if table[0] == table[3] == table[1] == table[2] == -self._big:
            for k in range(4):
                table[k] = 0.0

    cdef void _keep(self) noexcept nogil:
        """The flow between variables, for the next problem."""
        cdef Py_ssize_t e
        for e in range(self._m):
            self._flow[e] -= self._residual[self._arc[e]]

    def _labeling(self):
        cdef Py_ssize_t v
        labeling = np.empty(self._n, dtype=np.int32)
        cdef int32_t[::1] labels = labeling
        for v in range(self._n):
            labels[v] = self._from_source(v)
        return labeling, self._value(
            self._unary, self._pairwise, len(self._pairwise) == 1)

    cdef double _value(self, const double[:, ::1] unary,
                       const double[:, :, ::1] pairwise, bint shared) noexcept nogil:
        """Score of the labeling that the trees say."""
        cdef Py_ssize_t v, e, a, b
        cdef double total = 0.0
        for v in range(self._n):
            total += unary[v, self._from_source(v)]
        for e in range(self._m):
            a, b = self._ends[e, 0], self._ends[e, 1]
            a = self._from_source(a)
            b = self._from_source(b)
            total += pairwise[0 if shared else e, a, b]
        return total


class MinCut(CutKernel):
    """Best labelings of binary variables with pairs that like to agree, on any graph.

    Keeps the last flow: problems on the same graph are solved faster one after the
    other than each on its own.

    Parameters
    ----------
    edges : array-like of shape (n_edges, 2)
        Pairs of variables; any graph, also several edges between two variables.
    n_variables : int, default=None
        Number of variables; default: as many as edges name.

    Notes
    -----
    Label 1 is given where every best labeling has it. Arithmetic is in double
    precision; the flow of Boykov and Kolmogorov's algorithm [1]_ is reused as Kohli and
    Torr [2]_ do.

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
    """Best labeling of binary variables with pairs that like to agree, on any graph.

    Parameters
    ----------
    unary : array-like of shape (n_variables, 2)
        Scores of labels 0 and 1; ``-inf`` forbids a label.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables.
    pairwise : array-like of shape (n_edges, 2, 2) or (2, 2)
        Table of scores of each edge, or one for all; ``s00 + s11 >= s01 + s10``, so
        that the energy, which is minus the score, is submodular.

    Returns
    -------
    labeling : ndarray of shape (n_variables,), int32
        Labels. Among several best labelings the one with label 1 only where all of
        them have it.
    score : float
        Its score; ``-inf`` if every labeling is forbidden.

    Raises
    ------
    ValueError
        If the shapes do not fit, an entry is NaN or ``+inf``, or the table of an edge,
        which is named, is not as it must be.

    See Also
    --------
    MinCut : Keeps the flow for the next problem on the same graph.

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
    unary = _two_labels(unary)
    return MinCut(edges, len(unary)).solve(unary, pairwise)


def _two_labels(unary):
    unary = check_scores("unary", unary, ndim=2)
    if not len(unary) or unary.shape[1] != 2:
        raise ValueError(
            f"unary must have shape (n_variables, 2), got shape {unary.shape}")
    return unary


def min_cut_max_marginals(unary, edges, pairwise):
    """Max-marginals of binary variables with pairs that like to agree.

    Parameters
    ----------
    unary : array-like of shape (n_variables, 2)
        Scores of labels 0 and 1; ``-inf`` forbids a label.
    edges : array-like of shape (n_edges, 2)
        Pairs of variables.
    pairwise : array-like of shape (n_edges, 2, 2) or (2, 2)
        Table of scores of each edge, or one for all; see `min_cut`.

    Returns
    -------
    max_marginals : ndarray of shape (n_variables, 2)
        For each variable and label the score of the best labeling that has it.

    Raises
    ------
    ValueError
        As `min_cut` does.

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
    unary = _two_labels(unary)
    solver = MinCut(edges, len(unary))
    solver.solve(unary, pairwise)
    return solver.max_marginals()
