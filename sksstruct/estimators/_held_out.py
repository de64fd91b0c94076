"""Choice of alpha, of the scaling of pairs and of thresholds by held-out samples.

A trial fits the model to the training part of each fold, with one value of alpha and
one of the scaling. `MultilabelPairwise` compares the F1 and accuracy of held-out labels
between trials, in units of standard errors.
"""

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
from sksstruct.models.multilabel.decoding import decode
from sksstruct.models.multilabel.targets import LEARNED, Target, fill, label_scores
from sksstruct.models.multilabel.unknown import first_without_loss
from sksstruct.solvers import SOLVERS
from sksstruct.utils.progress import Status

# Scalings of pairs that are tried, as shares of the mean norm of the features.
SHARES = 0.03, 0.1, 0.3, 1.0
# Number of folds of the samples, except with one threshold per label.
N_FOLDS = 5
# Folds are held out in turn until this number of samples was held out.
ENOUGH = 1000
# Number of folds for one threshold per label: all samples are held out, which takes
# longer, so there are fewer folds.
MACRO_FOLDS = 3
# Factors of alpha="auto" that are tried, from the largest. With closer factors, the
# measures would differ by less than their standard errors.
FACTORS = {
    "squared_hinge": (8.0, 2.0, 0.5),
    "hinge": (2.0, 0.5, 0.1),
    "log": (0.5, 0.1, 0.02),
}
# Largest number of factors that are tried below those in FACTORS. Each of them is tried
# only if the factor before it is the best by far.
MOST_SMALLER = 2
# A factor is the best by far if the measure of the target exceeds that of the best
# larger factor by this many standard errors.
BY_FAR = 1.5
# Tolerance of the solver in trials.
TOL = 1e-2
# Tolerance in trials with the logistic loss, which learns rare labels late. Trials
# start from the state of earlier trials: with a larger tolerance, a gain by more passes
# would be taken for a gain by pairs.
LOG_TOL = 1e-3
# Factor of the tolerance in a fold's first trial with pairs, with the logistic loss.
NEW_PAIRS = 0.1
# Pairs are used only if every measure gains at least this number of standard errors.
WORST = -0.5
# Pairs are used only if the mean gain exceeds this number of standard errors.
LEAST_GAIN = 0.5
# No more values of alpha, or of the scaling, are tried if the mean gain of the last
# value over the best value is below this number of standard errors.
HOPELESS = -2.0
# Names of the columns of the array that `measures` returns.
MEASURES = "micro-F1", "macro-F1", "sample-F1", "right labels"
# Value of the parameter `target` for which each column of `measures` is the measure.
COLUMNS = "micro", "macro", "f1", "hamming"


def choose(estimator, spec, examples):
    """Choose alpha, the scaling of pairs and the target by held-out samples.

    Parameters
    ----------
    estimator : MultilabelPairwise
        The estimator that is being fitted.
    spec : MultilabelModel
        The model, which has read the data. The chosen alpha is set as its `factor`.
    examples : tuple
        Checked examples: features, label indicator and weights.

    Returns
    -------
    scaling : float
        Scaling of the pairs; zero if the model without pairs is best.
    target : Target or None
        Rule that chooses labels; None for the set with the highest score.
    start : callable or None
        ``start(model, solver)`` returns a state of the solver for a warm start on all
        examples, the mean of the states of the trials.
    """
    n, n_labels = examples[1].shape
    factors = None
    if estimator.alpha == "auto" and not spec.in_sets:
        factors = FACTORS[spec.label_loss.name]
    # with a single label, the model is a binary classifier with a fixed factor
    factors = factors if n_labels > 1 else None
    scalings = _scalings(estimator, spec, examples)
    decides = factors is not None or len(scalings) > 1 or spec.target in LEARNED
    if not decides or n < 2 * N_FOLDS:
        return scalings[0], Target.given(spec.target, spec.fills), None
    trials = Trials(estimator, spec, examples)
    found = trials.best(factors or (spec.factor,), scalings)
    return found.scaling, found.target, trials.start


def _scalings(estimator, spec, examples):
    """The scalings of pairs to try; if there are no trials, the first is used."""
    X, Y, _ = examples
    if spec.interaction_scaling != "auto":
        return [spec.interaction_scaling / spec.intercept_scaling_]
    # pairs of many labels improved predictions too little for the time that they take:
    # try them only on request
    asked = Y.shape[1] <= FEW_LABELS or not _is_auto(estimator.pairs)
    # with pairs, a label has no loss where a label that it interacts with is unknown,
    # so that a label may be left without any loss
    if spec.partly_known and first_without_loss(Y, spec.label_pairs_) is not None:
        return [0.0]
    if not len(spec.label_pairs_) or len(Y) < 2 * N_FOLDS or not asked:
        return [0.0]
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    norm = np.sqrt(squares.sum() / len(Y) + spec.fit_intercept)
    return [0.0, *(share * norm for share in SHARES)]


def _is_auto(pairs):
    return isinstance(pairs, str) and pairs == "auto"


@dataclass
class Outcome:
    """Result of a trial with one factor of alpha and one scaling of pairs.

    Parameters
    ----------
    factor, scaling : float
        Factor of alpha, and scaling of pairs, that were tried.
    target : Target or None
        Rule that chooses labels; None for the set with the highest score.
    measured : ndarray of shape (n_samples, 4)
        `measures` of the held-out labels.
    judged : ndarray of shape (n_samples, 1)
        Contribution of each sample to the measure of the target.
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
    """Trials: each fits the model to the training part of every fold."""

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
        # samples have the same weights in the measures as in training
        self.observed, self.shares = (
            np.concatenate([held_out[k] for _, held_out in self.parts]) for k in (1, 2)
        )
        # mask of the known labels of held-out samples; None if all are known
        self.known = None
        _, Y, weights = examples
        shares, total = weights @ Y, 1.0
        if spec.partly_known:
            self.known = self.observed >= 0
            self.observed = np.maximum(self.observed, 0)
            shares, total = weights @ (Y == 1), weights @ (Y >= 0)
        self.frequencies = (len(Y) * shares + 1.0) / (len(Y) * total + 2.0)
        self.solver, self.started = _quick_solver(estimator), time.perf_counter()
        self.states, self.unfinished = [None] * len(self.parts), []

    def best(self, factors, scalings):
        """Try factors, then scalings with the best factor; return the best outcome."""
        several = ["alpha"] * (len(factors) > 1)
        several += ["interaction_scaling"] * (len(scalings) > 1)
        self.what = " and ".join(several) or "the thresholds"
        best = None
        for factor in self._descending(factors):
            if best is not None and self.left() == 0.0:
                break
            outcome = self.outcome(factor, scalings[0])
            gain = 1.0 if best is None else gains(outcome.judged, best.judged).mean()
            best = outcome if gain > 0.0 else best
            # smaller alphas take longer to train, and would probably be worse
            if gain < (HOPELESS if factor > factors[-1] else BY_FAR):
                break
        outcomes = [best]
        self.states = best.states
        for scaling in scalings[1:]:
            if self.left() == 0.0:
                break
            outcomes.append(self.outcome(best.factor, scaling))
            measured = self._compared(outcomes)
            # with stronger pairs the measures would fall further, and decoding would
            # take longer
            if gains(measured[-1], measured[best_of(measured)]).mean() < HOPELESS:
                break
        _warn(self.what, self.unfinished, self.parts[0][0][0])
        self.found = outcomes[best_of(self._compared(outcomes))]
        self.spec.factor = self.found.factor
        return self.found

    def _descending(self, factors):
        """The factors of alpha, then up to `MOST_SMALLER` factors below them."""
        yield from factors
        if len(factors) > 1:
            step = factors[-1] / factors[-2]
            yield from (factors[-1] * step**k for k in range(1, MOST_SMALLER + 1))

    def _compared(self, outcomes):
        """Contributions of samples to the measures by which scalings are compared."""
        if self.spec.asked_target == "auto":
            return [each.measured for each in outcomes]
        return [each.judged for each in outcomes]

    def outcome(self, factor, scaling):
        """Train and measure one trial: a factor of alpha, and a scaling of pairs."""
        self.spec.factor = factor
        labels, target = self.labels(scaling)
        labels = self._where_known(labels)
        measured = measures(self.observed, labels, self.shares, self.known)
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
        """The F1 that the thresholds maximize.

        It is the F1 of the target, or with target="auto" the mean of micro, macro and
        sample F1.
        """
        values = f1_values(self.observed, self._where_known(labels), self.shares)
        if self.spec.asked_target == "auto":
            return values.mean()
        return values[COLUMNS.index(self.spec.target)]

    def _where_known(self, labels):
        """Predicted labels, with 0 where the label is not known, as in `observed`."""
        return labels if self.known is None else labels * self.known

    def alpha(self):
        """The regularization strength alpha of the current trial."""
        alpha = self.estimator.alpha
        return self.spec.default_alpha if alpha == "auto" else alpha

    def start(self, model, solver):
        """Mean of the solver's states of the best trial's folds, or None.

        Parameters
        ----------
        model : ConditionalModel
            The model of all examples.
        solver : Solver
            The solver that trains it.
        """
        # dual variables of sets of labels are stored sparsely, and have no mean
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
        """Mean dual variables of each example over the folds that trained on it."""
        n, n_labels = model.n_examples, model.rows.n_labels
        mean, counts = np.zeros((n + 1, n_labels)), np.zeros(n)
        for rows, state in zip(self.rows, states, strict=True):
            mean[rows] += state["coordinates"][:-1]
            mean[-1] += state["coordinates"][-1] / len(states)
            counts[rows] += 1.0
        # an example that no fold trained on has dual variables of zero
        mean[:-1] /= np.maximum(counts, 1.0)[:, None]
        return mean

    def left(self):
        """Seconds left of `max_seconds`, or None without a limit."""
        limit = self.estimator.max_seconds
        if limit is None:
            return None
        return max(limit - (time.perf_counter() - self.started), 0.0)

    def share_of_time(self, number):
        """Time limit of fold `number`: an equal share of the time left, or None."""
        left = self.left()
        return left if left is None else left / (len(self.parts) - number)

    def labels(self, scaling):
        """Train all folds; return labels of held-out samples, and the `Target` used."""
        spec, sets, scores, n_jobs = self.spec, [], [], self.estimator.n_jobs
        pairs = spec.label_pairs_ if scaling > 0.0 else spec.label_pairs_[:0]
        exact, by_gdmm = spec._exact, self.estimator.inference == "gdmm"
        for number, (train, held_out) in enumerate(self.parts):
            views = self._fit(number, train, scaling)
            coef, intercept, table = spec.tables(views, pairs, scaling)
            unaries = np.asarray(held_out[0] @ coef.T) + intercept
            scores.append(label_scores(unaries, table, exact, n_jobs))
            if spec.target == "subset":
                labels = decode(
                    unaries, pairs, table, exact=exact, by_gdmm=by_gdmm, n_jobs=n_jobs
                )
                sets.append(labels.astype(np.int8))
        if spec.target != "subset":
            sets = scores
        sets = np.concatenate(sets)
        if spec.target == "subset":
            target = Target.given("subset", spec.fills)
            if target is not None:
                sets = fill(sets, np.concatenate(scores))
            return sets, target
        target = Target.learned(
            spec.target,
            sets,
            self.observed,
            self.shares,
            spec.fills,
            self.frequencies,
            self._worth,
            self.known,
        )
        return target.choose(sets, self.estimator.n_jobs).astype(np.int8), target

    def _start(self, number, model, scaling):
        """State of an earlier trial of a fold, with weights of pairs for `scaling`."""
        if self.states[number] is None:
            return None
        earlier, state = self.states[number]
        if state is None or "weights" not in state:
            return state
        # dual variables of labels do not depend on the scaling of pairs
        weights = np.zeros(model.n_weights)
        known = state["weights"][: model.n_weights]
        weights[: len(known)] = known
        # rescale weights of pairs, so that their scores, weight times scaling, stay the
        # same
        if min(earlier, scaling) > 0.0 and len(known) == model.n_weights:
            model.views(weights)["pair_coef"][...] *= earlier / scaling
        return {**state, "weights": weights}

    def _fit(self, number, examples, scaling):
        """Train without the held-out samples of a fold; return the weights by name."""
        estimator, spec = self.estimator, self.spec
        model = spec.bind_scaled(examples, scaling)
        alpha = spec.solver_alpha(self.alpha())
        model.binder = partial(spec.bind_part_scaled, examples, scaling)
        tol = max(estimator.tol, _coarse(estimator))
        earlier = self.states[number]
        if spec.is_likelihood and earlier is not None and earlier[0] == 0.0 < scaling:
            # with the same tolerance, the start weights, which are within the tolerance
            # without pairs, could be accepted with all weights of pairs at zero
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
    """Dual variables for the weights of a state that has no dual variables, or None."""
    loss = getattr(model, "label_loss", None)
    if "weights" not in state or not isinstance(loss, LabelSquaredHinge):
        return None
    return {"coordinates": model.coordinates_at(state["weights"])}


def _warn(what, trials, X):
    """Warn once if trials ended with a duality gap above the tolerance."""
    if not trials:
        return
    alpha, scaling, result = max(trials, key=lambda trial: trial[2].dual_gap)
    warnings.warn(
        f"{len(trials)} trial(s) of {what} did not converge (MultilabelPairwise), so "
        f"other values may be better: with alpha={alpha:.3g} and "
        f"interaction_scaling={scaling:.3g}, after {result.n_iter} passes, the duality "
        f"gap is {result.dual_gap:.3g}, the tolerance {result.target:.3g}. "
        f"{columns(X) or Status(result.status).remedy}",
        ConvergenceWarning,
        stacklevel=9,  # stack level of the caller of fit, past the decorator of fit
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
    """Training and held-out examples of folds, until `enough` samples are held out."""
    X, Y, weight = examples
    parts, n_held_out = [], 0
    for train, test in folds:
        # more samples would hardly change the choice, and decoding them takes time
        test = test[: enough - n_held_out]
        share = weight[train]
        held_out = X[test], Y[test], weight[test]
        parts.append(((X[train], Y[train], share / share.sum()), held_out))
        n_held_out += len(test)
        if n_held_out >= enough:
            break
    return parts


def _coarse(estimator):
    """The smallest tolerance of trials for the estimator's loss."""
    return LOG_TOL if LABEL_LOSSES.resolve(estimator.loss).is_likelihood else TOL


def _quick_solver(estimator):
    """The estimator's solver: its name, or a copy with the tolerance of trials."""
    if isinstance(estimator.solver, str):
        return estimator.solver
    solver = clone(estimator.solver)
    if hasattr(solver, "tol"):
        solver.set_params(tol=max(solver.tol, _coarse(estimator)))
    return solver


def measures(Y, predicted, weight=None, known=None):
    """Micro, macro and sample F1, and the share of right labels, for each sample.

    The F1 of many samples is a ratio of sums. The contribution of a sample is the term
    of the sample in the linearized ratio (the delta method), so that means and standard
    errors of differences are computed as for ordinary columns.

    Parameters
    ----------
    Y, predicted : ndarray of shape (n_samples, n_labels)
        Label indicators.
    weight : ndarray of shape (n_samples,), default=None
        Weights of the samples; with None, all are equal.
    known : ndarray of shape (n_samples, n_labels), bool, default=None
        Which labels are known; with None, all. Others are 0 in both indicators.

    Returns
    -------
    contributions : ndarray of shape (n_samples, 4)
        Contributions whose unweighted means are the four measures.
    """
    weight = np.ones(len(Y)) if weight is None else weight / weight.mean()
    both = 2.0 * (Y & predicted)
    sizes = (Y + predicted).astype(np.float64)
    # a label that no sample has is left out: its F1 is 0 or undefined
    occurs = Y.any(axis=0)
    macro = np.ones(len(Y))
    if occurs.any():
        macro = _ratio(both[:, occurs], sizes[:, occurs], weight).mean(axis=1)
    total, size = both.sum(axis=1), sizes.sum(axis=1)
    each = np.where(size > 0.0, total / np.maximum(size, 1.0), 1.0)
    right, one = (Y == predicted).mean(axis=1), np.ones(len(Y))
    if known is not None:
        right, one = ((Y == predicted) & known).mean(axis=1), known.mean(axis=1)
    micro, each, right = (
        _ratio(above[:, None], below[:, None], weight)[:, 0]
        for above, below in ((total, size), (each, one), (right, one))
    )
    return np.column_stack([micro, macro, each, right])


def f1_values(Y, predicted, weight):
    """Micro, macro and sample F1 of samples with weights: the means of `measures`."""
    occurs = Y.any(axis=0)
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
    macro = macro[occurs].mean() if occurs.any() else 1.0
    return np.array([micro, macro, np.average(each, weights=weight)])


def _ratio(above, below, weight):
    """Linearized contributions of rows to ratios of weighted column sums."""
    mean = weight @ below / len(below)
    mean[mean == 0.0] = 1.0
    ratio = weight @ above / len(above) / mean
    return ratio + weight[:, None] * (above - ratio * below) / mean


def best_of(measured):
    """Index of the best scaling of pairs; the first scaling is 0, without pairs.

    Parameters
    ----------
    measured : list of ndarray of shape (n_samples, 4)
        Contributions of the samples to the measures, for each scaling.

    Returns
    -------
    best : int
        The scaling with the largest mean gain above `LEAST_GAIN`, in standard errors of
        the difference, that loses more than `-WORST` in no measure; 0 if there is none.
    """
    best, most = 0, LEAST_GAIN
    for number, each in enumerate(measured):
        change = gains(each, measured[0])
        if change.min() >= WORST and change.mean() > most:
            best, most = number, change.mean()
    return best


def gains(contributions, others):
    """Gain of each measure over `others`, in standard errors of the difference."""
    change = contributions - others
    error = change.std(axis=0) / len(change) ** 0.5
    return np.divide(
        change.mean(axis=0), error, out=np.zeros(len(error)), where=error > 1e-12
    )
