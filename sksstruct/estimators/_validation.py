"""Early stopping by the score of held-out sequences after every pass."""

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
    """Callback that scores each pass on held-out data, and may end training early.

    Parameters
    ----------
    estimator : estimator
        An estimator with the parameter `n_iter_no_change`.
    scored : estimator
        An estimator on which the fitted attributes of each pass are set.

    Attributes
    ----------
    scores : list of float
        The score after each pass.
    """

    def __init__(self, estimator, scored):
        self.scored, self.scores = scored, []
        self._patience = estimator.n_iter_no_change

    def score_held_out(self):
        """The score of the estimator `scored` on the held-out data."""
        raise NotImplementedError

    def __call__(self, attributes):
        """Score fitted attributes; return a `Status` once scores no longer rise."""
        for name, value in attributes.items():
            setattr(self.scored, name, value)
        self.scores.append(float(self.score_held_out()))
        earlier = self.scores[: -self._patience]
        if earlier and max(self.scores[-self._patience :]) <= max(earlier):
            return Status.EARLY
        return None


def source_of_splits(estimator):
    """The random generator that draws the held-out data."""
    rng = check_random_state(estimator.random_state)
    if isinstance(estimator.random_state, np.random.RandomState):
        return rng
    # the solver uses the same seed: draw another one, so that the order in which the
    # solver visits examples does not depend on early stopping
    return np.random.RandomState(rng.randint(2**31 - 1))


class Validation(EarlyStopping):
    """Early stopping of a tagger by a held-out part of the training sequences.

    Sequences without positions, of weight zero, or with a label that no training
    sequence has are not held out.

    Parameters
    ----------
    estimator : estimator
        A tagger with the parameters `validation_fraction`, `n_iter_no_change` and
        `random_state`.
    X, y, sample_weight : objects
        Arguments of `fit`.

    Attributes
    ----------
    rest : tuple
        X, y and sample_weight to train on.

    Raises
    ------
    ValueError
        If the data are not valid, or no sequence can be held out.
    """

    def __init__(self, estimator, X, y, sample_weight):
        # check before the split: ShuffleSplit would call validation_fraction test_size,
        # and later checks would number the sequences of the training part
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
    """Draw the sequences to hold out; return their indices, in ascending order."""
    eligible = lengths > 0
    if weight is not None:
        eligible &= weight > 0
    eligible = np.flatnonzero(eligible)
    if len(eligible) < 2:
        raise ValueError(
            "early_stopping needs at least 2 sequences with positions and positive "
            f"weight, X has {len(eligible)}: set early_stopping=False"
        )
    share = estimator.validation_fraction
    split = ShuffleSplit(1, test_size=share, random_state=source_of_splits(estimator))
    train, held_out = (eligible[part] for part in next(split.split(eligible)))
    # sequences with a label that no training sequence has move to the training part
    names = [_names(row) for row in rows]
    trained = set().union(*(names[i] for i in train))
    scored = [i for i in np.sort(held_out) if names[i] <= trained]
    if not scored:
        raise ValueError(
            "early_stopping: every sequence that was drawn has a label that no other "
            "sequence has; increase validation_fraction"
        )
    return scored


def _names(row):
    """The set of labels of a sequence, including all labels of its sets."""
    sets = (each if isinstance(each, frozenset) else (each,) for each in row)
    return set().union(*sets).difference([None])


def _rows(packed, part):
    """The packed sequences where the mask `part` is True."""
    values = packed.values[np.repeat(part, packed.lengths)]
    return PackedSequences.from_lengths(
        values, packed.lengths[part], packed.feature_names
    )
