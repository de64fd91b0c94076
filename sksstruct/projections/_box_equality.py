"""Projection onto a box with one linear equality; `_box.pyx` states the problem."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from sksstruct.projections._box import Box


def root_by_sorting(point, normal, lower, upper, target):
    """Find the root of f by bisection over the sorted kinks, in O(n log n).

    f(rho) is the residual of the equality at the clipped point: <a, x(rho)> - c.
    """
    # entries with a_i = 0 have no kinks, and would divide by zero
    moves = normal != 0.0
    entries = point[moves], normal[moves], lower[moves], upper[moves]
    point, normal, lower, upper = entries
    kinks = np.concatenate([(lower - point) / normal, (upper - point) / normal])
    kinks = np.sort(kinks[np.isfinite(kinks)])
    # f is computed from the entries each time, as running sums would keep the rounding
    # errors of distant kinks
    first, last = -1, len(kinks)
    while last - first > 1:
        middle = (first + last) // 2
        offset, slope = line_at(*entries, target, kinks[middle])
        if offset + slope * kinks[middle] < 0.0:
            first = middle
        else:
            last = middle
    low = kinks[first] if first >= 0 else -np.inf
    high = kinks[last] if last < len(kinks) else np.inf
    # The root is in the linear piece of f between `low` and `high`. The offset and the
    # slope of this piece are computed at a point inside, where no entry is at a bound
    # by chance. If the piece is unbounded, the step must be large enough to change
    # large entries.
    step = max(
        1.0,
        2.0 * np.abs(kinks).max(initial=0.0),
        4.0 * np.abs(point / normal).max(initial=0.0),
    )
    if first >= 0:
        inside = (low + high) / 2 if last < len(kinks) else low + step
    else:
        inside = high - step if last < len(kinks) else 0.0
    offset, slope = line_at(*entries, target, inside)
    # if no entry moves, any rho of the piece is a root
    return min(max(-offset / slope, low), high) if slope > 0.0 else inside


def line_at(point, normal, lower, upper, target, at):
    """Return the offset and slope of f in its linear piece at a value of rho."""
    unclipped = point + at * normal
    between = (unclipped > lower) & (unclipped < upper)
    nearest_bounds = np.where(unclipped >= upper, upper, lower)
    offset = float((normal * np.where(between, point, nearest_bounds)).sum()) - target
    return offset, float((normal[between] ** 2).sum())


def project_box_equality(
    z: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    a: ArrayLike,
    c: float,
    *,
    d: ArrayLike | None = None,
    method: Literal["median", "sort"] = "median",
) -> np.ndarray:
    """Compute the Euclidean projection onto a box with one linear equality.

    Minimizes ``|d * (x - z)|`` over ``lower <= x <= upper`` with ``a @ x = c`` [1]_.

    Parameters
    ----------
    z : array-like of shape (n,)
        The point to project.
    lower, upper : float or array-like of shape (n,)
        Bounds of the box; they may be infinite.
    a : float or array-like of shape (n,)
        Normal vector of the hyperplane; entries may be zero.
    c : float
        Right hand side.
    d : float or array-like of shape (n,), default=None
        Positive weights of the entries: the objective is
        ``1/2 * sum(d**2 * (x - z)**2)``. None: all are one.
    method : {"median", "sort"}, default="median"
        "median" uses medians of the kinks of a piecewise linear function and takes
        expected linear time; "sort" sorts the kinks.

    Returns
    -------
    x : ndarray of shape (n,)
        The projection.

    Raises
    ------
    ValueError
        If an argument has the wrong shape, `z`, `a`, `c` or `d` is not finite, a bound
        is NaN, a weight is not positive, `lower` exceeds `upper`, no such point exists,
        or the method is unknown.

    References
    ----------
    .. [1] A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and
       faster rates for training SVMs", 2009, Appendix B, Algorithm 2.

    Examples
    --------
    >>> from sksstruct.projections import project_box_equality
    >>> project_box_equality([0.9, 0.4, -0.2], 0.0, 1.0, [1.0, -1.0, 1.0], 0.0).tolist()
    [0.65, 0.65, 0.0]
    """
    z = np.ascontiguousarray(z, dtype=np.float64)
    if z.ndim != 1 or not z.size:
        raise ValueError(f"z must be 1-D and not empty, got shape {z.shape}")
    if method not in ("median", "sort"):
        raise ValueError(f"method must be 'median' or 'sort', got {method!r}")
    vectors = []
    d = 1.0 if d is None else d
    for name, value in (("lower", lower), ("upper", upper), ("a", a), ("d", d)):
        value = np.asarray(value, dtype=np.float64)
        if value.shape not in ((), z.shape):
            raise ValueError(
                f"{name} must be a number or of shape ({len(z)},), got "
                f"shape {value.shape}"
            )
        vectors.append(np.ascontiguousarray(value) if value.ndim else value)
    lower, upper, a, d = vectors
    c = float(c)
    if (d != 1.0).any():
        if not (np.isfinite(d).all() and d.min() > 0.0):
            i = int(np.argmax(~((d > 0.0) & np.isfinite(d))))
            name, value = (f"d[{i}]", d[i]) if d.ndim else ("d", d)
            raise ValueError(f"{name} must be positive and finite, got {value}")
        # the variable d x has unit weights in the objective, and the normal a / d
        scaled = project_box_equality(
            d * z, d * lower, d * upper, a / d, c, method=method
        )
        return np.clip(scaled / d, lower, upper)
    box = Box(z, a, lower, upper, c)
    if not box.is_finite() or not np.isfinite(c):
        for name, value in (("z", z), ("a", a), ("c", c)):
            if not np.isfinite(value).all():
                raise ValueError(f"{name} must be finite, and has NaN or infinity")
    if not box.is_ordered():
        raise ValueError("lower must not exceed upper, and neither may be NaN")
    # tolerances for rounding errors of sums of these sizes; infinite sums pass the test
    least, most, least_size, most_size = box.reach()
    if least - c > 1e-12 * (least_size + abs(c)) or c - most > 1e-12 * (
        most_size + abs(c)
    ):
        raise ValueError(
            f"there is no such point: <a, x> is between {least:g} and {most:g}, "
            f"not {c:g}"
        )
    if method == "sort":
        root = root_by_sorting(*np.broadcast_arrays(z, a, lower, upper), c)
    else:
        # memory for a sample, which may be longer than the vector
        scratch = np.empty(4 * max(len(z), 128))
        root = box.root(scratch, np.empty(len(z), dtype=np.intp))
    out = np.empty(len(z))
    box.solution(root, out)
    return out
