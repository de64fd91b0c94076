"""Passes of block-coordinate Frank-Wolfe: which examples are visited, in which order."""

import numpy as np

# Table entries decoded between two checks for signals, some tenths of a second: an
# interrupt waits that long.
_WORK_OF_A_CALL = 2e8
# Largest number of passes over known labelings between two passes with the oracle.
_MOST_KNOWN = 100
# Such a pass leaves out blocks that promise less than this share of the mean.
_LEAST_PROMISE = 0.1


class Passes:
    """Passes over the examples of a kernel.

    Parameters
    ----------
    solver : BCFW
        Its `sampling` and `cached_passes` are read.
    kernel : BCFWKernel
        The compiled visits.
    rng : RandomState
        Order of the visits.

    Attributes
    ----------
    needs_gaps : bool
        Whether the estimates of the gaps are used up, so that no more visits are
        possible without new ones.
    """

    def __init__(self, solver, kernel, rng):
        self.solver, self.kernel, self.rng = solver, kernel, rng
        self.model = kernel.model
        self.visits_of_a_call = int(
            np.clip(_WORK_OF_A_CALL / self.model.visit_work, 1, 2000)
        )
        self.needs_gaps = False

    def one_pass(self, first):
        """Make as many visits as there are examples, then passes over known labelings.

        Parameters
        ----------
        first : bool
            Whether this is the first pass, for which there are no estimates of gaps.
        """
        solver, n, rng = self.solver, self.model.n_examples, self.rng
        self.kernel.gain = 0.0
        if solver.sampling == "gap" and not first:
            self._by_gap()
        elif solver.sampling == "uniform":
            self._in_order(rng.randint(n, size=n).astype(np.intp))
        else:
            self._in_order(rng.permutation(n).astype(np.intp))
        if solver.cached_passes == "auto":
            self._known_while_they_pay()
        else:
            for _ in range(solver.cached_passes):
                self._known()

    def _in_order(self, order):
        """Visit examples, and check for signals now and then."""
        for k in range(0, len(order), self.visits_of_a_call):
            self.kernel.visit_in_order(order[k : k + self.visits_of_a_call])

    def _by_gap(self):
        """Visit examples in proportion to the estimates of their gaps."""
        n = self.model.n_examples
        uniforms = self.rng.uniform(size=n)
        visits = sum(
            self.kernel.visit_by_gap(uniforms[k : k + self.visits_of_a_call])
            for k in range(0, n, self.visits_of_a_call)
        )
        self.needs_gaps = visits < n

    def _known(self):
        """Make a pass over known labelings; return the number of visits."""
        order = self.rng.permutation(self.model.n_examples).astype(np.intp)
        # Blocks that promised little at their last visit are left out.
        promises = self.kernel.promises_[np.isfinite(self.kernel.promises_)]
        least = _LEAST_PROMISE * promises.mean() if len(promises) else 0.0
        return sum(
            self.kernel.visit_known(order[k : k + self.visits_of_a_call], least)
            for k in range(0, len(order), self.visits_of_a_call)
        )

    def _known_while_they_pay(self):
        """Make passes over known labelings while they gain more than the work before.

        The rule of Shah, Kolmogorov and Lampert (CVPR 2015), with work counted instead
        of timed so that runs can be repeated.
        """
        kernel = self.kernel
        gain, work = kernel.gain, self.model.oracle_cost * self.model.n_examples
        for _ in range(_MOST_KNOWN):
            kernel.gain = 0.0
            visits = self._known()
            gain, work = gain + kernel.gain, work + visits
            if not kernel.gain > gain * visits / work:
                break
        kernel.gain = gain
