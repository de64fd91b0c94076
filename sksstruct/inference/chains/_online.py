"""Chains decoded position by position: buffers of pending positions.

`OnlineChain` owns the buffers and grows them; the kernels of `_online_steps` have the
recursions.
"""

import numpy as np

from sksstruct.inference.chains._online_steps import MarginalsKernel, ViterbiKernel
from sksstruct.utils._layout import pad_rows

# Initial capacity of the buffers, in positions.
_ROOM = 64


class OnlineChain:
    """Chain decoded position by position, with buffers of its pending positions.

    A position is pending until `push` or `flush` returns its result.

    Parameters
    ----------
    start, end : ndarray of shape (n_labels,)
        Scores of labels at the first and at the last position; -inf forbids a label.
    transitions : ndarray of shape (n_labels, n_labels)
        Scores of pairs of labels, from -> to; -inf forbids a pair.
    lag : int
        Largest number of positions that are added after a position before its result
        is returned; negative: no limit.

    Attributes
    ----------
    room : int
        Number of positions for which the buffers have room. With lag >= 0 it is at
        most 64 or 4 * lag, whichever is larger.
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
        """Number of positions whose results have not been returned."""
        return self._kernel.n_pending

    def reset(self):
        """Discard all positions; the next position is the first of another chain."""
        # four rows by label of the last position; see the parameter `row` of the
        # kernels
        self._row = np.zeros((4, self._ahead.shape[1]))
        self._set_rings(self._empty_rows(), _ROOM, (False, -1))

    def _set_rings(self, rows, room, known):
        """Allocate buffers for `room` positions, and copy `rows` to their beginnings.

        `known` holds the attributes `begun` and `given` of the kernel.
        """
        self._rings, self.room = [], room
        for part in rows:
            ring = np.zeros((room, *part.shape[1:]), part.dtype)
            ring[: len(part)] = part
            self._rings.append(ring)
        self._kernel = self._bound_kernel()
        self._kernel.n_pending = len(rows[0])
        self._kernel.begun, self._kernel.given = known

    def push(self, unary):
        """Add positions, and return the labels or marginals that become final.

        Parameters
        ----------
        unary : ndarray of shape (n_positions, n_labels or more)
            Scores of the labels at the next positions; -inf forbids a label.

        Returns
        -------
        results : ndarray of shape (n, ...)
            Results of the first n pending positions.
        n_positions : int
            Number of positions that were added: all, or the number before the first
            position at which no labeling is allowed.
        """
        kernel, size, done = self._kernel, len(unary), 0
        out, count = self._allocate_results(kernel.n_pending + size), 0
        while done < size and kernel.possible:
            pending, first = kernel.n_pending, kernel.first
            if first + pending == self.room:
                rows = [ring[first:] for ring in self._rings]
                # The buffers are full. The rows of pending positions move to the front;
                # the buffers double if more than half of their rows are pending.
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
            None if no allowed labeling ends at the last position that was added.
        """
        out = self._allocate_results(self._kernel.n_pending)
        if not self._kernel.flush(out):
            return None
        self.reset()
        return out


class OnlineViterbi(OnlineChain):
    """Chain whose best labels are found while its positions are added.

    Parameters and attributes are those of `OnlineChain`. Results are label numbers.
    With a negative lag, results are those of `sksstruct.inference.viterbi`, including
    ties.
    """

    def _empty_rows(self):
        back = np.empty((0, self.n_labels), np.int32)
        return back, back, np.empty(0, np.int32)

    def _bound_kernel(self):
        return ViterbiKernel(
            self._ends, self._turned, self.lag, self._row, *self._rings
        )

    def _allocate_results(self, size):
        return np.empty(size, np.int32)


class OnlineMarginals(OnlineChain):
    """Chain whose marginals are computed while its positions are added.

    Parameters and attributes are those of `OnlineChain`. Results are rows of
    probabilities; with a negative lag, `push` returns none, and `flush` returns all.
    """

    def __init__(self, start, end, transitions, lag):
        finite = transitions[np.isfinite(transitions)]
        self._shift = float(finite.max()) if finite.size else 0.0
        powers = np.exp(transitions - self._shift)
        self._powers = pad_rows(powers.T), pad_rows(powers)
        super().__init__(start, end, transitions, lag)

    def _empty_rows(self):
        return [np.empty((0, self._ahead.shape[1]))] * 2

    def _bound_kernel(self):
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

    def _allocate_results(self, size):
        return np.empty((size, self.n_labels))
