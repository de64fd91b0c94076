"""Step lengths for smoothed hinges, which nobody has to tune.

The Lipschitz constant A / mu of a smoothed gradient is that of an example with many
labelings within mu of the best. Most have few, so that a length of mu / A is too short
by far. Steps begin with a length that a few visits have shown to help, and then follow
the slopes of the objective along the path of each epoch: a path that ends where the
objective rises again was too long, by step length or by noise.
"""

import numpy as np

from sksstruct.solvers.stochastic._epochs import try_rates

# Share of the examples whose visits try a length.
_SHARE = 0.05
# Examples whose visits try a length, at least.
_LEAST = 50
# Examples that tell how long a step may be at all.
_FEW = 10
# Lengths that are tried are so many times longer or shorter than the last one.
_FACTOR = 3.0
# Lengths that are tried at most.
_MOST_TRIALS = 12
# Of the length that takes the loss to zero, a part that is not too long.
_SAFE_PART = 0.1
# A path may be longer than is best for its epoch, and its best length this share of it:
# shorter steps lose on the flat directions later.
_SHARE_OF_BEST = 0.8
# A length changes by this factor at most after an epoch.
_CHANGE = 2.0
# Epochs with changes of this size; later ones are a power that falls as 1 / epochs, as
# the slope along a path tells more of steep directions than of flat ones.
_EARLY = 3.0
# The power falls down to this.
_POWER = 0.25


class StepLength:
    """Length of the steps, as the slopes along the epochs' paths suggest.

    Parameters
    ----------
    rate : float
        The first length.
    """

    def __init__(self, rate):
        self.rate = rate
        self.epochs = self.visits = 0

    def next(self, visits, alpha, ridge, safe):
        """The length of an epoch's steps.

        Parameters
        ----------
        visits : float
            Visits of the epoch.
        alpha, ridge : float
            Strength of the quadratic part, without and with the proximal term.
        safe : float
            Length that smoothness allows, which steps are not shorter than.
        """
        self.epochs += 1
        self.visits += visits
        # after t visits no longer than the subgradient method's 1 / (alpha t): longer
        # ones are of no use without smoothness
        most = 0.5 / ridge
        if alpha > 0.0:
            most = min(most, max(1.0 / (alpha * self.visits), safe))
        self.rate = min(max(self.rate, safe), most)
        return self.rate

    def judge(self, before, after):
        """Change the length by the slopes at both ends of an epoch's path."""
        if before >= 0.0:
            best = 0.0  # noise only
        else:
            # the best length of the path, if the objective is quadratic along it
            best = before / (before - after) if after > before else np.inf
        power = max(_POWER, min(1.0, _EARLY / self.epochs))
        self.rate *= np.clip(best / _SHARE_OF_BEST, 1.0 / _CHANGE, _CHANGE) ** power


def first_length(epochs, ridge):
    """The length with which visits of a few examples help most, and with others too.

    Parameters
    ----------
    epochs : Epochs
        The smoothed hinge, with its gradient; the weights are not changed.
    ridge : float
        Strength of the quadratic part, or zero.

    Returns
    -------
    rate : float
        Step length.
    """
    w, model = epochs.w, epochs.loss.model
    given = w.copy()
    order = epochs.draw(epochs.n_examples)
    visits = min(max(int(_SHARE * len(order)), _LEAST), max(len(order) // 2, 1))
    seen = order[:visits]
    # as many others, for lengths that help with the examples visited only
    told = order[: 2 * visits]
    shares = model.example_weights[told] / model.example_weights[told].sum()
    hinge = np.empty(model.n_examples)

    def begin():
        w[:] = 0.0
        if epochs.box is not None:
            epochs.box.clip(w)

    def risk():
        workspace = model.workspace(w, training=False)
        for i in told.tolist():
            model.hinge(workspace, i, i + 1, hinge)
        epochs.calls += len(told)
        return float(shares @ hinge[told])

    def value(rate):
        begin()
        with np.errstate(over="ignore", invalid="ignore"):
            epochs.visit(seen, rate, ridge, anchored=False)
            size = float(w @ w)
        return risk() + ridge / 2 * size if np.isfinite(size) else np.inf

    begin()
    start = w.copy()
    most = 0.5 / ridge if ridge else np.inf
    # the length that takes the loss of an example to zero, if it is linear: one step
    # of any length tells its slope
    once = most if ridge else 1.0
    squares = 0.0
    for k in range(min(_FEW, len(seen))):
        begin()
        epochs.visit(seen[k : k + 1], once, ridge, anchored=False)
        change = (w - start) / once
        squares += float(change @ change) / min(_FEW, len(seen))
    begin()
    before = risk() + ridge / 2 * float(start @ start)
    # a few examples may have no slope, say with one output each: no length is better
    rate = min(max(before, 1e-12) / squares, most) if squares else once
    guess, factors = rate, (1.0 / _FACTOR, _FACTOR)
    rate, best = try_rates(value, guess, most, factors, _MOST_TRIALS)
    w[:] = given
    # where no length helps, as few visits may not, the shortest is not the best
    return rate if best < before else _SAFE_PART * guess
