import os
import subprocess
import sys

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_info, threadpool_limits

from sksstruct.utils.parallel import one_blas_thread, run_in_chunks


@pytest.mark.parametrize("n", [1, 2, 7, 100])
@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1])
def test_covers_every_index_once(n, n_jobs):
    out = np.zeros(n)

    def visit(start, stop):
        out[start:stop] += 1

    run_in_chunks(visit, n, n_jobs)
    assert (out == 1).all()


def test_shared_memory_also_under_a_process_backend():
    out = np.zeros(50)

    def visit(start, stop):
        out[start:stop] = 1

    with parallel_config("loky", n_jobs=2):
        run_in_chunks(visit, 50, 2)
    assert out.all()


def test_errors_travel():
    def fail(start, stop):
        raise ValueError("of a worker")

    with pytest.raises(ValueError, match="of a worker"):
        run_in_chunks(fail, 10, 2)


# Another thread's fit, or one's own, goes on in the parent only.
FORK = """
import os, threading
from contextlib import nullcontext
from threadpoolctl import threadpool_info, threadpool_limits
from sksstruct.utils.parallel import one_blas_thread

def found():
    infos = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return [each["num_threads"] for each in infos
            if each.get("threading_layer") != "openmp"]

def fit():
    with one_blas_thread():
        entered.set()
        leave.wait()

threadpool_limits(2)
before = found()
for where in one_blas_thread, nullcontext:
    entered, leave = threading.Event(), threading.Event()
    # a failure must not wait for it
    thread = threading.Thread(target=fit, daemon=True)
    thread.start()
    entered.wait()
    with where():
        child = os.fork()
    if child == 0:
        assert found() == before, found()
        with one_blas_thread():
            assert found() == [1] * len(before), found()
        assert found() == before, found()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, where
    leave.set()
    thread.join()
    assert found() == before, found()
"""


def blas_threads():
    """Threads of each BLAS that has one limit for the process."""
    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return [
        each["num_threads"] for each in found if each["threading_layer"] != "openmp"
    ]


def test_the_last_fit_lifts_the_limit():
    with threadpool_limits(2):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) <= {1}
            with one_blas_thread():
                assert set(blas_threads()) <= {1}
            assert set(blas_threads()) <= {1}
        assert blas_threads() == before


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
def test_a_fork_during_a_fit_lifts_the_limit():
    subprocess.run([sys.executable, "-c", FORK], check=True)
