"""Threads over examples; results do not depend on their number."""

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

# Work that takes less time than the threads, and the memory of each chunk, would.
LITTLE = 2**18


def run_in_chunks(function, n, n_jobs=None, work=LITTLE):
    """Call ``function(start, stop)`` on ranges that cover ``range(n)``.

    The function writes the results of each example into arrays and releases the GIL.
    The caller forms sums, always in the same order. `work` is the number of operations
    in all, roughly: little work is one chunk.
    """
    if work < LITTLE:
        function(0, n)
        return
    workers = min(effective_n_jobs(n_jobs), n)
    # A few chunks per thread balance sequences of different length, and allow an
    # interrupt between them.
    pieces = min(n, max(4 * workers, 16))
    bounds = [n * k // pieces for k in range(pieces + 1)]
    if workers <= 1:
        for a, b in zip(bounds[:-1], bounds[1:], strict=True):
            function(a, b)
        return
    Parallel(n_jobs=workers, require="sharedmem")(
        delayed(function)(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    )
