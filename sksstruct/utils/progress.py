"""The progress of a run: clock, trace, printing, and how the run ended.

Training and MAP inference have different loops; this file has their common reports.
"""

import time
from enum import StrEnum

import numpy as np


class Status(StrEnum):
    """Why a run ended: a string, with a sentence and a remedy.

    Attributes
    ----------
    message : str
        Sentence that says what happened, printed after the name of the run.
    remedy : str or None
        Advice for the user, if there is any.
    """

    message: str
    remedy: str | None

    CONVERGED = "converged", "the duality gap is within the tolerance"
    OPTIMAL = (
        "optimal",
        "the labeling is optimal: its score is within tol of the upper bound",
    )
    FRACTIONAL = (
        "fractional",
        "the relaxation is solved, and its value is above the best labeling",
    )
    MAX_ITER = (
        "max_iter",
        "max_iter was reached",
        "Increase max_iter or tol.",
    )
    STALLED = (
        "stalled",
        "no further progress was made, and the gap is open",
        "Rounding errors allow no further progress: increase tol or alpha, or scale "
        "the features.",
    )
    DIVERGED = (
        "diverged",
        "the objective is above that at the start",
        "The steps are too long: decrease eta0, or use eta0='auto'.",
    )
    SOFTENED = (
        "softened",
        "the softened problem is solved",
        "The softened problem is solved; increase rho.",
    )
    FLAT = "flat", "the objective no longer falls, and the gap is open"
    SETTLED = "settled", "the messages no longer change"
    ROUNDS = (
        "rounds",
        "missing labels still changed in the last round",
        "The predicted values of the missing labels still changed in the last "
        "round: increase alpha, or use loss='log'.",
    )
    TIME_LIMIT = "time_limit", "the time limit was reached"
    EARLY = "early", "the score of the validation set no longer rises"
    CALLBACK = "callback", "a callback asked to stop"
    STOPPED = "stopped", "the callback asked to stop"
    INTERRUPTED = "interrupted", "the run was interrupted"
    INFEASIBLE = "infeasible", "no labeling is allowed"
    NOT_FOUND = (
        "not_found",
        "no allowed labeling was found, and none was ruled out",
        "Increase max_iter or tol.",
    )

    def __new__(cls, value, message, remedy=None):
        self = str.__new__(cls, value)
        self._value_ = value
        self.message, self.remedy = message, remedy
        return self

    def __repr__(self):
        return repr(self.value)


class Trace:
    """Record of a run: a row of numbers, such as the gap, for each report.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    counts : tuple of str, default=()
        Names of the columns that hold integers.
    texts : tuple of str, default=()
        Names of the columns that hold strings.
    """

    def __init__(self, columns, counts=(), texts=()):
        self.columns = columns
        self._dtypes = {**dict.fromkeys(counts, np.int64), **dict.fromkeys(texts, str)}
        self._rows = []

    def add(self, *row):
        """Append one row, in the order of `columns`."""
        self._rows.append(row)

    def last(self, n):
        """Return the last n rows, or as many as there are."""
        return self._rows[-n:]

    def as_dict(self):
        """Return a dict of arrays: integers, strings, and floats in other columns."""
        return {
            name: np.array(
                [row[k] for row in self._rows], self._dtypes.get(name, np.float64)
            )
            for k, name in enumerate(self.columns)
        }


class Progress:
    """Clock, trace, printing and stopping status of one run.

    Parameters
    ----------
    name : str
        Name of the run, to be printed.
    columns : tuple of str
        Columns of the trace. The first counts passes or iterations.
    counts : tuple of str
        Columns that hold integers.
    verbose : int, default=0
        Whether to print a line for each row.
    texts : tuple of str, default=()
        Columns that hold strings.

    Attributes
    ----------
    n_iter : int
        Passes or iterations so far.
    status : Status or None
        Why the run ended; None while it continues.
    trace : Trace
        The rows recorded so far.
    """

    def __init__(self, name, columns, counts, verbose=0, texts=()):
        self.started = time.perf_counter()
        self.name, self.verbose = name, verbose
        self.trace = Trace(columns, counts, texts)
        self.n_iter = 0
        self.status = None

    def seconds(self):
        """Seconds since the run began."""
        return time.perf_counter() - self.started

    def record(self, row):
        """Add a row to the trace, and print the row if `verbose`."""
        self.trace.add(*row)
        if self.verbose:
            self.show(row)

    def show(self, row):
        """Print a row of the trace, with the names of the columns."""
        parts = []
        for name, value in zip(self.trace.columns, row, strict=True):
            if name == "seconds":
                parts.append(f"{value:8.2f} s")
            elif isinstance(value, (int, np.integer)):
                parts.append(f"{name.replace('_', ' ')} {value:6d}")
            elif isinstance(value, str):
                parts.append(f"{name} {value}")
            else:
                parts.append(f"{name} {value:.6g}")
        print(f"[{self.name}]", "  ".join(parts), flush=True)
