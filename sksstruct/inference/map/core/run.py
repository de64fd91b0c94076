"""State of a solver's run: clock, best labeling, bound, trace, and reasons to stop."""

import numpy as np

from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.result import MAPResult
from sksstruct.utils.progress import Progress, Status

# Seconds until the second line of progress.
_FIRST_LINE = 0.5
COLUMNS = ("iteration", "seconds", "score", "bound", "part")


class MAPRun(Progress):
    """Progress on a reduced graph.

    Parameters
    ----------
    problem : Problem
        The reduced graph.
    tol : float
        Relative difference of bound and score that counts as optimal.
    max_iter : int
        Maximum number of iterations.
    max_seconds : float or None
        Time limit in seconds; None: no limit.
    rng : RandomState
        Source of random choices.
    offset : float, default=0.0
        Number that is added to scores before they are reported to the user.
    verbose : int, default=0
        1: print progress at increasing intervals; 2: print every report.
    callback : callable, default=None
        ``callback(iteration, score, bound)`` after every report; true: stop the run.
    name : str, default=""
        Name of the solver.
    started : float, default=None
        Reading of `time.perf_counter` from which seconds count; None: now.
    lowest : float, default=-inf
        With penalties in place of -inf: labelings of a lower score are not allowed.
    """

    def __init__(
        self, problem, tol, max_iter, max_seconds, rng, *, offset=0.0, verbose=0,
        callback=None, name="", started=None, lowest=-np.inf,
    ):  # fmt: skip
        super().__init__(name, COLUMNS, COLUMNS[:1], verbose, COLUMNS[-1:])
        if started is not None:
            self.started = started
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.max_seconds, self.rng, self.offset = max_seconds, rng, offset
        self.callback, self.lowest = callback, lowest
        self.labeling, self.score, self.bound = None, -np.inf, np.inf
        # the lowest bound of all parts before it is rounded down, in which small
        # progress is visible
        self.exact_bound = np.inf
        self.marginals = None
        # name of the part of the solver that reports, for the trace
        self.part = name
        self.stopped = False
        problem.limit_time(self.left())
        self.plan = []
        # the message-passing kernel, for steps of "auto" that continue from its
        # messages
        self.messages = None
        # the graph with scores of -inf, and without the variables of cliques
        self.plain = problem.graph
        # function that returns the run for local search, which is faster on the graph
        # without cliques
        self.without_cliques, self.n_cliques = lambda: self, 0
        # from `whole_error`: bounds on whole scores are rounded down
        self.whole_error = None
        self._next_line = 0.0

    def note(self, step):
        """Append a step, with its reason, to the plan."""
        self.plan.append(step)

    def seed(self):
        """Return a seed for a compiled random generator."""
        return int(self.rng.randint(2**31 - 1))

    def left(self):
        """Return the seconds until the time limit; inf without a limit."""
        return np.inf if self.max_seconds is None else self.max_seconds - self.seconds()

    def late(self):
        """Return whether the time limit has passed."""
        if self.max_seconds is not None and self.seconds() >= self.max_seconds:
            self.status = self.status or Status.TIME_LIMIT
            return True
        return False

    def offer(self, labeling, score=None):
        """Store a labeling if its score is higher than the best so far."""
        if score is None:
            score = self.problem.labeling_score(labeling)
        if self.labeling is None or score > self.score:
            self.labeling, self.score = np.array(labeling, dtype=np.int32), score

    def interrupt(self):
        """Make the state consistent after an interrupt between any two statements."""
        problem = self.problem
        # the interrupt may have come between the labeling's assignment and the score's
        labeling = problem.best_states() if self.labeling is None else self.labeling
        self.labeling, self.score = None, -np.inf
        self.offer(labeling)
        self.bound, self.marginals = max(self.bound, self.score), None
        self.status = Status.INTERRUPTED

    def is_optimal(self):
        """Return whether the best labeling's score is within `tol` of the bound."""
        if self.score == -np.inf:  # no labeling was offered
            return False
        # a labeling with a penalty is not optimal while the bound allows one without
        if self.score < self.lowest <= self.bound:
            return False
        scale = max(1.0, abs(self.score + self.offset))
        return self.bound - self.score <= self.tol * scale

    def report(self, *, bound=None, step=1, part=None):
        """Record an iteration.

        Parameters
        ----------
        bound : float, default=None
            An upper bound.
        step : int, default=1
            Number of iterations since the last report.
        part : str, default=None
            The part of the solver that ran since the last report; None: `self.part`.

        Returns
        -------
        stop : bool
            Whether to stop.
        """
        self.n_iter += step
        if bound is not None:
            self.exact_bound = min(self.exact_bound, bound)
            if self.whole_error is not None:
                bound = np.floor(bound + self.whole_error)
            self.bound = min(self.bound, bound)
        # a score exceeds the bound by rounding errors only
        self.bound = max(self.bound, self.score)
        shift = self.offset
        row = self.n_iter, self.seconds(), self.score, self.bound, part or self.part
        self.trace.add(*row)
        if self.callback is not None and self.callback(
            self.n_iter, self.score + shift, self.bound + shift
        ):
            self.stopped = True
        if self.is_optimal():
            self.status = Status.OPTIMAL
        elif self.stopped:
            self.status = Status.STOPPED
        elif not self.late() and self.n_iter >= self.max_iter:
            self.status = Status.MAX_ITER
        if self._is_line_due(row[1]):
            self.show((*row[:2], self.score + shift, self.bound + shift, row[-1]))
        return self.status is not None

    def report_between(self, part, bound=None):
        """Record progress between iterations, regardless of `max_iter`.

        Parameters
        ----------
        part : str
            The part of the solver that ran since the last report.
        bound : float, default=None
            An upper bound.

        Returns
        -------
        stop : bool
            Whether to stop.
        """
        most, self.max_iter = self.max_iter, np.inf
        stop = self.report(bound=bound, step=0, part=part)
        self.max_iter = most
        return stop

    def _is_line_due(self, seconds):
        """Return whether to print: first, last, and at times that grow by half."""
        if self.verbose == 1 and self.status is None and seconds < self._next_line:
            return False
        self._next_line = max(_FIRST_LINE, 1.5 * seconds)
        return bool(self.verbose)

    def result(self):
        """Return the result for the reduced graph."""
        return MAPResult(
            self.labeling, self.score, self.bound, self.marginals,
            Status(self.status or Status.MAX_ITER), self.n_iter, self.trace.as_dict(),
            self.name, self.plan,
        )  # fmt: skip


class WithoutCliques:
    """View of a run on a graph with cliques, for searches on the graph without them.

    Parameters
    ----------
    run : MAPRun
        The run; all attributes that are not defined here are those of the run.
    reduced : Reduced
        The reduced graph, which has cliques.
    """

    def __init__(self, run, reduced):
        self._run, self._cliques = run, reduced.cliques
        self.problem = MAPProblem(reduced.without_cliques(), reduced.penalty)
        self.problem.limit_time(run.left())

    def __getattr__(self, name):
        return getattr(self._run, name)

    @property
    def labeling(self):
        """The best labeling so far, without the states of cliques."""
        return self._run.labeling[: self.problem.n_variables]

    def offer(self, labeling):
        """Store a labeling, with states of the cliques, if it is the best so far."""
        self._run.offer(self._cliques.extend(labeling))
