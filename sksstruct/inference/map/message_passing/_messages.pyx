"""What the kernels of message passing have in common: messages, beliefs, a bound."""

from libc.math cimport INFINITY

from sksstruct.utils._pointers cimport doubles


cdef class Messages:
    """Base class of kernels, which implement `_sweep`; `arrays` is kept."""

    def __init__(self, Problem problem, arrays):
        self.problem, self._owned, self.bound = problem, arrays, INFINITY
        # without messages they are the scores themselves
        self._messages = doubles(arrays.messages)
        self._beliefs = doubles(arrays.beliefs)

    def sweep(self, bint backward=False):
        """Update all messages once, and then the bound, which is inf if time is over.
        """
        cdef Problem problem = self.problem
        self.backward = backward
        # one call for all messages: kernels run without the GIL from here on
        with nogil:
            self._sweep(problem, backward)
        return self.bound

    # Not abstract, as extension types cannot be: a kernel without it does nothing.
    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Update all messages, beliefs and the bound, which is inf if time is over."""
        return 0
