"""One cluster of real processes for all tests of this folder."""

import numpy as np
import pytest
from scipy import sparse


@pytest.fixture(scope="module")
def client():
    """Client of two workers of one thread each."""
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    with (
        # a worker that was killed may take long to be back
        dask.config.set({"distributed.deploy.lost-worker-timeout": "600s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


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
