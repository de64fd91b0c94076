"""Exact search on the graph of a run: from its costs to labelings and bounds."""

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

# Bytes for an entry of a table, written out, at the most: costs, deltas and copies.
_BYTES = 64
# Share of the memory above which there is no exact search: others need some, too.
_MEMORY_SHARE = 0.25
# Bytes of memory, where the system does not say.
_MEMORY = 8e9
# Entries of one factor of five or more variables: they double with each variable.
_MOST_CONDITION = 4096
# Share of the distance to the best imaginable score, below which a search that proved
# nothing within the tolerance begins again: steps are four times as fine then.
_FINER = 0.25
# Distance, relative to the score, that is rounding: a finer search cannot close it.
_ROUNDING = 1e-12
# Entries of tables between two looks at the clock.
_SLICE = 500_000


def n_entries(graph):
    """Number of entries of all tables, written out; inf if one is too large.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    n_entries : float
        The number.
    """
    states = graph.n_states.astype(np.float64)
    total = float((states[graph.edges[:, 0]] * states[graph.edges[:, 1]]).sum())
    for scope in graph.factor_scopes:
        size = float(np.prod(states[scope]))
        total += size if size <= _MOST_CONDITION or len(scope) < 5 else np.inf
    return total


def most_entries():
    """Number of entries that an exact search has the memory for.

    Returns
    -------
    most : float
        The number.
    """
    memory = _MEMORY
    # not on all systems
    with contextlib.suppress(AttributeError, ValueError, OSError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return _MEMORY_SHARE * memory / _BYTES


def check_entries(graph, name):
    """Raise an error if tables written out would be too large.

    Parameters
    ----------
    graph : FactorGraph
        The graph.
    name : str
        Name of the solver.
    """
    entries, most = n_entries(graph), most_entries()
    if entries == np.inf:
        size = max(
            np.prod(graph.n_states[scope].astype(np.float64))
            for scope in graph.factor_scopes
            if len(scope) > 4
        )
        raise ValueError(
            f"{name} writes out the tables of all factors: one of the graph has "
            f"{size:.4g} entries, at most {_MOST_CONDITION} are possible; use "
            "solver='highs' or 'auto'"
        )
    if entries > most:
        raise ValueError(
            f"the tables of the graph have {entries:.4g} entries written out, {name} "
            f"has the memory for {most:.4g}, a quarter of what there is"
        )


def build_seconds(graph):
    """About how long it takes to set up an exact search, before it can be stopped.

    Parameters
    ----------
    graph : FactorGraph
        The graph.

    Returns
    -------
    seconds : float
        The time; inf if tables are too large.
    """
    entries = n_entries(graph)
    if entries > most_entries():
        return np.inf
    return 1e-7 * entries + 4e-5 * (graph.n_edges + graph.n_factors)


class ExactSearch:
    """Branch and bound on the components of a graph, which can be interrupted.

    Parameters
    ----------
    run : MAPRun
        Has a labeling, and receives better ones and bounds.

    Attributes
    ----------
    closed : bool
        Whether nothing is left to search: the labeling of the run is optimal.
    bound : float
        What the search itself proves, which may be above the bound of the run.
    work : int
        Entries of tables that were looked at.
    """

    def __init__(self, run):
        self.run, self.work, self._again, self.bound = run, 0, True, np.inf
        self._begin()

    def _begin(self):
        """Set up a search, and another as long as it ends at once without a proof."""
        while self._again:
            self._again = False
            self._set_up()

    def _set_up(self):
        """Set up the search for labelings better than that of the run."""
        run, self.closed, self.components = self.run, False, []
        self._start, self._best = run.score, np.inf
        allowed = run.score >= run.lowest
        # where no labeling is allowed yet, any that is
        score = run.score if allowed else run.lowest
        # the tolerance of the best labeling, which may be anywhere up to the bound
        low, high = score + run.offset, run.bound + run.offset
        scale = max(1.0, low, -high)
        self._terms = terms = Terms(
            run.problem, score, run.tol * scale, run.messages, run.bound
        )
        self._gap = terms.top - score
        self._limit = terms.limit + (0 if allowed else 1)
        # whole numbers are worth a search for a better one only
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
        self._left = left = Simplified(root, terms.scopes)
        del root
        # what each component may miss adds up
        grain = terms.grain
        if not terms.whole:
            grain = max(1, grain // max(1, len(left.components)))
        self._report_bound(left.constant)
        for members, *parts in left.components:
            start = left.restrict(run.labeling, members) if allowed else None
            component = make_component(
                *parts, limit - left.constant, grain, start, run.late
            )
            self.components.append(component)
            self.work += component.work
        self._tighten()

    def _skip_grain(self, labeling):
        """Look only for labelings that cost less than one, by a grain."""
        terms = self._terms
        cost = labeling_cost(terms.unaries, terms.scopes, terms.tables, labeling)
        self._limit = min(self._limit, cost - terms.grain + 1)

    def _report_bound(self, cost):
        # labelings at the limit have been left out
        bound = self._terms.top - min(cost, self._limit) / self._terms.scale
        self.bound = min(self.bound, bound)
        return self.run.report_between(bound)

    def _close(self):
        """Nothing below the limit is left."""
        self.closed = True
        run = self.run
        if run.score >= run.lowest:
            # nothing costs less than the limit: that is what was proved
            terms = self._terms
            proved = terms.top - self._limit / terms.scale
            run.report(bound=run.score if terms.whole else proved, step=0)
            # steps that are too coarse for a proof are finer from a better labeling on
            gap = terms.top - run.score
            self._again = (
                run.status is None
                and run.score > self._start
                and _ROUNDING * max(1.0, abs(run.score)) < gap <= _FINER * self._gap
            )
        else:
            # below everything that is allowed: the result will say infeasible
            run.bound, run.status = run.score, Status.INFEASIBLE

    def _tighten(self):
        """Bounds of the others limit what each component may cost."""
        run, parts = self.run, self.components
        if all(part.best is not None for part in parts):
            total = sum(part.cost for part in parts) + self._left.constant
            if total < self._best:
                self._best = total
                run.offer(self._left.complete([part.best for part in parts]))
            self._limit = min(self._limit, total - self._terms.grain + 1)
        bound = sum(part.bound for part in parts) + self._left.constant
        if bound >= self._limit or all(part.closed for part in parts):
            self._close()
            return
        for part in parts:
            part.lower_limit(self._limit - bound + part.bound)

    def advance(self, work):
        """Search on.

        Parameters
        ----------
        work : int
            Entries of tables to look at, about.

        Returns
        -------
        stop : bool
            Whether the run is to stop, or nothing is left to search.
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
            bound = sum(part.bound for part in self.components) + self._left.constant
            if not self.closed and self._report_bound(bound):
                return True
        return self.closed

    def prefer(self, labeling):
        """Use a labeling that was found elsewhere.

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
            self._left.components, self.components, strict=True
        ):
            places = self._left.restrict(labeling, members)
            if places is not None:
                part.prefer(places)
        self._tighten()
        self._begin()
