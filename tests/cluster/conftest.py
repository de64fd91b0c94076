"""One cluster of real processes for all tests of this folder."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Client of two workers of one thread each.

    The processes are started as a shell would. ``LocalCluster`` watches its workers,
    and fails when it closes if one was killed at an unlucky moment.
    """
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    found = str(folder / "scheduler.json")
    commands = [
        ["dask_scheduler", "--port=0", "--dashboard-address=:0"],
        ["dask_worker", "--nworkers=2", "--nthreads=1", "--no-dashboard"],
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = []
    try:
        for name, *options in commands:
            command = [sys.executable, "-m", f"distributed.cli.{name}", *options]
            command += [f"--scheduler-file={found}"]
            with open(folder / f"{name}.log", "wb") as log:
                started.append(subprocess.Popen(command, env=env, stderr=log))
        with distributed.Client(scheduler_file=found, timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
            yield client
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def data():
    """Sequences with labels, to be cut in parts."""
    from cluster.helpers import N

    rng = np.random.default_rng(0)
    words = [rng.integers(0, 12, rng.integers(1, 7)) for _ in range(N)]
    X = [sparse.csr_array(np.eye(12)[row] + 0.1 * (row[:, None] > 5)) for row in words]
    y = [["abc"[(w + rng.integers(0, 2)) % 3] for w in row] for row in words]
    return X, y


@pytest.fixture
def acting(client):
    """Lets a block on the workers do something else in its fourth round."""
    from cluster.acting import Acting

    client.wait_for_workers(2, timeout=60)
    yield lambda act, number: client.register_plugin(Acting(act, number))
    client.unregister_worker_plugin(Acting.name)
