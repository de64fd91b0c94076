"""The structured risk: its value and a cutting plane, in one sweep."""

import numpy as np

from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks


class Risk:
    """R(w) = sum_i p_i max_y H_i(y) of a bound model.

    Parameters
    ----------
    model : BoundModel
        The model with its data.
    n_jobs : int or None
        Threads for the oracles; the result is the same for any number.

    Attributes
    ----------
    hinge : ndarray of shape (n_examples,)
        max_y H_i(y) at the last weights.
    labelings : ndarray, int32
        The labelings found by `decode`, one after the other.
    """

    def __init__(self, model, n_jobs=None):
        self.nonnegative = True  # the maximum includes H_i(y_i) = 0
        self.model = model
        self.n_jobs = n_jobs
        self.n_weights = model.n_weights
        self.cost = model.n_examples
        self.hinge = np.empty(model.n_examples)
        self.labelings = np.empty(int(model.starts[-1]), dtype=np.int32)
        self._losses = np.empty(model.n_examples)

    def value(self, w, loss_scale=1.0):
        """Return the risk at w, with the task loss multiplied by `loss_scale`."""

        def hinge(first, last):
            workspace = self.model.workspace(w, training=False)
            workspace.loss_scale = loss_scale
            self.model.hinge(workspace, first, last, self.hinge)

        run_in_chunks(hinge, self.cost, self.n_jobs)
        return float(self.model.example_weights @ self.hinge)

    def decode(self, w):
        """Find loss-augmented labelings at w; return the risk and their mean loss."""

        def decode(first, last):
            workspace = self.model.workspace(w, training=False)
            self.model.decode_all(
                workspace, first, last, self.labelings, self.hinge, self._losses
            )

        run_in_chunks(decode, self.cost, self.n_jobs)
        weights = self.model.example_weights
        return float(weights @ self.hinge), float(weights @ self._losses)

    def plane(self, w):
        """Return the risk at w, and the plane <a, .> + b that is tangent at w."""
        value, offset = self.decode(w)
        gradient = aligned_zeros(self.n_weights)
        workspace = self.model.workspace(w)
        self.model.add_difference(workspace, self.labelings, -1.0, gradient)
        return value, gradient, offset
