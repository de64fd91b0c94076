"""One cluster of real processes for all tests of this folder."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import sparse


def wait_for_scheduler(found, process, seconds=120):
    """Address of a scheduler, from the file that it writes once it is up.

    A client would wait for this file for ever, also for that of a dead process.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            return json.loads(found.read_text())["address"]
        except (FileNotFoundError, PermissionError, ValueError):
            # not there yet, or not written to its end
            time.sleep(0.01)
    log = (found.parent / "dask_scheduler.log").read_text()
    raise RuntimeError(f"the scheduler did not start:\n{log}")


def stop(process):
    """End a process, in peace if it can."""
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@pytest.fixture(scope="package")
def cluster(tmp_path_factory):
    """Client of two workers of one thread each, for all modules.

    The processes are started as a shell would. ``LocalCluster`` watches its workers,
    and fails when it closes if one was killed at an unlucky moment.
    """
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    folder = tmp_path_factory.mktemp("cluster")
    found = folder / "scheduler.json"
    commands = [
        # a test run that is killed leaves no processes for good
        ["dask_scheduler", "--port=0", "--dashboard-address=:0", "--idle-timeout=1h"],
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
        address = wait_for_scheduler(found, started[0])
        with distributed.Client(address, timeout=120) as client:
            client.wait_for_workers(2, timeout=120)
            yield client
    finally:
        for process in reversed(started):
            stop(process)


@pytest.fixture
def client(cluster):
    """The client of the cluster, whose workers are back if a test has killed some."""
    cluster.wait_for_workers(2, timeout=60)
    return cluster


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

    yield lambda act, number: client.register_plugin(Acting(act, number))
    client.unregister_worker_plugin(Acting.name)
