"""Workers and clients that are lost change nothing of what is found."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.solvers import Partitioned

distributed = pytest.importorskip("distributed")
# a cluster leaves sockets to the garbage collector when it ends
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

import sksstruct.dask._host  # noqa: E402
import sksstruct.dask._train as training  # noqa: E402
from cluster.helpers import OPTIONS, PARTS, B, Killing, N, in_parts, local, same_bits  # noqa: E402
from sksstruct.dask import DaskChainCRF, DaskExecutor, DaskSegmentCRF  # noqa: E402


@pytest.mark.slow
def test_killed_workers_change_nothing(client, data, monkeypatch):
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    # of two workers: soon there is none left for a while
    monkeypatch.setattr(Killing, "kill_at", {2, 6})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver = Partitioned(tol=0.02, keep_every=3)
    tagger = DaskChainCRF(client=client, **{**OPTIONS, "solver": solver})
    tagger.fit(in_parts(data))
    same_bits(tagger, local(data))
    # states were kept, blocks made again, and rounds repeated
    assert Killing.seen["state"] >= 1
    assert Killing.seen["advance"] > tagger.n_iter_


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distributed_class", "alone"),
    [
        (partial(DaskChainCRF, order=2), partial(ChainCRF, order=2)),
        (DaskSegmentCRF, SegmentCRF),
    ],
    ids=["second order", "segments"],
)
def test_killed_workers_and_other_structures(
    client, data, monkeypatch, distributed_class, alone
):
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    monkeypatch.setattr(Killing, "kill_at", {3})
    monkeypatch.setattr(Killing, "seen", Counter())
    X, y = data[0], [[f"B-{k}" for k in labels] for labels in data[1]]
    killed = Partitioned(tol=0.02, keep_every=3)
    found = distributed_class(client=client, **{**OPTIONS, "solver": killed})
    found.fit(in_parts((X, y)))
    whole = Partitioned(blocks=B, tol=0.02)
    expected = alone(**{**OPTIONS, "solver": whole}).fit(X, y)
    for name, value in vars(expected).items():
        if name.endswith("_") and isinstance(value, np.ndarray):
            assert np.array_equal(getattr(found, name), value), name
    assert found.n_iter_ == expected.n_iter_
    assert Killing.seen["advance"] > found.n_iter_ > 6


@pytest.mark.slow
def test_only_what_has_changed_is_sent(client, monkeypatch):
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 4000, rng.integers(1, 4)) for _ in range(N)]
    X = [sparse.eye_array(4000, format="csr")[row] for row in words]
    y = [["abc"[w % 3] for w in row] for row in words]
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    monkeypatch.setattr(Killing, "kill_at", {5})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver = Partitioned(tol=0.02, keep_every=3)
    tagger = DaskChainCRF(client=client, **{**OPTIONS, "solver": solver})
    tagger.fit(in_parts((X, y)))
    same_bits(tagger, local((X, y)))
    # all weights are sent when states were kept, and to the worker that repeats rounds
    whole = 2 * 8 * tagger.coef_.base.size
    sent = tagger.history_["bytes_down"][-1]
    assert whole < sent < Killing.seen["advance"] * whole / 3


def die_once(marker):
    # blocks that are made elsewhere repeat the round
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_in_a_round(client, data, tmp_path, acting):
    acting(partial(die_once, tmp_path / "dead"), 0)
    pids = set(client.run(os.getpid).values())
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))
    client.wait_for_workers(2, timeout=60)
    assert len(pids & set(client.run(os.getpid).values())) == 1


def test_the_only_worker_is_gone_again(client, monkeypatch):
    """Between being waited for and being looked at; nannies bring it back."""
    found = client.nthreads()
    answers = iter([{}, {}, found])
    monkeypatch.setattr(client, "nthreads", lambda: next(answers))
    executor = DaskExecutor(client)
    assert executor._threads() == dict(sorted(found.items()))


_KILLED = """
import os, pickle, signal, sys
import dask, distributed
from sksstruct.dask import DaskChainCRF, DaskExecutor

address, path = sys.argv[1:]
with open(path, "rb") as file:
    parameters, parts = pickle.load(file)
called, n_rounds = DaskExecutor.call, 0

def call(self, method, *common, **options):
    global n_rounds
    n_rounds += method == "advance"
    if n_rounds == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return called(self, method, *common, **options)

DaskExecutor.call = call
client = distributed.Client(address)
parts = [dask.delayed(part, traverse=False) for part in parts]
DaskChainCRF(client=client, **parameters).fit(parts)
"""


def n_hosts():
    return len(sksstruct.dask._host._HOSTS)


@pytest.mark.slow
def test_a_client_that_is_killed(client, data, tmp_path, monkeypatch):
    X, y = data
    solver = Partitioned(
        tol=0.02, keep_every=2, checkpoint=f"file://{tmp_path}/states", rounds=2
    )
    parameters = {**OPTIONS, "solver": solver}
    script = tmp_path / "killed.py"
    script.write_text(_KILLED)
    with open(tmp_path / "data", "wb") as file:
        pickle.dump((parameters, [(X[a:b], y[a:b]) for a, b in PARTS]), file)
    command = [sys.executable, script, client.scheduler.address, tmp_path / "data"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # earlier tests, that ended with errors, may have left some
    before = client.run(n_hosts)
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == -signal.SIGKILL, done.stderr
    # what it had on the workers is gone with it
    for _ in range(400):
        after = client.run(n_hosts)
        if all(after[name] <= before[name] for name in before):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the blocks of a killed client are still there")
    # another client goes on, and loses a worker
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    monkeypatch.setattr(Killing, "kill_at", {2})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver.set_params(resume=True)
    tagger = DaskChainCRF(client=client, **parameters).fit(in_parts(data))
    whole = Partitioned(blocks=B, tol=0.02, rounds=2)
    expected = local(data, solver=whole)
    same_bits(tagger, expected)
    assert Killing.seen["load"] == 2
    # it is not there any more
    next((tmp_path / "states").glob("block-1-*")).unlink()
    with pytest.raises(ValueError, match=r"block-1-.* is missing from it"):
        tagger.fit(in_parts(data))
    shutil.rmtree(tmp_path / "states")
    with pytest.raises(ValueError, match="there is no checkpoint in 'file://"):
        tagger.fit(in_parts(data))
