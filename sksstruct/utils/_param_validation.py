"""Constraints of parameters, from annotations or `_parameter_constraints`.

Only this module uses scikit-learn's private parameter validation.
"""

import inspect
from collections.abc import Callable
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

__all__ = [
    "Array",
    "Constrained",
    "Count",
    "Fraction",
    "Interval",
    "NonNegative",
    "NonNegativeInt",
    "Options",
    "Positive",
    "Seed",
    "StrOptions",
    "Threads",
    "Verbosity",
    "validate_parameter_constraints",
    "validate_params",
]

# Numbers in a range, for annotations of parameters.
Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
NonNegativeInt = Annotated[int, Interval(Integral, 0, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
NonNegative = Annotated[float, Interval(Real, 0, None, closed="left")]
Fraction = Annotated[float, Interval(Real, 0, 1, closed="neither")]
# Constraints that scikit-learn has names for.
Array = Annotated[ArrayLike, "array-like"]
Seed = Annotated[int | RandomState | None, "random_state"]
# Zero threads are invalid in joblib; a negative number counts from all processors.
Threads = Annotated[int, Interval(Integral, None, -1, closed="right")] | Count
Verbosity = Annotated[int, "verbose"]


class _Signature:
    """The signature of a class: that of its ``__init__``, without annotations.

    Readers of a signature look for names and defaults; the docstring states the allowed
    values. Without this class, ``help`` would print each range as an object, and a
    class with a ``__new__`` would have the signature of ``__new__``.
    """

    def __get__(self, instance, owner):
        if instance is not None:
            # instances have the signature of their ``__call__``
            raise AttributeError("__signature__")
        _, *parameters = inspect.signature(owner.__init__).parameters.values()
        return inspect.Signature(
            [each.replace(annotation=each.empty) for each in parameters]
        )


class Constrained:
    """Mixin of dataclasses whose annotations are the constraints of their parameters.

    A class adds to the constraints of its bases. Its `_parameter_constraints` have
    priority over its annotations, and must give a range for each plain ``int`` or
    ``float``, unless a base does.
    """

    _parameter_constraints: ClassVar[dict] = {}
    __signature__ = _Signature()

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        annotated = {
            name: _constraints_of(hint)
            for name, hint in inspect.get_annotations(cls).items()
            if get_origin(hint) is not ClassVar
        }
        cls._parameter_constraints = {
            **super(cls, cls)._parameter_constraints,
            **{name: found for name, found in annotated.items() if found},
            **vars(cls).get("_parameter_constraints", {}),
        }


def _constraints_of(hint):
    """Return the constraints of an annotation, or [] if a part has none."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    constraints = [_constraint_of(part) for part in parts]
    return [] if ... in constraints else constraints


def _constraint_of(part):
    """Return the constraint of one alternative of an annotation, ``...`` for none."""
    origin = get_origin(part)
    if origin is Annotated:
        return part.__metadata__[0]
    if origin is Literal:
        values = set(get_args(part))
        if all(isinstance(value, str) for value in values):
            return StrOptions(values)
        is_number = all(isinstance(value, int) for value in values)
        return Options(Integral, values) if is_number else ...
    if part in (None, NoneType):
        return None
    if part is bool:
        return "boolean"
    if Callable in (part, origin):
        return callable
    part = origin if origin in (dict, list, tuple) else part
    is_kind = isinstance(part, type) and part not in (int, float, Any)
    return part if is_kind else ...


def validate_params(estimator):
    """Check constructor parameters against ``_parameter_constraints``."""
    validate_parameter_constraints(
        estimator._parameter_constraints,
        estimator.get_params(deep=False),
        caller_name=type(estimator).__name__,
    )
