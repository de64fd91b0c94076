"""Oracles on trees of parts in an image."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.inference.parts._parts import PartsTree
from sksstruct.inference.parts._sums import grid_length, sum_parts, sums_memory
from sksstruct.utils._layout import aligned_zeros


class Placement(NamedTuple):
    """Best positions of the parts of a tree, and their score.

    Parameters
    ----------
    labeling : ndarray of shape (n_parts, 2), int32
        Row and column of each part.
    score : float
        Score of these positions; ``-inf`` if every placement is forbidden.

    Examples
    --------
    >>> from sksstruct.inference import parts_max_product
    >>> hand, elbow = [[0.0, 0.0, 2.0]], [[1.0, 0.0, 0.0]]
    >>> best = parts_max_product([hand, elbow], [(0, 1)], [(0, -1)], 0.5)
    >>> best.labeling.tolist(), best.score
    ([[0, 2], [0, 0]], 2.5)
    """

    labeling: np.ndarray
    score: float


def parts_max_product(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> Placement:
    """Find the best positions of the parts of a tree in an image.

    A placement of the parts at ``l`` has the score

        ``sum_p unary[p, l_p] + sum_e linear[e] . d_e - quadratic[e] . d_e^2``

    with ``d_e = l_v - l_u - offsets[e]`` for an edge ``e = (u, v)``. The time for each
    edge is linear in the number of positions.

    Parameters
    ----------
    unary : array-like of shape (n_parts, height, width)
        Score of each part at each position; ``-inf`` forbids the position.
    edges : array-like of shape (n_edges, 2)
        Pairs of parts, without a cycle.
    offsets : float or array-like of shape (n_edges, 2)
        Displacement of the second part from the first that costs nothing, in rows and
        columns. Displacements need not be integers.
    quadratic : float or array-like of shape (n_edges, 2)
        Cost of a squared displacement in rows and in columns; not negative.
    linear : float or array-like of shape (n_edges, 2), default=None
        Score of a displacement; None: 0.

    Returns
    -------
    result : Placement
        Positions and score. If several placements are best, the same arguments always
        give the same placement.

    Raises
    ------
    ValueError
        If the shapes do not match, an entry is NaN or infinite, an edge closes a cycle,
        a quadratic cost is negative, or sums could overflow.

    References
    ----------
    P. F. Felzenszwalb and D. P. Huttenlocher, "Distance transforms of sampled
    functions", Theory of Computing 8(19), 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_max_product
    >>> unary = np.zeros((2, 3, 4))
    >>> unary[0, 1, 0] = unary[1, 1, 3] = 5.0
    >>> result = parts_max_product(unary, [(0, 1)], [(0, 2)], 1.0)
    >>> result.labeling.tolist(), result.score
    ([[1, 0], [1, 3]], 9.0)
    """
    found = PartsTree(unary, edges, offsets, quadratic, linear).max_product()
    return Placement(found[0], found[2])


def parts_max_marginals(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> np.ndarray:
    """Compute the score of the best placement that has each part at each position.

    Parameters
    ----------
    unary, edges, offsets, quadratic, linear : array-like
        See `parts_max_product`.

    Returns
    -------
    max_marginals : ndarray of shape (n_parts, height, width)
        Scores; ``-inf`` if every placement is forbidden.

    Raises
    ------
    ValueError
        In the cases of `parts_max_product`.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_max_marginals
    >>> unary = np.array([[[0.0, 2.0]], [[1.0, 0.0]]])
    >>> parts_max_marginals(unary, [(0, 1)], 0.0, 1.0).tolist()
    [[[1.0, 2.0]], [[2.0, 2.0]]]
    """
    return PartsTree(unary, edges, offsets, quadratic, linear).max_marginals()


class PartsMarginals(NamedTuple):
    """Log partition, marginals, and expected displacements of parts.

    Parameters
    ----------
    log_partition : float
        Logarithm of the sum of the exponentials of the scores of all placements.
    marginals : ndarray of shape (n_parts, height, width)
        Probability of each position of each part.
    displacements : ndarray of shape (n_edges, 2)
        Expected displacement of each edge minus its offset, in rows and in columns.
    squares : ndarray of shape (n_edges, 2)
        Expected squares of these differences.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_sum_product
    >>> result = parts_sum_product(np.zeros((2, 1, 2)), [(0, 1)], [(0, 0)], 1.0)
    >>> result.marginals[0].tolist()
    [[0.5, 0.5]]
    >>> round(result.log_partition, 3)
    1.006
    """

    log_partition: float
    marginals: np.ndarray
    displacements: np.ndarray
    squares: np.ndarray


def parts_sum_product(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> PartsMarginals:
    """Compute the log partition and marginals of the parts of a tree in an image.

    The sums are over all positions of the grid, and take O(positions (height + width))
    time for each edge: a message consists of two log-sum transforms, one along the rows
    and one along the columns. The transforms are exact for scores of any size.

    Parameters
    ----------
    unary, edges, offsets, quadratic, linear : array-like
        See `parts_max_product`.

    Returns
    -------
    result : PartsMarginals
        Log partition, marginals, and expected displacements and their squares.

    Raises
    ------
    ValueError
        In the cases of `parts_max_product`, or if every placement is forbidden.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct.inference import parts_sum_product
    >>> unary = np.zeros((2, 1, 3))
    >>> unary[0, 0, 0] = 50.0
    >>> result = parts_sum_product(unary, [(0, 1)], [(0, 1)], 1.0)
    >>> result.marginals[1].round(2).tolist()
    [[0.21, 0.58, 0.21]]
    >>> result.squares.round(2).tolist()
    [[0.0, 0.42]]
    """
    tree = PartsTree(unary, edges, offsets, quadratic, linear)
    n, height, width = tree.unary.shape
    grids = aligned_zeros(n * height * grid_length(width)).reshape(n, height, -1)
    # the padding of the columns is forbidden
    grids[:, :, width:] = -np.inf
    grids[:, :, :width] = tree.unary
    offsets, quadratic, linear = tree.springs
    springs = np.concatenate([offsets, linear, quadratic], axis=1)
    moments = np.zeros((len(springs), 4))
    value = sum_parts(tree, springs, grids, aligned_zeros(sums_memory(tree)), moments)
    if value == -np.inf:
        raise ValueError(
            "unary must allow at least one placement: every placement has score -inf"
        )
    return PartsMarginals(
        value, grids[:, :, :width].copy(), moments[:, :2].copy(), moments[:, 2:].copy()
    )
