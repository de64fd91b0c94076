"""What a solver returns."""

from dataclasses import dataclass

import numpy as np


class Trace:
    """Rows of a run, kept as equally long columns.

    Parameters
    ----------
    extra : tuple of str, default=()
        Columns beyond those of every solver.
    """

    columns = ("pass", "oracle_calls", "seconds", "primal", "dual", "gap")

    def __init__(self, extra=()):
        self.columns = (*Trace.columns, *extra)
        self._rows = []

    def add(self, *row):
        """Append one row, in the order of `columns`."""
        self._rows.append(row)

    def last(self, n):
        """The last n rows, or as many as there are."""
        return self._rows[-n:]

    def as_dict(self):
        """Dict of arrays: integers for the two counters, floats for the rest."""
        out = {}
        for k, name in enumerate(self.columns):
            dtype = np.int64 if name in ("pass", "oracle_calls") else np.float64
            out[name] = np.array([row[k] for row in self._rows], dtype=dtype)
        return out


@dataclass
class SolverResult:
    """Weights and certificate of a run.

    Parameters
    ----------
    weights : ndarray
        Flat weights, in the model's layout.
    objective : float
        Primal objective at the weights.
    dual_gap : float
        Certified: the objective is at most this much above the optimum; ``inf`` where
        nothing is known.
    dual_loss : float
        Linear term of the dual, ``dual = dual_loss - alpha/2 |w|^2`` (without bounds);
        ``-inf`` where there is none.
    n_iter : int
        Passes.
    status : {"converged", "max_iter", "callback", "interrupted", "stalled", \
"softened"}
        Why the run ended.
    history : dict of ndarray
        See `Trace`.
    target : float
        The gap asked for.
    dual_state : dict
        Dual variables, or weights, to start from again.
    exact : float
        Share of the examples whose loss was not only that of the K best labelings.
    """

    weights: np.ndarray
    objective: float
    dual_gap: float
    dual_loss: float
    n_iter: int
    status: str
    history: dict
    target: float
    dual_state: dict | None = None
    exact: float = 1.0
