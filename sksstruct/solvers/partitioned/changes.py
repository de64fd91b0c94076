"""Changes of the weights that blocks send, and their sum in a reproducible order.

Sums of floating-point numbers depend on the order of the terms. Here the order is that
of a binary tree over the blocks, whichever process adds: node (level, k) is the sum
over the blocks k 2^level <= b < (k + 1) 2^level, and is computed as the sum of its two
children. A worker adds up the nodes that its own blocks complete, and sends the
remaining nodes.
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

# A vector is sent densely unless its sparse form takes less than this fraction of the
# memory.
SPARSE_BELOW = 0.5
# Vectors of at least this number of entries are long: threads add to ranges of them.
_LONG = 2**18
# Number of ranges of a long vector that threads add to at the same time.
_RANGES = 4


@dataclass
class Places:
    """Places in a vector, as lines and masks.

    Parameters
    ----------
    lines : ndarray of shape (n_lines,), int32
        Numbers of the lines, ascending. Line k begins at entry 8 k.
    masks : ndarray of shape (n_lines,), uint8
        Masks of the entries of each line; the lowest bit stands for the first entry. No
        mask is zero.
    """

    lines: np.ndarray
    masks: np.ndarray

    def __len__(self):
        return count(self.masks)

    @property
    def nbytes(self):
        """Size of the arrays in bytes."""
        return self.lines.nbytes + self.masks.nbytes

    def take(self, vector):
        """Return the entries of a vector at these places."""
        return take(vector, self.lines, self.masks)

    def put(self, vector, values):
        """Overwrite the entries of a vector at these places."""
        put(vector, self.lines, self.masks, values)


@dataclass
class SparseChange(Places):
    """A vector that is zero except at some places.

    Parameters
    ----------
    lines, masks : ndarray of shape (n_lines,)
        The places, as in `Places`.
    values : ndarray
        The entries at these places.
    size : int
        Length of the vector.
    """

    values: np.ndarray
    size: int

    @property
    def nbytes(self):
        """Size of the arrays in bytes."""
        return super().nbytes + self.values.nbytes

    @property
    def squares(self):
        """Squared norm of the vector."""
        return float(np.einsum("i,i->", self.values, self.values))

    @property
    def arrays(self):
        """Lines, masks and values, as kernels read them."""
        return self.lines, self.masks, self.values

    def between(self, first, last):
        """Return the part of the vector in a range of lines."""
        a, b = np.searchsorted(self.lines, (first, last))
        begin = count(self.masks[:a])
        end = begin + count(self.masks[a:b])
        values = self.values[begin:end]
        return SparseChange(self.lines[a:b], self.masks[a:b], values, self.size)

    def add_to(self, vector):
        """Add this vector to a dense vector, in place."""
        add_to(vector, *self.arrays)

    def shorter(self):
        """Return the same vector, dense or sparse, whichever takes less memory."""
        return self if self.nbytes < SPARSE_BELOW * 8 * self.size else dense(self)


def compress(vector):
    """Return a change as dense or sparse, whichever takes less memory.

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
    """Return the changes in the marked rows of weights, times a factor.

    The weights are reset to `origin`, and the marks to zero.

    Parameters
    ----------
    weights : Weights
        Weights that mark rows, and are not truncated.
    origin : ndarray of shape (size,)
        The weights before the changes.
    factor : float
        Factor of the changes.
    width : int
        Length of the rows.

    Returns
    -------
    change : ndarray or SparseChange
        The change, in the form that takes less memory.
    """
    arrays = take_back(weights.v, origin, weights.marks, factor, width)
    return SparseChange(*arrays, len(origin)).shorter()


def dense(change):
    """Return a change as a dense vector."""
    if not isinstance(change, SparseChange):
        return change
    out = np.zeros(change.size)
    change.add_to(out)
    return out


def add(first, second):
    """Return the sum of two changes, either of which may be overwritten."""
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
    """Add the sum of changes to a vector, and a multiple of the sum to another vector.

    Parameters
    ----------
    terms : list of changes
        One change or two; may be overwritten.
    vector : ndarray of shape (size,)
        Changed in place.
    other : ndarray of shape (size,) or None
        Changed in place, unless it is None.
    factor : float
        Factor of the sum for `other`.
    side_by_side : callable
        Calls functions without arguments, and returns their results in the same order.

    Returns
    -------
    places : Places or None
        Places where the sum has entries; None if they are too many for a sparse vector.
    squares, increase : float
        Squared norm of the sum, and increase of the squared norm of the vector. Both do
        not depend on the form of the terms.
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

    add_range = of_sparse if sparse else of_dense
    jobs = [partial(add_range, *each) for each in pairwise(bounds)]
    lines, masks, squares, increase = zip(*side_by_side(jobs), strict=True)
    places = Places(np.concatenate(lines), np.concatenate(masks)) if sparse else None
    if sparse and places.nbytes + 8 * len(places) >= SPARSE_BELOW * 8 * size:
        places = None
    return places, sum(squares), sum(increase)


class TreeSum:
    """A sum over blocks, to which terms are added in any order.

    Parameters
    ----------
    n_blocks : int
        Number of blocks B.
    halves : bool, default=False
        Whether the two children of the root are not added up: the caller adds both to
        the weights in a single pass.

    Attributes
    ----------
    nodes : dict of (int, int) to change
        Sums of nodes whose sibling is still missing.
    received : int
        Size in bytes of the changes that were added.
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
            # at the right edge, a node without a sibling equals its parent
            if (k ^ 1) << level < self.n_blocks:
                sibling = self.nodes.pop((level, k ^ 1), None)
                if sibling is None:
                    break
                change = add(change, sibling)
            level, k = level + 1, k >> 1
        self.nodes[level, k] = change

    def terms(self):
        """Return one or two terms, in fixed order, that add up to the sum over blocks.

        Raises ValueError if blocks are missing.
        """
        last = self.root - 1
        if set(self.nodes) not in ({(self.root, 0)}, {(last, 0), (last, 1)}):
            raise ValueError(f"changes of some of {self.n_blocks} blocks are missing")
        return [change for _, change in sorted(self.nodes.items())]

    def total(self):
        """Return the sum of the changes of all blocks.

        Raises ValueError if blocks are missing.
        """
        return reduce(add, self.terms())
