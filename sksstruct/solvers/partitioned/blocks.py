"""A block: a range of the examples with its duals, and the methods the driver calls.

With the notation of `Rounds`, a block b receives the weights v once per round, and
makes visits of its own examples with alpha / sigma' in place of alpha. A visit changes
the block's copy of v by sigma' times the change that its duals imply, so that

    v_local = v + sigma' dv_b

and the potentials of the next visit are those of the local problem of CoCoA+. The
result of a call depends only on the state of the block and the arguments.
"""

import copy
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sksstruct.models.protocols._weights import Weights
from sksstruct.models.roles import entropy_dual, fits_entropy_dual
from sksstruct.solvers.frank_wolfe.exported import resume, snapshot
from sksstruct.solvers.frank_wolfe.passes import Passes
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.solvers.partitioned._lines import copy_lines
from sksstruct.solvers.partitioned.changes import SparseChange, compress, marked
from sksstruct.solvers.partitioned.checkpoint import fingerprint
from sksstruct.solvers.partitioned.gradients import GradientBlock
from sksstruct.solvers.partitioned.lines import LINE
from sksstruct.solvers.stochastic.dual_ascent import DualAscentKernel
from sksstruct.solvers.stochastic.sdca import IN_ORDER
from sksstruct.utils.entries import Entries

# Number of past rounds whose changed places are stored. A copy of the weights that was
# last used in one of these rounds is updated only at the changed places.
_REMEMBERED = 32
# Vectors with fewer weights are copied whole, as marking changed rows would take
# longer.
_FEW_WEIGHTS = 100_000


@dataclass
class Outline:
    """Properties of a problem that the driver reads, while the examples are in blocks.

    Parameters
    ----------
    n_examples, n_weights : int
        Numbers of examples and of weights.
    surrogate : SmoothedHinge or None
        The loss; None for the hinge.
    width : int
        Length of the rows that visits mark where they change weights.
    oracle_cost : float
        Cost of a visit with the oracle, as a multiple of that of a visit of known
        labelings.
    box : tuple of ndarray, default=None
        Bounds of the weights.
    threshold : float, default=0.0
        Soft threshold of the weights, l1 / alpha.
    support : ndarray of int, default=None
        Weights that exist; None if all weights exist.
    lean : bool, default=False
        Whether features are on disk, so that no data of their size may be stored.
    """

    n_examples: int
    n_weights: int
    surrogate: Any = None
    width: int = LINE
    oracle_cost: float = 2.0
    box: Any = None
    threshold: float = 0.0
    support: Any = None
    lean: bool = False

    def weights(self):
        """Return weights at zero, with the truncation of the problem."""
        return Weights(
            self.n_weights,
            box=self.box,
            threshold=self.threshold,
            support=None if self.box is not None else self.support,
        )


class Lender:
    """Copies of the weights for the running blocks of a process.

    Each copy begins with the weights of a round. If few weights change from one round
    to the next, only changed lines are copied.

    Parameters
    ----------
    outline : Outline
        The problem.
    """

    def __init__(self, outline):
        self.outline = outline
        self._free = []
        # for each round, the places changed since the round before; None: any place
        self._changed = {}

    @contextmanager
    def lend(self, v=None, number=0, changed=None):
        """Lend weights that no other block uses until the end of the context.

        If the weights mark rows, the user must restore changed rows before the end.

        Parameters
        ----------
        v : ndarray, default=None
            The initial weights before truncation; None for any weights.
        number : int
            Number of the round.
        changed : Places, default=None
            Places where v differs from the v of the round before; None: anywhere.
        """
        self._changed[number] = changed
        self._changed.pop(number - _REMEMBERED, None)
        # no lock is needed, as append and pop of lists are atomic
        try:
            weights, held_round = self._free.pop()
        except IndexError:
            weights, held_round = self._make()
        try:
            if v is not None:
                held_round_before, held_round = held_round, -1
                self._copy(v, weights, held_round_before, number)
            yield weights
            if v is not None and weights.marks is not None:
                held_round = number
        finally:
            # after an error, the round is -1: the values of the weights are unknown
            self._free.append((weights, held_round))

    def _make(self):
        """Return zero weights, which mark rows if there are many, and their round.

        The round is 0 for weights that are updated only at changed places, and -1 for
        weights that are copied whole.
        """
        outline = self.outline
        weights = outline.weights()
        if outline.n_weights >= _FEW_WEIGHTS and weights.w is weights.v:
            weights.mark_rows(outline.width)
            return weights, 0
        return weights, -1

    def _copy(self, v, weights, from_round, number):
        """Update weights from the v of one round to the v of round `number`."""
        oldest = max(from_round, number - _REMEMBERED)
        missed_changes = [self._changed.get(k) for k in range(oldest + 1, number + 1)]
        if not oldest == from_round <= number or None in missed_changes:
            weights.set(v)
            if weights.marks is not None:
                weights.marks[:] = 0
        else:
            for places in missed_changes:
                copy_lines(v, weights.v, places.lines)


@dataclass(frozen=True)
class Turn:
    """The visits that each block makes in a round.

    Parameters
    ----------
    seed : int
        Seed of the run.
    round : int
        Number of the round.
    number : int
        Number of the pass, from 1; passes over known labelings are numbered separately.
    part_number, n_parts : int
        Part of the pass that the round makes, from 0, and number of parts.
    known : bool
        Whether the visits are of known labelings, without the oracle.
    """

    seed: int
    round: int
    number: int
    part_number: int
    n_parts: int
    known: bool = False

    def part(self, n_examples):
        """Return the first visit of the part, and the end of its visits."""
        first = n_examples * self.part_number // self.n_parts
        return first, n_examples * (self.part_number + 1) // self.n_parts


@dataclass
class Step:
    """Result of the visits of a round in one block.

    Parameters
    ----------
    loss : float
        The block's part of the linear term of the dual, with its entropies.
    gain : float
        Increase of the local problem's objective.
    calls, visits : int
        Calls of the oracle, and visits.
    complete : bool
        Whether all visits were made; visits by gap end early if the sum of the gap
        estimates becomes too small.
    squares : float
        |dv_b|^2.
    """

    loss: float
    gain: float
    calls: int
    visits: int
    complete: bool
    squares: float = 0.0


class Block:
    """Base of blocks that make visits: random orders, changes of v, and checkpoints.

    Parameters
    ----------
    solver : solver object
        The solver of local problems.
    model : BoundModel
        The model bound to the examples of the block, the p_i being those of all data.
    number : int
        Number of the block.
    alpha : float
        Regularization.
    lender : Lender
        Weights for visits.
    """

    def __init__(self, solver, model, number, alpha, lender):
        self.solver, self.model, self.number = solver, model, number
        self.alpha, self.lender = alpha, lender
        self._order = self._probed = None

    def rng(self, turn):
        """Return the random state of the block in a round."""
        return self._rng_of(turn.seed, turn.round, self.number)

    def order(self, turn):
        """Return the examples in the order of a pass, the same in all its rounds."""
        key = turn.seed, turn.number, self.number, 1 + turn.known
        # the order is cached for the other rounds of the pass
        if self._order is None or self._order[0] != key:
            order = self._rng_of(*key).permutation(self.model.n_examples)
            self._order = key, order.astype(np.intp)
        return self._order[1]

    def _rng_of(self, *key):
        return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(key)))

    def advance(self, v, sigma, turn, changed=None):
        """Make the visits of a round, which start from the weights v.

        Parameters
        ----------
        v : ndarray of shape (n_weights,)
            Weights before truncation.
        sigma : float
            sigma' of CoCoA+.
        turn : Turn
            The visits to make.
        changed : Places, default=None
            Places where v differs from the v of the round before; None: anywhere.

        Returns
        -------
        step : Step
            Counts and gains of the visits.
        change : ndarray or SparseChange
            dv_b.
        """
        with self.lender.lend(v, turn.round, changed) as weights:
            step = self._visit(weights, self.alpha / sigma, turn)
            if weights.marks is None:
                # the change is a new vector, as the lent weights will be overwritten
                change = compress((weights.v - v) * (1.0 / sigma))
            else:
                width = self.lender.outline.width
                change = marked(weights, v, 1.0 / sigma, width)
        if isinstance(change, SparseChange):
            step.squares = change.squares
        else:
            step.squares = float(np.einsum("i,i->", change, change))
        return step, change

    def _visit(self, weights, alpha, turn):
        """Make visits that change the weights; return a step without its squares."""
        raise NotImplementedError

    def _mean(self, values):
        """Return sum_i p_i times a value per example, the same for any thread count."""
        return float(np.einsum("i,i->", self.model.example_weights, values))

    def check(self, w):
        """Compute losses and gaps at the truncated weights w; gaps guide later visits.

        Returns
        -------
        risk, gap : float
            sum_i p_i times the loss of example i, and the sum of the gaps.
        """
        raise NotImplementedError

    def value(self, w):
        """Compute losses at the truncated weights w, without changing the state.

        Returns
        -------
        risk : float
            sum_i p_i times the loss of example i.
        """
        raise NotImplementedError

    def state(self):
        """Return all that later calls read: a dict of arrays, numbers and strings."""
        raise NotImplementedError

    def restore(self, state):
        """Continue from a state, with bitwise equal results."""
        raise NotImplementedError

    @staticmethod
    def file_name(block, name):
        """Return the name of the file of a block."""
        return f"block-{block}-{name}.npz"

    def save(self, checkpoint, name):
        """Write the state to a file of a checkpoint.

        Returns
        -------
        written : tuple of str
            Name of the file, and its digest.
        """
        name = self.file_name(self.number, name)
        state = _with_signature(self.state(), fingerprint(self.model.signature))
        state = {"data": self._probe_data(), **state}
        return name, checkpoint.write(name, state)

    def load(self, checkpoint, name, digest):
        """Continue from the state in a file of a checkpoint."""
        entries, found, probe = checkpoint.read(name, digest), [], self._probe_data()
        state = _with_signature(entries.state, self.model.signature, found)
        # signatures are compared as text, as damaged ones may be of any type
        same = set(map(str, found)) == {fingerprint(self.model.signature)}
        data = entries.array("data", (2, None))
        # losses are compared approximately, as another machine may round differently
        is_close = partial(np.allclose, rtol=1e-6, atol=0.0)
        if not same or data.shape != probe.shape or not is_close(data, probe):
            raise checkpoint.error(name, "belongs to other examples")
        try:
            self.restore(state)
        except (ValueError, MemoryError) as error:
            # a damaged state may contain sizes of arrays that do not fit in memory
            problem = f"is damaged, or too large for memory: {error}"
            raise checkpoint.error(name, problem) from error

    def _probe_data(self):
        """Return p_i and losses at random weights, a fingerprint of the data."""
        if self._probed is None:
            model, n = self.model, self.model.n_examples
            w = np.random.RandomState(0).uniform(-1.0, 1.0, model.n_weights)
            losses = np.empty(n)
            model.hinge(model.workspace(w, training=False), 0, n, losses)
            self._probed = np.array([model.example_weights, losses])
        return self._probed


def _with_signature(state, signature, found=None):
    """Return a state with its signatures replaced; append the old ones to `found`."""
    out = {}
    for key, value in state.items():
        if key == "signature":
            if found is not None:
                found.append(value)
            value = signature
        elif isinstance(value, dict):
            value = _with_signature(value, signature, found)
        out[key] = value
    return out


class HingeBlock(Block):
    """A block of the structured hinge: visits of block-coordinate Frank-Wolfe."""

    def __init__(self, solver, model, number, alpha, lender):
        super().__init__(solver, model, number, alpha, lender)
        self.gaps, self.hinge = np.empty((2, model.n_examples))
        with lender.lend() as weights:
            self.kernel = solver._kernel(model, weights, alpha)

    def _visit(self, weights, alpha, turn):
        kernel, n = self.kernel, self.model.n_examples
        kernel.use(weights, alpha)
        kernel.gain, calls = 0.0, kernel.oracle_calls
        run = Passes(self.solver, kernel, None)
        first, last = turn.part(n)
        visits = last - first
        if turn.known:
            visits = run.known(self.order(turn)[first:last])
        elif self.solver.sampling == "gap" and turn.number > 1:
            run.rng = self.rng(turn)
            run.by_gap(visits)
        elif self.solver.sampling == "uniform":
            run.in_order(self.rng(turn).randint(n, size=visits))
        else:
            run.in_order(self.order(turn)[first:last])
        # the loss is recomputed, so that rounding errors do not accumulate over rounds
        kernel.loss = self._mean(kernel.losses_)
        calls = kernel.oracle_calls - calls
        return Step(kernel.loss, kernel.gain, calls, visits, not run.needs_gaps)

    def check(self, w):
        workspace = self.model.workspace(w, training=False)
        n = self.model.n_examples
        self.kernel.check(workspace, 0, n, self.hinge, self.gaps)
        self.kernel.set_gaps(self.gaps)
        return self._mean(self.hinge), float(self.gaps.sum())

    def value(self, w):
        workspace = self.model.workspace(w, training=False)
        self.model.hinge(workspace, 0, self.model.n_examples, self.hinge)
        return self._mean(self.hinge)

    def state(self):
        state = snapshot(self.kernel)
        if self.model.has_memory:
            state["memory"] = self.model.memory()
        return state

    def restore(self, state):
        if "memory" in state:
            self.model.recall(state["memory"])
        resume(self.kernel, state)


class EntropyBlock(Block):
    """A block of a loss smoothed by the entropy: visits of dual coordinate ascent."""

    def __init__(self, solver, model, number, alpha, lender):
        super().__init__(solver, model, number, alpha, lender)
        self.gaps, self.losses = np.empty((2, model.n_examples))
        self._begin(None)

    def _begin(self, state):
        self.dual = entropy_dual(self.model, self.model.surrogate, state)
        with self.lender.lend() as weights:
            self.kernel = DualAscentKernel(self.dual, weights, self.alpha)

    def _visit(self, weights, alpha, turn):
        kernel, n = self.kernel, self.model.n_examples
        kernel.use(weights, alpha)
        kernel.gain, calls, complete = 0.0, kernel.oracle_calls, True
        first, last = turn.part(n)
        if self.solver.sampling == "gap" and turn.number > IN_ORDER:
            complete = kernel.visit_by_gap(self.rng(turn).random_sample(last - first))
        else:
            kernel.visit_in_order(self.order(turn)[first:last])
        loss = self._mean(self.dual.losses + self.dual.entropies)
        calls = kernel.oracle_calls - calls
        return Step(loss, kernel.gain, calls, last - first, complete)

    def check(self, w):
        workspace = self.model.workspace(w, training=False)
        self.dual.check(workspace, 0, self.model.n_examples, self.losses, self.gaps)
        gaps = self.model.example_weights * self.gaps
        self.kernel.set_gaps(gaps)
        return self._mean(self.losses), float(gaps.sum())

    def state(self):
        return copy.deepcopy({"dual": self.dual.state(), **self.kernel.snapshot()})

    def restore(self, state):
        state = copy.deepcopy(state)
        dual = Entries(state, "a block").part("dual").state
        if not fits_entropy_dual(self.model, dual, self.model.surrogate):
            raise ValueError(
                "the state of a block must be of the same examples, labels and loss: "
                "begin a new run"
            )
        self._begin(dual)
        self.kernel.resume(state)


def make_block(solver, bind, number, alpha, lender):
    """Return the block of a model, with the class that loss and solver require.

    Parameters
    ----------
    solver : BCFW, SDCA or LBFGS
        The solver of local problems.
    bind : callable
        Returns the model bound to the examples of the block, the p_i being those of all
        data.
    number : int
        Number of the block.
    alpha : float
        Regularization.
    lender : Lender
        Weights for visits, shared by the blocks of a process.

    Returns
    -------
    block : Block or GradientBlock
    """
    if isinstance(solver, LBFGS):
        return GradientBlock(solver, bind, lender.outline)
    model = bind()
    kind = HingeBlock if model.surrogate is None else EntropyBlock
    return kind(solver, model, number, alpha, lender)
