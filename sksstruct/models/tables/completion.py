"""Models of tables of whose labelings a part was observed."""

from dataclasses import dataclass

import numpy as np

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols.decoding import best_labelings


@dataclass
class Partial:
    """A labeling of which only a part was observed.

    Parameters
    ----------
    number : int
        Number of the example in errors.
    allowed : ndarray of shape (size, row_length), uint8
        Entries that the rows of the labeling's parts may have, as of
        `Structure.set_known`.
    """

    number: int
    allowed: np.ndarray


def known_of(y):
    """What is known of labelings, as of `Structure.set_known`; None if all of it is."""
    if not any(isinstance(each, Partial) for each in y):
        return None
    return [each.allowed if isinstance(each, Partial) else None for each in y]


def agreeing(free, y, reason):
    """A labeling that agrees with each output.

    Parameters
    ----------
    free : BoundTable
        The model for prediction, which finds labelings that agree.
    y : list of ndarray or Partial
        Observed labelings.
    reason : str
        What the error says where no labeling agrees.
    """
    workspace, out = free.workspace(np.zeros(free.n_weights), training=False), []
    for i, each in enumerate(y):
        if not isinstance(each, Partial):
            out.append(each)
            continue
        try:
            out.append(free.labeling(workspace, i)[0])
        except ValueError:
            raise ValueError(f"y[{each.number}]: {reason}") from None
    return out


class TableCompletion:
    """Completes labelings by decoding, and binds a model to them, in turns.

    Where the model has sums, the first weights are those of the likelihood, which sums
    over all labelings that agree with what was observed.

    Parameters
    ----------
    model : BoundModel
        The model bound to what was observed.
    free : BoundTable
        The model for prediction, which finds labelings that agree with it.
    bind : callable
        ``bind(labels)`` returns the model bound to labelings, one after the other.
    bind_first : callable
        Returns the model of the first round: bound to what was observed, once more, if
        it has sums, and else bound to what is known for certain.
    """

    def __init__(self, model, free, bind, bind_first):
        self._model, self._free = model, free
        self._bind, self._bind_first = bind, bind_first

    @property
    def first(self):
        """The model of the first round, which says how to complete."""
        model = self._bind_first()
        model.surrogate = self._model.surrogate
        if "exp" in model.oracles:
            model.surrogate, model.likelihood = SmoothedHinge("entropy", 1.0, 1), True
        return model

    def complete(self, weights, n_jobs=None, layout=None):
        """Labelings, one after the other, completed by decoding at the weights."""
        labels, _ = best_labelings(self._free, weights, self._free.starts, n_jobs)
        # those that were observed as a whole are not decoded
        whole = np.repeat(~self._model.unknown, self._model.sizes)
        labels[whole] = self._model.labels[whole]
        return labels

    def with_labels(self, labels):
        """The model bound to completed labelings."""
        model = self._bind(labels)
        model.surrogate = self._model.surrogate
        return model
