"""Threads over examples; results do not depend on their number."""

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed


def run_in_chunks(function, n, n_jobs=None):
    """Call ``function(start, stop)`` on ranges that cover ``range(n)``.

    The function writes per-example results into arrays of its own, and releases the
    GIL; sums are left to the caller, who forms them in one order.
    """
    workers = min(effective_n_jobs(n_jobs), n)
    # A few chunks per thread even out sequences of different length, and let an
    # interrupt through between them.
    pieces = min(n, max(4 * workers, 16))
    bounds = [n * k // pieces for k in range(pieces + 1)]
    if workers <= 1:
        for a, b in zip(bounds[:-1], bounds[1:], strict=True):
            function(a, b)
        return
    Parallel(n_jobs=workers, require="sharedmem")(
        delayed(function)(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)
    )
