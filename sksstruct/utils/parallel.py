"""Threads over examples, and none in BLAS: results do not depend on their number."""

import os
import time
from contextlib import contextmanager
from functools import cache
from threading import Lock, local

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

from sksstruct.utils._clock import Clock, OutOfTime

# Work that takes less time than the threads, and the memory of each chunk, would.
LITTLE = 2**18


# What each thread knows of its last sweep.
_LAST = local()


@contextmanager
def timed_sweeps():
    """Context whose sweeps `seconds_of_sweep` tells of."""
    before, _LAST.seconds = seconds_of_sweep(), 0.0
    try:
        yield
    finally:
        _LAST.seconds = before


def seconds_of_sweep():
    """Seconds that the last call of `run_in_chunks` by this thread took, or zero."""
    return getattr(_LAST, "seconds", 0.0)


def run_in_chunks(function, n, n_jobs=None, work=LITTLE):
    """Call ``function(start, stop)`` on ranges that cover ``range(n)``.

    The function writes the results of each example into arrays and releases the GIL.
    The caller forms sums, always in the same order. `work` is the number of operations
    in all, roughly: little work is one chunk. Between chunks the time may be over.
    """
    if work < LITTLE:
        function(0, n)
        return
    workers = min(effective_n_jobs(n_jobs), n)
    # A few chunks per thread balance sequences of different length, and allow an
    # interrupt between them.
    pieces = min(n, max(4 * workers, 16))
    bounds = [n * k // pieces for k in range(pieces + 1)]
    # of this thread, and not of those that it starts
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
    """One thread in libraries whose limit is that of the process, while any fit runs.

    Limits of each fit would end while others go on, and restore each other.
    """

    def __init__(self):
        self._lock, self._count, self._before = Lock(), 0, ()

    def after_fork(self):
        """Lift the limit of fits of the parent, of which only one thread is here.

        That one may still leave the context that it has entered.
        """
        if self._count:
            _set_threads(self._before)
        self.__init__()

    def __enter__(self):
        with self._lock:
            if self._count == 0:
                libraries = _libraries()[1]
                self._before = [(each, each.num_threads) for each in libraries]
                _set_threads((each, 1) for each in libraries)
            self._count += 1

    def __exit__(self, *_):
        with self._lock:
            # zero in the child of a fork, which has lifted the limit
            if self._count == 1:
                _set_threads(self._before)
            self._count = max(self._count - 1, 0)


def _set_threads(numbers):
    for library, number in numbers:
        # only the thread that set the last limit can set another: here fits count, and
        # the last one need not be in the thread of the first
        free = getattr(library, "clear_controlling_thread", lambda force: None)
        free(force=True)
        library.set_num_threads(number)
        free(force=True)


@cache
def _libraries():
    """BLAS with a limit for each thread, and with one limit; they are looked for once.

    Returns
    -------
    own : ThreadpoolController
        The former.
    shared : list of library controllers
        The latter.
    """
    blas = ThreadpoolController().select(user_api="blas")
    own = blas.select(internal_api="openblas").select(threading_layer="openmp")
    shared = [each for each in blas.lib_controllers if each not in own.lib_controllers]
    return own, shared


_SHARED = _SharedLimit()
if hasattr(os, "register_at_fork"):
    # other threads, and locks that they hold, are not in the child
    os.register_at_fork(after_in_child=_SHARED.after_fork)


@contextmanager
def one_blas_thread():
    """Context in which BLAS uses one thread.

    A product of vectors that are read once is slower on all cores than on one, and in
    some libraries many times slower. Its bits depend on the threads.
    """
    with _libraries()[0].limit(limits=1, user_api="blas"), _SHARED:
        yield
