"""Base class of MAP solvers: parameters, and `solve`, which runs a subclass."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState

from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core._whole import whole_error
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.result import Interrupted, MAPResult
from sksstruct.inference.map.core.run import COLUMNS, MAPRun, WithoutCliques
from sksstruct.utils._parameters import COUNT, NON_NEGATIVE, Parameters, random_source
from sksstruct.utils.progress import Status, Trace

# Time reserved for completing a result: share of the time of setting up the problem,
# and largest share of the time limit.
_COMPLETION, _COMPLETION_MOST = 0.4, 0.08
# Relative rounding error of a sum of scores, whatever the order of addition.
_ROUNDING = 1e-13
_TOL = """
tol : float, default=1e-6
    A labeling is optimal if its score is within ``tol * max(1, |score|)`` of the
    bound. If all scores are far below 1, any labeling satisfies this condition."""
# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    "tol": _TOL,
    "tol_relaxed": f"""{_TOL} The
    relaxation is solved if the residuals of its constraints and the distance of its
    value to the bound are below `tol`.""",
}


class MAPSolver(Parameters):
    """Base class of the solvers of MAP problems; subclasses implement ``_run(run)``."""

    # Whether the solver refuses factors of three or more variables.
    _pairwise = True
    # Whether mutually exclusive states become cliques, which tightens the relaxation.
    _joins = False
    # Whether bounds are rounded down if all scores are whole.
    _floors = False
    _allowed = {"max_iter": COUNT, "tol": NON_NEGATIVE}

    def solve(
        self,
        graph: FactorGraph,
        *,
        max_seconds: float | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
    ) -> MAPResult:
        """Find a labeling with a high score.

        Parameters
        ----------
        graph : FactorGraph
            The graph.
        max_seconds : float, default=None
            Time limit in seconds, counted from this call. None: no limit.
        random_state : int, RandomState instance or None, default=None
            Source of random choices. With an int, results are reproducible unless the
            time limit ends the run.
        verbose : int, default=0
            1: print progress occasionally. 2: print every iteration.
        callback : callable, default=None
            ``callback(iteration, score, bound)``; if it returns true the run stops.

        Returns
        -------
        result : MAPResult
            Labeling, score, bound, fractional solution, trace and status.

        Raises
        ------
        ValueError
            If the solver does not support the graph.
        Interrupted
            A KeyboardInterrupt, after an interrupt; its `result` has the best labeling
            and bound so far.
        """
        started = time.perf_counter()
        self.check()
        if not isinstance(graph, FactorGraph):
            raise ValueError(f"graph must be a FactorGraph, got {type(graph).__name__}")
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(
                f"max_seconds must be positive or None, got {max_seconds!r}"
            )
        reduced = Reduced(graph, joins=self._joins)
        name = type(self).__name__
        if not reduced.feasible:
            return _infeasible(graph, name)
        if self._pairwise and reduced.graph.n_factors:
            raise ValueError(
                f"{name} is for factors of two variables; this graph has "
                f"{reduced.graph.n_factors} of three or more that evidence does not "
                "cut down: use TRWS, MPLP, MAPGDMM or 'auto'"
            )
        self._check_graph(reduced.graph)
        lowest = reduced.lowest if reduced.penalty else -np.inf
        if graph.must_exceed > -np.inf:
            lowest = max(lowest, np.nextafter(graph.must_exceed, np.inf))
        problem, limit = MAPProblem(reduced.graph, reduced.penalty), max_seconds
        if limit is not None:
            # completing the result takes a share of the time of setting up the problem
            setup = time.perf_counter() - started
            limit -= min(_COMPLETION * setup, _COMPLETION_MOST * limit)
        run = MAPRun(
            problem, self.tol, self.max_iter, limit,
            random_source(random_state), offset=reduced.offset,
            verbose=verbose, callback=callback, name=name, started=started,
            lowest=lowest - reduced.offset,
        )  # fmt: skip
        run.plain = reduced.plain
        if self._floors:
            run.whole_error = whole_error(reduced)
        if reduced.cliques is not None:
            run.n_cliques = reduced.cliques.n
            run.note(f"cliques instead of constraints: {run.n_cliques}")
            run.without_cliques = partial(WithoutCliques, run, reduced)
        try:
            if reduced.graph.n_variables:
                self._run(run)
            else:
                run.offer(np.zeros(0, dtype=np.int32))
                run.report(bound=0.0)
        except KeyboardInterrupt:
            run.interrupt()
            raise Interrupted(_complete(run, reduced)) from None
        return _complete(run, reduced)

    def _check_graph(self, graph):
        """Raise an error if the solver does not support the graph."""

    def _run(self, run):
        raise NotImplementedError


def _complete(run, reduced):
    """Return the result for the given graph."""
    result = run.result()
    graph = reduced.given
    result.labeling = reduced.labeling(result.labeling)
    result.score += reduced.offset
    result.bound += reduced.offset
    result.trace["score"] += reduced.offset
    result.trace["bound"] += reduced.offset
    if result.marginals is not None:
        result.marginals = reduced.marginals(result.marginals)
    if run.lowest > -np.inf:
        # the sum of scores with penalties may be that of a forbidden labeling
        result.score = graph.score(result.labeling)
        lowest = run.lowest + reduced.offset
        result.trace["score"][result.trace["score"] < lowest] = -np.inf
        if result.score > -np.inf:
            # sums in another order may have kept the run from detecting optimality
            gap = result.bound - result.score
            if gap <= run.tol * max(1.0, abs(result.score)):
                result.status = Status.OPTIMAL
        elif (
            result.status is Status.INFEASIBLE
            or result.bound < lowest
            or result.bound <= graph.must_exceed + _rounding(reduced)
        ):
            result.status, result.bound = Status.INFEASIBLE, -np.inf
        elif result.status is not Status.INTERRUPTED:
            result.status = Status.NOT_FOUND
    # NumPy numbers become Python floats, which print as plain numbers
    result.score = float(result.score)
    result.bound = max(float(result.bound), result.score)
    return result


def _rounding(reduced):
    """Return a bound on the rounding error of a total score, or of a bound."""
    sizes = *reduced.plain_range, reduced.offset, reduced.given.must_exceed
    return _ROUNDING * max(map(abs, sizes))


def _infeasible(graph, name):
    labeling = np.array(
        [int(np.argmax(graph.unary(v))) for v in range(len(graph.n_states))]
    )
    observed = graph.evidence >= 0
    labeling[observed] = graph.evidence[observed]
    return MAPResult(
        labeling.astype(np.intp), -np.inf, -np.inf, None, Status.INFEASIBLE, 0,
        Trace(COLUMNS, COLUMNS[:1], COLUMNS[-1:]).as_dict(), name,
    )  # fmt: skip
