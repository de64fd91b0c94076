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

from sksstruct.inference.map._integer_costs import IntegerCosts, check_entries
from sksstruct.inference.map.core._decode import set_marginals
from sksstruct.inference.map.core.solver import TEXTS, MAPSolver
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.progress import Status

# Seconds between checks of the time, and seconds that toulbar2 has for its answer.
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
        check_entries(graph, "toulbar2")

    def _run(self, run):
        run.offer(run.problem.best_states())
        costs = IntegerCosts(run.problem, self.tol)
        with tempfile.TemporaryDirectory() as folder:
            answer, stopped = _ask(run, costs, Path(folder))
        if answer is None:
            run.status = run.status or Status.STALLED
            return
        if answer["labeling"] is not None:
            run.offer(np.array(answer["labeling"], dtype=np.int32))
        elif not stopped:
            # toulbar2 has proved that no labeling costs less than forbidden labelings
            run.status = Status.INFEASIBLE
            return
        status, run.status = run.status, None
        # If toulbar2 was not stopped, the cost of its labeling is the minimum, and so a
        # bound on all costs.
        proved = answer["bound"] if stopped else answer["cost"]
        run.report(bound=costs.score(proved))
        if run.status is not Status.OPTIMAL:
            run.status = status or Status.STALLED
        set_marginals(run)


def _ask(run, costs, folder):
    """Return the answer of the process, or None, and whether it was stopped."""
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
