"""The default solver: a sequence of solvers that fit the graph.

`Auto._combine` is the schedule. Narrow graphs are solved by elimination, and
constraints that the first labeling violates by clauses. TRW-S gives an upper bound.
If a gap remains, branch and bound, tightening by triplets and local search take turns,
whose lengths are counts of work: table entries, clauses, or visits of variables. A
graph of constraints goes to HiGHS, too. The time limit decides only how long HiGHS
runs, how long local search runs before steps that cannot be interrupted, whether branch
and bound is set up, and where the sequence is cut off.
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from sksstruct.inference.map.branch_and_bound.exact_search import (
    ExactSearch,
    build_seconds,
)
from sksstruct.inference.map.branch_and_bound.turns import Turns
from sksstruct.inference.map.clauses.constraints import Constraints
from sksstruct.inference.map.core._decode import set_marginals
from sksstruct.inference.map.core._reduce import score_range
from sksstruct.inference.map.core.solver import MAPSolver
from sksstruct.inference.map.gdmm.binary import MAPBinaryGDMM
from sksstruct.inference.map.gdmm.gdmm import MAPGDMM
from sksstruct.inference.map.local_search._rounds import RoundSearch
from sksstruct.inference.map.local_search._violations import ViolationsFirst
from sksstruct.inference.map.local_search.search import LocalSearch
from sksstruct.inference.map.message_passing.trws import TRWS
from sksstruct.inference.map.packing import Packing
from sksstruct.inference.map.tightening.tighten import Tightening
from sksstruct.utils._parameters import NON_NEGATIVE
from sksstruct.utils.progress import Status

# All variables are eliminated if the tables of the elimination have at most this number
# of entries in total: a fraction of a second.
_ELIMINATE = 2e6
# With more edges between binary variables, GDMM, which activates few edges, takes the
# place of TRW-S.
_MANY_EDGES = 200_000
# From this number of states of a variable on, a few iterations of GDMM precede TRW-S.
_MANY_STATES = 128
# Visits of clauses by the search with clauses before all other solvers, and again after
# the first turn of branch and bound; and visits between two checks of the time.
_CLAUSE_WORK, _CLAUSE_STEP = 4_000_000, 1_000_000
# With more pairs of states that exclude each other, the integer program comes before
# TRW-S and branch and bound, which take longer than to load HiGHS.
_PACK_FIRST = 5_000
# Table entries that branch and bound reads before tightening: easy proofs need no
# triplets.
_FIRST_WORK = 5_000_000
# Table entries that a turn of `ViolationsFirst` reads at first, about.
_FIRST_VIOLATIONS = 2e6
# Table entries that branch and bound reads between two turns of local search.
_STEP = 2_000_000
# Largest time of setting up branch and bound: in seconds, and as a share of the
# remaining time.
_BUILD_SECONDS, _BUILD_SHARE = 10.0, 0.3
# Table entries that tightening reads in all. Tightening ends if `_TIGHTEN_STEP` entries
# close less than the share `_TIGHTEN_LEAST` of the gap.
_TIGHTEN_WORK = 4e9
_TIGHTEN_STEP, _TIGHTEN_LEAST = 1e8, 0.03
# Entries that tightening reads in the time in which branch and bound reads one entry.
_TIGHTEN_SPEED = 8.0
# Branch and bound begins again with the triplets if the triplets leave at most this
# share of the gap: factors of three variables make each step slower.
_TIGHT = 0.1
# Relative error of a sum of scores.
_ROUNDING = 1e-12
# Statuses of solvers after which the labeling may not be optimal.
_OPEN = Status.STALLED, Status.MAX_ITER, Status.FRACTIONAL


@dataclass(eq=False, repr=False)
class Auto(MAPSolver):
    """The default: a combination of solvers chosen by the size and shape of the graph.

    Graphs of small width are solved exactly by elimination. Other graphs get an upper
    bound and labelings from `TRWS`; binary graphs with very many edges use
    `MAPBinaryGDMM`, and graphs with large domains start with a few iterations of
    `MAPGDMM`, if all factors have two variables. If the labeling is not optimal, branch
    and bound runs next, and then triplets of variables tighten the relaxation, as in
    `Tightened`. If a gap remains, branch and bound alternates with a local search with
    exact moves in windows, which combines the best parts of its labelings [2]_. Entries
    that are so low that one of them decides the score are constraints. Another local
    search avoids violations first, with growing weights on violated constraints [1]_.
    Entries of -inf become clauses. A search that learns from conflicts [3]_ finds an
    allowed labeling first, or a proof that there is none. Edges that only exclude two
    states of binary variables are joined to cliques, and conditions "xor" and
    "atmostone" of eight or more variables become cliques. If most variables are in
    constraints, and there are few other tables, as in auctions, warehouse location and
    Latin squares, HiGHS searches at most 100 nodes, in at most two fifths of the
    remaining time, or a minute without a limit: it solves an integer program in which a
    row for each clique keeps its states from being taken together [4]_.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of sweeps of `TRWS`.
    tol : float, default=1e-6
        A labeling is optimal if its score is within ``tol * max(1, |score|)`` of the
        bound; if all scores are far below 1, any labeling is.
    effort : float, default=1.0
        How long to search if the bound is not reached. The search ends after `effort`
        times as much work without an improvement as was done before it, and after at
        least `effort` times some thousand visits of each variable. With a time limit,
        the search continues until the limit. With 0, there is no search beyond the
        searches of the solvers.

    References
    ----------
    .. [1] P. Morris, "The breakout method for escaping from local minima", AAAI 1993.
    .. [2] J. Houdayer and O. Martin, "Hierarchical approach for computing spin glass
       ground states", Physical Review E 64, 2001.
    .. [3] J. Marques-Silva and K. Sakallah, "GRASP: a search algorithm for
       propositional satisfiability", IEEE Transactions on Computers 48(5), 1999.
    .. [4] M. Padberg, "On the facial structure of set packing polyhedra", Mathematical
       Programming 5, 1973.

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import Auto
    >>> ring = FactorGraph([[0, 1.0], [0, 0], [0.5, 0]], [(0, 1), (1, 2), (2, 0)],
    ...                    Potts(2, 0.0, 1.0))
    >>> result = Auto().solve(ring, random_state=0)
    >>> result.labeling.tolist(), result.score, result.status
    ([1, 0, 0], 3.5, 'optimal')
    >>> result.plan_
    ['elimination of all variables: the graph is narrow']
    """

    max_iter: int = 1000
    tol: float = 1e-6
    _: KW_ONLY
    effort: float = 1.0

    _pairwise, _joins, _floors = False, True, True
    _allowed = {**MAPSolver._allowed, "effort": NON_NEGATIVE}

    def _run(self, run):
        self._combine(run)
        if run.bound == np.inf:
            # the time limit came before any solver had a bound: use the sum of all
            # maxima
            sums = score_range(run.problem.graph)
            bound = sums[1] + _ROUNDING * max(map(abs, sums))
            run.report_between(run.part, bound)

    def _combine(self, run):
        """Run the solvers that fit the graph, one after the other or in turns."""
        problem = run.problem
        run.offer(problem.best_states())
        many = problem.max_states == 2 and problem.n_edges > _MANY_EDGES
        if not many and self._eliminate(run):
            return
        searched = run.without_cliques()
        constraints = self._constraints(run, searched)
        if run.status is not None:
            return
        packing = self._packing(run, searched)
        if run.status is not None:
            set_marginals(run)
            return
        beliefs = self._bound(run, many)
        if run.status in _OPEN and self.effort > 0:
            # a search that ends without a proof keeps the status of the relaxation
            status, run.status = run.status, None
            if constraints is not None and run.score >= run.lowest:
                n = searched.problem.n_variables
                constraints.prefer(problem.best_states(beliefs)[:n])
                self._find_allowed(run, searched, constraints)
            rounds = RoundSearch(searched, self._violations(searched))
            exact = self._exact(run, rounds)
            if constraints is not None and run.status is None:
                self._satisfy(run, searched, constraints)
            if packing is not None and run.status is None:
                self._pack(run, searched, packing)
            turns = exact and self._tightened(run, Turns(run, exact), rounds)
            if run.status is None:
                run.note("local search" + (" in turns with it" if turns else ""))
                if turns:
                    turns.restart()
                rounds.search(self.effort, turns)
            run.status = run.status or status
        if run.status is Status.OPTIMAL or run.marginals is None:
            set_marginals(run, np.array(beliefs))

    def _eliminate(self, run):
        """Solve a graph of small width; False where the width is large."""
        search = LocalSearch(run.problem, run.labeling, run.seed())
        if not search.solve(_ELIMINATE):
            return False
        run.note("elimination of all variables: the graph is narrow")
        run.offer(search.labeling)
        run.report(bound=run.score, part="elimination")
        set_marginals(run)
        return True

    def _constraints(self, run, searched):
        """Satisfy the constraints by clauses, if the labeling so far violates some.

        Returns the constraints; None if there are none, or if none is violated.
        """
        if run.score >= run.lowest:
            return None
        constraints = Constraints(run.plain, searched.labeling)
        if not constraints.exist:
            return None
        self._satisfy(run, searched, constraints)
        return constraints

    def _satisfy(self, run, searched, constraints):
        """Find a labeling that satisfies all constraints, or prove that none exists."""
        if run.score >= run.lowest:
            return
        self._find_allowed(run, searched, constraints)
        found = "satisfied" if run.score >= run.lowest else "open"
        if constraints.infeasible:
            found = "they contradict each other"
            run.bound, run.status = run.score, Status.INFEASIBLE
        run.note(f"clauses that learn from conflicts: {found}")

    def _find_allowed(self, run, searched, constraints):
        """Search with clauses for a labeling that satisfies the clauses."""
        end = constraints.work + _CLAUSE_WORK
        while constraints.work < end and not constraints.infeasible:
            labeling = constraints.advance(_CLAUSE_STEP)
            if labeling is not None:
                searched.offer(labeling)
            if run.report_between("clauses") or labeling is not None:
                return

    def _packing(self, run, searched):
        """Return the integer program of a graph of constraints, to be solved later.

        None if the graph has no such program, or if the program has been solved: a
        large program comes first.
        """
        if not self.effort:
            return None
        packing = Packing(run.plain)
        if packing.suits and packing.size > _PACK_FIRST:
            self._pack(run, searched, packing)
            return None
        return packing if packing.suits else None

    def _pack(self, run, searched, packing):
        """Give the integer program of a graph of constraints to HiGHS."""
        run.note(
            f"integer program: {packing.size} pairs of states exclude each other, "
            f"{packing.n_conditions} conditions"
        )
        packing.solve(run, searched)

    def _violations(self, run):
        """Return a search for few violations, after a turn with each limit and tenure.

        None if no table entries are low enough to be constraints.
        """
        violations = ViolationsFirst(run)
        if not violations.limits:
            return None
        text = ", ".join(f"{limit:.3g}" for limit, _ in violations.limits)
        run.note(
            f"violations first: entries that miss more than {text} are constraints"
        )
        for _ in range(violations.n_kinds):
            violations.take(_FIRST_VIOLATIONS)
        run.report_between("violations")
        return violations

    def _exact(self, run, rounds):
        """Return branch and bound after its first turn.

        None if the set-up would take too long, or the run has ended.
        """
        seconds = build_seconds(run.problem.graph)
        if seconds <= _BUILD_SECONDS and rounds.keep_up(seconds):
            return None
        # Once local search has begun, setting up branch and bound may take all of the
        # remaining time, up to `_BUILD_SECONDS`, and before that only a share of it.
        share = 1.0 if rounds.begun else _BUILD_SHARE
        if seconds > min(_BUILD_SECONDS, share * run.left()):
            run.note(f"no branch and bound, which would take {seconds:.1f} s to set up")
            return None
        run.note("branch and bound")
        exact = ExactSearch(run)
        self._advance(run, exact, _FIRST_WORK, rounds)
        return exact

    def _advance(self, run, exact, work, rounds):
        """Give branch and bound a turn, and local search a share of the time.

        Returns whether the run or branch and bound has ended.
        """
        end = exact.work + work
        while exact.work < end:
            if exact.advance(min(_STEP, end - exact.work)):
                return True
            score = run.score
            if rounds.keep_up():
                return True
            if run.score > score:
                exact.prefer(run.labeling)
        return exact.closed

    def _tightened(self, run, turns, rounds):
        """Lower the bound by triplets; return turns of branch and bound to continue."""
        if run.status is not None or turns.exact.closed:
            return turns
        if run.messages is None or run.score < run.lowest:
            return turns
        # The first turn has left a gap. A better labeling lets tightening and branch
        # and bound remove more states.
        if rounds.begin():
            return turns
        before = run.exact_bound - run.score
        tightening = self._tighten(run, turns, rounds)
        after = run.exact_bound - run.score
        run.note(
            f"tightening by {tightening.n_triplets} triplets of variables: "
            f"the gap is {after:.4g} instead of {before:.4g}"
        )
        if run.status is not None or after > _TIGHT * before:
            return turns
        if rounds.keep_up(build_seconds(run.problem.graph)):
            return turns
        run.messages = tightening
        run.note("branch and bound from the tightened relaxation")
        return Turns(run, ExactSearch(run))

    def _tighten(self, run, turns, rounds):
        """Add triplets while new triplets close enough of the gap.

        Tightening takes turns with branch and bound: either may close the gap.
        """
        tightening, gap, step = Tightening(run), np.inf, 0.0
        while (done := tightening.work) < _TIGHTEN_WORK:
            if tightening.advance() or rounds.keep_up():
                break
            if tightening.work >= step:
                now = tightening.bound - run.score
                if now > (1.0 - _TIGHTEN_LEAST) * gap:
                    break
                gap, step = now, tightening.work + _TIGHTEN_STEP
            if turns.take((tightening.work - done) / _TIGHTEN_SPEED):
                break
        return tightening

    def _bound(self, run, many_edges):
        """Solve a relaxation by solvers that fit the graph; return its beliefs."""
        problem = run.problem
        if many_edges and not problem.n_higher:
            run.part = "GDMM"
            run.note("GDMM of binary variables: very many edges")
            MAPBinaryGDMM(self.max_iter, self.tol)._run(run)
            return problem.graph.unaries
        # GDMM is for given variables of many states; variables of cliques have many,
        # too
        has_many = problem.max_states >= _MANY_STATES and not run.n_cliques
        if has_many and not problem.n_higher:
            run.part = "GDMM"
            run.note("GDMM: many states")
            MAPGDMM(20, self.tol)._run(run)
            unfinished = run.status in ("max_iter", "fractional")
            if unfinished and run.n_iter < run.max_iter:
                run.status = None
        if run.status is None:
            run.part = "TRW-S"
            run.note("TRW-S")
            return TRWS(self.max_iter, self.tol)._run(run)
        return problem.graph.unaries
