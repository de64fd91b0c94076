"""Step lengths for smoothed hinges, without parameters to tune.

The Lipschitz constant A / mu of a smoothed gradient is attained by examples with many
labelings whose scores are within mu of the best score. Most examples have few such
labelings, so that the length mu / A is far too short. The first length is found by
trial on a few examples. The path of an epoch is the segment from its first to its last
weights; later lengths follow the slopes of the objective along paths: the objective
rises at the end of a path that is too long, or noisy.
"""

import numpy as np

from sksstruct.solvers.stochastic._epochs import try_rates

# Fraction of the examples that a trial visits.
_SHARE = 0.05
# Smallest number of examples that a trial visits.
_LEAST = 50
# Number of examples from which the scale of step lengths is estimated.
_FEW = 10
# Factor between lengths that are tried.
_FACTOR = 3.0
# Largest number of lengths that are tried.
_MOST_TRIALS = 12
# If no trial lowers the hinge, the first length is this fraction of the first guess.
_SAFE_PART = 0.1
# Lengths are changed such that the best point of a path is at this fraction of the
# path: shorter steps would lose progress along flat directions in later epochs.
_SHARE_OF_BEST = 0.8
# Largest factor by which the length changes after an epoch.
_CHANGE = 2.0
# Number of epochs with full changes. Later changes are raised to a power that falls as
# 1 / epochs, as the slope along a path is dominated by steep directions.
_EARLY = 3.0
# Lower bound of this power.
_POWER = 0.25


class StepLength:
    """Step length, adapted to the slopes along the paths of the epochs.

    Parameters
    ----------
    rate : float
        The first step length.
    """

    def __init__(self, rate):
        self.rate = rate
        self.epochs = self.visits = 0

    def next(self, visits, alpha, ridge, safe):
        """Return the length of the steps of the next epoch.

        Parameters
        ----------
        visits : float
            Number of visits of the epoch.
        alpha, ridge : float
            Strength of the quadratic part, without and with the proximal term.
        safe : float
            Lower bound of the length: 1 / (Lipschitz constant + `ridge`).
        """
        self.epochs += 1
        self.visits += visits
        # after t visits, the length is at most 1 / (alpha t), that of the subgradient
        # method: longer steps help only on smooth objectives
        most = 0.5 / ridge
        if alpha > 0.0:
            most = min(most, max(1.0 / (alpha * self.visits), safe))
        self.rate = min(max(self.rate, safe), most)
        return self.rate

    def judge(self, before, after):
        """Adapt the length to the slopes at both ends of an epoch's path."""
        if before >= 0.0:
            # the objective rises even at the start of the path: mostly noise
            best = 0.0
        else:
            # the best fraction of the path, if the objective is quadratic on the path
            best = before / (before - after) if after > before else np.inf
        power = max(_POWER, min(1.0, _EARLY / self.epochs))
        self.rate *= np.clip(best / _SHARE_OF_BEST, 1.0 / _CHANGE, _CHANGE) ** power


def first_length(epochs, ridge):
    """Return the step length with which visits of a few examples reduce the hinge most.

    The visits start from w = 0.

    Parameters
    ----------
    epochs : Epochs
        The smoothed hinge; its weights are restored.
    ridge : float
        Strength of the quadratic part, or zero.

    Returns
    -------
    rate : float
        Step length.
    """
    w, model = epochs.w, epochs.loss.model
    initial_w = w.copy()
    order = epochs.draw(epochs.n_examples)
    visits = min(max(int(_SHARE * len(order)), _LEAST), max(len(order) // 2, 1))
    visited = order[:visits]
    # the hinge includes as many unvisited examples, so that a length must lower the
    # losses of these examples, too
    evaluated = order[: 2 * visits]
    shares = model.example_weights[evaluated] / model.example_weights[evaluated].sum()
    hinge = np.empty(model.n_examples)

    def begin():
        w[:] = 0.0
        if epochs.box is not None:
            epochs.box.clip(w)

    def risk():
        workspace = model.workspace(w, training=False)
        for i in evaluated.tolist():
            model.hinge(workspace, i, i + 1, hinge)
        epochs.calls += len(evaluated)
        return float(shares @ hinge[evaluated])

    def value(rate):
        begin()
        with np.errstate(over="ignore", invalid="ignore"):
            epochs.visit(visited, rate, ridge, anchored=False)
            size = float(w @ w)
        return risk() + ridge / 2 * size if np.isfinite(size) else np.inf

    begin()
    start = w.copy()
    most = 0.5 / ridge if ridge else np.inf
    # The first guess is the step length after which the loss of an example would be
    # zero if the loss were linear. The gradient of the loss is minus the change of the
    # weights in a step of any length, here probe_rate, divided by that length.
    probe_rate = most if ridge else 1.0
    squares = 0.0
    for k in range(min(_FEW, len(visited))):
        begin()
        epochs.visit(visited[k : k + 1], probe_rate, ridge, anchored=False)
        change = (w - start) / probe_rate
        squares += float(change @ change) / min(_FEW, len(visited))
    begin()
    before = risk() + ridge / 2 * float(start @ start)
    # if all slopes are zero, for example with one output per example, the length does
    # not matter
    rate = min(max(before, 1e-12) / squares, most) if squares else probe_rate
    guess, factors = rate, (1.0 / _FACTOR, _FACTOR)
    rate, best = try_rates(value, guess, most, factors, _MOST_TRIALS)
    w[:] = initial_w
    # with so few visits, it may be that no length reduces the hinge
    return rate if best < before else _SAFE_PART * guess
