"""Accelerated proximal point steps on a smoothed objective: the outer loop of Casimir.

Pillutla et al. (2018), Algorithm 4, for F(w) = f(w) + <linear, w> + ridge/2 |w|^2: step
k goes to the approximate minimum of

    f_{mu_k}(w) + <linear, w> + ridge/2 |w|^2 + kappa_k/2 |w - z_{k-1}|^2       (25)

and from there to z_k = w_k + beta_k (w_k - w_{k-1}), eqs. (27)-(29).
"""

import numpy as np

# Largest number of epochs of a step that has to reach an accuracy.
MOST_EPOCHS = 500


class Schedule:
    """The sequences of Algorithm 4: smoothing, regularisation and accuracy.

    Parameters
    ----------
    ridge : float
        lambda; Corollaries 17 and 18 if positive, 19 and 20 if zero.
    adaptive : bool
        Whether the smoothing decreases (Corollaries 18, 20).
    mu : float
        Smoothing, the initial one if it decreases; 0 for a loss that is smooth already.
    kappa : float
        Strength of the proximal term, the initial one if it increases.
    """

    def __init__(self, ridge, adaptive, mu, kappa):
        self.ridge, self.adaptive = ridge, adaptive
        self._mu, self._kappa = mu, kappa
        self.q = ridge / (ridge + kappa)
        self.alpha0 = np.sqrt(self.q) if ridge > 0 else (np.sqrt(5.0) - 1.0) / 2.0

    def mu(self, k):
        """mu_k, k >= 1."""
        if not self.adaptive:
            return self._mu
        if self.ridge > 0:
            return self._mu * (1.0 - np.sqrt(self.q) / 2.0) ** (k / 2.0)
        return self._mu / k

    def kappa(self, k):
        """kappa_k, k >= 1."""
        return self._kappa * k if self.adaptive and self.ridge == 0 else self._kappa

    def delta(self, k):
        """delta_k, k >= 1."""
        if self.ridge > 0:
            return np.sqrt(self.q) / (2.0 - np.sqrt(self.q))
        return (k + 1.0) ** -2


def best_kappa(ridge, adaptive, lipschitz, n):
    """kappa of Propositions 29-32.

    Parameters
    ----------
    ridge : float
        lambda.
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
    """State of Algorithm 4.

    Parameters
    ----------
    epochs : Epochs
        The smooth part, with the weights to start from.
    ridge : float
        Strength of the quadratic part.
    schedule : Schedule
        The sequences.
    smoothness : float
        A: the gradients of the f_i are A / mu_k Lipschitz, or A where mu_k is 0.
    visits : float
        Visits of an epoch.
    start : {"prox_center", "extrapolation", "previous"}
        Point where the epochs of a step start.
    most_epochs : int or None
        Largest number of epochs of a step. None: as many as the accuracy delta_k takes,
        eq. (26), up to `MOST_EPOCHS`.
    linear : ndarray or None
        Linear term.
    """

    def __init__(self, epochs, ridge, schedule, smoothness, visits, start="prox_center",
                 most_epochs=1, linear=None):  # fmt: skip
        self.epochs = epochs
        self.ridge, self.schedule, self.smoothness = ridge, schedule, smoothness
        self.visits, self.start, self.most_epochs = visits, start, most_epochs
        self.linear = linear
        self.w = self.epochs.w.copy()
        self.z, self.z_before = self.w.copy(), self.w.copy()
        self.a = self.schedule.alpha0
        self.k = 0

    def step(self, on_gradient=None):
        """Make one proximal point step; then the epochs' weights are w_k.

        ``on_gradient(value, mu)`` is called for every value and gradient of f.
        """
        self.k += 1
        k, epochs, schedule = self.k, self.epochs, self.schedule
        mu, kappa = schedule.mu(k), schedule.kappa(k)
        lipschitz = self.smoothness
        if mu > 0:
            epochs.set_smoothing(mu)
            lipschitz = self.smoothness / mu
        ridge = self.ridge + kappa
        linear = -kappa * self.z
        if self.linear is not None:
            linear += self.linear
        w = epochs.w
        if self.start == "prox_center":
            w[:] = self.z
        elif self.start == "extrapolation":
            w[:] = self.w + kappa / ridge * (self.z - self.z_before)
        else:
            w[:] = self.w
        count, before, floor = 0, np.inf, 0.0
        while True:
            value = epochs.value_and_gradient()
            if on_gradient is not None:
                on_gradient(value, mu)
            if self.most_epochs is None:
                # a small gradient implies the accuracy, by strong convexity
                slope = epochs.gradient + linear + ridge * w
                moved = w - self.z
                bound = ridge * schedule.delta(k) * kappa * float(moved @ moved)
                residual = float(slope @ slope)
                if count == 0:
                    floor = 1e-24 * residual  # what rounding errors leave
                if residual <= max(bound, floor) or count == MOST_EPOCHS:
                    break
                if not residual < before:  # the steps are too long to contract
                    self.smoothness *= 2.0
                    lipschitz *= 2.0
                before = residual
            epochs.epoch(self.visits, 1.0 / (lipschitz + ridge), ridge, linear)
            count += 1
            if count == self.most_epochs:
                break
        last, self.w = self.w, w.copy()
        after = schedule.kappa(k + 1)
        c = self.a**2 * (kappa + self.ridge)
        # eq. (27), a quadratic equation for alpha_k
        p, r = after + self.ridge, c - self.ridge
        a = (np.sqrt(r * r + 4.0 * p * c) - r) / (2.0 * p)
        beta = self.a * (1.0 - self.a) * (kappa + self.ridge) / (c + a * p)
        self.a = a
        self.z_before, self.z = self.z, self.w + beta * (self.w - last)
