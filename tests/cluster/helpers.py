"""What the tests of clusters share: data in parts, and workers that are killed."""

import os
import signal
import threading
from collections import Counter

import dask

from sksstruct import ChainCRF
from sksstruct.dask import DaskExecutor
from sksstruct.solvers import Partitioned

N, B = 60, 5
# a dozen rounds
OPTIONS = {"alpha": 0.5, "tol": 0.02, "random_state": 0}
CUTS = [N * k // B for k in range(B + 1)]
PARTS = list(zip(CUTS[:-1], CUTS[1:], strict=True))


def in_parts(data):
    X, y = data
    return [dask.delayed((X[a:b], y[a:b]), traverse=False) for a, b in PARTS]


def local(data, n_jobs=None, **parameters):
    solver = Partitioned(blocks=B, tol=OPTIONS["tol"])
    options = {**OPTIONS, "solver": solver, "n_jobs": n_jobs, **parameters}
    return ChainCRF(**options).fit(*data)


def same_bits(one, other):
    assert one.classes_.tolist() == other.classes_.tolist()
    for name in ("coef_", "intercept_", "start_", "end_", "transitions_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.n_iter_ == other.n_iter_
    assert one.dual_gap_ == other.dual_gap_


def counted_tasks(monkeypatch):
    names, submit = Counter(), DaskExecutor._submit

    def count(executor, name, *arguments, **options):
        names[name] += 1
        return submit(executor, name, *arguments, **options)

    monkeypatch.setattr(DaskExecutor, "_submit", count)
    return names


class Killing(DaskExecutor):
    """Kills a worker while a round is under way."""

    kill_at = frozenset()
    seen = Counter()

    def call(self, method, *common, **options):
        self.seen[method] += 1
        if method == "advance" and self.seen[method] in self.kill_at:
            name = self._slots[0][0]
            pid = self.client.run(os.getpid, workers=[name])[name]
            threading.Timer(0.003, os.kill, (pid, signal.SIGKILL)).start()
        return super().call(method, *common, **options)
