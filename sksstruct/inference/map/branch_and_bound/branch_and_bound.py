"""Branch and bound on soft arc consistent costs."""

from dataclasses import dataclass

from sksstruct.inference.map.branch_and_bound.exact_search import (
    ExactSearch,
    check_entries,
)
from sksstruct.inference.map.core._decode import search_locally, set_marginals
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.utils.progress import Status

# Table entries that one iteration reads, about.
_WORK = 20_000_000


@dataclass(eq=False, repr=False)
class BranchAndBound(MAPSolver):
    """Hybrid best-first branch and bound, which proves that its labeling is optimal.

    The scores of the graph become costs, which are moved between factors and variables
    to improve the bound: first by sweeps through all variables, and then, after every
    decision, by existential directional arc consistency [1]_. States that cannot be
    part of a better labeling are removed. Depth-first searches start from the open node
    with the best bound [2]_. Variables with up to three neighbors are eliminated, and
    connected components are searched separately. If clusters of variables are connected
    by few variables, the search follows a tree of clusters and stores the results for
    each cluster [3]_.

    Use this solver for graphs with small tables whose bound is nearly tight, or that
    have hard constraints. The search can also prove that no labeling is allowed. A time
    limit does not interrupt the first step, which writes out all tables. Pairs and
    conditions that only exclude states become variables of cliques, as in `Auto`.

    Parameters
    ----------
    max_iter : int, default=100000
        Maximum number of iterations, of some million table entries each.
    tol : float, default=1e-6
        A labeling is optimal if its score is within ``tol * max(1, |score|)`` of the
        bound; if all scores are far below 1, any labeling is.

    References
    ----------
    .. [1] S. de Givry, M. Zytnicki, F. Heras and J. Larrosa, "Existential arc
       consistency: getting closer to full arc consistency in weighted CSPs", IJCAI
       2005.
    .. [2] D. Allouche, S. de Givry, G. Katsirelos, T. Schiex and M. Zytnicki, "Anytime
       hybrid best-first search with tree decomposition for weighted CSP", CP 2015.
    .. [3] S. de Givry, T. Schiex and G. Verfaillie, "Exploiting tree decomposition and
       soft local consistency in weighted CSP", AAAI 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.factor_graphs import FactorGraph
    >>> from sksstruct.inference.map import BranchAndBound
    >>> differ = np.where(np.eye(2) == 1, -np.inf, 0.0)
    >>> triangle = FactorGraph(np.zeros((3, 2)), [(0, 1), (1, 2), (2, 0)], differ)
    >>> BranchAndBound().solve(triangle, random_state=0).status
    'infeasible'
    """

    max_iter: int = 100_000
    tol: float = 1e-6

    _pairwise, _joins, _floors = False, True, True

    def _check_graph(self, graph):
        check_entries(graph, "BranchAndBound")

    def _run(self, run):
        search_locally(run, run.problem.best_states())
        search = ExactSearch(run)
        while run.status is None and not search.closed:
            search.advance(_WORK)
            run.report()
        # a search that ended without reaching `tol` is stopped by rounding errors
        run.status = run.status or Status.STALLED
        if run.status is Status.OPTIMAL:
            set_marginals(run)
