"""Message passing with clusters, as a solver."""

from dataclasses import dataclass

import numpy as np

from sksstruct.inference.map.branch_and_bound.exact_search import check_entries
from sksstruct.inference.map.core._decode import set_marginals
from sksstruct.inference.map.core.solver import TEXTS, MAPSolver
from sksstruct.inference.map.message_passing.trws import TRWS
from sksstruct.inference.map.tightening.tighten import Tightening
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.progress import Status


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class Tightened(MAPSolver):
    """TRW-S, and then message passing with triplets that make the relaxation tighter.

    If the bound of TRW-S ends above the score of its best labeling, triplets of
    variables whose edges contradict each other become clusters, in which edges have to
    agree [1]_. The triplets are found among the triangles of the graph, and in cycles
    with an odd number of contradictions [2]_. Cycles are cut into triplets, with new
    edges of score zero. The bound is never above that of TRW-S. On graphs that are not
    too large, `Auto` does the same, and continues with branch and bound.

    TRW-S uses factors of three or more variables, but the clusters do not.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of sweeps of TRW-S and of rounds with new clusters, in total.
    %(tol)s

    References
    ----------
    .. [1] D. Sontag, T. Meltzer, A. Globerson, T. Jaakkola and Y. Weiss, "Tightening LP
       relaxations for MAP using message passing", UAI 2008.
    .. [2] D. Sontag, D. K. Choe and Y. Li, "Efficiently searching for frustrated cycles
       in MAP inference", UAI 2012.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import TRWS, Tightened
    >>> ring = FactorGraph([[0, 0.1], [0, 0], [0, 0]], [(0, 1), (1, 2), (2, 0)],
    ...                    Potts(2, 0.0, 1.0))
    >>> round(TRWS().solve(ring, random_state=0).bound, 3)
    3.05
    >>> result = Tightened().solve(ring, random_state=0)
    >>> round(result.bound, 3), result.status
    (2.1, 'optimal')
    """

    max_iter: int = 1000
    tol: float = 1e-6

    _pairwise = False

    def _check_graph(self, graph):
        check_entries(graph, type(self).__name__)

    def _run(self, run):
        beliefs = np.array(TRWS(self.max_iter, self.tol)._run(run))
        if run.status is Status.STALLED and run.n_iter < self.max_iter:
            run.status, tightening = None, Tightening(run)
            while run.status is None:
                if tightening.advance():
                    run.status = run.status or Status.STALLED
                elif run.report():
                    break
            beliefs = tightening.beliefs()
        set_marginals(run, beliefs)
