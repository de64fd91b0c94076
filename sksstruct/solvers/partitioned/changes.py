"""Changes of the weights that blocks send, and their sum in an order fixed by B alone.

Sums of floating-point numbers depend on the order of the terms. Here it is that of one
binary tree over the blocks, whoever adds: a node is (level, k), stands for the blocks
k 2^level <= b < (k + 1) 2^level, and is the sum of its two children. A worker adds what
it can of its own blocks, and sends the nodes that are left.
"""

from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise

import numpy as np

from sksstruct.solvers.partitioned._rows import (
    add_terms,
    merge,
    squared_norm,
    take_back,
)

# Weights are sent by rows, of so many if nothing else is known, where fewer than this
# share of the rows changed.
ROW, SPARSE_BELOW = 8, 0.5
# Long vectors are added to in so many ranges of rows, side by side.
_LONG, _RANGES = 2**18, 4
_FIRST = np.zeros(1, dtype=np.int32)


@dataclass
class SparseChange:
    """A vector that is zero but for some rows of equally many entries.

    Parameters
    ----------
    rows : ndarray of shape (n_rows,), int32
        Numbers of the rows, ascending.
    values : ndarray of shape (n_rows, width)
        Their entries.
    size : int
        Length of the vector, a multiple of the width.
    """

    rows: np.ndarray
    values: np.ndarray
    size: int

    @property
    def nbytes(self):
        """Memory of the arrays."""
        return self.rows.nbytes + self.values.nbytes

    @property
    def squares(self):
        """Squared norm of the vector."""
        return squared_norm(self.values)

    def between(self, first, last):
        """The part in a range of rows."""
        a, b = np.searchsorted(self.rows, (first, last))
        return SparseChange(self.rows[a:b], self.values[a:b], self.size)

    def add_to(self, vector):
        """Add to a dense vector, in place."""
        vector.reshape(-1, self.values.shape[1])[self.rows] += self.values


def compress(vector, width=ROW):
    """A change in the form that takes less memory.

    Parameters
    ----------
    vector : ndarray of shape (size,)
        The change; may be returned itself.
    width : int, default=8
        Length of the rows.

    Returns
    -------
    change : ndarray or SparseChange
        The same vector.
    """
    if len(vector) % width:
        return vector
    table = vector.reshape(-1, width)
    rows = np.flatnonzero(table.any(axis=1))
    if len(rows) >= SPARSE_BELOW * len(table):
        return vector
    return SparseChange(rows.astype(np.int32), table[rows], len(vector))


def marked(weights, origin, factor, width):
    """What was changed in the marked rows of weights, times a factor.

    The weights are as before afterwards, and nothing is marked.

    Parameters
    ----------
    weights : Weights
        Weights that mark rows, and are not truncated.
    origin : ndarray of shape (size,)
        What they were before.
    factor : float
        The factor.
    width : int
        Length of the rows.

    Returns
    -------
    change : ndarray or SparseChange
        The change, in the form that takes less memory.
    """
    rows, values = take_back(weights.v, origin, weights.marks, factor, width)
    change = SparseChange(rows, values, len(origin))
    return change if len(rows) < SPARSE_BELOW * len(weights.marks) else dense(change)


def dense(change):
    """A change as a vector."""
    if not isinstance(change, SparseChange):
        return change
    out = np.zeros(change.size)
    change.add_to(out)
    return out


def add(first, second):
    """The sum of two changes, either of which may be overwritten."""
    if not isinstance(first, SparseChange):
        first, second = second, first
    if not isinstance(second, SparseChange):
        if isinstance(first, SparseChange):
            first.add_to(second)
        else:
            second += first
        return second
    rows, values = merge(first.rows, first.values, second.rows, second.values)
    change = SparseChange(rows, values, first.size)
    n_rows = first.size // values.shape[1]
    return change if len(rows) < SPARSE_BELOW * n_rows else dense(change)


def add_sum(terms, vector, other, factor, width, side_by_side):
    """Add the sum of changes to a vector, and a multiple of it to another one.

    Parameters
    ----------
    terms : list of changes
        One change or two; may be overwritten.
    vector : ndarray of shape (size,)
        Changed in place.
    other : ndarray of shape (size,) or None
        Changed in place, unless it is None.
    factor : float
        What the sum is multiplied by there.
    width : int
        Length of the rows.
    side_by_side : callable
        Calls functions without arguments; returns what they return, in their order.

    Returns
    -------
    rows : ndarray of int32 or None
        Rows of the sum; None if they are half of all or more.
    squares, risen : float
        Squared norm of the sum, and by how much that of the vector rose. Both are the
        same whatever the form of the terms.
    """
    size, n_rows = len(vector), len(vector) // width
    n_ranges = _RANGES if size >= _LONG and size % width == 0 else 1
    bounds = [n_rows * k // n_ranges for k in range(n_ranges + 1)]
    sparse = all(isinstance(each, SparseChange) for each in terms)
    if not sparse:
        terms = [reduce(add, terms)]
        bounds = [first * width for first in bounds[:-1]] + [size]

    def work(first, last):
        if sparse:
            parts = [each.between(first, last) for each in terms]
            return add_terms(vector, parts, other, factor)
        # one long row
        part = SparseChange(_FIRST, terms[0][first:last].reshape(1, -1), last - first)
        out = None if other is None else other[first:last]
        return add_terms(vector[first:last], [part], out, factor)

    jobs = [partial(work, *each) for each in pairwise(bounds)]
    rows, squares, risen = zip(*side_by_side(jobs), strict=True)
    found = np.concatenate(rows) if sparse else None
    if found is not None and len(found) >= SPARSE_BELOW * n_rows:
        found = None
    return found, sum(squares), sum(risen)


class TreeSum:
    """A sum over blocks, to which terms come in any order.

    Parameters
    ----------
    n_blocks : int
        Number of blocks B.
    halves : bool, default=False
        Whether the two children of the root are left as they are: who adds them to
        weights does that in one go.

    Attributes
    ----------
    nodes : dict of (int, int) to change
        Sums of the nodes whose sibling has not come yet.
    received : int
        Bytes of what was added.
    """

    def __init__(self, n_blocks, halves=False):
        self.n_blocks = n_blocks
        self.root = (n_blocks - 1).bit_length()
        self.top = self.root - 1 if halves else self.root
        self.nodes = {}
        self.received = 0

    def add(self, change, block=None, node=None):
        """Add the change of a block, or the sum of a node."""
        level, k = (0, block) if node is None else node
        self.received += change.nbytes
        while level < self.top:
            # a node without a sibling is its parent
            if (k ^ 1) << level < self.n_blocks:
                sibling = self.nodes.pop((level, k ^ 1), None)
                if sibling is None:
                    break
                change = add(change, sibling)
            level, k = level + 1, k >> 1
        self.nodes[level, k] = change

    def terms(self):
        """The sum of all blocks, as one or two terms in their order.

        An error where some blocks are missing.
        """
        last = self.root - 1
        if set(self.nodes) not in ({(self.root, 0)}, {(last, 0), (last, 1)}):
            raise ValueError(f"changes of some of {self.n_blocks} blocks are missing")
        return [change for _, change in sorted(self.nodes.items())]

    def total(self):
        """The sum of all blocks; an error where some are missing."""
        return reduce(add, self.terms())
