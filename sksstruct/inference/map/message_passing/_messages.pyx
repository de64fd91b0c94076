"""Base class of the kernels of message passing: messages, beliefs and a bound."""

from libc.math cimport INFINITY

from sksstruct.utils._pointers cimport doubles


cdef class Messages:
    """Base class of message passing kernels; subclasses implement `_sweep`."""

    def __init__(self, Problem problem, arrays):
        self.problem, self._owned, self.bound = problem, arrays, INFINITY
        self._messages = doubles(arrays.messages)
        self._beliefs = doubles(arrays.beliefs)

    def sweep(self, bint backward=False):
        """Update all messages once; return the bound, or inf after the deadline."""
        cdef Problem problem = self.problem
        self.backward = backward
        with nogil:
            self._sweep(problem, backward)
        return self.bound

    # Extension types have no abstract methods: this method does nothing.
    cdef int _sweep(self, Problem problem, bint backward) except -1 nogil:
        """Update all messages, beliefs and the bound, which is inf after the deadline.
        """
        return 0
