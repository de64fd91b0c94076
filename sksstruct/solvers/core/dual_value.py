"""The dual objective, with or without bounds on the weights."""

import numpy as np


def dual_value(weights, alpha, loss, v=None, w=None):
    """Return the dual objective: Osokin et al. (2016), eq. (3), or (53) with bounds.

    Parameters
    ----------
    weights : Weights
        Weights, whose box is read.
    alpha : float
        Regularization.
    loss : float
        Linear term of the dual.
    v, w : ndarray, default=None
        Weights that the dual variables imply, and their truncation. None: taken
        from `weights`.

    Returns
    -------
    value : float
        Dual objective.
    """
    v, w = (weights.v, weights.w) if v is None else (v, w)
    value = loss - 0.5 * alpha * float(w @ w)
    if weights.lower is not None:
        for bound, excess in (
            (weights.upper, np.maximum(v - weights.upper, 0.0)),
            (weights.lower, -np.maximum(weights.lower - v, 0.0)),
        ):
            active = excess != 0.0
            value -= alpha * float(excess[active] @ bound[active])
    return value
