"""Time limits of runs, which end a run as an interrupt does: between two steps.

Solvers stay usable where Ctrl+C interrupts them, and a limit comes at the same places:
before a call of compiled code, and between two visits of examples within one.
"""

import threading

from contextlib import contextmanager
from time import perf_counter

from libc.math cimport INFINITY


class OutOfTime(KeyboardInterrupt):
    """Raised where the time limit of a run is over."""


_limits = threading.local()


@contextmanager
def until(deadline):
    """Context in which this thread has time until then, as of `time.perf_counter`."""
    before = getattr(_limits, "deadline", INFINITY)
    _limits.deadline = deadline
    try:
        yield
    finally:
        _limits.deadline = before


cdef class Clock:
    """The time that is left to this thread, for loops without the GIL."""

    def __cinit__(self):
        self.deadline = getattr(_limits, "deadline", INFINITY)

    cdef bint late(self) noexcept nogil:
        if self.deadline == INFINITY:
            return False
        with gil:
            return <double> perf_counter() >= self.deadline

    def is_late(self):
        """Return whether no time is left; may be called by any thread."""
        return self.late()

    def check(self):
        """Raise `OutOfTime` if no time is left."""
        if self.late():
            raise OutOfTime


def check_clock():
    """Raise `OutOfTime` if no time is left to this thread."""
    Clock().check()
