"""Arrays of the kernels of trees."""

import numpy as np


def starts_of(lengths):
    """Return where pieces of given lengths begin in a row, and where the last ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.intp)
    np.cumsum(lengths, out=starts[1:])
    return starts


def tree_arrays(n):
    """Return zeros for branches, and the arrays of `Tree`, which describes them."""
    rows = np.empty((5, n + 1), dtype=np.int32)
    return np.zeros((n + 1, 4), dtype=np.int32), (*rows, np.empty(n + 2, np.int32))


def leaders(n):
    """Return the numbers of all variables, each of which stands for itself."""
    return np.arange(n, dtype=np.intp)


def list_children(parents, root):
    """Return where the children of each variable begin, and all children."""
    parents = parents[:root]
    first = starts_of(np.bincount(parents, minlength=root + 1))
    return first, np.argsort(parents, kind="stable").astype(np.intp)
