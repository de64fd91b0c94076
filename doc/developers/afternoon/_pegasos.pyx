"""Visits of Pegasos on the structured hinge.

Shalev-Shwartz et al. (2011): with steps 1 / (alpha t) the iterate after t visits is

    w_t = 1 / (alpha t)  sum_{s <= t} n p_i A_i^T (mu_i(y_i) - mu_i(y_s)),

y_s being the best labeling of the example i that was visited then. The sum is what is
stored. Its scale needs no pass over the weights: the labelings that are best at w are
best at c w if the loss counts c times.
"""

import numpy as np

from libc.stdint cimport int32_t

from sksstruct.models.protocols._bound_model cimport BoundModel, Workspace
from sksstruct.models.protocols._weights cimport Weights


def visit(BoundModel model, Workspace workspace, Weights total,
          const Py_ssize_t[::1] order, double alpha, Py_ssize_t n_visits):
    """Visit examples in an order.

    Parameters
    ----------
    model : BoundModel
        Offers the max oracle.
    workspace : Workspace
        Reads the weights of `total`.
    total : Weights
        The sum; added to.
    order : ndarray of intp
        Examples.
    alpha : float
        Regularization.
    n_visits : int
        Visits before these.

    Returns
    -------
    loss : float
        Mean over the visits of n p_i L_i, the loss of the labelings found.
    """
    cdef int32_t[::1] labeling = np.empty(model.max_size, dtype=np.int32)
    cdef int32_t[::1] observed = np.empty(model.max_size, dtype=np.int32)
    cdef Py_ssize_t k, i
    cdef double value, loss, share, losses = 0.0
    with nogil:
        for k in range(order.shape[0]):
            i = order[k]
            share = model.n_examples * model._example_weights[i]
            # before the first visit w = 0, whatever the scale
            workspace.loss_scale = alpha * max(n_visits + k, 1)
            model.potentials(workspace, i)
            model.decode(workspace, i, &labeling[0], &value)
            model.y_true(i, &observed[0])
            model.loss(i, &labeling[0], &loss)
            model.add_labeling(workspace, i, &observed[0], 1.0)
            model.add_labeling(workspace, i, &labeling[0], -1.0)
            model.apply_change(workspace, i, total, share, 0.0)
            losses += share * loss
    return losses / order.shape[0]
