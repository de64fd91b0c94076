"""The structured risk as a function: its value and a plane below it, by one sweep."""

import numpy as np

from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.parallel import run_in_chunks


class Risk:
    """R(w) = sum_i p_i max_y H_i(y) of a bound model.

    Parameters
    ----------
    model : BoundModel
        The model with its data, started.
    n_jobs : int or None
        Threads for the oracles; the result is the same for any number.
    """

    def __init__(self, model, n_jobs=None):
        self.nonnegative = True  # y_i is among the labelings
        self.model = model
        self.n_jobs = n_jobs
        self.n_weights = model.n_weights
        self.cost = model.n_examples
        self.labelings = np.empty(int(model.starts[-1]), dtype=np.int32)
        self._hinge = np.empty(model.n_examples)
        self._losses = np.empty(model.n_examples)
        self._workspace = model.workspace()

    def decode(self, w):
        """Loss-augmented labelings at w; the risk and their mean loss."""
        model = self.model
        model.read_from(w)
        try:
            run_in_chunks(
                lambda a, b: model.decode_all(
                    model.workspace(training=False),
                    a,
                    b,
                    self.labelings,
                    self._hinge,
                    self._losses,
                ),
                model.n_examples,
                self.n_jobs,
            )
        finally:
            model.read_from(model.w)
        weights = model.example_weights
        return float(weights @ self._hinge), float(weights @ self._losses)

    def plane(self, w):
        """Risk at w, and the plane <a, .> + b below it that touches it there."""
        value, offset = self.decode(w)
        gradient = aligned_zeros(self.n_weights)
        self.model.add_difference(self._workspace, self.labelings, -1.0, gradient)
        return value, gradient, offset
