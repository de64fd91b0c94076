"""What held-out samples decide: alpha, the pairs, and which labels are taken."""

import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from sksstruct.estimators._advice import columns
from sksstruct.losses import LABEL_LOSSES, LabelSquaredHinge
from sksstruct.models.multilabel._pairs import FEW_LABELS
from sksstruct.models.multilabel.multilabel import decode
from sksstruct.models.multilabel.targets import LEARNED, Target, fill, label_scores
from sksstruct.solvers import SOLVERS
from sksstruct.utils.progress import Status

# Values that are tried, as shares of the mean norm of the features.
SHARES = 0.03, 0.1, 0.3, 1.0
# Folds of the samples.
N_FOLDS = 5
# Folds are held out in turn until they have so many samples together.
ENOUGH = 1000
# Folds where each label has a threshold, which needs all samples: fewer take less time.
MACRO_FOLDS = 3
# Values of alpha that are tried, times the mean squared norm of the rows over the
# number of samples, from the largest. They are far apart: what is between them differs
# by less than what samples can tell.
FACTORS = {
    "squared_hinge": (8.0, 2.0, 0.5),
    "hinge": (2.0, 0.5, 0.1),
    "log": (0.5, 0.1, 0.02),
}
# Smaller values that are tried at most, while the smallest so far is the best by far.
MOST_SMALLER = 2
# A value is the best by far if measures rise by so many standard errors on average.
BY_FAR = 1.5
# Tolerance of the solver while values are tried.
TOL = 1e-2
# The same for the logistic loss, which learns rare labels late. Later trials go on from
# earlier ones, and what is gained by more passes only would seem to be gained by pairs.
LOG_TOL = 1e-3
# The share of it for the first trial with pairs.
NEW_PAIRS = 0.1
# Standard errors by which each measure has to rise where pairs are used: it may fall.
WORST = -0.5
# Standard errors by which measures have to rise on average: pairs have to be worth it.
LEAST_GAIN = 0.5
# Larger values are not tried where measures fall by so many on average.
HOPELESS = -2.0
# The columns of `measures`.
MEASURES = "micro-F1", "macro-F1", "sample-F1", "right labels"
# The targets that they are the measures of.
COLUMNS = "micro", "macro", "f1", "hamming"


def choose(estimator, spec, examples):
    """The alpha, the scaling of pairs and the target that held-out samples favor.

    Parameters
    ----------
    estimator : MultilabelPairwise
        Its parameters are read.
    spec : MultilabelModel
        The model, which has read the data; its `factor`, of alpha, may change.
    examples : tuple
        Checked examples: features, label indicator and weights.

    Returns
    -------
    scaling : float
        Zero if no pairs are best.
    target : Target or None
        How labels are chosen; None: as the best set.
    start : callable or None
        ``start(model, solver)`` forms the state that training on all examples begins
        with, from those of the trials.
    """
    n, n_labels = examples[1].shape
    factors = None
    if estimator.alpha == "auto" and not spec.in_sets:
        factors = FACTORS[spec.label_loss.name]
    # a single label is a classifier as others are, whose alpha follows a rule
    factors = factors if n_labels > 1 else None
    scalings = _scalings(estimator, spec, examples)
    decides = factors is not None or len(scalings) > 1 or spec.target in LEARNED
    if not decides or n < 2 * N_FOLDS:
        return scalings[0], Target.given(spec.target, spec.fills), None
    trials = Trials(estimator, spec, examples)
    found = trials.best(factors or (spec.factor,), scalings)
    return found.scaling, found.target, trials.start


def _scalings(estimator, spec, examples):
    """The values of the pairs' feature that are tried, the first one in any case."""
    X, Y, _ = examples
    if spec.interaction_scaling != "auto":
        return [spec.interaction_scaling / spec.intercept_scaling_]
    # pairs of so many labels were never worth their time, unless they are asked for
    asked = Y.shape[1] <= FEW_LABELS or not _is_auto(estimator.pairs)
    if not len(spec.label_pairs_) or len(Y) < 2 * N_FOLDS or not asked:
        return [0.0]
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    norm = np.sqrt(squares.sum() / len(Y) + spec.fit_intercept)
    return [0.0, *(share * norm for share in SHARES)]


def _is_auto(pairs):
    return isinstance(pairs, str) and pairs == "auto"


@dataclass
class Outcome:
    """What a trial has found.

    Parameters
    ----------
    factor, scaling : float
        What was tried: of alpha, and of pairs.
    target : Target or None
        How labels are chosen.
    measured : ndarray of shape (n_samples, 4)
        `measures` of the labels.
    judged : ndarray of shape (n_samples, 1)
        What samples contribute to the measure of the target.
    states : list
        States of the solver, fold by fold.
    """

    factor: float
    scaling: float
    target: Target | None
    measured: np.ndarray
    judged: np.ndarray
    states: list


class Trials:
    """Fits to all but the held-out samples, one after the other."""

    def __init__(self, estimator, spec, examples):
        self.estimator, self.spec = estimator, spec
        rng = check_random_state(estimator.random_state)
        macro = spec.target == "macro"
        folds = KFold(
            MACRO_FOLDS if macro else N_FOLDS,
            shuffle=True,
            random_state=rng.randint(2**31 - 1),
        )
        rows = list(folds.split(examples[0]))
        self.parts = _parts(rows, examples, len(examples[1]) if macro else ENOUGH)
        self.rows = [train for train, _ in rows[: len(self.parts)]]
        # the measures count samples by their weights, as training does
        self.observed, self.shares = (
            np.concatenate([held_out[k] for _, held_out in self.parts]) for k in (1, 2)
        )
        _, Y, weights = examples
        self.frequencies = (len(Y) * (weights @ Y) + 1.0) / (len(Y) + 2.0)
        self.solver, self.started = _quick_solver(estimator), time.perf_counter()
        self.states, self.unfinished = [None] * len(self.parts), []

    def best(self, factors, scalings):
        """The best outcome of the values of alpha, and then of the scalings with it."""
        several = ["alpha"] * (len(factors) > 1)
        several += ["interaction_scaling"] * (len(scalings) > 1)
        self.what = " and ".join(several) or "the thresholds"
        best = None
        for factor in self._descending(factors):
            if best is not None and self.left() == 0.0:
                break
            found = self.outcome(factor, scalings[0])
            gain = 1.0 if best is None else gains(found.judged, best.judged).mean()
            best = found if gain > 0.0 else best
            # smaller ones take longer, and would be worse
            if gain < (HOPELESS if factor > factors[-1] else BY_FAR):
                break
        outcomes = [best]
        self.states = best.states
        for scaling in scalings[1:]:
            if self.left() == 0.0:
                break
            outcomes.append(self.outcome(best.factor, scaling))
            measured = self._compared(outcomes)
            # what is too strong already is not tried stronger, where sets are hard to
            # find
            if gains(measured[-1], measured[best_of(measured)]).mean() < HOPELESS:
                break
        _warn(self.what, self.unfinished, self.parts[0][0][0])
        self.found = outcomes[best_of(self._compared(outcomes))]
        self.spec.factor = self.found.factor
        return self.found

    def _descending(self, factors):
        """The factors of alpha, and smaller ones for as long as they are asked for."""
        yield from factors
        if len(factors) > 1:
            step = factors[-1] / factors[-2]
            yield from (factors[-1] * step**k for k in range(1, MOST_SMALLER + 1))

    def _compared(self, outcomes):
        """What pairs are judged by: all measures, unless one was asked for."""
        if self.spec.asked_target == "auto":
            return [each.measured for each in outcomes]
        return [each.judged for each in outcomes]

    def outcome(self, factor, scaling):
        """Try a value of alpha, and of the scaling."""
        self.spec.factor = factor
        labels, target = self.labels(scaling)
        measured = measures(self.observed, labels, self.shares)
        if self.estimator.verbose:
            _print(self.alpha(), scaling, measured.mean(axis=0))
        if self.spec.asked_target == "auto" and self.spec.target == "micro":
            judged = measured[:, :3].mean(axis=1)
        elif self.spec.target in COLUMNS:
            judged = measured[:, COLUMNS.index(self.spec.target)]
        else:
            whole = (labels == self.observed).all(axis=1)
            judged = whole * self.shares / self.shares.mean()
        return Outcome(
            factor, scaling, target, measured, judged[:, None], list(self.states)
        )

    def _worth(self, labels):
        """What thresholds are judged by: the F1 that was asked for, or all of them."""
        values = f1_values(self.observed, labels, self.shares)
        if self.spec.asked_target == "auto":
            return values.mean()
        return values[COLUMNS.index(self.spec.target)]

    def alpha(self):
        """The regularization of the current trial."""
        alpha = self.estimator.alpha
        return self.spec.default_alpha if alpha == "auto" else alpha

    def start(self, model, solver):
        """The mean state of the last trials, for all examples; None if there is none.

        Parameters
        ----------
        model : ConditionalModel
            The model of all examples.
        solver : Solver
            The solver that trains it.
        """
        # the duals of sets of labels are not numbers of which there is a mean
        if "coordinates" not in model.oracles:
            return None
        scaling, self.states = self.found.scaling, self.found.states
        states = [self._start(k, model, scaling) for k in range(len(self.states))]
        if any(state is None or "weights" not in state for state in states):
            return None
        mean = {"weights": np.mean([each["weights"] for each in states], axis=0)}
        if all("coordinates" in state for state in states):
            mean["coordinates"] = self._mean_coordinates(model, states)
        return mean if solver.accepts(mean, model) else None

    def _mean_coordinates(self, model, states):
        """Dual variables of each example in the trials that it was part of."""
        n, n_labels = model.n_examples, model.rows.n_labels
        mean, counts = np.zeros((n + 1, n_labels)), np.zeros(n)
        for rows, state in zip(self.rows, states, strict=True):
            mean[rows] += state["coordinates"][:-1]
            mean[-1] += state["coordinates"][-1] / len(states)
            counts[rows] += 1.0
        # examples that were never part have dual variables of zero
        mean[:-1] /= np.maximum(counts, 1.0)[:, None]
        return mean

    def left(self):
        """Seconds that are left, or None."""
        limit = self.estimator.max_seconds
        if limit is None:
            return None
        return max(limit - (time.perf_counter() - self.started), 0.0)

    def share_of_time(self, number):
        """Seconds of a fold, so that thresholds come from fits of the same quality."""
        left = self.left()
        return left if left is None else left / (len(self.parts) - number)

    def labels(self, scaling):
        """Labels of the held-out samples, and the target that chose them."""
        spec, found, likely, n_jobs = self.spec, [], [], self.estimator.n_jobs
        pairs = spec.label_pairs_ if scaling > 0.0 else spec.label_pairs_[:0]
        exact, by_gdmm = spec._exact, self.estimator.inference == "gdmm"
        for number, (train, held_out) in enumerate(self.parts):
            views = self._fit(number, train, scaling)
            coef, intercept, table = spec.tables(views, pairs, scaling)
            unaries = np.asarray(held_out[0] @ coef.T) + intercept
            likely.append(label_scores(unaries, table, exact, n_jobs))
            if spec.target == "subset":
                labels = decode(
                    unaries, pairs, table, exact=exact, by_gdmm=by_gdmm, n_jobs=n_jobs
                )
                found.append(labels.astype(np.int8))
        if spec.target != "subset":
            found = likely
        found = np.concatenate(found)
        if spec.target == "subset":
            target = Target.given("subset", spec.fills)
            if target is not None:
                found = fill(found, np.concatenate(likely))
            return found, target
        target = Target.learned(
            spec.target,
            found,
            self.observed,
            self.shares,
            spec.fills,
            self.frequencies,
            self._worth,
        )
        return target.choose(found, self.estimator.n_jobs).astype(np.int8), target

    def _start(self, number, model, scaling):
        """State of an earlier trial of a fold; weights of pairs are those of today."""
        if self.states[number] is None:
            return None
        earlier, state = self.states[number]
        if state is None or "weights" not in state:
            return state
        # dual variables of labels are valid whatever their pairs are
        weights = np.zeros(model.n_weights)
        known = state["weights"][: model.n_weights]
        weights[: len(known)] = known
        # their scores stay the same
        if min(earlier, scaling) > 0.0 and len(known) == model.n_weights:
            model.views(weights)["pair_coef"][...] *= earlier / scaling
        return {**state, "weights": weights}

    def _fit(self, number, examples, scaling):
        """Named weights after training without the held-out samples of a fold."""
        estimator, spec = self.estimator, self.spec
        model = spec.bind_scaled(examples, scaling)
        alpha = spec.solver_alpha(self.alpha())
        model.binder = partial(spec.bind_part_scaled, examples, scaling)
        tol = max(estimator.tol, _coarse(estimator))
        earlier = self.states[number]
        if spec.is_likelihood and earlier is not None and earlier[0] == 0.0 < scaling:
            # what is good enough without pairs would leave their weights at zero
            tol *= NEW_PAIRS
        solver = SOLVERS.resolve(
            self.solver,
            max_iter=estimator.max_iter,
            tol=tol,
            model=model,
            alpha=alpha,
        )
        state = self._start(number, model, scaling)
        if state is not None and not solver.accepts(state, model):
            state = _coordinates(state, model)
            if state is not None and not solver.accepts(state, model):
                state = None
        result = solver.solve(
            model,
            alpha,
            random_state=estimator.random_state,
            n_jobs=estimator.n_jobs,
            dual_state=state,
            max_seconds=self.share_of_time(number),
        )
        if Status(result.status) is Status.INTERRUPTED:
            raise KeyboardInterrupt(
                f"training was interrupted while choosing {self.what}; there is no "
                "classifier yet"
            )
        self.states[number] = scaling, result.dual_state
        if Status(result.status).remedy is not None:
            self.unfinished.append((self.alpha(), scaling, result))
        return solver.layout(model).views(result.weights)


def _coordinates(state, model):
    """Dual variables that stand for weights, where these are what is known."""
    loss = getattr(model, "label_loss", None)
    if "weights" not in state or not isinstance(loss, LabelSquaredHinge):
        return None
    return {"coordinates": model.coordinates_at(state["weights"])}


def _warn(what, trials, X):
    """Warn once if trials ended before the gap was small enough."""
    if not trials:
        return
    alpha, scaling, result = max(trials, key=lambda trial: trial[2].dual_gap)
    warnings.warn(
        f"{len(trials)} trial(s) of {what} did not converge (MultilabelPairwise), so "
        f"others may be better: with alpha={alpha:.3g} and "
        f"interaction_scaling={scaling:.3g}, after {result.n_iter} passes, the duality "
        f"gap is {result.dual_gap:.3g}, the tolerance {result.target:.3g}. "
        f"{columns(X) or Status(result.status).remedy}",
        ConvergenceWarning,
        stacklevel=9,  # past fit and its decorator
    )


def _print(alpha, scaling, means):
    values = ", ".join(
        f"{name} {mean:.4f}" for name, mean in zip(MEASURES, means, strict=True)
    )
    print(
        f"[MultilabelPairwise] alpha {alpha:.3g}, interaction_scaling {scaling:.3g}: "
        f"{values}"
    )


def _parts(folds, examples, enough):
    """Examples to train on, and those held out, for as many folds as are needed."""
    X, Y, weight = examples
    parts, n_held_out = [], 0
    for train, test in folds:
        # enough tell as well as more, and sets of many labels take time to find
        test = test[: enough - n_held_out]
        share = weight[train]
        held_out = X[test], Y[test], weight[test]
        parts.append(((X[train], Y[train], share / share.sum()), held_out))
        n_held_out += len(test)
        if n_held_out >= enough:
            break
    return parts


def _coarse(estimator):
    """The tolerance of trials, unless the estimator's is larger."""
    return LOG_TOL if LABEL_LOSSES.resolve(estimator.loss).is_likelihood else TOL


def _quick_solver(estimator):
    """The estimator's solver with a larger tolerance, by name where it has one."""
    if isinstance(estimator.solver, str):
        return estimator.solver
    solver = clone(estimator.solver)
    if hasattr(solver, "tol"):
        solver.set_params(tol=max(solver.tol, _coarse(estimator)))
    return solver


def measures(Y, predicted, weight=None):
    """Micro, macro and sample F1, and the share of right labels, for each sample.

    The F1 of many samples is a ratio of sums. What a sample contributes to it is its
    linearization (the delta method), so that means and standard errors of differences
    are those of ordinary columns.

    Parameters
    ----------
    Y, predicted : ndarray of shape (n_samples, n_labels)
        Label indicators.
    weight : ndarray of shape (n_samples,), default=None
        How much the samples count; None: all the same.

    Returns
    -------
    contributions : ndarray of shape (n_samples, 4)
        Their plain means are the four measures.
    """
    weight = np.ones(len(Y)) if weight is None else weight / weight.mean()
    both = 2.0 * (Y & predicted)
    sizes = (Y + predicted).astype(np.float64)
    # F1 tells nothing of labels that no sample has
    some = Y.any(axis=0)
    macro = np.ones(len(Y))
    if some.any():
        macro = _ratio(both[:, some], sizes[:, some], weight).mean(axis=1)
    total, size = both.sum(axis=1), sizes.sum(axis=1)
    each = np.where(size > 0.0, total / np.maximum(size, 1.0), 1.0)
    right, one = (Y == predicted).mean(axis=1), np.ones(len(Y))
    micro, each, right = (
        _ratio(above[:, None], below[:, None], weight)[:, 0]
        for above, below in ((total, size), (each, one), (right, one))
    )
    return np.column_stack([micro, macro, each, right])


def f1_values(Y, predicted, weight):
    """Micro, macro and sample F1 of samples with weights: the means of `measures`."""
    some = Y.any(axis=0)
    both, sizes = 2.0 * (Y & predicted), (Y + predicted).astype(np.float64)
    each = np.divide(
        both.sum(axis=1),
        sizes.sum(axis=1),
        out=np.ones(len(Y)),
        where=sizes.any(axis=1),
    )
    both, sizes = weight @ both, weight @ sizes
    macro = np.divide(both, sizes, out=np.zeros(len(both)), where=sizes > 0.0)
    micro = both.sum() / max(sizes.sum(), np.finfo(np.float64).tiny)
    macro = macro[some].mean() if some.any() else 1.0
    return np.array([micro, macro, np.average(each, weights=weight)])


def _ratio(above, below, weight):
    """What rows contribute to the ratios of the columns' weighted sums."""
    mean = weight @ below / len(below)
    mean[mean == 0.0] = 1.0
    ratio = weight @ above / len(above) / mean
    return ratio + weight[:, None] * (above - ratio * below) / mean


def best_of(measured):
    """Which of several values to take, the first being no pairs at all.

    Parameters
    ----------
    measured : list of ndarray of shape (n_samples, 4)
        Contributions of the samples to the measures, for each value.

    Returns
    -------
    best : int
        The value with the largest mean gain, in standard errors of the difference, of
        those that lose in no measure.
    """
    best, most = 0, LEAST_GAIN
    for number, each in enumerate(measured):
        change = gains(each, measured[0])
        if change.min() >= WORST and change.mean() > most:
            best, most = number, change.mean()
    return best


def gains(contributions, others):
    """How much better each measure is, in standard errors of the difference."""
    change = contributions - others
    error = change.std(axis=0) / len(change) ** 0.5
    return np.divide(
        change.mean(axis=0), error, out=np.zeros(len(error)), where=error > 1e-12
    )
