"""`LPMAPPredictor`: the solvers of `sksstruct.inference.map` as an estimator."""

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sksstruct.estimators._fitted import Solved
from sksstruct.estimators._parameters import TEXTS
from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import (
    MAP_SOLVERS,
    BeliefPropagation,
    Interrupted,
    MAPSolver,
    resolve_map_solver,
)
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import (
    Count,
    NonNegative,
    Positive,
    Seed,
    Threads,
    Verbosity,
    validate_params,
)
from sksstruct.utils.progress import Status
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import Labelings

# Seconds between two checks whether all threads have stopped.
_TICK = 0.01


@fill_doc(
    {
        **TEXTS,
        "map_solvers": listing(list(MAP_SOLVERS)),
        "graphs": "X : sequence of FactorGraph\n    Graphs.",
    }
)
@dataclass(eq=False, repr=False)
class LPMAPPredictor(Solved, Versioned, BaseEstimator):
    """Labelings of factor graphs with the highest scores, by the LP relaxation.

    The potentials are given, so `fit` learns nothing. `predict` solves each graph, and
    sets `scores_`, `bounds_` and `status_`, which show how good the labelings are.

    Parameters
    ----------
    solver : str or MAPSolver, default="auto"
        An object of `sksstruct.inference.map` or the name of one with its defaults:
        %(map_solvers)s.
        "auto" chooses and combines solvers by the size and the shape of the graph.
        "mplp" takes factors of any size; "gdmm" [1]_ is for large domains,
        "gdmm_binary" for many binary factors; "lp" and "highs" use HiGHS from SciPy.
    tol : float, default=1e-6
        Tolerance, used only if `solver` is a name. A labeling is reported as optimal if
        its score is within ``tol * max(1, |score|)`` of the upper bound. If all scores
        are far below 1, choose a smaller value, because any labeling can satisfy this
        condition.
    max_iter : int, default=None
        Maximum number of iterations, used only if `solver` is a name. None: the default
        of the solver.
    marginals : {"lp", "bethe", "trw"} or BeliefPropagation, default="lp"
        The result of `predict_marginals`. "lp": the fractional solution of the
        relaxation. "bethe", "trw" or an object: probabilities computed by
        `sksstruct.inference.map.BeliefPropagation`. With a name, `max_iter` and `tol`
        apply to the messages of belief propagation.
    max_seconds : float, default=None
        Time limit in seconds for each graph. "auto" runs until the limit unless it
        proves that the labeling is optimal. None: a built-in rule ends the search of
        "auto".
    n_jobs : int, default=None
        Number of threads, each of which solves a graph. Results do not depend on the
        number if no time limit is reached.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the random choices of local searches.
    verbose : int, default=0
        Whether to print progress.
    callback : callable, default=None
        ``callback(graph, iteration, score, bound)``, called with the graph's number
        after every report of a solver. If it returns True, the run on this graph stops.
        Belief propagation passes the change of its messages as the score.

    Attributes
    ----------
    scores_ : ndarray of shape (n_graphs,)
        Scores of the labelings of the last `predict`; -inf if a labeling is forbidden.
    bounds_ : ndarray of shape (n_graphs,)
        Upper bounds on the scores of all labelings; inf if the solver has no bound.
    status_ : list of str
        The status of each run; see `sksstruct.inference.map.MAPResult`.
    results_ : list of MAPResult
        The full results of the solver, including traces. If `predict` is interrupted,
        it raises KeyboardInterrupt, and the attributes have the best labelings and
        bounds so far; results of graphs that were not begun are None.
    marginal_results_ : list of MarginalResult
        After `predict_marginals` by belief propagation: the full results, including
        log Z and a bound on log Z.

    See Also
    --------
    sksstruct.factor_graphs.FactorGraph : The graphs to label.
    sksstruct.datasets.load_uai : Reads graphs from files.

    Notes
    -----
    For scikit-learn the predictor has no estimator type: the scores are given, and no y
    is learned.

    References
    ----------
    .. [1] X. Huang, I. E. H. Yen, R. Zhang, Q. Huang, P. Ravikumar and I. S. Dhillon,
       "Greedy direction method of multiplier for MAP inference of large output
       domain", AISTATS 2017.

    Examples
    --------
    >>> from sksstruct import LPMAPPredictor
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> graph = FactorGraph([[0, 0.5], [0, 0], [2, 0]], [(0, 1), (1, 2)], Potts(2))
    >>> predictor = LPMAPPredictor().fit()
    >>> predictor.predict([graph])[0].tolist()
    [0, 0, 0]
    >>> predictor.status_
    ['optimal']
    """

    solver: str | MAPSolver = "auto"
    _: KW_ONLY
    tol: NonNegative = 1e-6
    max_iter: Count | None = None
    marginals: Literal["lp", "bethe", "trw"] | BeliefPropagation = "lp"
    max_seconds: Positive | None = None
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0
    callback: Callable | None = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def fit(self, X: Sequence[FactorGraph] | None = None, y: object = None) -> Self:
        """Check the parameters, and the graphs if there are any.

        Parameters
        ----------
        X : sequence of FactorGraph, default=None
            Graphs.
        y : None
            Ignored.

        Returns
        -------
        self : LPMAPPredictor
            The predictor.
        """
        self._resolve()
        self._resolve_marginals()
        if X is not None:
            _check_graphs(X)
        return self

    def _resolve(self):
        validate_params(self)
        solver = resolve_map_solver(self.solver, max_iter=self.max_iter, tol=self.tol)
        solver.check()
        return solver

    def _resolve_marginals(self):
        """Belief propagation for `predict_marginals`, or None for the relaxation."""
        validate_params(self)
        if self.marginals == "lp":
            return None
        method = self.marginals
        if isinstance(method, str):
            given = {} if self.max_iter is None else {"max_iter": self.max_iter}
            method = BeliefPropagation(method, tol=self.tol, **given)
        method.check()
        return method

    def _run(self, solver, graphs, results):
        """Write the result of each graph into `results`, also if interrupted."""
        begun, stop = [], threading.Event()
        rng = check_random_state(self.random_state)
        seeds = rng.randint(2**31 - 1, size=len(graphs))

        def run(k):
            def callback(*now):
                return stop.is_set() or (self.callback and self.callback(k, *now))

            if stop.is_set():
                return
            begun.append(k)
            try:
                results[k] = solver.solve(
                    graphs[k],
                    max_seconds=self.max_seconds,
                    random_state=int(seeds[k]),
                    verbose=self.verbose,
                    callback=callback,
                )
            except Interrupted as interrupted:
                results[k] = interrupted.result
                raise
            finally:
                begun.remove(k)

        try:
            Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(run)(k) for k in range(len(graphs))
            )
        except KeyboardInterrupt:
            # only one thread gets the interrupt; other threads stop at the next report
            stop.set()
            while begun:
                time.sleep(_TICK)
            for result in results:
                if result is not None and result.status is Status.STOPPED:
                    result.status = Status.INTERRUPTED
            raise
        return results

    def _solve(self, X):
        solver, graphs = self._resolve(), _check_graphs(X)
        results = [None] * len(graphs)
        try:
            self._run(solver, graphs, results)
        except KeyboardInterrupt:
            self._keep(results)
            raise
        self._keep(results)
        for k, result in enumerate(results):
            gap = result.bound - result.score if result.score > -np.inf else np.inf
            tol = solver.tol * max(1.0, abs(result.score))
            _warn(
                k,
                result,
                f"the gap is {gap:.3g}, the tolerance {tol:.3g}. "
                f"{result.status.remedy} Another solver may do better.",
            )
        return results

    def _keep(self, results):
        """Set the attributes; without a result, scores are -inf and bounds are inf."""
        rows = [(-np.inf, np.inf, Status.INTERRUPTED) if r is None
                else (r.score, r.bound, r.status) for r in results]  # fmt: skip
        self.results_, self.status_ = results, [status for *_, status in rows]
        self.scores_ = np.array([score for score, *_ in rows], dtype=np.float64)
        self.bounds_ = np.array([bound for _, bound, _ in rows], dtype=np.float64)

    def predict(self, X: Sequence[FactorGraph]) -> list[np.ndarray]:
        """Predict the labeling with the highest score for each graph.

        Parameters
        ----------
        %(graphs)s

        Returns
        -------
        labelings : list of ndarrays of shape (n_variables,)
            State of each variable of each graph: its number, or its name if the graph
            has `state_names`.
        """
        graphs = _check_graphs(X)
        labelings = [result.labeling for result in self._solve(graphs)]
        return [
            labeling if graph.state_names is None else graph.named(labeling)
            for graph, labeling in zip(graphs, labelings, strict=True)
        ]

    def predict_marginals(self, X: Sequence[FactorGraph]) -> list[list[np.ndarray]]:
        """Marginals of the variables: fractional solutions of the LP, or probabilities.

        Parameters
        ----------
        %(graphs)s

        Returns
        -------
        marginals : list of lists of ndarrays of shape (n_states[i],)
            For each graph, a distribution over the states of each variable. With
            ``marginals="lp"`` and the solvers "gdmm", "ad3" and "lp", the distributions
            solve the relaxation if the status is "optimal" or "fractional". Message
            passing gives only an approximate solution (see
            `sksstruct.inference.map.TRWS`). With belief propagation the distributions
            are approximate marginal probabilities, or nan if no labeling is allowed.
        """
        graphs, marginals = _check_graphs(X), []
        method = self._resolve_marginals()
        if method is not None:
            return self._propagate(method, graphs)
        for graph, result in zip(graphs, self._solve(graphs), strict=True):
            found = result.marginals
            if found is None:
                found = [
                    np.eye(n)[x]
                    for n, x in zip(graph.n_states, result.labeling, strict=True)
                ]
            marginals.append(found)
        return marginals

    def _propagate(self, method, graphs):
        self.marginal_results_ = self._run(method, graphs, [None] * len(graphs))
        marginals = []
        for k, result in enumerate(self.marginal_results_):
            remedy = result.status.remedy
            _warn(
                k,
                result,
                f"messages still change by {result.residual:.3g}. {remedy} Damping may "
                "help as well.",
            )
            found = result.marginals
            if found is None:
                found = [np.full(n, np.nan) for n in graphs[k].n_states]
            marginals.append(found)
        return marginals

    def score(self, X: Sequence[FactorGraph], y: Labelings | None = None) -> float:
        """Accuracy of the labelings, or their mean score if y is None.

        Parameters
        ----------
        %(graphs)s
        y : sequence of array-likes, default=None
            True labelings. None: the mean score of the labelings is returned.

        Returns
        -------
        score : float
            Fraction of the variables that have their true states, or the mean score.
        """
        X = _check_graphs(X)
        if not X:
            raise ValueError("X must have at least one graph to score, got none")
        labelings = self.predict(X)
        if y is None:
            return float(np.mean(self.scores_))
        if len(y) != len(labelings):
            raise ValueError(
                f"y must have a labeling for each of the {len(labelings)} graphs of X, "
                f"got {len(y)}"
            )
        right = [
            graph.check_labeling(x) == graph.check_labeling(y_true, f"y[{k}]")
            for k, (graph, x, y_true) in enumerate(zip(X, labelings, y, strict=True))
        ]
        return float(np.mean(np.concatenate(right)))


def _warn(k, result, details):
    """Warn of a graph that has no labeling, or whose solver did not converge."""
    status, text = result.status, None
    if status is Status.INFEASIBLE:
        text = result.message
    elif status in (Status.MAX_ITER, Status.NOT_FOUND):
        text = f"{result.message} after {result.n_iter} iterations; {details}"
    if text is not None:
        warnings.warn(f"graph {k}: {text}", ConvergenceWarning, stacklevel=4)


def _check_graphs(X):
    if isinstance(X, FactorGraph):
        raise ValueError(
            "X must be a sequence of factor graphs, got one: write [graph]"
        )
    try:
        graphs = list(X)
    except TypeError:
        raise ValueError(
            f"X must be a sequence of factor graphs, got {X!r:.80}"
        ) from None
    for k, graph in enumerate(graphs):
        if not isinstance(graph, FactorGraph):
            raise ValueError(
                f"X[{k}] must be a FactorGraph, got {type(graph).__name__}"
            )
    return graphs
