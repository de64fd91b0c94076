"""Entries of a state that was read, each checked where it enters.

Files come from anybody, and some of their numbers become indices, sizes and addresses
of compiled loops. Whoever takes a state takes its entries from here.
"""

import math

import numpy as np


class Entries:
    """The entries of a state: as they were asked for, or an error.

    Parameters
    ----------
    state : dict
        What was read.
    owner : str
        What messages call the state.

    Attributes
    ----------
    state : dict
        What was read.

    Raises
    ------
    ValueError
        If it is no dict. All methods raise it where an entry is missing or is not what
        they were asked for.

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
        """An entry of a type."""
        if name not in self.state:
            raise ValueError(f"this is not the state of {self.owner}: it lacks {name}")
        value = self.state[name]
        # a flag is a number for Python
        is_flag = isinstance(value, bool)
        if not isinstance(value, kind) or (is_flag and kind is not bool):
            raise self.wrong(name, value, expected)
        return value

    def wrong(self, name, value, expected):
        """An error that names an entry."""
        return ValueError(
            f"the state of {self.owner} is damaged: {name} must be {expected}, got "
            f"{_brief(value)}"
        )

    def part(self, name):
        """The entries of a state that is an entry of this one."""
        return Entries(self.get(name, dict, "a dict"), f"{self.owner}, {name}")

    def text(self, name):
        """A string."""
        return self.get(name, str, "a string")

    def flag(self, name):
        """True or False."""
        return self.get(name, bool, "True or False")

    def whole(self, name, low=0, high=2**53):
        """A whole number, low <= number <= high."""
        value = self.get(name, (int, np.integer), "a whole number")
        if not low <= value <= high:
            raise self.wrong(name, value, f"from {low} to {high}")
        return int(value)

    def real(self, name, low=-math.inf, high=math.inf, *, infinite=False):
        """A number, low <= number <= high; finite, unless it may be infinite."""
        value = self.get(name, (int, float, np.number), "a number")
        if not low <= value <= high or (math.isinf(value) and not infinite):
            raise self.wrong(name, value, _range(low, high, infinite))
        return float(value)

    def reals(self, name, low=-math.inf):
        """A list of finite numbers of at least low."""
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
        """An array, low <= entries <= high; finite, unless it may have infinite ones.

        Parameters
        ----------
        name : str
            Name of the entry.
        shape : tuple of (int or None)
            Its shape; None: any length.
        dtype : dtype
            Its type. Others are not converted.
        low, high : float or ndarray
            Bounds of its entries.
        infinite : bool
            Whether infinite bounds are values that entries may have.

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
        """An array that is part of an entry; see `array`."""
        lengths = ", ".join("any" if n is None else str(n) for n in shape)
        expected = f"{np.dtype(dtype)} of shape ({lengths})"
        if not isinstance(value, np.ndarray) or value.dtype != dtype:
            raise self.wrong(name, value, expected)
        fits = len(value.shape) == len(shape) and all(
            n is None or n == m for n, m in zip(shape, value.shape, strict=True)
        )
        if not fits:
            raise self.wrong(name, value, expected)
        # not a number fails both comparisons
        good = (value >= low) & (value <= high)
        if not infinite and value.dtype.kind == "f":
            good &= np.isfinite(value)
        if not good.all():
            place = np.argwhere(~good)[0].tolist()
            found = value[tuple(place)]
            raise self.wrong(
                f"{name}{place}",
                found,
                _range(*(_at(each, good, place) for each in (low, high)), infinite),
            )
        return np.ascontiguousarray(value)


def taken(owner, names):
    """Some attributes of an object by name, as a state has them."""
    return {name: getattr(owner, name) for name in names}


def _at(bound, like, place):
    """A bound of one entry."""
    return np.broadcast_to(bound, like.shape)[tuple(place)]


def _range(low, high, infinite):
    if low == -math.inf and high == math.inf:
        return "a number" if infinite else "a finite number"
    return f"from {low} to {high}" + ("" if infinite else ", and finite")


def _brief(value):
    """A value in few words."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, (int, float, np.number)):
        return repr(value)
    return f"a {type(value).__name__}"
