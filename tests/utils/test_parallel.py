import ast
import os
import threading

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


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if shared(each)]


def shared(info):
    return info["user_api"] == "blas" and info.get("threading_layer") != "openmp"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked")
@pytest.mark.parametrize("inside", [False, True])
def test_a_fork_during_a_fit_lifts_the_limit(inside):
    """Another thread's fit, or one's own, goes on in the parent only."""
    with threadpool_limits(2):
        before = blas_threads()
        entered, leave = threading.Event(), threading.Event()

        def fit():
            with one_blas_thread():
                entered.set()
                leave.wait()

        thread = threading.Thread(target=fit)
        thread.start()
        entered.wait()
        reader, writer = os.pipe()
        if inside:
            with one_blas_thread():
                child = os.fork()
        else:
            child = os.fork()
        if child == 0:
            found = [blas_threads()]
            with one_blas_thread():
                found.append(blas_threads())
            found.append(blas_threads())
            os.write(writer, repr(found).encode())
            os._exit(0)
        os.waitpid(child, 0)
        leave.set()
        thread.join()
        assert blas_threads() == before
    found = ast.literal_eval(os.read(reader, 1000).decode())
    assert found == [before, [1] * len(before), before]
