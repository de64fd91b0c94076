"""Parameters that classes of other packages have: what to use in their place."""

from inspect import signature
from typing import ClassVar


class NamesOthers:
    """Mixin: an unknown parameter that another package has is an error with advice.

    A class lists them in `_elsewhere`, in addition to those of its bases.
    """

    _elsewhere: ClassVar[dict[str, str]] = {}

    def __new__(cls, *args, **params):
        for name in params:
            advice = _advice(cls, name)
            if advice and name not in signature(cls.__init__).parameters:
                raise TypeError(f"{cls.__name__} has no {name}: {advice}")
        return super().__new__(cls)


def _advice(cls, name):
    """What the class, or the first of its bases that knows the name, says of it."""
    found = (vars(each).get("_elsewhere", {}).get(name) for each in cls.__mro__)
    return next(filter(None, found), None)
