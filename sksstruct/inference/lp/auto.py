"""The solver that users get: what fits the graph, in turns."""

import numpy as np

from sksstruct.inference.lp.core._decode import by_variable
from sksstruct.inference.lp.core.solver import MAPSolver
from sksstruct.inference.lp.gdmm.binary import MAPBinaryGDMM
from sksstruct.inference.lp.gdmm.gdmm import MAPGDMM
from sksstruct.inference.lp.local_search._search import LocalSearch
from sksstruct.inference.lp.message_passing._passing import ties
from sksstruct.inference.lp.message_passing.mplp import MPLP
from sksstruct.inference.lp.message_passing.trws import TRWS

# Graphs that are solved by eliminating all variables: entries of all tables.
_ELIMINATE = 2e6
# Edges of binary graphs beyond which most are better left out.
_MANY_EDGES = 200_000


class Auto(MAPSolver):
    """Chooses by size and shape, and combines.

    Graphs of small width are solved exactly by elimination. Others get an upper bound
    and labelings from `TRWS`, or from `MPLP` where factors have three or more
    variables; binary graphs with very many edges start with `BinaryGDMM`, and large
    domains with a few iterations of `GDMM`. What is not optimal then is improved by
    iterated local search with exact moves in windows.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps of TRW-S or MPLP.
    tol : float, default=1e-6
        A labeling is optimal where its score is within `tol` of the bound, relative to
        the score or 1.
    effort : float, default=1.0
        How long to search where the bound is not reached: the search ends when it has
        not found anything better in as much work as it has done before, and in some
        thousand visits of each variable, both times `effort`. 0: no search beyond that
        of the solvers.
    """

    _pairwise = False
    _parameter_constraints = {
        **MAPSolver._parameter_constraints,
        "effort": MAPSolver._parameter_constraints["tol"],
    }

    def __init__(self, max_iter=1000, tol=1e-6, *, effort=1.0):
        self.max_iter = max_iter
        self.tol = tol
        self.effort = effort

    def _run(self, run):
        problem = run.problem
        graph = problem.graph
        start = np.array([int(np.argmax(graph.unary(v))) for v in range(problem.n)])
        run.offer(start.astype(np.int32))
        many = problem.max_states == 2 and graph.n_edges > _MANY_EDGES
        if not many and self._eliminate(run):
            return
        beliefs = np.asarray(graph.unaries)
        if problem.n_higher:
            beliefs = MPLP(self.max_iter, self.tol)._run(run)
        elif many:
            MAPBinaryGDMM(self.max_iter, self.tol)._run(run)
        else:
            if problem.max_states >= 128:
                MAPGDMM(20, self.tol)._run(run)
                if (
                    run.status in ("max_iter", "fractional")
                    and run.n_iter < run.max_iter
                ):
                    run.status = None
            if run.status is None:
                beliefs = TRWS(self.max_iter, self.tol)._run(run)
        if run.status in ("stalled", "max_iter", "fractional") and self.effort > 0:
            # what the search finds does not change how the bound ended
            status, run.status = run.status, None
            self._search(run)
            run.status = run.status or status
        if run.status == "optimal":
            run.marginals = by_variable(problem, problem.indicator(run.labeling))
        elif run.marginals is None:
            run.marginals = by_variable(problem, ties(problem, np.array(beliefs)))

    def _eliminate(self, run):
        """Solve a graph of small width; False where it is not."""
        search = LocalSearch(run.problem, run.labeling, run.seed())
        if not search.solve(_ELIMINATE):
            return False
        run.offer(search.labeling)
        run.report(bound=run.score)
        run.marginals = by_variable(run.problem, run.problem.indicator(run.labeling))
        return True

    def _search(self, run):
        """Rounds of local search, each longer than the last."""
        problem = run.problem
        search = LocalSearch(problem, run.labeling, run.seed())
        # exact moves in windows and in forests, in turns, from hot to cold
        budgets = (512.0, 0.0) if problem.max_states <= 8 else (0.0,)
        # visits, fewer where one costs more
        cost = max(1.0, problem.max_states / 8)
        cost *= max(1.0, problem.m / problem.n / 16) ** 1.5
        least = int((30_000 * problem.n + 4e6) / cost)
        work, done, idle, rate, turn, width = least // 8, 0, 0, 0.0, 0, 2048.0
        while not run.late():
            before, visited = run.score, 0
            if idle:
                search.restart()
            if run.time_limit is not None and rate:
                # cold when the time is over
                work = int(min(work, 0.9 * rate * (run.time_limit - run.seconds())))
                work = max(work, 6)
            while visited < work and not run.late():
                visits = _visits(run, min(work // 6, 500_000), rate)
                budget = budgets[turn % len(budgets)]
                turn += 1
                heat = 3.0 * (1.0 - visited / work)
                visited += visits
                cold = 3.0 * max(0.0, 1.0 - visited / work)
                started = run.seconds()
                search.anneal(visits, heat, cold, budget, 200)
                rate = visits / max(run.seconds() - started, 1e-9)
                # its score, not the sum of gains, which rounding adds up in
                run.offer(search.labeling)
            if budgets[0]:
                for _ in range(8 + problem.n // 64):
                    if run.late():
                        break
                    search.windows(1, 600, width)
                width = min(2.0 * width, 65536.0)
            run.offer(search.labeling)
            if run.report(step=0):
                return
            done += work
            idle = 0 if run.score > before + 1e-9 * abs(before) else idle + work
            if idle >= self.effort * max(done - idle, least):
                return
            work = 5 * work // 4


def _visits(run, work, rate):
    """Work of one call, so that a time limit is kept within a tenth of a second."""
    if run.time_limit is None:
        return work
    left = run.time_limit - run.seconds()
    return max(1, int(min(work, rate * min(left, 0.1) if rate else 100)))
