"""Bundle method for regularized risk minimization.

Minimizes J(w) = alpha/2 |w|^2 + R(w), where R is the mean structured hinge. Each pass
adds a plane <a_t, .> + b_t below R and minimizes alpha/2 |w|^2 plus the largest plane
(Saha et al., 2009, eq. (3)) through its dual on the simplex, eqs. (10) and (11):

    max_beta  <b, beta> - |A beta|^2 / (2 alpha),   w = -A beta / alpha
"""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq

from sksstruct.solvers.bundle._simplex_qp import maximize_on_simplex
from sksstruct.solvers.core.base import SCALING, Solver, example
from sksstruct.solvers.core.box import Box, least
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._param_validation import Count

# Number of passes without a rise of the lower bound after which the run ends.
_MAX_IDLE = 10
# Largest number of Newton steps if weights have bounds.
_NEWTON = 50
# Change of beta that ends Newton's method, near floating-point precision.
_SAME = 1e-14


@fill_doc(example('solver="bmrm"'))
@dataclass(eq=False, repr=False)
class BMRM(Solver):
    """Bundle method on the whole risk: for few weights and any number of examples.

    With R the mean loss, every pass adds the plane <a_t, w> + b_t that touches R at the
    iterate, and the next iterate minimizes [1]_

        ``J_t(w) = alpha/2 |w|^2 + max_{s <= t} <a_s, w> + b_s``

    The minimum of J_t is below the optimum: it is the dual value of the certificate.
    The planes include 0, as no loss is negative. For structured losses this is the
    one-slack cutting-plane method of SVM-struct.

    Parameters
    ----------
    %(passes)s
    inner : {"qp", "line_search"}, default="qp"
        Method that minimizes J_t. "qp": exactly, over all planes. "line_search": on the
        line from the last iterate to the newest plane, which is batch Frank-Wolfe.
    drop_after : int or None, default=50
        Number of consecutive passes after which a plane that the minimum did not need
        is dropped. None: keep all planes. The line search keeps no planes and ignores
        this parameter.

    Notes
    -----
    Some problems need at least 1 / (2 alpha epsilon) planes [2]_, but most problems
    need far fewer. The memory of a plane is proportional to its number of nonzero
    weights.

    References
    ----------
    .. [1] C. H. Teo, S. V. N. Vishwanathan, A. Smola and Q. V. Le, "Bundle methods for
       regularized risk minimization", JMLR 11, 2010.
    .. [2] A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and
       faster rates for training SVMs", 2009, equations (3), (10) and Theorem 6.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    inner: Literal["qp", "line_search"] = "qp"
    drop_after: Count | None = 50

    bounded = True

    def _solve(self, model, alpha, options):
        risk = Risk(model, options.n_jobs)
        return self._minimize(risk, alpha, options, Box.of(model))

    def _minimize(self, risk, alpha, options, box=None):
        """Minimize alpha/2 |w|^2 plus a risk, an object with a method `plane`."""
        if self.inner == "qp":
            bundle = Bundle(alpha, risk.nonnegative, self.drop_after, box)
        else:
            bundle = LineDual(alpha, risk.nonnegative, box)
        loop = Loop(self, alpha, options)
        w = aligned_zeros(risk.n_weights)
        if box is not None:
            box.clip(w)
        gradient = offset = None

        def look():
            nonlocal gradient, offset
            value, gradient, offset = risk.plane(w)
            loop.calls += risk.cost
            loop.report(value + alpha / 2 * float(w @ w), w, bundle.value)

        idle = 0

        def one_pass():
            nonlocal idle
            before = bundle.value
            bundle.add(gradient, offset)
            bundle.weights(w)
            look()
            # the minimum of J_t rises until its rise is below rounding errors
            idle = 0 if bundle.value > before else idle + 1
            return idle == _MAX_IDLE

        look()
        loop.scale = loop.primal
        return loop.run(one_pass)


class Bundle:
    """Planes, their Gram matrix, and the minimum of J_t."""

    def __init__(self, alpha, zero, drop_after, box=None):
        self.alpha, self.drop_after, self.box = alpha, drop_after, box
        self.value = 0.0 if zero else -np.inf
        n = 1 if zero else 0
        # a plane is stored as indices and values of its non-zero weights
        self.planes = [(np.empty(0, dtype=np.intp), np.empty(0))] * n
        self.offsets = np.zeros(n)
        self.gram = np.zeros((n, n))
        self.beta = np.ones(n)
        self.idle = np.zeros(n, dtype=int)

    def add(self, gradient, offset):
        """Add a plane, minimize J_t, and drop planes that are not needed any more."""
        products = [values @ gradient[index] for index, values in self.planes]
        n = len(self.planes)
        gram = np.empty((n + 1, n + 1))
        gram[:n, :n] = self.gram
        gram[n, :n] = gram[:n, n] = products
        gram[n, n] = gradient @ gradient
        if not np.isfinite(gram[n] / self.alpha).all():
            raise ValueError(f"training broke down: a plane is too steep. {SCALING}")
        index = np.flatnonzero(gradient)
        self.planes.append((index, gradient[index]))
        self.gram = gram
        self.offsets = np.append(self.offsets, offset)
        start = np.append(self.beta, 0.0) if n else np.ones(1)
        if self.box is None:
            self.beta = maximize_on_simplex(gram / self.alpha, self.offsets, start)
            value = -self.beta @ gram @ self.beta / (2 * self.alpha)
        else:
            self.beta = start
            value = self._maximize_with_bounds()
        self.value = max(self.value, float(self.offsets @ self.beta + value))
        self.idle = np.where(self.beta > 0, 0, np.append(self.idle, 0) + 1)
        if self.drop_after is not None:
            keep = self.idle < self.drop_after
            if not keep.all():
                self.planes = [p for p, k in zip(self.planes, keep, strict=True) if k]
                self.gram = np.ascontiguousarray(gram[np.ix_(keep, keep)])
                self.offsets, self.beta = self.offsets[keep], self.beta[keep]
                self.idle = self.idle[keep]

    def _maximize_with_bounds(self):
        """Maximize the dual over beta; return its value without the linear term.

        With lower <= w <= upper the dual is <b, beta> + min_w <A beta, w> + alpha/2
        |w|^2. The minimizing w is -A beta / alpha, truncated. The dual is quadratic as
        long as the same weights are at their bounds, and is maximized by Newton's
        method with an exact line search.
        """
        box, k = self.box, self.box.index
        # entries of the planes for the weights with bounds, which are few
        rows = np.array([_entries(plane, k, len(box.lower)) for plane in self.planes])
        lower, upper = box.lower[k], box.upper[k]

        def bounded(beta):
            return np.clip(rows.T @ beta / -self.alpha, lower, upper)

        def slope_along(change):
            def slope(step):
                beta = self.beta + step * change
                w = bounded(beta)
                free = -(free_gram @ beta) / self.alpha
                return float((self.offsets + rows @ w + free) @ change)

            return slope

        # Gram matrix of the planes, over the weights without bounds
        free_gram = self.gram - rows @ rows.T
        for _ in range(_NEWTON):
            w = bounded(self.beta)
            at_bound = (w <= lower) | (w >= upper)
            gram = free_gram + rows[:, ~at_bound] @ rows[:, ~at_bound].T
            linear = self.offsets + rows[:, at_bound] @ w[at_bound]
            best = maximize_on_simplex(gram / self.alpha, linear, self.beta)
            step = root_on_segment(slope_along(best - self.beta))
            change_of_beta = step * (best - self.beta)
            self.beta = np.maximum(self.beta + change_of_beta, 0.0)
            self.beta /= self.beta.sum()
            if np.abs(change_of_beta).max() <= _SAME:
                break
        w = bounded(self.beta)
        value = float((rows.T @ self.beta) @ w) + self.alpha / 2 * float(w @ w)
        return value - self.beta @ free_gram @ self.beta / (2 * self.alpha)

    def weights(self, w):
        """Write the minimizer of J_t, eq. (11), to w."""
        w[:] = 0.0
        for (index, values), share in zip(self.planes, self.beta, strict=True):
            if share > 0.0:
                w[index] -= share / self.alpha * values
        if self.box is not None:
            self.box.clip(w)


def _entries(plane, index, n_weights):
    """Return the entries `index` of a plane, which is stored in sparse form."""
    row = np.zeros(n_weights)
    row[plane[0]] = plane[1]
    return row[index]


class LineDual:
    """The dual point of a line search: a mean plane that moves to each new plane."""

    def __init__(self, alpha, zero, box=None):
        self.alpha, self.box = alpha, box
        self.mean, self.offset = None, 0.0
        self.has_plane = zero
        self.value = -np.inf
        if zero:
            self.value = 0.0

    def add(self, gradient, offset):
        """Move the mean plane towards a new plane."""
        if not self.has_plane:
            self.mean, self.offset, self.has_plane = gradient.copy(), offset, True
        else:
            if self.mean is None:
                self.mean = np.zeros_like(gradient)
            change = gradient - self.mean
            step = self._step(change, offset - self.offset)
            self.mean += step * change
            self.offset += step * (offset - self.offset)
        self.value = self.offset + least(self.mean, self.alpha, self.box)

    def _step(self, change, gain):
        """Return the best step along a change of the plane and its offset.

        The slope of the dual decreases along the line: linearly, or with kinks where
        weights reach their bounds.
        """
        if self.box is None:
            slope = gain - float(self.mean @ change) / self.alpha
            bend = float(change @ change) / self.alpha
            return 1.0 if slope >= bend else max(slope / bend, 0.0)

        def slope(step):
            w = self.box.least(self.mean + step * change, self.alpha)[1]
            return gain + float(w @ change)

        return root_on_segment(slope)

    def weights(self, w):
        """Write the w of the mean plane, eq. (11), to w."""
        np.divide(self.mean, -self.alpha, out=w)
        if self.box is not None:
            self.box.clip(w)


def root_on_segment(slope):
    """Return the root in [0, 1] of a decreasing function, or the nearest end."""
    if slope(0.0) <= 0.0:
        return 0.0
    if slope(1.0) >= 0.0:
        return 1.0
    return float(brentq(slope, 0.0, 1.0, xtol=1e-15, rtol=1e-12))
