"""Early stopping on a cluster: held-out parts, scored after every pass."""

from dataclasses import replace

import numpy as np
from dask.delayed import delayed

from sksstruct.dask._parts import n_rows
from sksstruct.estimators._validation import EarlyStopping, source_of_splits


class PartsValidation(EarlyStopping):
    """Early stopping by held-out parts, which the workers that have them score.

    Parameters
    ----------
    estimator : estimator
        An estimator with `validation_fraction`, `n_iter_no_change`, `random_state` and
        `to_local`.
    client : distributed.Client
        Client of the cluster.
    parts : Parts
        All data.

    Attributes
    ----------
    rest : Parts
        The parts to train on.
    """

    def __init__(self, estimator, client, parts):
        n = len(parts)
        if n < 2:
            raise ValueError(
                "early_stopping holds out whole parts: X must have at least 2, got 1"
            )
        n_out = min(max(1, round(n * estimator.validation_fraction)), n - 1)
        chosen = set(source_of_splits(estimator).permutation(n)[:n_out].tolist())
        inputs = parts.inputs
        self.rest = replace(
            parts, inputs=[each for k, each in enumerate(inputs) if k not in chosen]
        )
        self._held_out = replace(parts, inputs=[inputs[k] for k in sorted(chosen)])
        super().__init__(estimator, estimator.to_local())
        self._client, self._size = client, estimator._size

    def score_held_out(self):
        what = "early_stopping: what is set aside, by random_state,"
        return score_parts(self._client, self.scored, self._size, self._held_out, what)


def score_parts(client, estimator, size, parts, what="X"):
    """Mean of the scores of parts, weighted by their sizes.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    estimator : estimator
        A fitted local estimator.
    size : callable
        ``size(X, y, sample_weight)`` returns the weight of a part.
    parts : Parts
        The data.
    what : str, default="X"
        Name of the data in errors.

    Returns
    -------
    score : float
        The mean score.
    """
    local = delayed(estimator)
    pairs = client.gather(
        client.compute(
            [
                delayed(_score)(local, size, parts.read, *inputs)
                for inputs in parts.inputs
            ]
        )
    )
    if not any(total for _, total in pairs):
        raise ValueError(f"{what} has no examples of positive weight in its parts")
    scores, totals = np.array([pair for pair in pairs if pair[1]]).T
    return float(np.average(scores, weights=totals))


def _score(estimator, size, read, *inputs):
    """Score of a part, and its weight in the mean."""
    X, y, sample_weight = read(*inputs)
    total = size(X, y, sample_weight) if n_rows(X) else 0.0
    return (estimator.score(X, y, sample_weight) if total else 0.0), total
