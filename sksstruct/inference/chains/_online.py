"""Chains whose positions come one after the other: what is kept of them."""

import numpy as np

from sksstruct.inference.chains._online_steps import MarginalsKernel, ViterbiKernel
from sksstruct.utils._layout import pad_rows

# Positions that there is room for at first.
_ROOM = 64


class OnlineChain:
    """The positions of a chain that have come, and whose results have not gone.

    Parameters
    ----------
    start, end : ndarray of shape (n_labels,)
        Scores of labels at the first and at the last position; -inf forbids a label.
    transitions : ndarray of shape (n_labels, n_labels)
        Scores of pairs of labels, from -> to; -inf forbids a pair.
    lag : int
        How many further positions a position waits for at most; negative: for all.

    Attributes
    ----------
    room : int
        Number of positions that there is memory for: at most four times the lag and
        one, or 64.
    """

    def __init__(self, start, end, transitions, lag):
        self.n_labels, self.lag = len(start), lag
        self._ends = np.array([start, end], dtype=np.float64)
        self._ahead, self._turned = pad_rows(transitions), pad_rows(transitions.T)
        self.reset()

    def __getstate__(self):
        kernel, state = self._kernel, vars(self).copy()
        rows = slice(kernel.first, kernel.first + kernel.n_pending)
        state["_kernel"] = kernel.begun, kernel.given
        state["_rings"] = [ring[rows] for ring in self._rings]
        return state

    def __setstate__(self, state):
        known = state.pop("_kernel")
        vars(self).update(state)
        rows = self._rings
        self._set_rings(rows, max(_ROOM, 2 * len(rows[0])), known)

    @property
    def n_pending(self):
        """Number of positions whose results have not gone."""
        return self._kernel.n_pending

    def reset(self):
        """Forget the chain; the next position is the first of another one."""
        # messages of the last position
        self._row = np.zeros((4, self._ahead.shape[1]))
        self._set_rings(self._no_rows(), _ROOM, (False, -1))

    def _set_rings(self, rows, room, known):
        """Set arrays with room for more positions, which begin with the given rows.

        `known` is whether there were positions before, and the last label given out.
        """
        self._rings, self.room = [], room
        for part in rows:
            ring = np.zeros((room, *part.shape[1:]), part.dtype)
            ring[: len(part)] = part
            self._rings.append(ring)
        self._kernel = self._bound()
        self._kernel.n_pending = len(rows[0])
        self._kernel.begun, self._kernel.given = known

    def push(self, unary):
        """Add positions, and return the results that this leads to.

        Parameters
        ----------
        unary : ndarray of shape (n_positions, n_labels or more)
            Scores of the labels at the next positions; -inf forbids a label.

        Returns
        -------
        results : ndarray of shape (n, ...)
            Those of the first positions that are pending.
        n_positions : int
            Number of positions that were added: all, or those before the first one
            where no labeling is left.
        """
        kernel, size, done = self._kernel, len(unary), 0
        out, count = self._results(kernel.n_pending + size), 0
        while done < size and kernel.possible:
            pending, first = kernel.n_pending, kernel.first
            if first + pending == self.room:
                rows = [ring[first:] for ring in self._rings]
                # to the beginning; with twice the room if half of it is taken
                room = self.room * (1 + (2 * pending > self.room))
                self._set_rings(rows, room, (kernel.begun, kernel.given))
                kernel = self._kernel
            done, count = kernel.push(unary, done, count, out)
        return out[:count], done

    def flush(self):
        """End the chain, and return the results of the positions that are pending.

        Returns
        -------
        results : ndarray of shape (n_pending, ...) or None
            None if no labeling may end here.
        """
        out = self._results(self._kernel.n_pending)
        if not self._kernel.flush(out):
            return None
        self.reset()
        return out


class OnlineViterbi(OnlineChain):
    """Best labels of a chain whose positions come one after the other.

    Parameters and attributes are those of `OnlineChain`. Results are numbers of labels.
    With a negative lag they are those of `sksstruct.inference.viterbi`, where ties are
    broken alike.
    """

    def _no_rows(self):
        back = np.empty((0, self.n_labels), np.int32)
        return back, back, np.empty(0, np.int32)

    def _bound(self):
        return ViterbiKernel(
            self._ends, self._turned, self.lag, self._row, *self._rings
        )

    def _results(self, size):
        return np.empty(size, np.int32)


class OnlineMarginals(OnlineChain):
    """Marginals of a chain whose positions come one after the other.

    Parameters and attributes are those of `OnlineChain`. Results are rows of
    probabilities; with a negative lag there are none before the end of the chain.
    """

    def __init__(self, start, end, transitions, lag):
        finite = transitions[np.isfinite(transitions)]
        self._shift = float(finite.max()) if finite.size else 0.0
        powers = np.exp(transitions - self._shift)
        self._powers = pad_rows(powers.T), pad_rows(powers)
        super().__init__(start, end, transitions, lag)

    def _no_rows(self):
        return [np.empty((0, self._ahead.shape[1]))] * 2

    def _bound(self):
        return MarginalsKernel(
            self._ends,
            self._turned,
            self.lag,
            self._ahead,
            *self._powers,
            self._shift,
            self._row,
            *self._rings,
        )

    def _results(self, size):
        return np.empty((size, self.n_labels))
