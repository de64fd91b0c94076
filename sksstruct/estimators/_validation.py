"""Early stopping: examples set aside, and their score after every pass."""

import copy

import numpy as np
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import _safe_indexing, check_random_state, indexable
from sklearn.utils.validation import _num_samples

from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.progress import Status


class Validation:
    """A part of the training data that is only scored.

    Parameters
    ----------
    estimator : estimator
        Has `validation_fraction`, `n_iter_no_change`, `random_state` and `score`.
    X, y, sample_weight : objects
        As given to fit.

    Attributes
    ----------
    rest : tuple
        X, y and sample_weight to train on.
    scores : list of float
        The score after each pass.
    """

    def __init__(self, estimator, X, y, sample_weight):
        # a bad share would be called by another name
        validate_params(estimator)
        self._tagger = copy.copy(estimator)
        self._patience = estimator.n_iter_no_change
        given = [X, y] if sample_weight is None else [X, y, sample_weight]
        indexable(*given)
        rng = check_random_state(estimator.random_state)
        if not isinstance(estimator.random_state, np.random.RandomState):
            # the solver's own order must not depend on whether there is a validation
            rng = np.random.RandomState(rng.randint(2**31 - 1))
        share = estimator.validation_fraction
        split = ShuffleSplit(1, test_size=share, random_state=rng)
        train, held_out = next(split.split(np.zeros(_num_samples(X))))
        rest = [_part(each, np.sort(train)) for each in given]
        self.rest = (*rest, None) if sample_weight is None else tuple(rest)
        self._held_out = [_part(each, np.sort(held_out)) for each in given]
        self.scores = []

    def __call__(self, attributes):
        """Score fitted attributes; return a `Status` once scores no longer rise."""
        for name, value in attributes.items():
            setattr(self._tagger, name, value)
        self.scores.append(float(self._tagger.score(*self._held_out)))
        before = self.scores[: -self._patience]
        if before and max(self.scores[-self._patience :]) <= max(before):
            return Status.EARLY
        return None


def _part(values, indices):
    """Some of the examples, in the form that all of them have."""
    if isinstance(values, list | tuple):
        return [values[i] for i in indices]
    return _safe_indexing(values, indices)
