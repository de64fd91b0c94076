"""Parameters of objects that must not import scikit-learn, which takes a second.

`Parameters` has the methods that `sklearn.clone`, nested parameters and grid searches
call. `Parameters.check` accepts allowed values itself; for other values it imports
scikit-learn, which raises the error, so that all errors of parameters read alike.
"""

from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState


@dataclass(frozen=True)
class Number:
    """A range of numbers that a parameter may have.

    Parameters
    ----------
    kind : type
        `numbers.Integral` or `numbers.Real`.
    low : float
        Lower end.
    high : float, default=inf
        Upper end, which is not part of the range.
    closed : bool, default=True
        Whether the lower end is part of the range.
    """

    kind: type
    low: float
    high: float = np.inf
    closed: bool = True

    def accepts(self, value):
        """Whether a value is in the range."""
        if not isinstance(value, self.kind):
            return False
        return (self.low <= value if self.closed else self.low < value) and (
            value < self.high or self.high == np.inf
        )


COUNT = [Number(Integral, 1)]
NON_NEGATIVE = [Number(Real, 0)]
POSITIVE = [Number(Real, 0, closed=False)]


class _Constraints:
    """Descriptor: ``_allowed`` of a class as scikit-learn's parameter constraints."""

    def __get__(self, instance, owner):
        from sksstruct.utils._param_validation import Interval, StrOptions

        constraints = {}
        for name, allowed in owner._allowed.items():
            words = {each for each in allowed if isinstance(each, str)}
            found = constraints[name] = [StrOptions(words)] if words else []
            for each in allowed:
                if each is bool:
                    found.append("boolean")
                elif isinstance(each, Number):
                    high = None if each.high == np.inf else each.high
                    closed = "left" if each.closed else "neither"
                    found.append(Interval(each.kind, each.low, high, closed=closed))
        return constraints


class Parameters:
    """Mixin of dataclasses whose fields are parameters, as those of an estimator.

    A class names in `_allowed` for each parameter the values that it may have: ranges,
    words, or `bool`.
    """

    _allowed: ClassVar[dict[str, list]] = {}
    _parameter_constraints = _Constraints()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters.

        Parameters
        ----------
        deep : bool, default=True
            Has no effect: no parameter has parameters itself.

        Returns
        -------
        params : dict
            Values by name.
        """
        return {name: getattr(self, name) for name in sorted(_defaults(type(self)))}

    def set_params(self, **params: Any) -> Self:
        """Set parameters.

        Parameters
        ----------
        **params : dict
            Values by name.

        Returns
        -------
        self : object
            The object itself.
        """
        names = sorted(_defaults(type(self)))
        for name, value in params.items():
            if name not in names:
                raise ValueError(
                    f"Invalid parameter {name!r} for {self}. Valid parameters are: "
                    f"{names}."
                )
            setattr(self, name, value)
        return self

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if not all(
            any(_accepts(each, getattr(self, name)) for each in allowed)
            for name, allowed in self._allowed.items()
        ):
            from sksstruct.utils._param_validation import validate_params

            validate_params(self)

    def __repr__(self):
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in sorted(_defaults(type(self)).items())
            if repr(getattr(self, name)) != repr(default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _defaults(cls):
    """Defaults of all parameters, by name."""
    parameters = signature(cls).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters}


def _accepts(allowed, value):
    """Whether a value is allowed by a `Number`, by ``bool``, or equals a word."""
    if isinstance(allowed, Number):
        return allowed.accepts(value)
    if allowed is bool:
        return isinstance(value, bool)
    return isinstance(value, str) and value == allowed


def random_source(seed):
    """The random generator for a parameter `random_state`.

    Parameters
    ----------
    seed : int, RandomState instance or None
        Seed, generator, or None for NumPy's own generator.

    Returns
    -------
    generator : RandomState
        The generator.
    """
    if isinstance(seed, int | np.integer):
        return RandomState(seed)
    from sklearn.utils import check_random_state

    return check_random_state(seed)
