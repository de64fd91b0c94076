"""Iterated local search: rounds of annealing, crossover, and exact moves in windows.

`RoundSearch` decides how long rounds are and when the search ends, and `_Rounds`
performs the parts of a round.
"""

from sksstruct.inference.map.local_search._crossover import Crossover
from sksstruct.inference.map.local_search.search import LocalSearch

# The unit of work is the visit of a variable.
# Calls of `anneal` in a round: the time limit is checked in between.
_CALLS = 6
# Largest number of visits of one call, so that the time limit is checked.
_MOST_VISITS = 500_000
# Heat at the beginning of a round, in units of the mean cost of a kick; falls to zero.
_HEAT = 3.0
# Heat, in the same units, above which a round forgets its best labeling, so that the
# round ends with a labeling found after the hot phase.
_HOT = 2.0
# Ratio of the least work of a whole search to the work of its first round.
_FIRST_ROUND = 512
# With more factors crossover would take longer than a round.
_MOST_FACTORS = 1_000_000
# Largest number of variables of a window of `anneal`.
_WIDTH = 200
# Largest number of entries of a table of an exact move in such a window.
_BUDGET = 512.0
# With more states of a variable, tables are too large for exact moves of many
# variables.
_FEW_STATES = 8
# Variables of the wide windows at the end of a round.
_WIDE = 600
# Largest number of entries of a table of a wide window in the first round; doubles with
# each round.
_WIDE_BUDGET = 2048.0
# Upper limit of the doubling: larger tables take too long.
_WIDEST_BUDGET = 65536.0
# Ratio of a round's visits to the visits of its wide windows.
_WINDOWS_SHARE = 8
# Table entries of wide windows that take as long as one visit.
_ENTRIES = 8
# Table entries that branch and bound reads in about the time of a visit, for every two
# states of a variable.
_ENTRIES_PER_VISIT = 30
# Share of the time for rounds with a loose bound; solvers with bounds get the rest.
_SHARE = 0.25
# Share of the time for rounds while rounds improve nothing.
_IDLE_TIME = 0.1
# Least gap of a loose bound, relative to the score.
_LOOSE = 0.05
# Ratio of the time for rounds before an uninterruptible step to the time of the step.
_BEFORE = 3.0
# A search that has improved nothing in this number of consecutive rounds, and in this
# share of all visits so far, gets no time before other solvers.
_IDLE_ROUNDS, _IDLE_SHARE = 3, 0.5
# A round begins if rounds are behind their share of the time by this number of seconds.
_LEAST_DELAY = 0.03
# Seconds that rounds have to be behind before an uninterruptible step.
_LEAST_STEP_DELAY = 0.3
# Share of the first seconds for rounds, which improve poor labelings quickly.
_EARLY = 0.5
# Largest time in seconds that `_EARLY` gives to rounds.
_EARLY_SECONDS = 0.3
# Seconds of one call of `anneal` under a time limit.
_SECONDS = 0.1
# Visits of the first call under a time limit, which measures the speed.
_TRIAL = 100


class RoundSearch:
    """Search from the incumbent of a run, in rounds that get longer.

    Parameters
    ----------
    run : MAPRun
        Receives the labelings, and says when to stop.
    violations : ViolationsFirst, default=None
        Search for labelings with few violations, which has a turn in each round.

    Attributes
    ----------
    begun : bool
        Whether there was a round.
    """

    def __init__(self, run, violations=None):
        self.run, self._violations, self._rounds = run, violations, None
        self._min_work = _least_work(run.problem)
        self._work, self._spent, self._idle_work = self._min_work // _FIRST_ROUND, 0, 0
        self._n_idle, self._start_seconds, self._seconds = 0, run.seconds(), 0.0

    @property
    def begun(self):
        return self._rounds is not None

    def keep_up(self, seconds=0.0):
        """Make rounds for a share of the time so far, if the bound is loose.

        Only with a time limit: other solvers might use all of the time without finding
        a labeling. The share depends on the time passed and not on the limit, so that a
        later limit finds all labelings that an earlier limit finds.

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
        passed = run.seconds() - self._start_seconds
        if self._is_idle():
            share, early = _IDLE_TIME, 0.0
        else:
            share, early = _SHARE, min(_EARLY * passed, _EARLY_SECONDS)
        end = max(share * passed, early, _BEFORE * seconds)
        if end - self._seconds > (_LEAST_STEP_DELAY if seconds else _LEAST_DELAY):
            while self._seconds < end:
                if run.late() or self._round():
                    return True
                # rounds that improve nothing do not put off a step for longer
                if seconds and self._is_idle():
                    break
        return False

    def begin(self):
        """Make the first round if there was none; return whether the run is to stop."""
        return not self.begun and self._round()

    def _is_idle(self):
        """Whether the last rounds, and most visits, have improved nothing."""
        most = self._idle_work >= _IDLE_SHARE * self._spent
        return self._n_idle >= _IDLE_ROUNDS and most

    def _is_loose(self):
        """Whether an allowed labeling is known, and the gap to the bound is large."""
        run = self.run
        scale = max(1.0, abs(run.score + run.offset))
        return run.score >= run.lowest and run.bound - run.score > _LOOSE * scale

    def search(self, effort, turns=None):
        """Make rounds until no further improvement is expected.

        Parameters
        ----------
        effort : float
            The search ends after this much work without an improvement, in units of
            the work up to the last improvement or, if more, of some thousand visits of
            each variable. A time limit replaces this rule.
        turns : Turns, default=None
            Turns of branch and bound between the rounds.
        """
        run = self.run
        while not run.late():
            before, done = run.score, self._spent
            if self._round():
                return
            if turns is not None:
                turns.take(_entries(run, self._spent - done), self._is_idle())
                if run.status is not None:
                    return
            # labelings of branch and bound count as improvements, too
            if run.score > before + 1e-9 * abs(before):
                self._idle_work = 0
            least = max(self._spent - self._idle_work, self._min_work)
            if self._idle_work >= effort * least and not self._may_succeed(turns):
                run.note(
                    f"the search ended after {self._idle_work:.3g} visits of variables "
                    "without an improvement; a larger effort continues it"
                )
                return

    def _may_succeed(self, turns):
        """Whether to continue after a long time without an improvement."""
        run = self.run
        # continue without an allowed labeling, or until the time limit
        closed = turns is not None and turns.exact.closed
        return run.score < run.lowest or (run.max_seconds is not None and not closed)

    def _round(self):
        """Make one round; return whether the run is to stop."""
        run, started = self.run, self.run.seconds()
        rounds = self._rounds = self._rounds or _Rounds(run)
        # only a round without an improvement makes the next one longer
        if self._idle_work:
            self._work = 5 * self._work // 4
        before = run.score
        self._work = rounds.in_time(self._work)
        # after an improvement, rounds start from the improved labeling and from random
        # states in turn
        again = not self._idle_work and rounds.n_done % 2
        rounds.anneal(self._work, run.labeling if again else None)
        rounds.combine()
        rounds.look_in_windows(self._work // _WINDOWS_SHARE)
        if self._violations is not None:
            self._violations.take(_entries(run, self._work))
        self._spent += self._work
        better = run.score > before + 1e-9 * abs(before)
        self._idle_work = 0 if better else self._idle_work + self._work
        self._n_idle = 0 if better else self._n_idle + 1
        # `report_between` counts no iteration: max_iter limits sweeps, not rounds
        stop = run.report_between("local search")
        self._seconds += run.seconds() - started
        return stop


def _least_work(problem):
    """Return the least visits before a search may end; fewer if visits are slow."""
    cost = max(1.0, problem.max_states / 8)
    cost *= max(1.0, problem.n_edges / problem.n_variables / 16) ** 1.5
    return int((30_000 * problem.n_variables + 4e6) / cost)


def _entries(run, work):
    """Return the entries that branch and bound reads in the time of `work` visits."""
    return work * _ENTRIES_PER_VISIT * max(1, run.problem.max_states // 2)


class _Rounds:
    """The parts of a round, and the state that rounds pass on."""

    def __init__(self, run):
        problem = run.problem
        self.run, self.n_variables = run, problem.n_variables
        self.kernel = LocalSearch(problem, run.labeling, run.seed())
        self.crossover = Crossover(run)
        self.exact = problem.max_states <= _FEW_STATES
        # visits per second, calls of `anneal`, largest table of the next wide windows
        self.rate, self.calls, self.wide_budget = 0.0, 0, _WIDE_BUDGET
        self.n_done = 0

    def in_time(self, work):
        """Reduce the work to the time that is left, so that annealing ends cold."""
        run = self.run
        if run.max_seconds is None or not self.rate:
            return work
        return max(int(min(work, 0.9 * self.rate * run.left())), _CALLS)

    def anneal(self, work, labeling):
        """Anneal a labeling or random states from hot to cold, in `work` visits."""
        run, kernel, visited = self.run, self.kernel, 0
        self.n_done += 1
        kernel.start_from(labeling)
        while visited < work and not run.late():
            visits = self._visits(min(work // _CALLS, _MOST_VISITS))
            # windows and forests alternate: either may find moves that the other misses
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
                # `offer` computes the score anew: a sum of gains has rounding errors
                run.offer(kernel.labeling)
            # forget the first labeling of the round, which is the best one in hot calls
            if heat > _HOT:
                kernel.forget()

    def combine(self):
        """Combine the labeling of this round with the incumbent and earlier ones."""
        if self.run.problem.n_factors <= _MOST_FACTORS:
            self.crossover.combine(self.kernel.labeling)

    def _visits(self, visits):
        """Reduce the visits of one call to the time that is left."""
        run = self.run
        if run.max_seconds is None:
            return visits
        left = min(run.left(), _SECONDS)
        return max(1, int(min(visits, self.rate * left if self.rate else _TRIAL)))

    def look_in_windows(self, work):
        """Make exact moves in wide windows, for `work` visits."""
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
