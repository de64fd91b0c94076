"""Methods that depend on parameters, whose absence says why."""

from functools import update_wrapper
from types import MethodType


def available_if(check):
    """Make a method available where a check passes.

    As `sklearn.utils.metaestimators.available_if`, except that the error of the check
    reaches the user as it is: scikit-learn puts "has no attribute" in its place.

    Parameters
    ----------
    check : callable
        ``check(estimator)`` raises AttributeError if the method is not available.

    Returns
    -------
    decorator : callable
        For a method.
    """
    return lambda method: _Available(method, check)


class _Available:
    def __init__(self, fn, check):
        self.fn, self.check = fn, check
        update_wrapper(self, fn)

    def __get__(self, estimator, owner=None):
        if estimator is None:  # of the class, for its documentation
            return self.fn
        self.check(estimator)
        return MethodType(self.fn, estimator)
