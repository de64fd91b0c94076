"""Advice on parameters that similar classes of other packages have."""

from inspect import signature
from typing import ClassVar


class NamesOthers:
    """Mixin whose errors on parameters of other packages say what to use instead.

    A class lists such parameters in `_elsewhere`, in addition to those of its bases.
    """

    _elsewhere: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args, **params):
        for name in params:
            advice = _advice(cls, name)
            if advice and name not in signature(cls.__init__).parameters:
                raise TypeError(f"{cls.__name__} has no {name}: {advice}")
        return super().__new__(cls)


def _advice(cls, name):
    """Return the advice on a parameter by the first class in the MRO that has any."""
    found = (vars(each).get("_elsewhere", {}).get(name) for each in cls.__mro__)
    return next(filter(None, found), None)
