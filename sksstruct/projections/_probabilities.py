"""Projection onto the probability simplex; `_simplex.pyx` has the methods."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.projections._simplex import (
    project_each,
    project_in_order,
    threshold,
)


def project_rows(z, mass, out):
    """Project each row of z onto the simplex of points that sum to its mass."""
    project_each(z, mass, np.empty(z.shape[1]), out)


def project_simplex(
    z: ArrayLike, *, method: Literal["partition", "drop", "sort"] = "partition"
) -> np.ndarray:
    """Compute the Euclidean projection of a point onto the probability simplex.

    Parameters
    ----------
    z : array-like of shape (n,)
        The point to project; ``-inf`` entries get no weight.
    method : {"partition", "drop", "sort"}, default="partition"
        "partition" takes expected linear time. "drop" drops entries that get no weight,
        sweep by sweep, which is fast if z is short. "sort" sorts the entries.

    Returns
    -------
    u : ndarray of shape (n,)
        The point of ``{u : u >= 0, sum(u) = 1}`` closest to z.

    Raises
    ------
    ValueError
        If z is empty or not 1-D, has an entry that is NaN or ``+inf``, or has no finite
        entry, or if the method is unknown.

    References
    ----------
    J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto
    the l1-ball for learning in high dimensions", ICML 2008.

    Examples
    --------
    >>> from sksstruct.projections import project_simplex
    >>> project_simplex([1.0, 0.5, -3.0]).tolist()
    [0.75, 0.25, 0.0]
    """
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 1 or not z.size:
        raise ValueError(f"z must be 1-D and not empty, got shape {z.shape}")
    if not -np.inf < z.max() < np.inf:
        raise ValueError("z must have a finite entry, and none that is NaN or +inf")
    if method not in ("partition", "drop", "sort"):
        raise ValueError(
            f"method must be 'partition', 'drop' or 'sort', got {method!r}"
        )
    if method != "sort":
        # the largest entry is subtracted, so that large scores lose no digits
        shifted = z - z.max()
        # rho is at least -1, the rho of the largest entry alone: entries of -1 or less
        # get no weight
        rho = threshold(shifted[shifted > -1.0], method == "drop")
        return np.maximum(shifted - rho, 0.0)
    order, weights = np.argsort(-z, kind="stable"), np.empty(len(z))
    project_in_order(z[order], weights)
    out = np.empty(len(z))
    out[order] = weights
    return out
