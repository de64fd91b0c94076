"""Marginals by loopy belief propagation, plain and tree-reweighted."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState

from sksstruct.factor_graphs import FactorGraph, Logic
from sksstruct.inference.map.core._reduce import Reduced, score_range
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.sum_product._forests import draw_forest
from sksstruct.inference.map.sum_product.beliefs import Beliefs
from sksstruct.inference.map.sum_product.result import MarginalResult
from sksstruct.utils._parameters import (
    COUNT,
    NON_NEGATIVE,
    Number,
    Parameters,
    random_source,
)
from sksstruct.utils.progress import Progress, Status

# All forbidden labelings together are less probable than any allowed labeling, by this
# difference of logarithms at least.
_FORBIDDEN = 50.0
# Largest number of variables of a `Logic` factor whose marginals are written out.
_MOST_VARIABLES = 20
# Damping rises unless the largest residual of the last `_WINDOW` sweeps is at most
# `_FALLEN` times that of the `_WINDOW` sweeps before. Damping of at least
# `_MOST_DAMPING` rises no more.
_WINDOW, _FALLEN, _MOST_DAMPING = 8, 0.97, 0.9
COLUMNS = ("iteration", "seconds", "residual", "bound")


@dataclass(eq=False, repr=False)
class BeliefPropagation(Parameters):
    """Marginals and partition functions by message passing, for factors of any size.

    The probability of a labeling is proportional to the exponential of its score. Both
    kinds are exact on graphs without cycles. Factors are updated one after the other,
    in alternating forward and backward sweeps.

    Parameters
    ----------
    kind : {"bethe", "trw"}, default="bethe"
        "bethe": loopy belief propagation. If it converges, the marginals are a
        stationary point of the Bethe free energy, which estimates log Z. "trw":
        tree-reweighted belief propagation [1]_. This kind has one fixed point, and an
        upper bound on log Z: the mean of log Z over spanning forests. The bound is
        valid whether or not the messages have converged.
    max_iter : int, default=1000
        Largest number of sweeps.
    tol : float, default=1e-6
        Tolerance. The messages have converged if no message changes by more than this
        in a sweep, relative to its size if the size is above 1.
    damping : "auto" or float, default="auto"
        Weight of the old message in the new message, below 1. "auto" starts with 0 and
        moves halfway to 1 whenever the largest change of a message has not fallen for
        several sweeps.
    factors : bool, default=False
        Whether to also return the marginals of edges and larger factors. Conditions can
        then have up to 20 variables.

    References
    ----------
    .. [1] M. Wainwright, T. Jaakkola and A. Willsky, "A new class of upper bounds on
       the log partition function", IEEE Trans. Information Theory 51, 2005.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import BeliefPropagation
    >>> ring = FactorGraph([[0, 1.0], [0, 0], [0, 0]], [(0, 1), (1, 2), (2, 0)],
    ...                    Potts(2, 0.5))
    >>> result = BeliefPropagation("trw").solve(ring, random_state=0)
    >>> result.converged
    True
    >>> print(result.marginals[0].round(2), round(result.bound, 2))
    [0.28 0.72] 3.6
    """

    kind: Literal["bethe", "trw"] = "bethe"
    max_iter: int = 1000
    tol: float = 1e-6
    _: KW_ONLY
    damping: float | Literal["auto"] = "auto"
    factors: bool = False

    _allowed = {
        "kind": ["bethe", "trw"],
        "max_iter": COUNT,
        "tol": NON_NEGATIVE,
        "damping": ["auto", Number(Real, 0, 1)],
        "factors": [bool],
    }

    def solve(
        self,
        graph: FactorGraph,
        *,
        max_seconds: float | None = None,
        random_state: int | RandomState | None = None,
        verbose: int = 0,
        callback: Callable[..., Any] | None = None,
    ) -> MarginalResult:
        """Compute the marginals of a graph.

        Parameters
        ----------
        graph : FactorGraph
            The graph.
        max_seconds : float, default=None
            Seconds after which to stop, from this call on; None: no limit.
        random_state : int, RandomState instance or None, default=None
            Source of the random choices of spanning forests.
        verbose : int, default=0
            Whether to print every sweep.
        callback : callable, default=None
            ``callback(iteration, residual, bound)``; if it returns true the run stops.

        Returns
        -------
        result : MarginalResult
            Marginals, log Z, status and trace.
        """
        run = _Run(type(self).__name__, verbose, max_seconds, callback)
        self.check()
        if not isinstance(graph, FactorGraph):
            raise ValueError(f"graph must be a FactorGraph, got {type(graph).__name__}")
        if max_seconds is not None and not max_seconds > 0:
            raise ValueError(
                f"max_seconds must be positive or None, got {max_seconds!r}"
            )
        if self.factors:
            _check_conditions(graph)
        margin = _FORBIDDEN + float(np.log(graph.n_states).sum())
        reduced = Reduced(graph, margin)
        if not reduced.feasible:
            run.status = Status.INFEASIBLE
            return run.result(None, -np.inf, -np.inf)
        problem = MAPProblem(reduced.graph, reduced.penalty)
        run.limit(problem)
        forests, shares = [], np.ones(reduced.graph.n_edges + reduced.graph.n_factors)
        if self.kind == "trw":
            rng = random_source(random_state)
            forests, shares = _cover(problem, len(shares), rng, run)
            # a first bound on log Z: no labeling scores more than `high`
            high = score_range(reduced.graph)[1]
            run.bound = high + float(np.log(reduced.graph.n_states).sum())
            run.bound += reduced.offset
        beliefs = Beliefs(problem, shares)
        run.forests, run.offset = forests, reduced.offset
        self._iterate(beliefs, run)
        log_partition = run.bound
        if self.kind == "bethe":
            log_partition = beliefs.log_partition() + reduced.offset
            if reduced.penalty and log_partition < reduced.lowest:
                # all allowed labelings score more than this estimate: the beliefs are
                # those of forbidden labelings
                run.status = Status.NOT_FOUND
                return run.result(None, -np.inf, run.bound)
        if reduced.penalty and run.bound < reduced.lowest:
            # an allowed labeling would score more than this upper bound on log Z
            run.status = Status.INFEASIBLE
            return run.result(None, -np.inf, -np.inf)
        marginals = _marginals(reduced, beliefs)
        if marginals is None:
            run.status = Status.NOT_FOUND
        result = run.result(marginals, log_partition, run.bound)
        if self.factors and marginals is not None:
            result.factor_marginals = _factor_marginals(
                reduced, beliefs, shares, result.marginals
            )
        return result

    def _iterate(self, beliefs, run):
        """Sweep until the messages have converged; bound log Z from time to time."""
        next_bound = 4
        damping = _Damping() if self.damping == "auto" else None
        beliefs.damping = 0.0 if damping else float(self.damping)
        # the first messages give a bound, in case time runs out
        run.lower(beliefs)
        for k in range(self.max_iter):
            residual = beliefs.sweep(k % 2 == 1)
            if damping:
                beliefs.damping = damping.after(residual)
            settled = residual <= self.tol
            if settled or k + 1 in (next_bound, self.max_iter):
                next_bound = int(1.5 * (k + 1)) + 1
                run.lower(beliefs)
            if run.report(residual, settled):
                break
        run.status = run.status or Status.MAX_ITER
        if run.status is Status.STOPPED:
            # the last bound may be some sweeps old
            run.lower(beliefs)


class _Damping:
    """Damping of messages, which rises while the residuals do not fall."""

    def __init__(self):
        self._value, self._recent = 0.0, []

    def after(self, residual):
        """Return the damping to use after a sweep with this residual."""
        self._recent.append(residual)
        if len(self._recent) >= 2 * _WINDOW and self._value < _MOST_DAMPING:
            before, now = self._recent[-2 * _WINDOW : -_WINDOW], self._recent[-_WINDOW:]
            if max(now) > _FALLEN * max(before):
                self._value = 0.5 * (1.0 + self._value)
                self._recent = []
        return self._value


class _Run(Progress):
    """Clock, bound and trace of a run."""

    def __init__(self, name, verbose, max_seconds, callback):
        super().__init__(name, COLUMNS, COLUMNS[:1], verbose)
        self._max_seconds, self._callback = max_seconds, callback
        self.residual = self.bound = np.inf
        self.forests, self.offset = [], 0.0

    def limit(self, problem):
        """Limit the time of the kernels to the time that is left."""
        if self._max_seconds is not None:
            problem.limit_time(self._max_seconds - self.seconds())

    def late(self):
        """Whether the time limit has passed."""
        return self._max_seconds is not None and self.seconds() >= self._max_seconds

    def lower(self, beliefs):
        """Lower the bound to the mean of the forests' log Z, if this mean is lower."""
        if self.forests:
            values = [beliefs.forest_log_partition(*forest) for forest in self.forests]
            self.bound = min(self.bound, float(np.mean(values)) + self.offset)

    def report(self, residual, settled):
        """Record a sweep; return whether to stop."""
        self.n_iter += 1
        self.residual = residual
        self.record((self.n_iter, self.seconds(), residual, self.bound))
        stop = self._callback is not None and self._callback(
            self.n_iter, residual, self.bound
        )
        if settled:
            self.status = Status.SETTLED
        elif stop:
            self.status = Status.STOPPED
        elif self.late():
            self.status = Status.TIME_LIMIT
        return self.status is not None

    def result(self, marginals, log_partition, bound):
        """Return the result, with the status and trace of the run."""
        return MarginalResult(
            marginals, float(log_partition), float(bound), self.status, self.n_iter,
            self.residual, self.trace.as_dict(),
        )  # fmt: skip


def _check_conditions(graph):
    """Raise an error if a `Logic` factor has too many variables for its marginals."""
    for k, scope in enumerate(graph.factor_scopes):
        table = graph.tables[graph.factor_tables[k]]
        if isinstance(table, Logic) and len(scope) > _MOST_VARIABLES:
            raise ValueError(
                f"factors=True handles conditions of up to {_MOST_VARIABLES} "
                f"variables, factor {k} of the graph has {len(scope)}: use "
                "factors=False"
            )


def _cover(problem, n_factors, rng, run):
    """Draw spanning forests until each factor is in one; return forests and shares."""
    counts, forests = np.zeros(n_factors), []
    while not forests or counts.min(initial=1.0) == 0:
        if run.late():
            # some factors are in no forest, so that forests give no bound
            return [], np.maximum(counts, 1.0) / max(1, len(forests))
        order = np.argsort(counts + rng.random_sample(n_factors)).astype(np.intp)
        forests.append(draw_forest(problem, order))
        counts[forests[-1][0]] += 1
    return forests, counts / len(forests)


def _marginals(reduced, beliefs):
    """Return the marginals of all variables, with zeros for forbidden states.

    Returns None if the messages leave a variable no allowed state.
    """
    flat = beliefs.marginals()
    parts = []
    if len(flat):
        parts = [flat]
    marginals = reduced.marginals(parts)[: reduced.given.n_variables]
    for v, row in enumerate(marginals):
        row[np.asarray(reduced.given.unary(v)) == -np.inf] = 0.0
        total = row.sum()
        if not total > 0.0:
            return None
        row /= total
    return marginals


def _factor_marginals(reduced, beliefs, shares, marginals):
    """Return the marginals of all edges and larger factors of the given graph."""
    out = []
    for k, (scope, table, weight) in enumerate(reduced.given._listed()):
        place = int(reduced.places[k])
        if place < 0:
            # the reduced graph lacks this factor: at most one variable is not forced
            out.append(_outer([marginals[v] for v in scope], np.multiply))
            continue
        table = table.dense()
        if weight != 1.0:
            with np.errstate(invalid="ignore"):
                table = np.where(table == -np.inf, -np.inf, table * weight)
        states = reduced.states[scope]
        free = tuple(slice(None) if x < 0 else x for x in states)
        scores = table[free] + _outer(beliefs.factor_scores(place), np.add)
        scores = np.exp((scores - scores.max()) / shares[place])
        full = np.zeros(table.shape)
        full[free] = scores / scores.sum()
        out.append(full)
    return out


def _outer(rows, combine):
    """Return the outer sum or product of vectors, with an axis for each vector."""
    out = rows[0]
    for row in rows[1:]:
        out = combine.outer(out, row)
    return out
