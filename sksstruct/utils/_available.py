"""Methods that exist only with some parameters; errors say why a method is missing."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, cast

from sksstruct.utils.typing import Decorator


def available_if(check: Callable[[Any], object]) -> Decorator:
    """Make a method available if a check passes.

    Works like `sklearn.utils.metaestimators.available_if`, but raises the error of the
    check unchanged: scikit-learn replaces it by "has no attribute".

    Parameters
    ----------
    check : callable
        ``check(estimator)`` raises AttributeError if the method is not available.

    Returns
    -------
    decorator : callable
        Decorator for a method.
    """
    # annotated as a decorator of methods, although it returns a descriptor
    return cast(Decorator, lambda method: _Available(method, check))


class _Available:
    def __init__(self, fn, check):
        self.fn, self.check = fn, check
        update_wrapper(self, fn)

    def __get__(self, estimator, owner=None):
        if estimator is None:  # accessed on the class, for its documentation
            return self.fn
        self.check(estimator)
        return MethodType(self.fn, estimator)
