"""The dual of a binary model, for one variable after the other."""

import numpy as np

from sksstruct.models.binary._coordinates import Coordinates
from sksstruct.models.protocols.coordinate_dual import CoordinateDual
from sksstruct.utils._layout import aligned_zeros

# Features read between two checks for signals, a fraction of a second.
_WORK_OF_A_CALL = 1e8


class BinaryCoordinates(CoordinateDual):
    """Dual variables b_i in [0, 1], the probability of an error.

    Parameters
    ----------
    model : BoundBinary
        Model with its data.
    alpha : float
        Regularization.
    state : ndarray or None
        Dual variables to start from.
    """

    def __init__(self, model, alpha, state=None):
        self.model, self.alpha = model, alpha
        self.signs = np.where(model.labels == 1, 1.0, -1.0)
        self.w = aligned_zeros(model.n_weights)
        self.steps = Coordinates(model, alpha)
        self._visits_of_a_call = max(int(_WORK_OF_A_CALL / model.visit_work), 1)
        self._n_changed = 0
        if state is not None:
            self.steps.duals[:] = state
            self._form_weights()

    @property
    def gap(self):
        return self.steps.gap

    def expand(self):
        return self.steps.expand()

    def visit(self, rng):
        active = self.steps.order[: self.steps.n_active]
        rng.shuffle(active)
        self.steps.begin_pass()
        n_changed = None
        while n_changed is None:
            n_changed = self.steps.visit(self.w, self._visits_of_a_call)
        self._n_changed = n_changed
        return n_changed

    def end_pass(self):
        # those that were left out may have more to gain
        return not self._n_changed and self.expand()

    def _form_weights(self):
        """Form the weights anew, so that rounding errors do not add up."""
        model = self.model
        changes = model.example_weights / self.alpha * self.signs * self.steps.duals
        self.w[:-1] = model.X.T @ changes
        self.w[-1] = changes.sum() if model.fit_intercept else 0.0

    def primal(self, n_jobs=None):
        self._form_weights()
        w, model = self.w, self.model
        slacks = 1.0 - self.signs * (model.X @ w[:-1] + w[-1])
        risk = model.example_weights @ np.maximum(slacks, 0.0)
        return self.alpha / 2 * float(w @ w) + float(risk)

    def value(self):
        linear = float(self.model.example_weights @ self.steps.duals)
        return linear - self.alpha / 2 * float(self.w @ self.w)

    def state(self):
        return self.steps.duals
