"""Regularization paths of the folds of a search, and the table of their scores."""

import time

import numpy as np
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing

from sksstruct.estimators.path import follow
from sksstruct.utils.packed import PackedSequences


class Fold:
    """The path of one fold, and the held-out score of each of its segments.

    Parameters
    ----------
    estimator : estimator
        The estimator of the search.
    data : tuple
        X, y, and sample weights or None.
    train, test : ndarray of int
        Numbers of the samples.
    parameters : PathParameters
        Parameters of the path.
    scorer : callable
        ``scorer(estimator, X, y)``.
    """

    def __init__(self, estimator, data, train, test, parameters, scorer):
        X, y, weight = data
        first, last = steps_of(clone(estimator))
        X_train, y_train = _some(X, train), _safe_indexing(y, train)
        X_test = _some(X, test)
        if first is not None:
            X_train = first.fit_transform(X_train, y_train)
            X_test = first.transform(X_test)
        self._held_out = X_test, _safe_indexing(y, test)
        self._scorer, self.scores, self.seconds = scorer, [], []
        # the search sets this flag if it ends while threads still follow their paths
        self.stopped = False
        weight = None if weight is None else weight[train]
        self._segments = follow(last, X_train, y_train, parameters, weight, 0)

    def advance(self):
        """Follow the path to its next segment; return whether there was one."""
        started = time.perf_counter()
        step = next(self._segments, None)
        if step is None:
            return False
        self.path, segment = step
        trained = time.perf_counter()
        fitted = self.path._with(segment.weights, segment.alpha)
        score = np.asarray(self._scorer(fitted, *self._held_out))
        if score.ndim or score.dtype.kind not in "biuf":
            raise ValueError(f"scoring must return one number, got {score[()]!r:.80}")
        self.scores.append(float(score))
        self.seconds.append((trained - started, time.perf_counter() - trained))
        self.path._add(segment, keep=False)
        return True

    def complete(self):
        """Follow the path to its end, or until `stopped` is set."""
        while not self.stopped and self.advance():
            pass

    def close(self):
        """Return the path without weights; free the held-out data and the solver."""
        self.path._template = self.path._attributes = None
        self.path._close()
        self._segments = self._held_out = None
        return self.path


def _some(X, numbers):
    """The samples of the given numbers; packed sequences stay packed."""
    if isinstance(X, PackedSequences):
        return X.take(numbers)
    return _safe_indexing(X, numbers)


def steps_of(estimator):
    """The transformers of a pipeline, or None, and the estimator at its end."""
    if not isinstance(estimator, Pipeline):
        return None, estimator
    last = estimator.steps[-1][1]
    return estimator[:-1] if len(estimator) > 1 else None, last


def common_segments(paths, alpha_min):
    """Intervals of alpha in which no path changes: edges, and an alpha in each."""
    end = max(path.lower[-1] for path in paths)
    edges = np.unique(np.concatenate([path.lower for path in paths]))
    edges = np.concatenate([[np.inf], edges[edges >= end][::-1]])
    upper, lower = edges[:-1], edges[1:]
    inside = np.sqrt(np.maximum(lower, np.minimum(alpha_min, upper / 2.0)) * upper)
    # in the first interval, take an alpha at which every path has its first weights,
    # which were scored
    first = min(path.alphas[0] for path in paths)
    inside[0] = np.sqrt(lower[0] * max(lower[0], first)) if lower[0] else first
    return edges, inside


def results_of(params, scores, seconds):
    """Scores and times of all alphas and folds, as scikit-learn's searches have them.

    Parameters
    ----------
    params : list of dict
        The parameters of each row.
    scores : ndarray of shape (n_alphas, n_folds)
        Held-out scores.
    seconds : ndarray of shape (n_alphas, n_folds, 2)
        Seconds of training and of scoring.
    """
    results = {
        f"{what}_{kind}_time": getattr(seconds[:, :, k], what)(axis=1)
        for k, kind in enumerate(("fit", "score"))
        for what in ("mean", "std")
    }
    for name in params[0]:
        values = [row[name] for row in params]
        results[f"param_{name}"] = np.ma.MaskedArray(values)
    results["params"] = params
    for j, column in enumerate(scores.T):
        results[f"split{j}_test_score"] = column
    mean = scores.mean(axis=1)
    results["mean_test_score"], results["std_test_score"] = mean, scores.std(axis=1)
    worst = np.where(np.isfinite(mean), mean, -np.inf)
    results["rank_test_score"] = rankdata(-worst, method="min").astype(np.int32)
    return results
