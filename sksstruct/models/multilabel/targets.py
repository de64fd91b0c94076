"""The set of labels that is best for a measure, given a score of each label."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit, logsumexp

from sksstruct.models.multilabel._expected_f1 import best_f1_sets
from sksstruct.utils.parallel import run_in_chunks

# Measures whose best labels depend on scores of samples that are held out.
LEARNED = "f1", "micro", "macro"
# Number of samples whose scores determine the threshold of all labels.
ENOUGH = 1000
# The threshold of a label is a weighted mean of the best threshold for this label,
# whose weight is the label's number of samples, and of a threshold for all labels,
# whose weight is this number.
OTHERS = 2.0
# Thresholds, in log-odds, contain the logarithm of the label's frequency times one of
# these numbers: rare labels, whose scores regularization keeps low, get lower
# thresholds.
LENIENCES = 0.0, 0.25, 0.5, 0.75
# Largest number of steps of the mean-field approximation.
MEAN_FIELD_STEPS = 100
# The mean-field steps end when the scores, which are log-odds, change by less than
# this.
SETTLED = 1e-6
# Newton's method of the calibration: largest number of steps, gradient at which they
# end, least decrease as a share of length times slope, and shortest length of a step.
NEWTON_STEPS = 100
NEWTON_TOL = 1e-4
ARMIJO = 2.0**-11
SHORTEST = 1e-6
# Number of scores of sets that are in memory at a time.
SETS = 2**20


def label_scores(unaries, interactions, exact, n_jobs=None):
    """Log-odds of each label under the distribution of sets of labels.

    Parameters
    ----------
    unaries : ndarray of shape (n_samples, n_labels)
        Scores of the labels.
    interactions : ndarray of shape (n_labels, n_labels)
        Scores of pairs, symmetric with a diagonal of zeros.
    exact : bool
        Whether to enumerate all sets. Otherwise the log-odds are from the mean-field
        approximation, which is exact without pairs.
    n_jobs : int or None
        Number of threads of the enumeration.

    Returns
    -------
    scores : ndarray of shape (n_samples, n_labels)
        ``log(P(label) / P(no label))``. Without pairs, it is `unaries`.
    """
    if not interactions.any():
        return unaries
    if exact:
        out = np.empty(unaries.shape)
        sets = np.arange(2 ** unaries.shape[1])[:, None] >> np.arange(unaries.shape[1])
        sets = (sets & 1).astype(np.float64)
        of_pairs = 0.5 * ((sets @ interactions) * sets).sum(axis=1)

        def run(first, last):
            # the number of samples that have about SETS scores
            step = max(SETS // len(sets), 1)
            for start in range(first, last, step):
                stop = min(start + step, last)
                scores = unaries[start:stop] @ sets.T + of_pairs
                out[start:stop] = _log_odds(scores, sets)

        run_in_chunks(run, len(out), n_jobs)
        return out
    scores, change = unaries, np.inf
    for _ in range(MEAN_FIELD_STEPS):
        new = unaries + expit(scores) @ interactions
        # half a step, because whole steps may oscillate
        change = 0.5 * np.abs(new - scores).max(initial=0.0)
        scores = 0.5 * (scores + new)
        if change < SETTLED:
            break
    return scores


def _log_odds(scores, sets):
    """Log-odds of labels, from the scores of all sets of them."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    with np.errstate(divide="ignore"):
        found = np.log(shares @ sets) - np.log(shares @ (1.0 - sets))
    # shares underflow if all sets with a label, or without it, are far from the best
    for i, j in zip(*np.nonzero(~np.isfinite(found)), strict=True):
        on = sets[:, j] == 1.0
        found[i, j] = logsumexp(scores[i, on]) - logsumexp(scores[i, ~on])
    return found


@dataclass
class Target:
    """How labels are chosen, given their scores.

    Parameters
    ----------
    name : {"subset", "hamming", "f1", "micro"}
        The rule: the set with the highest score, the labels that are more likely than
        not, the set with the largest expected F1, or the labels above thresholds.
    slope, offset : float
        The probability of a label with score s is ``expit(slope s + offset)``.
    thresholds : ndarray of shape (n_labels,) or float
        Labels with higher scores are chosen; not for "f1".
    fills : bool
        Whether every sample has a label: if none is chosen, the most likely one is.
    """

    name: str
    slope: float = 1.0
    offset: float = 0.0
    thresholds: np.ndarray | float = 0.0
    fills: bool = False

    @classmethod
    def given(cls, name, fills):
        """A target without learned numbers, or None for the set with the highest score.

        Parameters
        ----------
        name : str
            The measure.
        fills : bool
            Whether all samples that were observed have a label.
        """
        if name == "subset":
            return cls(name, fills=True) if fills else None
        return cls(name, fills=fills and name == "f1")

    @classmethod
    def learned(cls, name, scores, Y, weight, fills, shares, value, known=None):
        """The target with the highest value of the measure on held-out samples.

        Parameters
        ----------
        name : str
            The measure.
        scores : ndarray of shape (n_samples, n_labels)
            Scores of the labels.
        Y : ndarray of shape (n_samples, n_labels)
            Observed labels.
        weight : ndarray of shape (n_samples,)
            Weights of the samples.
        fills : bool
            Whether all samples that were observed have a label.
        shares : ndarray of shape (n_labels,)
            Shares of the training samples that have the labels, positive.
        value : callable
            ``value(labels)`` returns the measure of predicted labels of the samples.
        known : ndarray of shape (n_samples, n_labels), bool, default=None
            Which labels of the samples are known; None: all. Unknown labels are 0 in Y.
        """
        n_known = Y.size if known is None else np.count_nonzero(known)
        if name == "hamming" or not 0 < Y.sum() < n_known:
            return cls("hamming")
        slope, offset = _calibrate(*_entries(scores, Y, weight, known))
        # thresholds may find better sets than "f1" if the scores are poor log-odds
        options = [cls(name, slope, offset, fills=fills)] if name == "f1" else []
        own = None
        if name == "macro":
            own = _own_thresholds(scores, Y, weight, known)
        for lenience in LENIENCES if slope > 0.0 else (0.0,):
            relative = lenience / slope * np.log(shares) if lenience else 0.0
            rest = scores - relative
            thresholds = relative + _common_threshold(rest, Y, weight, known)
            if own is not None:
                counts = weight @ Y / weight.mean()
                thresholds = (counts * own + OTHERS * thresholds) / (counts + OTHERS)
            # empty sets get the most likely label, or none, as this label may be wrong
            options += [
                cls("micro", slope, offset, thresholds, fills=each)
                for each in (False, True)[: 1 + fills]
            ]
        return max(options, key=lambda each: value(each.choose(scores)))

    def probabilities(self, scores):
        """Probabilities of labels with the given scores."""
        return expit(self.slope * scores + self.offset)

    def choose(self, scores, n_jobs=None):
        """The labels of samples with the given scores, as 0 and 1."""
        if self.name != "f1":
            labels = (scores > self.thresholds).astype(np.int64)
            return fill(labels, scores - self.thresholds) if self.fills else labels
        labels = np.empty(scores.shape, dtype=np.uint8)
        probabilities = self.probabilities(scores)
        run_in_chunks(
            lambda first, last: best_f1_sets(probabilities, first, last, labels),
            len(scores),
            n_jobs,
        )
        labels = labels.astype(np.int64)
        return fill(labels, scores) if self.fills else labels


def fill(labels, scores):
    """Add the best label to samples that have none; changes `labels` in place."""
    empty = np.flatnonzero(~labels.any(axis=1))
    labels[empty, scores[empty].argmax(axis=1)] = 1
    return labels


def _entries(scores, Y, weight, known):
    """Scores, values and weights of the known labels of all samples."""
    weights = np.repeat(weight, Y.shape[1])
    if known is None:
        return scores.ravel(), Y.ravel(), weights
    return scores[known], Y[known], weights[known.ravel()]


def _calibrate(scores, y, weights):
    """Slope and offset of the log-odds of labels by their scores (Platt, 1999)."""
    base = np.average(y, weights=weights)
    # scores are divided by their spread, for which Newton's tolerance is chosen
    spread = scores.std()
    if spread > 0.0 and np.isfinite(spread):
        slope, offset = _logistic_line(scores / spread, y, weights / weights.sum())
        if slope > 0.0:
            return slope / spread, offset
    # a slope below zero would reverse the order of the labels
    return 0.0, float(logit(base))


def _logistic_line(x, y, weights):
    """The logistic regression ``slope x + offset`` of 0 and 1, by Newton's method.

    `LogisticRegression` has the same steps. Tools such as MLflow, which record the fits
    of scikit-learn's classes, would record such a fit as a model of the user.
    """
    rows, coef = np.column_stack([x, np.ones(len(x))]), np.zeros(2)

    def look(coef):
        margins = rows @ coef
        loss = weights @ (np.logaddexp(0.0, margins) - y * margins)
        shares = expit(margins)
        return loss, rows.T @ (weights * (shares - y)), weights * shares * (1 - shares)

    loss, gradient, curvature = look(coef)
    for _ in range(NEWTON_STEPS):
        hessian = (rows.T * curvature) @ rows
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        slope, length = gradient @ step, 1.0
        while True:
            found = look(coef + length * step)
            # if only rounding errors are left to remove, no step is better
            if found[0] <= loss + ARMIJO * length * slope or length < SHORTEST:
                break
            length *= 0.5
        coef, (loss, gradient, curvature) = coef + length * step, found
        if max(np.abs(gradient).max(), -0.5 * slope) <= NEWTON_TOL:
            break
    return float(coef[0]), float(coef[1])


def _common_threshold(scores, Y, weight, known):
    """The threshold of all labels with the largest micro F1."""
    some = slice(ENOUGH) if Y[:ENOUGH].any() else slice(None)
    known = None if known is None else known[some]
    return best_threshold(*_entries(scores[some], Y[some], weight[some], known))


def _own_thresholds(scores, Y, weight, known):
    """The threshold of each label with the largest F1; zero if no sample has it."""
    found = np.zeros(Y.shape[1])
    for j in np.flatnonzero(weight @ Y):
        some = slice(None) if known is None else known[:, j]
        found[j] = best_threshold(scores[some, j], Y[some, j], weight[some])
    return found


def best_threshold(scores, y, weight):
    """The threshold of scores with the largest F1.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores; labels with scores above the threshold are chosen.
    y : ndarray of shape (n,)
        Whether each label is right, 0 or 1; at least one is right.
    weight : ndarray of shape (n,)
        Weights.

    Returns
    -------
    threshold : float
        A number in the middle between two scores.
    """
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    right = np.cumsum(weight[order] * y[order])
    taken = np.cumsum(weight[order])
    f1 = 2.0 * right / (taken + right[-1])
    # no threshold separates equal scores
    f1[:-1][scores[:-1] == scores[1:]] = -1.0
    best = int(np.argmax(f1))
    below = scores[best + 1] if best + 1 < len(scores) else scores[best] - 1.0
    middle = 0.5 * (scores[best] + below)
    # the middle of two adjacent floating-point numbers is rounded to one of them
    return middle if middle < scores[best] else below
