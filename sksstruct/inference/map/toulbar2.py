"""Exact search by toulbar2, which is an optional extra."""

import importlib.util
import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sksstruct.inference.map.core._decode import set_marginals
from sksstruct.inference.map.core.solver import TEXTS, MAPSolver
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.progress import Status

# Entries of all tables beyond which a graph is refused, before memory is taken.
_MAX_ENTRIES = 1 << 26
# Costs are integers below this one, which floats represent without gaps.
_LARGEST = 2.0**50
# Seconds between looks at the clock, and those that toulbar2 gets to answer.
_TICK, _ANSWER = 0.05, 0.1
_PROCESS = Path(__file__).with_name("_toulbar2_process.py")
_MISSING = (
    "solver='toulbar2' needs the package pytoulbar2, which is not installed: "
    "pip install 'sksstruct[toulbar2]'"
)


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class Toulbar2(MAPSolver):
    """Exact search by toulbar2, in a process of its own; needs ``pytoulbar2``.

    The optional extra ``sksstruct[toulbar2]`` installs it. All tables are written out
    and rounded to integer costs, so that the bound remains an upper bound on all
    scores. Optimality is proven by toulbar2.

    Parameters
    ----------
    max_iter : int, default=1
        Has no effect.
    %(tol)s

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import Toulbar2
    >>> graph = FactorGraph([[0, 1.0], [0.2, 0]], [(0, 1)], Potts(2))
    >>> result = Toulbar2().solve(graph)
    >>> result.labeling.tolist(), result.status
    ([1, 1], 'optimal')
    """

    max_iter: int = 1
    tol: float = 1e-6

    _pairwise = False

    def check(self) -> None:
        """Raise an error if a parameter is not valid, or pytoulbar2 is missing."""
        super().check()
        if importlib.util.find_spec("pytoulbar2") is None:
            raise ImportError(_MISSING)

    def _check_graph(self, graph):
        shapes = [graph.tables[t].shape for t in graph.edge_tables]
        shapes += [graph.tables[t].shape for t in graph.factor_tables]
        entries = sum(float(np.prod(shape, dtype=np.float64)) for shape in shapes)
        if entries > _MAX_ENTRIES:
            raise ValueError(
                f"toulbar2 needs all tables written out, which are {entries:.3g} "
                "entries: use another solver"
            )

    def _run(self, run):
        run.offer(run.problem.best_states())
        costs = _Costs(run.problem, self.tol)
        with tempfile.TemporaryDirectory() as folder:
            answer, stopped = _ask(run, costs, Path(folder))
        if answer is None:
            run.status = run.status or Status.STALLED
            return
        if answer["labeling"] is not None:
            run.offer(np.array(answer["labeling"], dtype=np.int32))
        elif not stopped:
            # nothing is below the cost of the worst allowed labeling
            run.status = Status.INFEASIBLE
            return
        status, run.status = run.status, None
        # beyond what a run that was stopped knows, the cost itself is the bound
        proved = answer["bound"] if stopped else answer["cost"]
        run.report(bound=costs.score(proved))
        if run.status is not Status.OPTIMAL:
            run.status = status or Status.STALLED
        set_marginals(run)


def _ask(run, costs, folder):
    """The answer of the process, or None, and whether it was stopped."""
    source, target = folder / "problem.npz", folder / "answer.json"
    np.savez(source, seed=run.seed() % 10**6, **costs.arrays)
    script = [sys.executable, "-P", _PROCESS, source, target]
    process = subprocess.Popen(
        script, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    limit, stopped = run.max_seconds, False
    try:
        while process.poll() is None:
            if limit is not None and not stopped:
                stopped = run.seconds() >= limit - _ANSWER
                if stopped:
                    process.send_signal(signal.SIGINT)
            if run.late():
                process.kill()
            try:
                process.wait(_TICK)
            except subprocess.TimeoutExpired:
                continue
    finally:
        process.kill()
        message = process.communicate()[1].decode(errors="replace").strip()
    if stopped:
        run.status = Status.TIME_LIMIT
    if target.exists():
        return json.loads(target.read_text()), stopped
    if not stopped:
        raise RuntimeError(f"toulbar2 failed: {message or process.returncode}")
    return None, stopped


class _Costs:
    """The factors of a problem as integer costs, rounded down.

    Attributes
    ----------
    arrays : dict of ndarrays
        What the process reads.
    """

    def __init__(self, problem, tol):
        self._high, self._spread = 0.0, 0.0
        scopes, tables = [], []
        for scope, values in _factors(problem):
            high = values.max()
            self._high += high
            scopes.append(scope)
            tables.append(high - values)
            self._spread += tables[-1].max()
        # a labeling with a penalty costs as much as all others together
        forbidden = -problem.penalty if problem.penalty else np.inf
        total = min(self._spread + 1.0, forbidden)
        self._scale = _scale(tables, total, len(tables), tol)
        top = int(np.floor(total * self._scale))
        flat = np.concatenate([table.reshape(-1) for table in tables])
        costs = np.floor(np.minimum(flat * self._scale, top)).astype(np.int64)
        # penalties are rounded: what nearly costs as much is one
        costs[flat >= forbidden * (1.0 - 1e-9)] = top
        self.arrays = {
            "sizes": np.asarray(problem.graph.n_states),
            "top": np.array(top),
            "first": np.cumsum([0] + [len(scope) for scope in scopes]),
            "scopes": np.concatenate(scopes).astype(np.int64),
            "begin": np.cumsum([0] + [table.size for table in tables]),
            "costs": costs,
        }

    def score(self, cost):
        """The score that no labeling of at least this cost exceeds."""
        return self._high - cost / self._scale


def _factors(problem):
    """Scope and scores of all factors, written out."""
    graph = problem.graph
    for v in range(graph.n_variables):
        yield [v], graph.unary(v)
    for scope, table, weight in graph._listed():
        # conditions have -inf, all other tables are finite already, and may be lower
        values = weight * table.dense()
        yield scope, np.where(values > -np.inf, values, problem.penalty)


def _scale(tables, total, n_tables, tol):
    """A power of two to multiply costs by: 1 for integers, else as precise as asked."""
    if all((table == np.floor(table)).all() for table in tables) and total < _LARGEST:
        return 1.0
    precise = 10.0 * n_tables / max(tol, 1e-12)
    return 2.0 ** np.floor(np.log2(min(precise, _LARGEST / total)))
