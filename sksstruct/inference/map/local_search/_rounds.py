"""Iterated local search: rounds of annealing, crossover, and exact moves in windows."""

from sksstruct.inference.map.local_search._crossover import Crossover
from sksstruct.inference.map.local_search.search import LocalSearch

# Work is counted in visits of variables.
# Calls of `anneal` in a round: the clock is checked in between.
_CALLS = 6
# Visits of one call at most, so that the clock is looked at.
_MOST_VISITS = 500_000
# Heat at the beginning of a round, in units of the cost of a kick; it ends at zero.
_HEAT = 3.0
# Heat, in the same units, above which labelings are forgotten: a round ends with one of
# its own.
_HOT = 2.0
# The least work that a search is worth, over that of its first round.
_FIRST_ROUND = 512
# Factors of a graph, above which crossover would take longer than a round.
_MOST_FACTORS = 1_000_000
# Variables of a window of `anneal` at most.
_WIDTH = 200
# Entries of a table for exact moves in it: as many as are quick beside other moves.
_BUDGET = 512.0
# States of a variable, above which tables are so large that exact moves would have few
# variables.
_FEW_STATES = 8
# Variables of a window at the end of a round, where there is time for larger ones.
_WIDE = 600
# Entries of a table in these windows at first: they double with each round.
_WIDE_BUDGET = 2048.0
# And at most: more take longer than what they gain is worth.
_WIDEST_BUDGET = 65536.0
# Visits of a round for each one that these windows may take.
_WINDOWS_SHARE = 8
# Entries of theirs that take as long as a visit.
_ENTRIES = 8
# Entries of tables that take branch and bound about as long as visiting a variable, for
# every two of its states.
_ENTRIES_PER_VISIT = 30
# Time of branch and bound over that of a round: at least, at first, and at most.
_LEAST_TURN = 0.25
_FIRST_TURN = 0.5
_MOST_TURN = 2.0
# It doubles where going on so would close the gap with at most so many times the work
# that branch and bound has done so far.
_GOOD = 5.0
# It halves where that would take more than so many times.
_POOR = 25.0
# Share of all time that the rounds keep up with: the rest is for what bounds.
_SHARE = 0.25
# Share of the score that is open at least where they do: a smaller gap needs bounds.
_LOOSE = 0.05
# Time of a search before a step that cannot be interrupted, over that of the step.
_BEFORE = 3.0
# Seconds that a search has to be behind by: less can wait.
_MOMENT = 0.03
# The same before a step that cannot be interrupted.
_SHORT = 0.3
# Share of the time at the very beginning: where labelings are poor, search finds better
# ones at once.
_EARLY = 0.5
# Seconds that it has at most by that share.
_EARLY_SECONDS = 0.3
# Time of visiting a binary variable, over that of another.
_BINARY = 0.25
# Seconds of one call where there is a time limit.
_SECONDS = 0.1
# Visits of a call while the speed is not known.
_TRIAL = 100


class RoundSearch:
    """Search from the best labeling of a run, in rounds that get longer.

    Parameters
    ----------
    run : MAPRun
        Receives the labelings, and says when to stop.
    violations : ViolationsFirst, default=None
        A search for labelings that violate little, which takes turns.

    Attributes
    ----------
    begun : bool
        Whether there was a round.
    """

    def __init__(self, run, violations=None):
        self.run, self._violations, self._rounds = run, violations, None
        self._least = _least_work(run.problem)
        self._work, self._done, self._idle = self._least // _FIRST_ROUND, 0, 0
        self._begin, self._seconds = run.seconds(), 0.0

    @property
    def begun(self):
        return self._rounds is not None

    def keep_up(self, seconds=0.0):
        """Search for a share of all time so far, with a time limit and a loose bound.

        Other solvers may take all the time that is left, and find nothing. How much
        they leave to this one depends on the time so far, but not on the limit: what is
        found by a limit is found by a later one, too.

        Parameters
        ----------
        seconds : float, default=0.0
            Time that the next step takes at least.

        Returns
        -------
        stop : bool
            Whether the run is to stop.
        """
        run = self.run
        if run.max_seconds is None or run.status is not None or not self._is_loose():
            return run.status is not None
        passed = run.seconds() - self._begin
        early = min(_EARLY * passed, _EARLY_SECONDS)
        end = max(_SHARE * passed, early, _BEFORE * seconds)
        if end - self._seconds > (_SHORT if seconds else _MOMENT):
            while self._seconds < end:
                if run.late() or self._round():
                    return True
        return False

    def begin(self):
        """Make the first round, if there was none; whether the run is to stop."""
        return not self.begun and self._round()

    def _is_loose(self):
        """Whether better labelings are likely: else others prove what there is."""
        run = self.run
        scale = max(1.0, abs(run.score + run.offset))
        return run.score >= run.lowest and run.bound - run.score > _LOOSE * scale

    def search(self, effort, exact=None):
        """Search until nothing more is expected.

        Parameters
        ----------
        effort : float
            The search ends after this much work without an improvement, in units of
            the work before it or, if more, of some thousand visits of each variable.
            With a time limit it goes on until then.
        exact : ExactSearch, default=None
            Branch and bound that takes turns with the rounds, until nothing is left.
        """
        run, turns = self.run, _Turns(self.run, exact)
        while not run.late():
            before, done = run.score, self._done
            if self._round():
                return
            if exact is not None and not exact.closed:
                turns.take(self._done - done, run.score > before)
                if run.status is not None:
                    return
            # what branch and bound has found counts as well
            if run.score > before + 1e-9 * abs(before):
                self._idle = 0
            least = max(self._done - self._idle, self._least)
            if self._idle >= effort * least and not turns.may_succeed():
                run.note(
                    f"the search ended after {self._idle:.3g} visits of variables "
                    "without an improvement: more effort goes on"
                )
                return

    def _round(self):
        """One round; whether the run is to stop."""
        run, started = self.run, self.run.seconds()
        rounds = self._rounds = self._rounds or _Rounds(run)
        # rounds that bring something are long enough
        if self._idle:
            self._work = 5 * self._work // 4
        before = run.score
        self._work = rounds.in_time(self._work)
        # after an improvement in turns from it and from somewhere else
        again = not self._idle and rounds.n_done % 2
        rounds.anneal(self._work, run.labeling if again else None)
        rounds.combine()
        rounds.look_in_windows(self._work // _WINDOWS_SHARE)
        if self._violations is not None:
            self._violations.take(_entries(run, self._work))
        self._done += self._work
        better = run.score > before + 1e-9 * abs(before)
        self._idle = 0 if better else self._idle + self._work
        # the sweeps before the search may have used up the iterations, which are theirs
        stop = run.report_between()
        self._seconds += run.seconds() - started
        return stop


def _least_work(problem):
    """Visits that are worth it on any graph: fewer where a visit costs more."""
    cost = max(1.0, problem.max_states / 8)
    cost *= max(1.0, problem.n_edges / problem.n_variables / 16) ** 1.5
    return int((30_000 * problem.n_variables + 4e6) / cost)


def _entries(run, work):
    """Entries of tables that branch and bound looks at while so many are visited."""
    return work * _ENTRIES_PER_VISIT * max(1, run.problem.max_states // 2)


class _Turns:
    """Turns of branch and bound, which are shorter where they bring nothing."""

    def __init__(self, run, exact):
        self.run, self.exact, self.share = run, exact, _FIRST_TURN

    def may_succeed(self):
        """Whether to go on after a long time without an improvement."""
        run, exact = self.run, self.exact
        # a labeling that is not allowed is no result; and what was given may be used
        closed = exact is not None and exact.closed
        return run.score < run.lowest or (run.max_seconds is not None and not closed)

    def take(self, work, improved):
        """Search for as long as so many visits take, times a share."""
        run, exact = self.run, self.exact
        if improved:
            exact.prefer(exact.run.labeling)
        # by what it proves itself: other bounds may be lower for a while
        score, gap = run.score, exact.bound - run.score
        before = exact.work
        speed = _BINARY if run.problem.max_states == 2 else 1.0
        exact.advance(int(speed * _entries(run, work) * self.share))
        left = exact.bound - run.score
        # turns of any length count alike
        turn = (exact.work - before) / max(exact.work, 1)
        least, most = _LEAST_TURN, _MOST_TURN
        if run.score > score or _GOOD * (gap - left) > turn * gap:
            self.share = min(2.0 * self.share, most)
        # without an allowed labeling there is nothing to search around
        elif _POOR * (gap - left) < turn * gap and run.score >= run.lowest:
            self.share = max(0.5 * self.share, least)


class _Rounds:
    """The parts of a round, and the state that one round leaves to the next."""

    def __init__(self, run):
        problem = run.problem
        self.run, self.n_variables = run, problem.n_variables
        self.kernel = LocalSearch(problem, run.labeling, run.seed())
        self.crossover = Crossover(run)
        self.exact = problem.max_states <= _FEW_STATES
        # visits in a second, calls of `anneal`, and the budget of the next windows
        self.rate, self.calls, self.wide_budget = 0.0, 0, _WIDE_BUDGET
        self.n_done = 0

    def in_time(self, work):
        """The work that fits into the time limit, so that annealing ends cold."""
        run = self.run
        if run.max_seconds is None or not self.rate:
            return work
        return max(int(min(work, 0.9 * self.rate * run.left())), _CALLS)

    def anneal(self, work, labeling):
        """Anneal from hot to cold, in so many visits, from some or random states."""
        run, kernel, visited = self.run, self.kernel, 0
        self.n_done += 1
        kernel.start_from(labeling)
        while visited < work and not run.late():
            visits = self._visits(min(work // _CALLS, _MOST_VISITS))
            # windows and forests in turns: one may improve what the other cannot
            budget = _BUDGET if self.exact and self.calls % 2 == 0 else 0.0
            self.calls += 1
            heat = _HEAT * (1.0 - visited / work)
            visited += visits
            cold = _HEAT * max(0.0, 1.0 - visited / work)
            started = run.seconds()
            try:
                kernel.anneal(visits, heat, cold, budget, _WIDTH)
                self.rate = visits / max(run.seconds() - started, 1e-9)
            finally:
                # scored afresh: the sum of the gains would add up rounding errors
                run.offer(kernel.labeling)
            # where it was hot, the best labeling is the one it came from
            if heat > _HOT:
                kernel.forget()

    def combine(self):
        """Combine what annealing ended with with the best labeling and older ones."""
        if self.run.problem.n_factors <= _MOST_FACTORS:
            self.crossover.combine(self.kernel.labeling)

    def _visits(self, visits):
        """Visits of one call: fewer where a time limit would be missed by much."""
        run = self.run
        if run.max_seconds is None:
            return visits
        left = min(run.left(), _SECONDS)
        return max(1, int(min(visits, self.rate * left if self.rate else _TRIAL)))

    def look_in_windows(self, work):
        """Exact moves in windows too wide for annealing, for so many visits."""
        if not self.exact:
            return
        kernel, visited, total = self.kernel, 0, _ENTRIES * float(work)
        kernel.start_from(self.run.labeling)
        try:
            while visited < work and not self.run.late():
                kernel.windows(1, _WIDE, self.wide_budget, total)
                visited += _WIDE + kernel.elimination.order.n_entries // _ENTRIES
        finally:
            self.run.offer(kernel.labeling)
        self.wide_budget = min(2.0 * self.wide_budget, _WIDEST_BUDGET)
