"""Threads over examples, one thread in BLAS: results are equal for any `n_jobs`."""

import os
import time
from contextlib import contextmanager
from functools import cache
from threading import Lock, local

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from sksstruct.utils._clock import Clock, OutOfTime

# Number of operations below which threads, and memory for each chunk, cost more time
# than they save.
LITTLE = 2**18


# Seconds of each thread's last long call of `run_in_chunks`, of `LITTLE` or more work.
_LAST = local()


@contextmanager
def timed_sweeps():
    """Context in which `seconds_of_sweep` starts from zero."""
    old_seconds, _LAST.seconds = seconds_of_sweep(), 0.0
    try:
        yield
    finally:
        _LAST.seconds = old_seconds


def seconds_of_sweep():
    """Return the seconds of this thread's last long `run_in_chunks`, or zero."""
    return getattr(_LAST, "seconds", 0.0)


def run_in_chunks(function, n, n_jobs=None, work=LITTLE):
    """Call ``function(start, stop)`` on ranges into which ``range(n)`` is divided.

    The function writes the results of each example into arrays and releases the GIL.
    The caller computes sums, always in the same order. `work` is the approximate total
    number of operations: less than `LITTLE` is done in one call. The time limit is
    checked between chunks.
    """
    if work < LITTLE:
        function(0, n)
        return
    workers = min(effective_n_jobs(n_jobs), n)
    # A few chunks per thread balance sequences of different lengths, and allow
    # interrupts between chunks.
    n_chunks = min(n, max(4 * workers, 16))
    bounds = [n * k // n_chunks for k in range(n_chunks + 1)]
    # check the deadline of this thread, as the worker threads have none
    clock, left_out = Clock(), []
    started = time.perf_counter()

    def run(a, b):
        if clock.is_late():
            left_out.append(a)
        else:
            function(a, b)

    chunks = zip(bounds[:-1], bounds[1:], strict=True)
    if workers <= 1:
        for a, b in chunks:
            run(a, b)
    else:
        Parallel(n_jobs=workers, require="sharedmem")(
            delayed(run)(a, b) for a, b in chunks
        )
    if left_out:
        raise OutOfTime
    _LAST.seconds = time.perf_counter() - started


class _SharedLimit:
    """Context: one thread in BLAS libraries whose limit holds for the whole process.

    The limit ends with the last of several fits that run at the same time. Separate
    limits of each fit would end while other fits continue, and overwrite each other.
    """

    def __init__(self):
        self._lock, self._count, self._old_limits = Lock(), 0, ()

    def after_fork(self):
        """In a forked child, lift the limit of the parent's fits.

        Only the forking thread exists in the child, and may still leave the context.
        """
        if self._count:
            _set_threads(self._old_limits)
        self.__init__()

    def __enter__(self):
        with self._lock:
            if self._count == 0:
                libraries = _libraries()[1]
                self._old_limits = [(each, each.num_threads) for each in libraries]
                _set_threads((each, 1) for each in libraries)
            self._count += 1

    def __exit__(self, *_):
        with self._lock:
            # the count is zero in a forked child, which has lifted the limit
            if self._count == 1:
                _set_threads(self._old_limits)
            self._count = max(self._count - 1, 0)


def _set_threads(numbers):
    for library, number in numbers:
        # a library only accepts a new limit from the thread that set the last one, but
        # the last fit to end may be in another thread than the first
        free = getattr(library, "clear_controlling_thread", lambda force: None)
        free(force=True)
        library.set_num_threads(number)
        free(force=True)


@cache
def _libraries():
    """Return BLAS libraries with a limit per thread, and with a process-wide limit.

    Returns
    -------
    own : ThreadpoolController
        Libraries with a limit per thread.
    shared : list of library controllers
        Libraries with a process-wide limit.
    """
    blas = ThreadpoolController().select(user_api="blas")
    own = blas.select(internal_api="openblas").select(threading_layer="openmp")
    shared = [each for each in blas.lib_controllers if each not in own.lib_controllers]
    return own, shared


_SHARED = _SharedLimit()
if hasattr(os, "register_at_fork"):
    # a forked child has only the forking thread: locks that another thread held at the
    # fork would never be released
    os.register_at_fork(after_in_child=_SHARED.after_fork)


@contextmanager
def one_blas_thread():
    """Context in which BLAS uses one thread.

    A product of vectors that are read only once is slower on all cores than on one, in
    some libraries many times slower, and its bits depend on the number of threads.
    """
    with _libraries()[0].limit(limits=1, user_api="blas"), _SHARED:
        yield
