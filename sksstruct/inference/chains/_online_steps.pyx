"""Chains decoded position by position: labels and marginals with a lag.

The survivors of Viterbi's recursion, the best prefixes that end in each label,

    delta_t(b) = unary_t(b) + max_a delta_{t-1}(a) + transitions[a, b],

form a tree. Labels that lie on no survivor are pruned: each label counts its successors
in the tree, and is removed when the count becomes zero. A position with a single
remaining label is decided: later positions cannot change its label (Sramek, Brejova and
Vinar, 2007). A position that lies `lag` positions back is decided by the best survivor.
Survivors whose next label is forbidden after the decided label are then dropped, so
that all returned labels form an allowed labeling. The best survivor is never dropped.

The marginals of a position, given the positions up to `lag` later, are proportional to
exp(alpha_t(b) + beta_t(b)), where

    alpha_t(b) = unary_t(b) + log sum_a exp(alpha_{t-1}(a) + transitions[a, b])
    beta_t(a)  = log sum_b exp(transitions[a, b] + unary_{t+1}(b) + beta_{t+1}(b)),

Here beta is zero at the last known position, or the scores of last labels at the end of
the chain. Exponentials of transitions are computed once. `_sum` multiplies them by the
exponentials of a message; if the sum is so small that underflow could lose a relevant
term, the sum is computed in log space instead.

R. Sramek, B. Brejova and T. Vinar, "On-line Viterbi algorithm for analysis of long
biological sequences", WABI 2007.
"""

from libc.math cimport INFINITY, exp, fabs, log
from libc.stdint cimport int32_t

from sksstruct.inference.trees._messages cimport best_state, best_state_given
from sksstruct.utils._simd cimport sks_dot, sks_exp_row, sks_logsum

# Scores of prefixes grow with the length of prefixes. When the absolute value of the
# highest score exceeds this bound, the highest score is subtracted from all scores.
cdef double LARGEST = 2.0 ** 30
# Sums of exponentials above this number have no relevant error from underflow.
cdef double TINY = 1e-200


cdef class OnlineKernel:
    """Recursion on the pending positions of a chain; see `_online.py`.

    Subclasses define `_step`, `_give` and `flush`. Buffers have one row per position;
    the rows of pending positions begin at `first`.

    Attributes
    ----------
    first, n_pending : int
        First row and number of the pending positions.
    begun : bool
        Whether a position has been added.
    given : int
        The last label that was written to the results; -1 if there is none.
    possible : bool
        Whether an allowed labeling remains.
    """

    cdef public Py_ssize_t first, n_pending, given
    cdef public bint begun
    cdef readonly bint possible
    cdef Py_ssize_t _n_labels, _lag
    # (2, n_labels) scores of first labels and of last labels
    cdef const double[:, ::1] _ends

    cdef void _set(self, const double[:, ::1] ends, Py_ssize_t lag):
        self._ends, self._lag, self._n_labels = ends, lag, ends.shape[1]
        self.first, self.n_pending, self.given = 0, 0, -1
        self.begun, self.possible = False, True

    cdef tuple _push(self, const double[:, ::1] unary, Py_ssize_t begin,
                     Py_ssize_t room, Py_ssize_t count):
        """Add positions while the buffer has room and an allowed labeling remains.

        Returns the numbers of the next position and of the next result.
        """
        cdef Py_ssize_t t = begin
        cdef Py_ssize_t stop = min(
            unary.shape[0], begin + room - self.first - self.n_pending)
        with nogil:
            while t < stop and self.possible:
                self.possible = self._step(unary, t)
                self.begun = True
                if self.possible:
                    self.n_pending += 1
                    count += self._give(count)
                    t += 1
        return t, count

    # Add a position, and return whether an allowed labeling remains.
    cdef bint _step(self, const double[:, ::1] unary, Py_ssize_t t) noexcept nogil:
        return False

    # Write the results that are final to index `count` on; return their number.
    cdef Py_ssize_t _give(self, Py_ssize_t count) noexcept nogil:
        return 0


cdef class ViterbiKernel(OnlineKernel):
    """Viterbi's recursion, with the survivors at all pending positions.

    Parameters
    ----------
    ends : ndarray of shape (2, n_labels)
        Scores of first and of last labels.
    turned : ndarray of shape (n_labels, ld)
        Scores of transitions, to -> from.
    lag : int
        See `OnlineChain` in `_online.py`.
    row : ndarray of shape (4, n_labels)
        Rows, by label: unary scores at the last position; best scores of prefixes that
        precede each label, with the transition; the sums of both; and the sums at the
        position before.
    back, after : ndarray of shape (room, n_labels), int32
        Backpointer of each label; and number of successors of each label, which is 1
        for survivors at the last position.
    left : ndarray of shape (room,), int32
        Number of labels on survivors at each position.
    """

    cdef const double[:, ::1] _turned
    cdef double[:, ::1] _row
    cdef int32_t[:, ::1] _back, _after
    cdef int32_t[::1] _left, _out

    def __init__(self, ends, turned, lag, row, back, after, left):
        self._set(ends, lag)
        self._turned, self._row = turned, row
        self._back, self._after, self._left = back, after, left

    def push(self, unary, Py_ssize_t begin, Py_ssize_t count, int32_t[::1] out):
        """Add positions from `begin` on, and write labels from index `count` on."""
        self._out = out
        return self._push(unary, begin, self._left.shape[0], count)

    cdef bint _step(self, const double[:, ::1] unary, Py_ssize_t t) noexcept nogil:
        cdef Py_ssize_t here = self.first + self.n_pending, n = self._n_labels
        cdef Py_ssize_t label, before = 0
        cdef double highest = -INFINITY
        cdef bint linked = self.n_pending > 0
        for label in range(n):
            self._row[3, label] = self._row[2, label]
        self._left[here] = 0
        for label in range(n):
            self._row[0, label] = unary[t, label]
            if self.begun:
                before = best_state_given(
                    n, &self._row[3, 0], &self._turned[label, 0], 1)
                self._row[1, label] = self._row[3, before] + self._turned[label, before]
                if not linked and self.given >= 0 and (
                        self._turned[label, self.given] == -INFINITY):
                    self._row[1, label] = -INFINITY
            else:
                self._row[0, label] += self._ends[0, label]
                self._row[1, label] = 0.0
            self._row[2, label] = self._row[0, label] + self._row[1, label]
            self._back[here, label] = <int32_t> before
            self._after[here, label] = self._row[2, label] > -INFINITY
            if self._after[here, label]:
                self._left[here] += 1
                highest = max(highest, self._row[2, label])
                if linked:
                    self._after[here - 1, before] += 1
        for label in range(n if linked else 0):
            # While a position is the last one, `_after` is 1 for its survivors, which
            # have no successors yet. Now successors are counted: subtract this 1.
            if self._after[here - 1, label]:
                self._after[here - 1, label] -= 1
                if not self._after[here - 1, label]:
                    self._prune(here - 1, label)
        if fabs(highest) > LARGEST and self._left[here]:
            for label in range(n):
                self._row[2, label] -= highest
        return self._left[here] > 0

    cdef void _prune(self, Py_ssize_t place, Py_ssize_t label) noexcept nogil:
        """Remove a label without successors, then predecessors without successors."""
        while True:
            self._left[place] -= 1
            if place == self.first:
                return
            label = self._back[place, label]
            place -= 1
            self._after[place, label] -= 1
            if self._after[place, label]:
                return

    cdef Py_ssize_t _give(self, Py_ssize_t count) noexcept nogil:
        cdef Py_ssize_t given = 0, label
        while self.n_pending:
            if self._left[self.first] == 1:
                label = 0
                while not self._after[self.first, label]:
                    label += 1
            elif 0 <= self._lag < self.n_pending:
                label = self._decide()
            else:
                break
            self._out[count + given] = <int32_t> label
            self.given = label
            self.first += 1
            self.n_pending -= 1
            given += 1
        return given

    cdef Py_ssize_t _decide(self) noexcept nogil:
        """Return the best survivor's first pending label; drop conflicting survivors.

        If only one position is pending, the next `_step` drops survivors that conflict.
        """
        cdef Py_ssize_t last = self.first + self.n_pending - 1, n = self._n_labels
        cdef Py_ssize_t best = best_state(n, &self._row[2, 0]), label, place
        cdef bint dropped = False
        for place in range(last, self.first, -1):
            best = self._back[place, best]
        for label in range(n if self.n_pending > 1 else 0):
            if self._after[self.first + 1, label] and (
                    self._turned[label, best] == -INFINITY):
                self._drop(self.first + 1, label)
                dropped = True
        for place in range(self.first + 2, last + 1 if dropped else 0):
            for label in range(n):
                if self._after[place, label] and not self._after[
                        place - 1, self._back[place, label]]:
                    self._drop(place, label)
        for label in range(n if dropped else 0):
            if not self._after[last, label]:
                self._row[1, label] = self._row[2, label] = -INFINITY
        return best

    cdef void _drop(self, Py_ssize_t place, Py_ssize_t label) noexcept nogil:
        """Remove a label from the survivors; the caller removes its successors."""
        self._after[place, label] = 0
        self._left[place] -= 1

    def flush(self, int32_t[::1] out):
        """Write the pending labels; return whether a survivor may end the chain."""
        cdef Py_ssize_t label, place, best
        if not self.n_pending:
            return True
        # sums in the order of `viterbi`, so that rounding is the same
        for label in range(self._n_labels):
            self._row[2, label] = (
                self._row[0, label] + self._ends[1, label]) + self._row[1, label]
        best = best_state(self._n_labels, &self._row[2, 0])
        if self._row[2, best] == -INFINITY:
            return False
        for place in range(self.n_pending - 1, -1, -1):
            out[place] = <int32_t> best
            best = self._back[self.first + place, best]
        return True


cdef class MarginalsKernel(OnlineKernel):
    """The recursions of sum-product, with messages in log space.

    Parameters
    ----------
    ends, turned, lag : objects
        See `ViterbiKernel`.
    ahead : ndarray of shape (n_labels, ld)
        Transition scores, from -> to.
    turned_powers, ahead_powers : ndarray of shape (n_labels, ld)
        Exponentials of `turned` and `ahead`, both minus `shift`; zeros in the padding.
    shift : float
        Largest finite transition score.
    row : ndarray of shape (4, ld)
        log alpha of the last position, then beta and two scratch messages.
    unary, alpha : ndarray of shape (room, ld)
        Scores of the labels, and log alpha, where alpha sums to one.
    """

    cdef const double[:, ::1] _turned, _ahead, _turned_powers, _ahead_powers
    cdef double _shift
    cdef double[:, ::1] _row, _unary, _alpha, _out

    def __init__(self, ends, turned, lag, ahead, turned_powers, ahead_powers, shift,
                 row, unary, alpha):
        self._set(ends, lag)
        self._turned, self._ahead, self._row = turned, ahead, row
        self._turned_powers, self._ahead_powers = turned_powers, ahead_powers
        self._unary, self._alpha, self._shift = unary, alpha, shift

    def push(self, unary, Py_ssize_t begin, Py_ssize_t count, double[:, ::1] out):
        """Add positions from `begin` on, and write marginals from index `count` on."""
        self._out = out
        return self._push(unary, begin, self._unary.shape[0], count)

    cdef bint _step(self, const double[:, ::1] unary, Py_ssize_t t) noexcept nogil:
        cdef Py_ssize_t here = self.first + self.n_pending, n = self._n_labels, label
        cdef double* alpha = &self._alpha[here, 0]
        cdef double total
        for label in range(n):
            self._unary[here, label] = unary[t, label]
            if not self.begun:
                self._unary[here, label] += self._ends[0, label]
            alpha[label] = self._unary[here, label]
        if self.begun:
            self._sum(&self._row[0, 0], self._turned, self._turned_powers, alpha)
        total = log_sum(n, alpha)
        for label in range(n):
            alpha[label] -= total
            self._row[0, label] = alpha[label]
        return total > -INFINITY

    cdef void _step_back(self, Py_ssize_t place) noexcept nogil:
        """Replace the message beta of a position by beta of the position before."""
        cdef Py_ssize_t label
        for label in range(self._n_labels):
            self._row[2, label] = self._row[1, label] + self._unary[place, label]
            self._row[1, label] = 0.0
        self._sum(&self._row[2, 0], self._ahead, self._ahead_powers, &self._row[1, 0])

    cdef void _sum(self, double* message, const double[:, ::1] table,
                   const double[:, ::1] powers, double* out) noexcept nogil:
        """Add log sum_a exp(message[a] + table[b, a]) to out[b].

        Sets the padding of message to -inf.
        """
        cdef Py_ssize_t n = self._n_labels, ld = table.shape[1], label
        cdef double top, low, total
        for label in range(n, ld):
            message[label] = -INFINITY
        top = sks_exp_row(n, ld, message, &self._row[3, 0], &low)
        for label in range(n):
            total = sks_dot(ld, &powers[label, 0], &self._row[3, 0])
            if total > TINY:
                out[label] += log(total) + top + self._shift
            else:
                out[label] += sks_logsum(ld, &table[label, 0], message)

    cdef bint _write(self, Py_ssize_t place, double* out) noexcept nogil:
        """Write a position's marginals; return False if no label is allowed.

        Beta of the position is in `_row[1]`.
        """
        cdef Py_ssize_t label
        cdef double total
        for label in range(self._n_labels):
            out[label] = self._alpha[place, label] + self._row[1, label]
        total = log_sum(self._n_labels, out)
        for label in range(self._n_labels):
            out[label] = exp(out[label] - total)
        return total > -INFINITY

    cdef Py_ssize_t _give(self, Py_ssize_t count) noexcept nogil:
        cdef Py_ssize_t place, label
        if not 0 <= self._lag < self.n_pending:
            return 0
        for label in range(self._n_labels):
            self._row[1, label] = 0.0
        for place in range(self.first + self.n_pending - 1, self.first, -1):
            self._step_back(place)
        self._write(self.first, &self._out[count, 0])
        self.first += 1
        self.n_pending -= 1
        return 1

    def flush(self, double[:, ::1] out):
        """Write the pending marginals; return False if every labeling is forbidden."""
        cdef Py_ssize_t k, label
        for label in range(self._n_labels):
            self._row[1, label] = self._ends[1, label]
        for k in range(self.n_pending - 1, -1, -1):
            if not self._write(self.first + k, &out[k, 0]):
                return False
            self._step_back(self.first + k)
        return True


cdef double log_sum(Py_ssize_t n, const double* row) noexcept nogil:
    """Return the logarithm of the sum of the exponentials of a row."""
    cdef Py_ssize_t k
    cdef double top = row[best_state(n, row)], total = 0.0
    if top == -INFINITY:
        return top
    for k in range(n):
        total += exp(row[k] - top)
    return top + log(total)
