"""Changes of the weights that blocks send, and their sum in an order fixed by B alone.

Sums of floating-point numbers depend on the order of the terms. Here it is that of one
binary tree over the blocks, whoever adds: a node is (level, k), stands for the blocks
k 2^level <= b < (k + 1) 2^level, and is the sum of its two children. A worker adds what
it can of its own blocks, and sends the nodes that are left.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np

from sksstruct.solvers.partitioned._rows import merge, squared_norm, take_back

# Weights are sent by rows, of so many if nothing else is known, where fewer than this
# share of the rows changed.
ROW, SPARSE_BELOW = 8, 0.5


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
