"""Entries of a state that was read from a file, each checked before it is used.

Files come from anyone, and some of their numbers become indices, sizes and addresses in
compiled loops. All code that reads a state takes its entries from this module.
"""

import math

import numpy as np


class Entries:
    """The entries of a state, each returned as requested or refused with an error.

    Parameters
    ----------
    state : dict
        The state that was read.
    owner : str
        Name of the state in messages.

    Attributes
    ----------
    state : dict
        The state that was read.

    Raises
    ------
    ValueError
        If the state is no dict. All methods raise it if an entry is missing or is not
        as requested.

    Examples
    --------
    >>> from sksstruct.utils.entries import Entries
    >>> Entries({"size": 3}, "a queue").whole("size", low=0)
    3
    """

    def __init__(self, state, owner):
        if not isinstance(state, dict):
            raise ValueError(f"this is not the state of {owner}: {_brief(state)}")
        self.state, self.owner = state, owner

    def __contains__(self, name):
        return name in self.state

    def get(self, name, kind, expected):
        """Return an entry, or raise an error if its type is not `kind`."""
        if name not in self.state:
            raise ValueError(f"this is not the state of {self.owner}: it lacks {name}")
        value = self.state[name]
        # a bool is an instance of int, but no number in a state
        is_flag = isinstance(value, bool)
        if not isinstance(value, kind) or (is_flag and kind is not bool):
            raise self.wrong(name, value, expected)
        return value

    def wrong(self, name, value, expected):
        """Return an error that names an entry and its expected form."""
        return ValueError(
            f"the state of {self.owner} is damaged: {name} must be {expected}, got "
            f"{_brief(value)}"
        )

    def part(self, name):
        """Return the `Entries` of a nested state, which is an entry of this state."""
        return Entries(self.get(name, dict, "a dict"), f"{self.owner}, {name}")

    def text(self, name):
        """Return an entry that is a string."""
        return self.get(name, str, "a string")

    def flag(self, name):
        """Return an entry that is True or False."""
        return self.get(name, bool, "True or False")

    def whole(self, name, low=0, high=2**53):
        """Return an entry that is a whole number, low <= number <= high."""
        value = self.get(name, (int, np.integer), "a whole number")
        if not low <= value <= high:
            raise self.wrong(name, value, f"from {low} to {high}")
        return int(value)

    def real(self, name, low=-math.inf, high=math.inf, *, infinite=False):
        """Return an entry that is a number from low to high, finite by default."""
        value = self.get(name, (int, float, np.number), "a number")
        if not low <= value <= high or (math.isinf(value) and not infinite):
            raise self.wrong(name, value, _range(low, high, infinite))
        return float(value)

    def reals(self, name, low=-math.inf):
        """Return an entry that is a list of finite numbers of at least low."""
        values = self.get(name, list, "a list of numbers")
        numbers = Entries(dict(enumerate(values)), f"{self.owner}, {name}")
        return [numbers.real(k, low) for k in range(len(values))]

    def array(
        self,
        name,
        shape,
        dtype=np.float64,
        low=-math.inf,
        high=math.inf,
        *,
        infinite=False,
    ):
        """Return an entry that is an array, low <= entries <= high, finite by default.

        Parameters
        ----------
        name : str
            Name of the entry.
        shape : tuple of (int or None)
            Shape of the array; None: any length.
        dtype : dtype
            Type of the array. Other types are not converted.
        low, high : float or ndarray
            Bounds of the entries of the array.
        infinite : bool
            Whether entries may be infinite, within the bounds.

        Returns
        -------
        array : ndarray
            C-contiguous.
        """
        value = self.get(name, np.ndarray, "an array")
        return self.checked(name, value, shape, dtype, low, high, infinite=infinite)

    def checked(
        self, name, value, shape, dtype, low=-math.inf, high=math.inf, *, infinite=False
    ):
        """Return an array that is part of an entry, after the checks of `array`."""
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        expected = f"{np.dtype(dtype)} of shape ({lengths})"
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            raise self.wrong(name, value, expected)
        fits = len(value.shape) == len(shape) and all(
            n is None or n == m for n, m in zip(shape, value.shape, strict=True)
        )
        if not fits:
            raise self.wrong(name, value, expected)
        # NaN fails both comparisons
        is_valid = (value >= low) & (value <= high)
        if not infinite and value.dtype.kind == "f":
            is_valid &= np.isfinite(value)
        if not is_valid.all():
            place = np.argwhere(~is_valid)[0].tolist()
            found = value[tuple(place)]
            raise self.wrong(
                f"{name}{place}",
                found,
                _range(*(_at(each, is_valid, place) for each in (low, high)), infinite),
            )
        return np.ascontiguousarray(value)


def taken(owner, names):
    """Return some attributes of an object by name, as entries of a state."""
    return {name: getattr(owner, name) for name in names}


def _at(bound, like, place):
    """Return the bound for the entry of an array at the indices `place`."""
    return np.broadcast_to(bound, like.shape)[tuple(place)]


def _range(low, high, infinite):
    if low == -math.inf and high == math.inf:
        return "a number" if infinite else "a finite number"
    return f"from {low} to {high}" + ("" if infinite else ", and finite")


def _brief(value):
    """Return a short description of a value."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, (int, float, np.number)):
        return repr(value)
    return f"a {type(value).__name__}"
