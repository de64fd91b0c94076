"""Box constraints on named blocks of weights."""

import numpy as np


def fill_bounds(lower, upper, bounds):
    """Write bounds into the named blocks of flat lower and upper bounds.

    Parameters
    ----------
    lower, upper : dict of ndarray
        Blocks as views; entries that `bounds` does not name stay as they are.
    bounds : dict
        For each block a pair (lower, upper) of numbers, arrays or None.

    Raises
    ------
    ValueError
        If a block does not exist, or its bounds are not valid.
    """
    for name, pair in bounds.items():
        if name not in lower:
            raise ValueError(
                f"bounds: no block {name!r}; the blocks are {sorted(lower)}"
            )
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(
                f"bounds[{name!r}] must be a pair (lower, upper), got {pair!r}"
            )
        for views, limit in zip((lower, upper), pair, strict=True):
            if limit is None:
                continue
            try:
                views[name][...] = limit
            except (TypeError, ValueError):
                raise ValueError(
                    f"bounds[{name!r}] must be numbers or arrays of shape "
                    f"{views[name].shape}"
                ) from None
        low, high = lower[name], upper[name]
        if not (low <= high).all() or np.isposinf(low).any() or np.isneginf(high).any():
            raise ValueError(f"bounds[{name!r}]: lower must not exceed upper")
