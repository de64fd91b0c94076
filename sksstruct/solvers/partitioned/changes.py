"""Changes of the weights that blocks send, and their sum in an order fixed by B alone.

Sums of floating-point numbers depend on the order of the terms. Here it is that of one
binary tree over the blocks, whoever adds: a node is (level, k), stands for the blocks
k 2^level <= b < (k + 1) 2^level, and is the sum of its two children. A worker adds what
it can of its own blocks, and sends the nodes that are left.
"""

from dataclasses import dataclass

import numpy as np

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


def difference(vector, other, rows, width):
    """vector - other, which differ in the given rows only."""
    values = vector.reshape(-1, width)[rows]
    values -= other.reshape(-1, width)[rows]
    changed = np.einsum("ij,ij->i", values, values) > 0.0
    if not changed.all():
        rows, values = rows[changed], values[changed]
    return SparseChange(rows.astype(np.int32), values, len(vector))


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
    width = first.values.shape[1]
    n_rows = first.size // width
    either = np.zeros(n_rows, dtype=bool)
    either[first.rows] = either[second.rows] = True
    rows = np.flatnonzero(either).astype(np.int32)
    if len(rows) >= SPARSE_BELOW * n_rows:
        out = np.zeros(first.size)
        first.add_to(out)
        second.add_to(out)
        return out
    # where each row of the sum is; the entries of others are never read
    place = np.empty(n_rows, dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    values = np.zeros((len(rows), width))
    values[place[first.rows]] = first.values
    values[place[second.rows]] += second.values
    return SparseChange(rows, values, first.size)


class TreeSum:
    """A sum over blocks, to which terms come in any order.

    Parameters
    ----------
    n_blocks : int
        Number of blocks B.

    Attributes
    ----------
    nodes : dict of (int, int) to change
        Sums of the nodes whose sibling has not come yet.
    received : int
        Bytes of what was added.
    """

    def __init__(self, n_blocks):
        self.n_blocks = n_blocks
        self.nodes = {}
        self.received = 0

    def add(self, change, block=None, node=None):
        """Add the change of a block, or the sum of a node."""
        level, k = (0, block) if node is None else node
        self.received += change.nbytes
        while k << level or (1 << level) < self.n_blocks:
            # a node without a sibling is its parent
            if (k ^ 1) << level < self.n_blocks:
                sibling = self.nodes.pop((level, k ^ 1), None)
                if sibling is None:
                    break
                change = add(change, sibling)
            level, k = level + 1, k >> 1
        self.nodes[level, k] = change

    def total(self):
        """The sum of all blocks; an error where some are missing."""
        if len(self.nodes) != 1 or next(iter(self.nodes))[1] != 0:
            raise ValueError(f"changes of some of {self.n_blocks} blocks are missing")
        (((level, _), change),) = self.nodes.items()
        if 1 << level < self.n_blocks:
            raise ValueError(f"changes of some of {self.n_blocks} blocks are missing")
        return change
