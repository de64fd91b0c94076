import numpy as np
import pytest
from joblib import parallel_config

from sksstruct.utils.parallel import run_in_chunks


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
