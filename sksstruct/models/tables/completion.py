"""Models of tables with labelings that were observed in part."""

from dataclasses import dataclass

import numpy as np

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols.decoding import best_labelings


@dataclass
class Partial:
    """A labeling that was observed in part.

    Parameters
    ----------
    number : int
        Number of the example in error messages.
    allowed : ndarray of shape (size, row_length), uint8
        Whether each entry of the rows of the labeling's parts is allowed, in the
        form of `Structure.set_known`.
    """

    number: int
    allowed: np.ndarray


def known_of(y):
    """Return labelings as constraints for `Structure.set_known`; None if none of them
    is `Partial`.
    """
    if not any(isinstance(each, Partial) for each in y):
        return None
    return [each.allowed if isinstance(each, Partial) else None for each in y]


def agreeing(free, y, reason):
    """Return for each observed labeling a complete labeling that agrees with it.

    Parameters
    ----------
    free : BoundTable
        The model for prediction, with the outputs as constraints.
    y : list of ndarray or Partial
        Observed labelings.
    reason : str
        Reason in the error message if no labeling agrees.
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
    """Completes labelings by decoding, and binds a model to them, in alternation.

    If the model has sums, the first weights maximize the likelihood, which sums over
    all labelings that agree with the observed parts.

    Parameters
    ----------
    model : BoundModel
        The model bound to the observed parts.
    free : BoundTable
        The model for prediction, with the observed parts as constraints.
    bind : callable
        ``bind(labels)`` returns the model bound to labelings, one after the other.
    bind_first : callable
        Returns the model of the first round: bound to the observed parts if it has
        sums, otherwise to the labels that are known for certain.
    """

    def __init__(self, model, free, bind, bind_first):
        self._model, self._free = model, free
        self._bind, self._bind_first = bind, bind_first

    @property
    def first(self):
        """The model of the first round, at whose weights labelings are completed."""
        model = self._bind_first()
        model.surrogate = self._model.surrogate
        if "exp" in model.oracles:
            model.surrogate, model.likelihood = SmoothedHinge("entropy", 1.0, 1), True
        return model

    def complete(self, weights, n_jobs=None, layout=None):
        """Return consecutive labelings, completed by decoding at the weights."""
        labels, _ = best_labelings(self._free, weights, self._free.starts, n_jobs)
        # labelings that were observed as a whole are kept
        whole = np.repeat(~self._model.unknown, self._model.sizes)
        labels[whole] = self._model.labels[whole]
        return labels

    def with_labels(self, labels):
        """Return the model bound to completed labelings."""
        model = self._bind(labels)
        model.surrogate = self._model.surrogate
        return model
