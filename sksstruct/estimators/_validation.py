"""Early stopping: sequences set aside, and their score after every pass."""

import copy

import numpy as np
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import check_random_state

from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.progress import Status
from sksstruct.utils.validation import (
    check_known,
    check_labels,
    check_sequence_weight,
    check_sequences,
)


class EarlyStopping:
    """Scores every pass on data that were set aside, and says when to stop.

    Parameters
    ----------
    estimator : estimator
        Has `n_iter_no_change`.
    scored : estimator
        Gets the fitted attributes of each pass; `score_held_out` reads them.

    Attributes
    ----------
    scores : list of float
        The score after each pass.
    """

    def __init__(self, estimator, scored):
        self.scored, self.scores = scored, []
        self._patience = estimator.n_iter_no_change

    def score_held_out(self):
        """The score of what was set aside."""
        raise NotImplementedError

    def __call__(self, attributes):
        """Score fitted attributes; return a `Status` once scores no longer rise."""
        for name, value in attributes.items():
            setattr(self.scored, name, value)
        self.scores.append(float(self.score_held_out()))
        before = self.scores[: -self._patience]
        if before and max(self.scores[-self._patience :]) <= max(before):
            return Status.EARLY
        return None


def source_of_splits(estimator):
    """Randomness that sets data aside."""
    rng = check_random_state(estimator.random_state)
    if isinstance(estimator.random_state, np.random.RandomState):
        return rng
    # the solver's own order must not depend on whether there is a validation
    return np.random.RandomState(rng.randint(2**31 - 1))


class Validation(EarlyStopping):
    """A part of the training sequences that is only scored.

    Sequences without positions or of weight zero are not set aside, and neither are
    those with a label that no other sequence has.

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

    Raises
    ------
    ValueError
        If the data are not valid, or no sequence can be set aside.
    """

    def __init__(self, estimator, X, y, sample_weight):
        # a bad share would be called by another name, and a bad sequence by another
        # number
        validate_params(estimator)
        packed = check_sequences(X)
        labels = check_labels(y, packed.lengths, unknown=True, sets=True)
        check_known([label is not None for label in labels], packed.lengths)
        weight = check_sequence_weight(sample_weight, len(packed))
        super().__init__(estimator, copy.copy(estimator))
        bounds = packed.offsets.tolist()
        rows = [labels[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]
        held_out = _chosen(estimator, packed.lengths, rows, weight)
        mask = np.zeros(len(packed), dtype=bool)
        mask[held_out] = True
        parts = [
            (
                _rows(packed, part),
                [rows[i] for i in np.flatnonzero(part)],
                None if weight is None else weight[part],
            )
            for part in (~mask, mask)
        ]
        self.rest, self._held_out = parts

    def score_held_out(self):
        return self.scored.score(*self._held_out)


def _chosen(estimator, lengths, rows, weight):
    """Indices of the sequences to set aside."""
    eligible = lengths > 0
    if weight is not None:
        eligible &= weight > 0
    eligible = np.flatnonzero(eligible)
    if len(eligible) < 2:
        raise ValueError(
            "early_stopping needs two sequences with positions and positive weight"
        )
    share = estimator.validation_fraction
    split = ShuffleSplit(1, test_size=share, random_state=source_of_splits(estimator))
    train, held_out = (eligible[part] for part in next(split.split(eligible)))
    # all labels are learned, whatever the split
    names = [_names(row) for row in rows]
    seen = set().union(*(names[i] for i in train))
    kept = [i for i in np.sort(held_out) if names[i] <= seen]
    if not kept:
        raise ValueError(
            "early_stopping: every sequence that was drawn has a label that no other "
            "sequence has; increase validation_fraction"
        )
    return kept


def _names(row):
    """The labels of a sequence, those of its sets included."""
    sets = (each if isinstance(each, frozenset) else (each,) for each in row)
    return set().union(*sets).difference([None])


def _rows(packed, part):
    """Some of the sequences, packed."""
    values = packed.values[np.repeat(part, packed.lengths)]
    return PackedSequences.from_lengths(
        values, packed.lengths[part], packed.feature_names
    )
