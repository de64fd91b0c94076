"""Time limits of runs, which end a run like an interrupt: between two steps.

A time limit is checked at the same places as signals, such as Ctrl+C: before calls of
compiled code, and between two visits of examples within such a call.
"""

import threading

from contextlib import contextmanager
from time import perf_counter

from libc.math cimport INFINITY


class OutOfTime(KeyboardInterrupt):
    """Raised when the time limit of a run has passed."""


_limits = threading.local()


@contextmanager
def until(deadline):
    """Context with a deadline for this thread, in the units of `time.perf_counter`."""
    old_deadline = getattr(_limits, "deadline", INFINITY)
    _limits.deadline = deadline
    try:
        yield
    finally:
        _limits.deadline = old_deadline


cdef class Clock:
    """The deadline of the thread that creates the clock, for loops without the GIL."""

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
