"""The dual objective where weights may be confined to a box."""

import numpy as np


def dual_value(model, alpha, loss, v, w):
    """Dual objective, Osokin et al. (2016), eq. (3), or (53) where there are bounds.

    Parameters
    ----------
    model : BoundModel
        The model, whose bounds are read.
    alpha : float
        Regularisation.
    loss : float
        Linear term.
    v, w : ndarray
        The weights that the dual variables stand for, and their truncation.

    Returns
    -------
    value : float
        Dual objective.
    """
    value = loss - 0.5 * alpha * float(w @ w)
    if model.lower is not None:
        for bound, excess in (
            (model.upper, np.maximum(v - model.upper, 0.0)),
            (model.lower, -np.maximum(model.lower - v, 0.0)),
        ):
            active = excess != 0.0
            value -= alpha * float(excess[active] @ bound[active])
    return value
