"""Threads for HiGHS and CP-SAT, which do not react to interrupts.

Both solvers check the time between steps that may be long.
"""

import _thread
import atexit
import contextlib
import ctypes
import os
import sys
import time
from queue import Empty, SimpleQueue

# Seconds between checks of the time.
_TICK = 0.05
# Largest time in seconds to wait for threads at the end of the process.
_MOMENT = 2.0
# Queues for the results of all threads that run.
_AT_WORK = set()
if hasattr(os, "register_at_fork"):
    # a fork copies no threads
    os.register_at_fork(after_in_child=_AT_WORK.clear)


def in_thread(solve, stop):
    """Call a function in a thread; return its result, or None if it is to stop.

    The caller does not wait for a thread that is to stop. The thread ends when the
    foreign solver checks the time itself.

    An interrupt can come before any line of Python. Within `threading` or
    `concurrent.futures` an interrupt would leave locks taken; `_thread` and
    `SimpleQueue` are compiled.

    Parameters
    ----------
    solve : callable
        Called without arguments in a thread of its own.
    stop : callable
        Whether to leave the thread behind, called at short intervals.

    Returns
    -------
    answer : object
        Result of `solve`; None if the thread was left behind.
    """
    answer = SimpleQueue()

    def work():
        # The thread adds its queue itself, as an interrupt may have ended the caller.
        _AT_WORK.add(answer)
        try:
            answer.put((solve(), None))
        except BaseException as error:
            answer.put((None, error))
        finally:
            _AT_WORK.discard(answer)

    # at its end the interpreter does not wait for threads that `_thread` starts
    _thread.start_new_thread(work, ())
    while True:
        try:
            found, error = answer.get(timeout=_TICK)
            break
        except Empty:
            if stop():
                return None
    if error is not None:
        raise error
    return found


@atexit.register
def _end_at_once():
    """Let the process end while a foreign solver runs in a thread.

    A thread that returns to the interpreter while the interpreter ends aborts the
    process: threads that are nearly done get a moment to return before. The destructors
    of the solver's library, which run last, could abort the process as well.
    """
    end = time.monotonic() + _MOMENT
    while _AT_WORK and time.monotonic() < end:
        # an interrupt is ignored, as the process ends anyway
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(0.2 * _TICK)
    libc = ctypes.CDLL(None) if _AT_WORK and sys.platform == "linux" else None
    if hasattr(libc, "on_exit"):
        # libc calls `_exit` with the exit status, before the destructors
        libc.on_exit(libc._exit, None)
