"""A block: a range of the examples with its duals, and what the driver asks of it.

With the notation of `Rounds`: a block b sees the weights v once in a round, and makes
visits of its own examples with alpha / sigma' in the place of alpha. A visit then moves
its copy of v by sigma' times what its duals change, so that

    v_local = v + sigma' dv_b

and the potentials of the next visit are those of the local problem of CoCoA+. What a
call does is a function of the state of the block, the arguments, and nothing else.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.partitioned.changes import compress


@dataclass
class Outline:
    """What the driver knows of a problem whose examples are in blocks.

    Parameters
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    visit_work : float
        Table entries that a call of the oracle reads, on average.
    box : tuple of ndarray, default=None
        Bounds of the weights.
    threshold : float, default=0.0
        What weights are moved towards zero by: l1 / alpha.
    support : ndarray of int, default=None
        Weights that exist, where they are not all.
    signature : tuple, default=()
        What checkpoints of the same problem have in common.
    """

    n_examples: int
    n_weights: int
    visit_work: float
    box: Any = None
    threshold: float = 0.0
    support: Any = None
    signature: tuple = ()

    def weights(self):
        """Weights at zero, truncated as the problem asks for."""
        return Weights(
            self.n_weights,
            box=self.box,
            threshold=self.threshold,
            support=None if self.box is not None else self.support,
        )


class Lender:
    """Weights for the blocks of a process: one set for each block that is at work.

    Parameters
    ----------
    outline : Outline
        The problem.
    """

    def __init__(self, outline):
        self.outline = outline
        self._free = []

    @contextmanager
    def lend(self):
        """Weights that nobody else has until the end of the context."""
        # a list is enough: both calls are atomic
        try:
            weights = self._free.pop()
        except IndexError:
            weights = self.outline.weights()
        try:
            yield weights
        finally:
            self._free.append(weights)


@dataclass
class Step:
    """What the visits of a round did in one block.

    Parameters
    ----------
    loss : float
        The block's part of the linear term of the dual, with its entropies.
    gain : float
        By how much the local problem rose.
    squares : float
        |dv_b|^2.
    calls : int
        Calls of the oracle.
    complete : bool
        Whether all visits were made: estimates of gaps may be used up before.
    """

    loss: float
    gain: float
    squares: float
    calls: int
    complete: bool


@dataclass
class Check:
    """What a sweep of the oracle over one block found.

    Parameters
    ----------
    risk : float
        sum_i p_i times the loss of example i.
    gap : float
        Sum of the gaps of its examples; nan where they were not asked for.
    """

    risk: float
    gap: float = field(default=np.nan)


class Block:
    """Base of the blocks.

    Parameters
    ----------
    solver : solver object
        The solver of local problems.
    model : BoundModel
        The model bound to the examples of the block, the p_i being those of all data.
    number : int
        Number of the block.
    alpha : float
        Regularisation.
    lender : Lender
        Weights for visits.
    """

    def __init__(self, solver, model, number, alpha, lender):
        self.solver, self.model, self.number = solver, model, number
        self.alpha, self.lender = alpha, lender

    def rng(self, seed):
        """The random numbers of a round.

        Parameters
        ----------
        seed : tuple of int
            Seed of the run, and number of the round.
        """
        sequence = np.random.SeedSequence([*seed, self.number])
        return np.random.RandomState(np.random.MT19937(sequence))

    def advance(self, v, sigma, seed, passes):
        """Make visits from the weights v.

        Parameters
        ----------
        v : ndarray of shape (n_weights,)
            Weights before truncation.
        sigma : float
            sigma'.
        seed : tuple of int
            Seed of the run, and number of the round, from 1.
        passes : int
            Visits in multiples of the number of examples.

        Returns
        -------
        step : Step
            What was done.
        change : ndarray or SparseChange
            dv_b.
        """
        with self.lender.lend() as weights:
            weights.set(v)
            step = self._visit(weights, self.alpha / sigma, self.rng(seed), seed, passes)
            # a vector of its own: what was lent is used again
            change = weights.v - v
        change /= sigma
        step.squares = float(np.einsum("i,i->", change, change))
        return step, compress(change)

    def check(self, w):
        """Losses and gaps at the truncated weights w.

        Returns
        -------
        check : Check
            Their sums.
        """
        raise NotImplementedError

    def value(self, w):
        """Losses at the truncated weights w; the state stays as it is.

        Returns
        -------
        risk : float
            Their sum.
        """
        raise NotImplementedError

    def state(self):
        """All that later calls depend on: a dict of arrays, numbers and strings."""
        raise NotImplementedError

    def restore(self, state):
        """Go on from a state, with the same bits."""
        raise NotImplementedError
