"""Methods that depend on parameters, whose absence says why."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, cast

from sksstruct.utils.typing import Decorator


def available_if(check: Callable[[Any], object]) -> Decorator:
    """Make a method available if a check passes.

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
    # of the type of the method, as its descriptor gives it
    return cast(Decorator, lambda method: _Available(method, check))


class _Available:
    def __init__(self, fn, check):
        self.fn, self.check = fn, check
        update_wrapper(self, fn)

    def __get__(self, estimator, owner=None):
        if estimator is None:  # of the class, for its documentation
            return self.fn
        self.check(estimator)
        return MethodType(self.fn, estimator)
