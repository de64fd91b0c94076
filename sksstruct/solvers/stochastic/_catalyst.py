"""Accelerated proximal point steps on a smoothed objective: the outer loop of Casimir.

Pillutla et al. (2018), Algorithm 4, for F(w) = f(w) + <linear, w> + ridge/2 |w|^2: step
k computes w_k, an approximate minimum of

    f_{mu_k}(w) + <linear, w> + ridge/2 |w|^2 + kappa_k/2 |w - z_{k-1}|^2       (25)

and the extrapolation z_k = w_k + beta_k (w_k - w_{k-1}), eqs. (27)-(29).
"""

import numpy as np

# Largest number of epochs in a proximal point step that has to reach the accuracy
# delta_k.
MOST_EPOCHS = 500
# Such a step also ends after this number of successive epochs without a new smallest
# norm of the gradient.
IDLE = 20


class Schedule:
    """The sequences of Algorithm 4: smoothing, regularization and accuracy.

    Parameters
    ----------
    ridge : float
        Strength lambda of the quadratic part; Corollaries 17 and 18 if positive, 19
        and 20 if zero.
    adaptive : bool
        Whether the smoothing decreases (Corollaries 18, 20).
    mu : float
        Smoothing, or its initial value if `adaptive`; 0 for a smooth loss.
    kappa : float
        Strength of the proximal term, or its initial value if it increases.
    least : float, default=0.0
        Lower bound of the decreasing smoothing.
    """

    def __init__(self, ridge, adaptive, mu, kappa, least=0.0):
        self.ridge, self.adaptive = ridge, adaptive
        self._mu, self._kappa, self.least = mu, kappa, least
        self.q = ridge / (ridge + kappa)
        self.alpha0 = np.sqrt(self.q) if ridge > 0 else (np.sqrt(5.0) - 1.0) / 2.0

    def mu(self, k):
        """Return the smoothing mu_k of the proximal point step k >= 1."""
        if not self.adaptive:
            return self._mu
        if self.ridge > 0:
            mu = self._mu * (1.0 - np.sqrt(self.q) / 2.0) ** (k / 2.0)
        else:
            mu = self._mu / k
        return max(mu, self.least)

    def begin_at(self, mu):
        """Scale the smoothings so that mu_1 is `mu`, as Corollaries 18 and 20 allow."""
        self._mu *= mu / self.mu(1)
        return self

    def kappa(self, k):
        """Return the strength kappa_k of the proximal term in step k >= 1."""
        return self._kappa * k if self.adaptive and self.ridge == 0 else self._kappa

    def delta(self, k):
        """Return the relative accuracy delta_k of the proximal point step k >= 1."""
        if self.ridge > 0:
            return np.sqrt(self.q) / (2.0 - np.sqrt(self.q))
        return (k + 1.0) ** -2


def best_kappa(ridge, adaptive, lipschitz, n):
    """Return the strength kappa of the proximal term from Propositions 29-32.

    Parameters
    ----------
    ridge : float
        Strength lambda of the quadratic part.
    adaptive : bool
        Whether the smoothing decreases.
    lipschitz : float
        A / mu, the Lipschitz constant of the gradients of the f_i.
    n : int
        Number of examples.

    Returns
    -------
    kappa : float
        Strength of the proximal term.
    """
    if ridge == 0:
        return lipschitz / (n + 1.0)
    if adaptive or lipschitz / n <= 4.0 * ridge:
        return ridge
    return lipschitz / n - ridge


class Catalyst:
    """Accelerated proximal point steps (Algorithm 4), and their state.

    Parameters
    ----------
    epochs : Epochs
        The smooth part, with the weights to start from.
    ridge : float
        Strength of the quadratic part.
    schedule : Schedule
        The sequences.
    smoothness : float
        A: the gradients of the f_i are A / mu_k Lipschitz, or A if mu_k is 0.
    visits : float
        Number of visits of an epoch.
    start : {"prox_center", "extrapolation", "previous"}
        Point where the epochs of a step start.
    most_epochs : int or None
        Largest number of epochs of a step. None: as many as the accuracy delta_k needs,
        eq. (26), up to `MOST_EPOCHS`.
    linear : ndarray or None
        Linear term.
    steps : StepLength or None
        Adapted step lengths for a smoothed hinge. None: the safe length
        1 / (A / mu_k + ridge + kappa_k).
    fixed : bool
        Whether A is known; if not, A is doubled when steps seem to be too long.
    """

    def __init__(self, epochs, ridge, schedule, smoothness, visits, start="prox_center",
                 most_epochs=1, linear=None, steps=None, fixed=False):  # fmt: skip
        self.epochs = epochs
        self.ridge, self.schedule, self.smoothness = ridge, schedule, smoothness
        self.visits, self.start, self.most_epochs = visits, start, most_epochs
        self.linear, self.steps, self.fixed = linear, steps, fixed
        # the change of w in the last epoch; and the gradient of the objective, without
        # the proximal term, at the weights before that epoch
        self._path = self._slope_before = None
        # whether the gradient at the weights has been computed and reported already
        self.known = False
        self.w = self.epochs.w.copy()
        self.z, self.z_before = self.w.copy(), self.w.copy()
        self.a = self.schedule.alpha0
        self.k = 0

    def step(self, on_gradient=None):
        """Make one proximal point step, which leaves w_k in the weights of `epochs`.

        ``on_gradient(value, mu)`` is called for every value and gradient of f.
        """
        self.k += 1
        k, schedule = self.k, self.schedule
        mu, kappa = schedule.mu(k), schedule.kappa(k)
        if mu > 0:
            self.epochs.set_smoothing(mu)
        ridge = self.ridge + kappa
        w = self.epochs.w
        if self.start == "prox_center":
            w[:] = self.z
        elif self.start == "extrapolation":
            w[:] = self.w + kappa / ridge * (self.z - self.z_before)
        else:
            w[:] = self.w
        # extrapolated weights may violate the bounds, and oracles are defined only
        # within the bounds
        if self.epochs.box is not None:
            self.epochs.box.clip(w)
        self._minimize(mu, kappa, on_gradient)
        last, self.w = self.w, w.copy()
        after = schedule.kappa(k + 1)
        c = self.a**2 * (kappa + self.ridge)
        # eq. (27), a quadratic equation for alpha_k
        p, r = after + self.ridge, c - self.ridge
        a = (np.sqrt(r * r + 4.0 * p * c) - r) / (2.0 * p)
        beta = self.a * (1.0 - self.a) * (kappa + self.ridge) / (c + a * p)
        self.a = a
        self.z_before, self.z = self.z, self.w + beta * (self.w - last)

    def _minimize(self, mu, kappa, on_gradient):
        """Minimize the objective of a proximal point step, eq. (25), approximately.

        The epochs start from the current weights.
        """
        epochs, ridge = self.epochs, self.ridge + kappa
        w = epochs.w
        linear = -kappa * self.z
        if self.linear is not None:
            linear += self.linear
        count, before, floor, best, idle = 0, np.inf, 0.0, np.inf, 0
        while True:
            if not self.known:
                value = epochs.value_and_gradient()
                if on_gradient is not None:
                    on_gradient(value, mu)
            self.known = False
            if self.steps is not None:
                self._adapt_steps()
            if self.most_epochs is None:
                # by strong convexity, the accuracy delta_k is reached if the gradient
                # of (25) is small
                slope = epochs.gradient + linear + ridge * w
                distance = w - self.z
                bound = ridge * self.schedule.delta(self.k) * kappa
                residual = float(slope @ slope)
                if count == 0:
                    # squared norm of the rounding errors in the gradient
                    floor = 1e-24 * residual
                allowed = max(bound * float(distance @ distance), floor)
                # if K is small, the gradient of the top-K smoothing is discontinuous,
                # and no step length reaches every accuracy
                idle = 0 if residual < best else idle + 1
                best = min(best, residual)
                if residual <= allowed or idle == IDLE or count == MOST_EPOCHS:
                    break
                if not self.fixed and not residual < before:
                    # the gradient did not become smaller: the steps were too long
                    self.smoothness *= 2.0
                before = residual
            self._epoch(mu, ridge, linear)
            count += 1
            if count == self.most_epochs:
                break

    def _epoch(self, mu, ridge, linear):
        """Make one epoch of variance-reduced steps on the objective (25)."""
        lipschitz = self.smoothness / mu if mu > 0 else self.smoothness
        safe = 1.0 / (lipschitz + ridge)
        if self.steps is None:
            self.epochs.epoch(self.visits, safe, ridge, linear)
            return
        # `_adapt_steps` has computed the slope at the start of this epoch
        start = self.epochs.w.copy()
        rate = self.steps.next(self.visits, self.ridge, ridge, safe)
        self.epochs.epoch(self.visits, rate, ridge, linear)
        self._path = self.epochs.w - start

    def _adapt_steps(self):
        """Adapt the step length to gradients at the starts of the last and next epoch.

        Within a proximal point step, or if `start` is "previous", the next epoch starts
        where the last one ended.
        """
        slope = self.epochs.gradient + self.ridge * self.epochs.w
        if self.linear is not None:
            slope += self.linear
        if self._path is not None:
            self.steps.judge(
                float(self._slope_before @ self._path), float(slope @ self._path)
            )
        self._slope_before = slope
