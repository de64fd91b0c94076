"""Models of tables of whose labelings a part was observed, for the hinge losses."""

import numpy as np

from sksstruct.losses import SmoothedHinge
from sksstruct.utils.parallel import run_in_chunks


class TableCompletion:
    """Completes labelings by decoding, and binds a model to them, in turns.

    The first weights are those of the likelihood, which sums over all labelings that
    agree with what was observed.

    Parameters
    ----------
    model : BoundTable
        The model bound to what was observed.
    free : BoundTable
        The model for prediction, which finds labelings that agree with it.
    bind : callable
        ``bind(labels)`` returns the model bound to labelings, one after the other.
    bind_parts : callable
        Returns the model bound to what was observed, once more.
    """

    def __init__(self, model, free, bind, bind_parts):
        self._model, self._free = model, free
        self._bind, self._bind_parts = bind, bind_parts

    @property
    def first(self):
        """The model of the first round, which says how to complete."""
        model = self._bind_parts()
        model.surrogate, model.likelihood = SmoothedHinge("entropy", 1.0, 1), True
        return model

    def complete(self, weights, n_jobs=None, layout=None):
        """Labelings, one after the other, completed by decoding at the weights."""
        free = self._free
        labels = np.empty(free.starts[-1], dtype=np.int32)
        scores = np.empty(free.n_examples)

        def decode(start, stop):
            workspace = free.workspace(weights, training=False)
            free.predict(workspace, start, stop, labels, scores)

        run_in_chunks(decode, free.n_examples, n_jobs)
        return labels

    def with_labels(self, labels):
        """The model bound to completed labelings."""
        model = self._bind(labels)
        model.surrogate = self._model.surrogate
        return model
