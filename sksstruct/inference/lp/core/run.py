"""One run of a solver: clock, best labeling, bound, trace, and when to stop."""

import time

import numpy as np

from sksstruct.inference.lp.core.result import MAPResult


class MAPRun:
    """Progress on a reduced graph.

    Parameters
    ----------
    problem : Problem
        The reduced graph.
    tol : float
        Relative difference of bound and score that is optimal.
    max_iter : int
        Largest number of iterations.
    time_limit : float or None
        Seconds.
    rng : RandomState
        Random choices.
    offset : float, default=0.0
        What is added to scores that are shown.
    verbose : int, default=0
        Whether to print progress.
    callback : callable, default=None
        ``callback(iteration, score, bound)`` after every report; true: stop.
    """

    def __init__(
        self, problem, tol, max_iter, time_limit, rng, *, offset=0.0, verbose=0,
        callback=None, name="",
    ):  # fmt: skip
        self.started = time.perf_counter()
        self.problem, self.tol, self.max_iter = problem, tol, max_iter
        self.time_limit, self.rng, self.offset = time_limit, rng, offset
        self.verbose, self.callback, self.name = verbose, callback, name
        self.labeling, self.score, self.bound = None, -np.inf, np.inf
        self.marginals, self.status = None, None
        self.n_iter = 0
        self.stopped = False
        self.rows = []

    def seed(self):
        """A seed for a compiled generator."""
        return int(self.rng.randint(2**31 - 1))

    def seconds(self):
        return time.perf_counter() - self.started

    def late(self):
        """Whether the time is over."""
        if self.time_limit is not None and self.seconds() >= self.time_limit:
            self.status = self.status or "time_limit"
            return True
        return False

    def offer(self, labeling, score=None):
        """Take over a labeling if it is better than the best so far."""
        if score is None:
            score = self.problem.labeling_score(labeling)
        if self.labeling is None or score > self.score:
            self.labeling, self.score = np.array(labeling, dtype=np.int32), score

    def is_optimal(self):
        """Whether the best labeling reaches the bound."""
        scale = max(1.0, abs(self.score + self.offset))
        return self.bound - self.score <= self.tol * scale

    def report(self, *, bound=None, step=1):
        """Note an iteration.

        Parameters
        ----------
        bound : float, default=None
            An upper bound.
        step : int, default=1
            Number of iterations since the last report.

        Returns
        -------
        stop : bool
            Whether to stop.
        """
        self.n_iter += step
        if bound is not None:
            self.bound = min(self.bound, bound)
        # what is above the bound by rounding is at it
        self.bound = max(self.bound, self.score)
        row = self.n_iter, self.seconds(), self.score, self.bound
        self.rows.append(row)
        if self.verbose:
            print(
                f"[{self.name}] iteration {self.n_iter:6d}  {row[1]:8.3f} s  "
                f"score {self.score + self.offset:.6f}  "
                f"bound {self.bound + self.offset:.6f}"
            )
        if self.callback is not None and self.callback(
            self.n_iter, self.score + self.offset, self.bound + self.offset
        ):
            self.stopped = True
        if self.is_optimal():
            self.status = "optimal"
        elif self.stopped:
            self.status = "stopped"
        elif not self.late() and self.n_iter >= self.max_iter:
            self.status = "max_iter"
        return self.status is not None

    def result(self):
        """The result, for the reduced graph."""
        columns = np.array(self.rows, dtype=np.float64).reshape(-1, 4).T
        names = "iteration", "seconds", "score", "bound"
        trace = dict(zip(names, columns, strict=True))
        trace["iteration"] = trace["iteration"].astype(np.intp)
        return MAPResult(
            self.labeling, self.score, self.bound, self.marginals,
            self.status or "max_iter", self.n_iter, trace, self.name,
        )  # fmt: skip
