"""The driver: rounds over blocks, their certificates, and what is lost on the way.

A round sends v to the blocks, and adds the changes that come back. The duality gap is
exact: it is the sum of what the blocks find at the same weights w.
"""

import numpy as np

from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.partitioned.changes import SparseChange, TreeSum
from sksstruct.solvers.partitioned.scaling import Scaling


class Rounds:
    """Weights, and rounds that change them.

    Parameters
    ----------
    solver : Partitioned
        Its `passes`, `scaling` and `keep_every` are read.
    outline : Outline
        The problem.
    executor : Executor
        Has the blocks.
    alpha : float
        Regularisation.
    seed : int
        Seed of the run.

    Attributes
    ----------
    weights : Weights
        The iterate.
    loss : float
        Linear term of the dual.
    calls : int
        Oracle calls.
    complete : bool
        Whether the last round made all its visits; if not, gaps must be computed.
    """

    def __init__(self, solver, outline, executor, alpha, seed):
        self.solver, self.outline, self.executor = solver, outline, executor
        self.alpha, self.seed = alpha, seed
        self.weights = outline.weights()
        self.scaling = Scaling(executor.n_blocks, solver.scaling == "adaptive")
        self.loss, self.calls, self.complete = 0.0, 0, True
        self.dual = self.dual_of()
        # calls since states were kept last, to be repeated where blocks are lost
        self.calls_since = []

    def dual_of(self, loss=None, v=None, w=None):
        """Dual value of the iterate, or of another point."""
        loss = self.loss if loss is None else loss
        return dual_value(self.weights, self.alpha, loss, v, w)

    # ---- rounds ----

    def one_round(self, number):
        """Let all blocks make their visits, and add up what they change."""
        total = TreeSum(self.executor.n_blocks)
        # a copy where it may be read again, as the weights change in place
        v = self.weights.v.copy() if self.executor.loses_blocks else self.weights.v
        steps = self._change(
            "advance", v, self.scaling.value, (self.seed, number), self.solver.passes,
            total=total,
        )  # fmt: skip
        change = total.total()
        if isinstance(change, SparseChange):
            of_sum = float(np.einsum("ij,ij->", change.values, change.values))
            change.add_to(self.weights.v)
        else:
            of_sum = float(np.einsum("i,i->", change, change))
            np.add(self.weights.v, change, out=self.weights.v)
        if self.weights.w is not self.weights.v:
            self.weights.set(self.weights.v)
        self.loss = float(sum(step.loss for step in steps))
        self.calls += sum(step.calls for step in steps)
        self.complete = all(step.complete for step in steps)
        before, self.dual = self.dual, self.dual_of()
        promised = sum(step.gain for step in steps)
        squares = sum(step.squares for step in steps)
        self.scaling.update(squares, of_sum, self.dual - before, promised)
        return promised == 0.0

    def check(self):
        """Sums of losses and of gaps at the iterate."""
        w = self.weights.w.copy() if self.executor.loses_blocks else self.weights.w
        checks = self._change("check", w)
        self.calls += self.outline.n_examples
        return sum(each.risk for each in checks), sum(each.gap for each in checks)

    def value(self, w):
        """Sum of losses at other weights."""
        self.calls += self.outline.n_examples
        return float(sum(self._call("value", w)))

    # ---- calls, and blocks that were lost ----

    def _change(self, method, *common, total=None):
        """A call that changes the states of blocks."""
        values = self._call(method, *common, total=total)
        if self.executor.loses_blocks:
            self.calls_since.append((method, common))
        return values

    def _call(self, method, *common, total=None):
        """Values of all blocks, in their order."""
        executor = self.executor
        values = executor.call(method, *common, total=total)
        while len(values) < executor.n_blocks:
            lost = [b for b in range(executor.n_blocks) if b not in values]
            self._recover(lost)
            values.update(executor.call(method, *common, blocks=lost, total=total))
        return [values[b] for b in range(executor.n_blocks)]

    def keep(self):
        """Keep the states of all blocks: what is lost later goes on from here."""
        while lost := self.executor.keep():
            self._recover(lost)
        self.calls_since = []

    def _recover(self, lost):
        """Bring lost blocks to where the others are."""
        while True:
            self.executor.rebuild(lost)
            if all(self._repeat(call, lost) for call in self.calls_since):
                return

    def _repeat(self, call, lost):
        """Make an earlier call of some blocks again; return whether none was lost."""
        method, common = call
        # the changes have been added before
        total = _Nowhere() if method == "advance" else None
        values = self.executor.call(method, *common, blocks=lost, total=total)
        return len(values) == len(lost)


class _Nowhere:
    """Takes the place of a `TreeSum` whose sum is not asked for."""

    received = 0

    def add(self, change, block=None, node=None):
        pass
