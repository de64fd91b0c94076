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

from sksstruct.solvers.partitioned._lines import add_dense, add_to, count, put
from sksstruct.solvers.partitioned.lines import (
    LINE,
    add_terms,
    merge,
    pack,
    take,
    take_back,
)

# Vectors are sent as they are if the sparse form takes this share of their memory.
SPARSE_BELOW = 0.5
# Entries from which on a vector is long.
_LONG = 2**18
# Long vectors are added to in so many ranges, side by side.
_RANGES = 4


@dataclass
class Places:
    """Some places of a vector.

    Parameters
    ----------
    lines : ndarray of shape (n_lines,), int32
        Numbers of the lines that they are in, ascending. Line k begins at entry 8 k.
    masks : ndarray of shape (n_lines,), uint8
        Which of the eight entries, the first being the lowest bit; not zero.
    """

    lines: np.ndarray
    masks: np.ndarray

    def __len__(self):
        return count(self.masks)

    @property
    def nbytes(self):
        """Memory of the arrays."""
        return self.lines.nbytes + self.masks.nbytes

    def take(self, vector):
        """The entries of a vector."""
        return take(vector, self.lines, self.masks)

    def put(self, vector, values):
        """Write the entries of a vector, in place."""
        put(vector, self.lines, self.masks, values)


@dataclass
class SparseChange(Places):
    """A vector that is zero but for some places.

    Parameters
    ----------
    lines, masks : ndarray of shape (n_lines,)
        The places.
    values : ndarray
        The entries there.
    size : int
        Length of the vector.
    """

    values: np.ndarray
    size: int

    @property
    def nbytes(self):
        """Memory of the arrays."""
        return super().nbytes + self.values.nbytes

    @property
    def squares(self):
        """Squared norm of the vector."""
        return float(np.einsum("i,i->", self.values, self.values))

    @property
    def arrays(self):
        """What kernels read."""
        return self.lines, self.masks, self.values

    def between(self, first, last):
        """The part in a range of lines."""
        a, b = np.searchsorted(self.lines, (first, last))
        begin = count(self.masks[:a])
        end = begin + count(self.masks[a:b])
        values = self.values[begin:end]
        return SparseChange(self.lines[a:b], self.masks[a:b], values, self.size)

    def add_to(self, vector):
        """Add to a dense vector, in place."""
        add_to(vector, *self.arrays)

    def shorter(self):
        """The same vector in the form that takes less memory."""
        return self if self.nbytes < SPARSE_BELOW * 8 * self.size else dense(self)


def compress(vector):
    """A change in the form that takes less memory.

    Parameters
    ----------
    vector : ndarray of shape (size,)
        The change; may be returned itself.

    Returns
    -------
    change : ndarray or SparseChange
        The same vector.
    """
    change = SparseChange(*pack(vector), len(vector))
    return change if change.nbytes < SPARSE_BELOW * vector.nbytes else vector


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
    found = take_back(weights.v, origin, weights.marks, factor, width)
    return SparseChange(*found, len(origin)).shorter()


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
    return SparseChange(*merge(first.arrays, second.arrays), first.size).shorter()


def add_sum(terms, vector, other, factor, side_by_side):
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
    side_by_side : callable
        Calls functions without arguments; returns what they return, in their order.

    Returns
    -------
    places : Places or None
        Where the sum has entries; None if entries and places take half the memory of
        all entries.
    squares, risen : float
        Squared norm of the sum, and by how much that of the vector rose. Both are the
        same whatever the form of the terms.
    """
    size, n_lines = len(vector), -(-len(vector) // LINE)
    n_ranges = _RANGES if size >= _LONG else 1
    bounds = [n_lines * k // n_ranges for k in range(n_ranges + 1)]
    sparse = all(isinstance(each, SparseChange) for each in terms)
    if not sparse:
        terms = [reduce(add, terms)]

    def of_sparse(first, last):
        parts = [each.between(first, last).arrays for each in terms]
        return add_terms(vector, parts[0], (*parts, None)[1], other, factor)

    def of_dense(first, last):
        part = slice(first * LINE, min(last * LINE, size))
        out = None if other is None else other[part]
        return None, None, *add_dense(vector[part], terms[0][part], out, factor)

    work = of_sparse if sparse else of_dense
    jobs = [partial(work, *each) for each in pairwise(bounds)]
    lines, masks, squares, risen = zip(*side_by_side(jobs), strict=True)
    places = Places(np.concatenate(lines), np.concatenate(masks)) if sparse else None
    if sparse and places.nbytes + 8 * len(places) >= SPARSE_BELOW * 8 * size:
        places = None
    return places, sum(squares), sum(risen)


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

        An error if some blocks are missing.
        """
        last = self.root - 1
        if set(self.nodes) not in ({(self.root, 0)}, {(last, 0), (last, 1)}):
            raise ValueError(f"changes of some of {self.n_blocks} blocks are missing")
        return [change for _, change in sorted(self.nodes.items())]

    def total(self):
        """The sum of all blocks; an error if some are missing."""
        return reduce(add, self.terms())
