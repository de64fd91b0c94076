"""One cluster of real processes for all tests of this folder."""

import pytest


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
