"""Passes of block-coordinate Frank-Wolfe, which choose the examples to visit."""

import numpy as np

from sksstruct.utils._clock import check_clock

# Number of entries of score tables that oracles read between two checks for signals and
# time limits: the work of some hundredths of a second, the delay of an interrupt.
_WORK_OF_A_CALL = 2e7
# Largest number of passes over known labelings between two passes with the oracle.
_MOST_KNOWN = 100
# Passes over known labelings skip blocks whose promised gain is less than this fraction
# of the mean over blocks.
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
        Whether the sum of the gap estimates has become too small, so that exact gaps
        have to be computed before more visits by gap.
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
        solver, n = self.solver, self.model.n_examples
        self.kernel.gain = 0.0
        if solver.sampling == "gap" and not first:
            self.by_gap(n)
        elif solver.sampling == "uniform":
            self.in_order(self.rng.randint(n, size=n))
        else:
            self.in_order(self.rng.permutation(n))
        # the remaining passes are among known labelings
        known_passes(solver, self.kernel.gain, self.model, self._known_pass)

    def _known_pass(self):
        """Make a pass over known labelings; return its gain and number of visits."""
        self.kernel.gain = 0.0
        visits = self.known(self.rng.permutation(self.model.n_examples))
        return self.kernel.gain, visits

    def in_order(self, order):
        """Visit examples in the given order, and check for signals regularly."""
        order = order.astype(np.intp)
        for part in self._calls(len(order)):
            self.kernel.visit_in_order(order[part])

    def by_gap(self, n):
        """Make n visits of examples, drawn in proportion to estimates of their gaps.

        The visits end early, and `needs_gaps` is set, if the estimates are too small.
        """
        uniforms = self.rng.uniform(size=n)
        visits = sum(
            self.kernel.visit_by_gap(uniforms[part]) for part in self._calls(n)
        )
        self.needs_gaps = visits < n

    def known(self, order):
        """Visit examples in the given order, without the oracle.

        Examples with a small promise are skipped. Returns the number of visits.
        """
        promises = self.kernel.promises_[np.isfinite(self.kernel.promises_)]
        order = order.astype(np.intp)
        least = _LEAST_PROMISE * promises.mean() if len(promises) else 0.0
        return sum(
            self.kernel.visit_known(order[part], least)
            for part in self._calls(len(order))
        )

    def _calls(self, visits):
        """Yield the slice of visits of each call, after checking the time limit."""
        for k in range(0, visits, self.visits_of_a_call):
            check_clock()
            yield slice(k, k + self.visits_of_a_call)


def known_passes(solver, gain, model, one_pass):
    """Make the passes over known labelings that follow a pass with the oracle.

    With ``cached_passes="auto"``, passes continue while a pass gains more per unit of
    work than all passes since the oracle pass began: the rule of Shah, Kolmogorov and
    Lampert (CVPR 2015), with counted instead of timed work, so that runs are
    reproducible.

    Parameters
    ----------
    solver : BCFW
        Its `cache` and `cached_passes` are read.
    gain : float
        Increase of the dual in the pass with the oracle.
    model : BoundModel or Outline
        Its `n_examples` and `oracle_cost` are read.
    one_pass : callable
        Makes a pass; returns its gain and number of visits.
    """
    if not solver.cache:
        return
    if solver.cached_passes != "auto":
        for _ in range(solver.cached_passes):
            one_pass()
        return
    work = model.oracle_cost * model.n_examples
    for _ in range(_MOST_KNOWN):
        more_gain, visits = one_pass()
        gain, work = gain + more_gain, work + visits
        if not more_gain > gain * visits / work:
            break
