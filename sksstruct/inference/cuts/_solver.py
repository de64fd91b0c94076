"""Solvers of binary pairwise graphs by minimum cuts."""

import math
from contextlib import contextmanager
from threading import Lock

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference._checks import check_edges, check_scores, convert_scores
from sksstruct.inference.cuts._mincut import CutKernel, copied
from sksstruct.inference.cuts._topk import CutSearch
from sksstruct.inference.search._best_first import found_by


def copy_checked(name, scores):
    """Return a copy of scores, the sum of finite |scores|, and whether all are finite.

    Raises ValueError for NaN and +inf.
    """
    copy = np.empty(scores.shape)
    total = copied(np.ascontiguousarray(scores), copy)
    # a finite sum proves that no score is infinite or NaN
    if math.isfinite(total):
        return copy, total, True
    check_scores(name, scores)
    return copy, np.abs(copy[np.isfinite(copy)]).sum(), False


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
    where all best labelings have label 1. Arithmetic is in double precision. The
    algorithm of Boykov and Kolmogorov [1]_ finds the flow, which is reused as in Kohli
    and Torr [2]_.

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

    def __init__(self, edges: ArrayLike, n_variables: int | None = None) -> None:
        # checked before the maximum is taken: edges may be anything that a user passes
        if n_variables is None:
            n_variables = 1 + int(check_edges(edges, 2**31).max(initial=0))
        if (
            isinstance(n_variables, bool)
            or not isinstance(n_variables, int | np.integer)
            or n_variables < 1
        ):
            raise ValueError(
                f"n_variables must be an integer of at least 1, got {n_variables!r}"
            )
        super().__init__(check_edges(edges, n_variables), n_variables)
        self._lock = Lock()
        # whether a problem is loaded; False after an error of `_load`
        self._is_loaded = False

    def solve(self, unary: ArrayLike, pairwise: ArrayLike) -> tuple[np.ndarray, float]:
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
            has label 1 only where all best labelings have label 1.
        score : float
            Score of the labeling; ``-inf`` if every labeling is forbidden.

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
            self._cut()
            return self._labeling()

    def max_marginals(self) -> np.ndarray:
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
        if not self._is_loaded:
            raise ValueError("max_marginals needs a problem: call solve first")
        n = self.n_variables
        labeling, score = self._labeling()
        out = np.full((n, 2), -np.inf)
        # forbidden labelings have no meaningful max-marginals
        if score == -np.inf:
            return out
        out[np.arange(n), labeling] = score
        snapshot = np.empty(2 * len(self.edges) + 3 * n)
        self._change_each(labeling, np.empty(n, dtype=np.int32), snapshot, out)
        return out

    def _best(self, unary, pairwise, k):
        """Return up to k best labelings, as rows; keep the flow of the best one."""
        with self._alone():
            self._load(unary, pairwise)
            self._cut()
            n = self.n_variables
            search = CutSearch(
                self, np.empty((3, n), dtype=np.int32), np.zeros(n, dtype=np.intp)
            )
            return found_by(search, k)

    @contextmanager
    def _alone(self):
        """Lock the solver; raise RuntimeError if another thread is using the solver."""
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "this MinCut is solving another problem: use one for each thread"
            )
        try:
            yield
        finally:
            self._lock.release()

    def _load(self, unary, pairwise):
        """Check scores; compute capacities from the scores and from the stored flow."""
        # after an error below, the scores do not match the capacities
        self._is_loaded = False
        unary, pairwise = self._check(unary, pairwise)
        unary, of_unary, _ = copy_checked("unary", unary)
        pairwise, of_pairwise, finite = copy_checked("pairwise", pairwise)
        # a shared table is counted once per edge
        if len(pairwise) == 1:
            of_pairwise *= max(len(self.edges), 1)
        # larger than the difference of the scores of any two labelings: as a cost,
        # `big` is in no best labeling that is allowed
        big = 4.0 * (of_unary + of_pairwise + 1.0)
        if not math.isfinite(big):
            raise ValueError(
                "unary and pairwise have scores whose sum is too large for float64: "
                "scale them"
            )
        refused = self._fill(unary, pairwise, big, not finite)
        if refused >= 0:
            first, second = self.edges[refused]
            shown = pairwise[0 if len(pairwise) == 1 else refused].tolist()
            raise ValueError(
                f"edges[{refused}], between variables {first} and {second}, is not "
                f"submodular: its scores {shown} favor different labels; the sum of "
                "the diagonal must not be less than that of the other two"
            )
        self._is_loaded = True

    def _check(self, unary, pairwise):
        """Return scores of the right shapes, with one table or one for each edge."""
        n, m = self.n_variables, len(self.edges)
        unary = convert_scores("unary", unary)
        pairwise = np.zeros((2, 2)) if pairwise is None and not m else pairwise
        pairwise = convert_scores("pairwise", pairwise)
        if unary.shape != (n, 2):
            raise ValueError(f"unary must have shape {(n, 2)}, got {unary.shape}")
        if pairwise.shape != (2, 2) and pairwise.shape != (m, 2, 2) and m:
            raise ValueError(
                f"pairwise must have shape (2, 2) or {(m, 2, 2)}, got {pairwise.shape}"
            )
        # without edges tables of any shape are accepted and not used
        if not m:
            check_scores("pairwise", pairwise)
            pairwise = np.zeros((2, 2))
        return unary, pairwise.reshape(-1, 2, 2)

    def _labeling(self):
        """Return the labeling that the search trees imply, and its score."""
        labeling = np.empty(self.n_variables, dtype=np.int32)
        return labeling, self._label(labeling)


def min_cut(
    unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike
) -> tuple[np.ndarray, float]:
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
        label 1 only where all best labelings have label 1.
    score : float
        Score of the labeling; ``-inf`` if every labeling is forbidden.

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


def min_cut_max_marginals(
    unary: ArrayLike, edges: ArrayLike, pairwise: ArrayLike
) -> np.ndarray:
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
        As `min_cut` raises.

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
    """Return the solver of one problem, and the result of `solve`."""
    unary = convert_scores("unary", unary, ndim=2)
    if not len(unary) or unary.shape[1] != 2:
        raise ValueError(
            f"unary must have shape (n_variables, 2), got shape {unary.shape}"
        )
    solver = MinCut(edges, len(unary))
    return solver, solver.solve(unary, pairwise)
