"""Exact search on the graph of a MAP run, which receives labelings and bounds.

The search sets up integer costs, makes the costs consistent at the root, eliminates
variables of few neighbors, and searches the connected components in turns. Nodes,
decisions and propagation are in the files that search one component.
"""

import contextlib
import os

import numpy as np

from sksstruct.inference.map.branch_and_bound._cluster_tree import make_component
from sksstruct.inference.map.branch_and_bound._simplify import Simplified
from sksstruct.inference.map.branch_and_bound._terms import (
    Terms,
    consistent_root,
    labeling_cost,
)
from sksstruct.utils.progress import Status

# Bytes of memory for each entry of the dense tables, at most: costs, deltas, copies.
_BYTES = 64
# Largest share of the physical memory for an exact search: the rest is for other data.
_MEMORY_SHARE = 0.25
# Physical memory in bytes, assumed where the operating system does not report it.
_MEMORY = 8e9
# Largest number of table entries of a factor of five or more variables.
_MOST_CONDITION = 4096
# A search that ends without a proof begins again if the gap between incumbent and upper
# bound is at most this share of the gap at the start of the search: the steps of the
# integer costs are then at most a quarter as large.
_FINER = 0.25
# Gaps of at most this share of the score are rounding errors: finer steps are useless.
_ROUNDING = 1e-12
# Name of the search in the trace of a run.
_PART = "branch and bound"
# Table entries that are read between two checks of the time limit.
_SLICE = 500_000


def n_entries(graph):
    """Number of entries of all dense tables; inf if one table is too large.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    n_entries : float
        Sum of the table sizes.
    """
    states = graph.n_states.astype(np.float64)
    total = float((states[graph.edges[:, 0]] * states[graph.edges[:, 1]]).sum())
    for scope in graph.factor_scopes:
        size = float(np.prod(states[scope]))
        total += size if size <= _MOST_CONDITION or len(scope) < 5 else np.inf
    return total


def most_entries():
    """Largest number of table entries that fits into the memory of an exact search.

    Returns
    -------
    most : float
        Largest number of entries.
    """
    memory = _MEMORY
    # some operating systems lack `sysconf` or these names
    with contextlib.suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _MEMORY_SHARE * memory / _BYTES


def check_entries(graph, name):
    """Raise an error if the dense tables of a graph would be too large.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    name : str
        Name of the solver, for the error message.
    """
    entries, most = n_entries(graph), most_entries()
    if entries == np.inf:
        # by the number of variables: other numbers would be those of a reduced graph
        size, n = max(
            (np.prod(graph.n_states[scope].astype(np.float64)), len(scope))
            for scope in graph.factor_scopes
            if len(scope) > 4
        )
        raise ValueError(
            f"{name} writes out the tables of all factors: that of a factor of {n} "
            f"variables has {size:.4g} entries, at most {_MOST_CONDITION} are "
            "possible; use solver='highs' or 'auto'"
        )
    if entries > most:
        raise ValueError(
            f"{name} writes out the tables of all factors: those of the graph have "
            f"{entries:.4g} entries, a quarter of the memory holds {most:.4g}; use "
            "solver='auto'"
        )


def build_seconds(graph):
    """Estimate the set-up time of an exact search, which no time limit interrupts.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    seconds : float
        Estimate of the time; inf if the tables are too large.
    """
    entries = n_entries(graph)
    if entries > most_entries():
        return np.inf
    return 1e-7 * entries + 4e-5 * graph.n_edges + 1e-4 * graph.n_factors


class ExactSearch:
    """Branch and bound on the connected components of a graph; can be interrupted.

    Parameters
    ----------
    run : MAPRun
        Holds the incumbent, and receives better labelings and bounds.

    Attributes
    ----------
    closed : bool
        Whether the search is over: the labeling of the run is optimal.
    bound : float
        Upper bound that the search itself proves; the run may have a lower one.
    work : int
        Table entries read so far.
    """

    def __init__(self, run):
        self.run, self.work, self._begin_again, self.bound = run, 0, True, np.inf
        self._begin()

    def _begin(self):
        """Set up a search; repeat on a finer scale while searches end unproved."""
        while self._begin_again:
            self._begin_again = False
            self._set_up()

    def _set_up(self):
        """Set up the search for labelings that are better than the incumbent."""
        run, self.closed, self.components = self.run, False, []
        self._start_score, self._best_cost = run.score, np.inf
        allowed = run.score >= run.lowest
        # without an allowed labeling, every allowed labeling is an improvement
        score = run.score if allowed else run.lowest
        # `tol` is relative to the score of the optimum, which lies between `low` and
        # `high`: use the smallest absolute value from `low` to `high`
        low, high = score + run.offset, run.bound + run.offset
        scale = max(1.0, low, -high)
        bound = np.inf if run.messages is None else run.messages.bound
        self._terms = terms = Terms(
            run.problem, score, run.tol * scale, run.messages, bound
        )
        self._gap = terms.top - score
        self._limit = terms.limit + (0 if allowed else 1)
        # a better labeling with whole scores is better by at least a grain
        if allowed and terms.whole:
            self._skip_grain(run.labeling)
        root = consistent_root(terms, self._limit, run.late)
        if root is not None and terms.refine(root):
            self.work += root.work
            self._limit = terms.limit + (0 if allowed else 1)
            root = consistent_root(terms, self._limit, run.late)
        if root is None:
            self._close()
            return
        if allowed:
            self._skip_grain(run.labeling)
        limit = self._limit
        self.work += root.work
        self._reduced = reduced = Simplified(root, terms.scopes)
        del root
        # each component may miss an improvement of less than a grain: the losses add up
        grain = terms.grain
        if not terms.whole:
            grain = max(1, grain // max(1, len(reduced.components)))
        self._report_bound(reduced.constant)
        for members, *parts in reduced.components:
            start = reduced.restrict(run.labeling, members) if allowed else None
            component = make_component(
                *parts, limit - reduced.constant, grain, start, run.late
            )
            self.components.append(component)
            self.work += component.work
        self._tighten()

    def _skip_grain(self, labeling):
        """Limit the search to labelings that cost less than `labeling` by a grain."""
        terms = self._terms
        cost = labeling_cost(terms.unaries, terms.scopes, terms.tables, labeling)
        self._limit = min(self._limit, cost - terms.grain + 1)

    def _report_bound(self, cost):
        # labelings that cost the limit or more are not searched: no higher bound is
        # proved
        bound = self._terms.top - min(cost, self._limit) / self._terms.scale
        self.bound = min(self.bound, bound)
        return self.run.report_between(_PART, bound)

    def _close(self):
        """End the search: no labeling that costs less than the limit is left."""
        self.closed = True
        run = self.run
        if run.score >= run.lowest:
            # the proved bound: every labeling costs at least the limit
            terms = self._terms
            proved = terms.top - self._limit / terms.scale
            run.report(bound=run.score if terms.whole else proved, step=0, part=_PART)
            # a smaller gap makes finer steps, which may suffice for a proof
            gap = terms.top - run.score
            self._begin_again = (
                run.status is None
                and run.score > self._start_score
                and _ROUNDING * max(1.0, abs(run.score)) < gap <= _FINER * self._gap
            )
        else:
            # a bound below the scores of all allowed labelings: the graph is infeasible
            run.bound, run.status = run.score, Status.INFEASIBLE

    def _tighten(self):
        """Offer a better labeling; lower each component's limit by the other bounds."""
        run, parts = self.run, self.components
        if all(part.best is not None for part in parts):
            total = sum(part.cost for part in parts) + self._reduced.constant
            if total < self._best_cost:
                self._best_cost = total
                run.offer(self._reduced.complete([part.best for part in parts]))
            self._limit = min(self._limit, total - self._terms.grain + 1)
        bound = self._least_cost()
        if bound >= self._limit or all(part.closed for part in parts):
            self._close()
            return
        for part in parts:
            part.lower_limit(self._limit - bound + part.bound)

    def _least_cost(self):
        """Return a lower bound on the cost of all labelings below the limit."""
        bounds = [part.bound for part in self.components]
        if not self._terms.whole:
            # the bound of a closed component is the cost of its labeling, although a
            # labeling may exist that is better by less than a grain
            limits = [part.limit for part in self.components]
            bounds = map(min, bounds, limits)
        return sum(bounds) + self._reduced.constant

    def advance(self, work):
        """Continue the search.

        Parameters
        ----------
        work : int
            Table entries to read, about.

        Returns
        -------
        stop : bool
            Whether the run is to stop, or the search is over.
        """
        end = self.work + work
        while not self.closed and self.work < end:
            share = _SLICE // max(1, sum(not part.closed for part in self.components))
            for part in self.components:
                if part.closed:
                    continue
                before = part.work
                part.advance(share + 1)
                self.work += part.work - before
                if self.run.late():
                    return True
            self._tighten()
            self._begin()
            if not self.closed and self._report_bound(self._least_cost()):
                return True
        return self.closed

    def prefer(self, labeling):
        """Use a labeling that another method has found.

        Parameters
        ----------
        labeling : ndarray of shape (n_variables,)
            States.
        """
        if self.closed:
            return
        if self.run.score >= self.run.lowest:
            self._skip_grain(labeling)
        for (members, *_), part in zip(
            self._reduced.components, self.components, strict=True
        ):
            places = self._reduced.restrict(labeling, members)
            if places is not None:
                part.prefer(places)
        self._tighten()
        self._begin()
