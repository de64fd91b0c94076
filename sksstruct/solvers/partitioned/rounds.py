"""The driver: rounds over blocks, their certificates, and recovery of lost blocks.

A round sends v to the blocks, and adds the changes that they return. The duality gap is
exact, as all blocks compute their losses and gaps at the same weights w.
"""

import math

import numpy as np

from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.frank_wolfe.passes import known_passes
from sksstruct.solvers.partitioned.average import Average
from sksstruct.solvers.partitioned.blocks import Block, Turn
from sksstruct.solvers.partitioned.changes import Places, TreeSum, add_sum
from sksstruct.solvers.partitioned.scaling import Scaling
from sksstruct.utils._clock import check_clock, until
from sksstruct.utils.entries import taken

# Smallest number of visits of a block in a round; smaller blocks make all visits in one
# round.
_LEAST_VISITS = 20
# Numbers of rounds of a pass if rounds="auto": for smooth losses, and for the hinge.
# Visits of smooth losses change far more of the weights: 4 rounds would need twice as
# many passes as 16.
_ROUNDS = 16, 4


class Rounds:
    """The weights of a run, and rounds over blocks, which change the weights.

    Parameters
    ----------
    solver : Partitioned
        Its `rounds` and `scaling` are read.
    outline : Outline
        The problem.
    executor : Executor
        Executor of the blocks.
    alpha : float
        Regularization.
    seed : int
        Seed of the run.
    checkpoint : Checkpoint or None
        Checkpoint for the states of blocks.

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
    n_rounds, n_known : int
        Rounds, and passes over known labelings.
    average : Average
        Average of the iterates.
    """

    def __init__(self, solver, outline, executor, alpha, seed, checkpoint=None):
        self.solver, self.outline, self.executor = solver, outline, executor
        self.alpha, self.seed = alpha, seed
        self.weights = outline.weights()
        self.scaling = Scaling(executor.n_blocks, solver.scaling == "adaptive")
        # only Frank-Wolfe blocks have known labelings and averages
        self.local = solver.local(None) if outline.surrogate is None else None
        rounds = _ROUNDS[self.local is not None]
        self.rounds = rounds if solver.rounds == "auto" else solver.rounds
        averaging = self.local.averaging if self.local else False
        self.average = Average(self.weights, averaging)
        self.loss, self.calls, self.complete = 0.0, 0, True
        self.n_rounds = self.n_known = 0
        # places that the last round has changed in the weights; None: any place
        nowhere = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.uint8)
        self._changed, self._squares = Places(*nowhere), 0.0
        self.dual = self.dual_of()
        # files from which lost blocks continue, and files that the checkpoint names
        self.checkpoint, self.files, self.written = checkpoint, {}, []
        # calls since the states were saved, which are repeated for lost blocks, and the
        # bytes of the weights in these calls
        self.calls_since, self.bytes_since = [], 0

    def dual_of(self, loss=None, v=None, w=None):
        """Return the dual value of the iterate, or of another point."""
        loss = self.loss if loss is None else loss
        return dual_value(self.weights, self.alpha, loss, v, w)

    # ---- rounds ----

    def one_pass(self, number):
        """Make as many visits as examples, then passes over known labelings.

        Returns whether the visits gained nothing.
        """
        # the squared norm is recomputed, as rounding errors of updates accumulate
        self._squares = _norm(self.weights.v)
        gain, _ = self._visits(number, False)
        if self.local is not None:
            known_passes(self.local, gain, self.outline, self._known_pass)
        return gain == 0.0

    def _known_pass(self):
        """Make a pass over known labelings; return its gain and number of visits."""
        self.n_known += 1
        return self._visits(self.n_known, True)

    def _visits(self, number, known):
        """Make a pass in rounds; return the sum of local gains, and the visits."""
        # a block makes at least `_LEAST_VISITS` visits in a round, if it has as many
        most_parts = self.outline.n_examples // (_LEAST_VISITS * self.executor.n_blocks)
        # a pass over known labelings is short: two blocks need only one round, four
        # blocks need four rounds
        few_parts = 1 if self.executor.n_blocks <= 2 else self.executor.n_blocks
        wanted = min(self.rounds, few_parts) if known else self.rounds
        n_parts = max(1, min(wanted, most_parts))
        gain = visits = 0
        for part in range(n_parts):
            check_clock()
            self.n_rounds += 1
            turn = Turn(self.seed, self.n_rounds, number, part, n_parts, known)
            steps = self._one_round(turn)
            gain += sum(step.gain for step in steps)
            visits += sum(step.visits for step in steps)
        return gain, visits

    def _one_round(self, turn):
        """Let all blocks make their visits, and add their changes to the weights."""
        total = TreeSum(self.executor.n_blocks, halves=True)
        v = self._snapshot()
        # no time limit applies within a round, as all blocks have to finish the round
        with until(math.inf):
            steps = self._change(
                "advance", v, self.scaling.value, turn, self._changed, total=total
            )
        loss = float(sum(step.loss for step in steps))
        # an interrupt before weights and loss are both updated must leave no wrong
        # bound
        self.loss = -np.inf
        square_of_sum = self._add(total.terms())
        self.loss = loss
        self.average.add(loss)
        self.calls += sum(step.calls for step in steps)
        self.complete = all(step.complete for step in steps)
        before, self.dual = self.dual, self._running_dual()
        promised = sum(step.gain for step in steps)
        squares = sum(step.squares for step in steps)
        self.scaling.update(squares, square_of_sum, self.dual - before, promised)
        return steps

    def _add(self, terms):
        """Add changes to the weights; return the squared norm of their sum."""
        weights, average = self.weights, self.average
        self._changed, square_of_sum, risen = add_sum(
            terms,
            weights.v,
            average.u,
            average.factor,
            self.executor.side_by_side,
        )
        self._squares += risen
        if weights.w is not weights.v:
            weights.set(weights.v)
        return square_of_sum

    def _running_dual(self):
        """Return the dual value of the iterate, from the updated squared norm."""
        if self.weights.w is not self.weights.v:
            return self.dual_of()
        return self.loss - 0.5 * self.alpha * self._squares

    def _snapshot(self):
        return self.executor.snapshot(self.weights.v, self._changed)

    def check(self):
        """Return sum_i p_i times the loss of example i, and the gap, at the iterate."""
        w = self.weights.w
        if w is self.weights.v:
            w = self._snapshot()
        elif self.executor.loses_blocks:
            # w is copied, as the call may be repeated, and w changes in place
            w = w.copy()
        checks = self._change("check", w)
        self.calls += self.outline.n_examples
        return sum(risk for risk, _ in checks), sum(gap for _, gap in checks)

    def value(self, w):
        """Return sum_i p_i times the loss of example i at the weights w."""
        self.calls += self.outline.n_examples
        return float(sum(self._call("value", w)))

    # ---- calls, and recovery of lost blocks ----

    def _change(self, method, *common, total=None):
        """Make a call that changes the states of blocks."""
        values = self._call(method, *common, total=total)
        if self.executor.loses_blocks:
            self.calls_since.append((method, common))
            self.bytes_since += common[0].nbytes
        return values

    def _call(self, method, *common, total=None):
        """Call a method of all blocks; return their values, in the order of the blocks.

        Lost blocks are recovered and called again.
        """
        executor = self.executor
        values = executor.call(method, *common, total=total)
        while len(values) < executor.n_blocks:
            lost = [b for b in range(executor.n_blocks) if b not in values]
            self._recover(lost)
            values.update(executor.call(method, *common, blocks=lost, total=total))
        return [values[b] for b in range(executor.n_blocks)]

    def keep(self):
        """Save the states of all blocks, from which blocks lost later continue."""
        while lost := self.executor.keep():
            self._recover(lost)
        self.files, self.calls_since, self.bytes_since = {}, [], 0

    def save(self, name, driver):
        """Write the states of all blocks to the checkpoint, instead of `keep`.

        Parameters
        ----------
        name : int
            Number in the file names.
        driver : callable
            Returns the state of the driver, whose file makes the checkpoint valid.
        """
        checkpoint = self.checkpoint
        try:
            self.files = dict(enumerate(self._call("save", checkpoint, name)))
            checkpoint.write_driver(driver())
        except OSError:
            if self.written:
                # the new files are incomplete: the previous checkpoint stays valid
                blocks = range(self.executor.n_blocks)
                checkpoint.remove(Block.file_name(b, name) for b in blocks)
            if self.executor.loses_blocks:
                self.keep()
            raise
        self.calls_since, self.bytes_since = [], 0
        checkpoint.remove(self.written)
        self.written = [file for file, _ in self.files.values()]

    def state(self):
        """Return the state for `resume`, besides the files of the blocks."""
        names = "loss", "calls", "complete", "n_rounds", "n_known", "seed", "dual"
        return {
            **taken(self, names),
            "v": self.weights.v,
            "scaling": self.scaling.state(),
            "files": [self.files[b] for b in range(self.executor.n_blocks)],
        }

    def resume(self, entries):
        """Continue from a state: every block reads its file."""
        v = entries.array("v", self.weights.v.shape)
        files = entries.get("files", list, "a list of files")
        files = self.checkpoint.named(files, Block.file_name("{k}", "[0-9]+"))
        if len(files) != self.executor.n_blocks:
            raise entries.wrong(
                "files", len(files), f"{self.executor.n_blocks} files of blocks"
            )
        self.files = dict(enumerate(files))
        self.written = [file for file, _ in files]
        self.scaling.resume(entries.part("scaling"))
        self.weights.set(v)
        self._changed = None
        self.loss, self.dual = entries.real("loss"), entries.real("dual")
        self.complete = entries.flag("complete")
        for name in ("calls", "n_rounds", "n_known", "seed"):
            setattr(self, name, entries.whole(name))
        # blocks that are lost during loading are made again by `_recover`
        self._recover(list(range(self.executor.n_blocks)), fresh=True)

    def _recover(self, lost, fresh=False):
        """Bring lost blocks to the state of all others."""
        while lost:
            if not fresh:
                self.executor.rebuild(lost)
            fresh = False
            if self.files:
                each = {b: self.files[b] for b in lost}
                loaded = self.executor.call(
                    "load", self.checkpoint, blocks=lost, each=each
                )
                if len(loaded) < len(lost):
                    continue
            current = lost
            for method, common in self.calls_since:
                # `total` of the first call already contains these changes
                total = _NoSum() if method == "advance" else None
                current = list(
                    self.executor.call(method, *common, blocks=current, total=total)
                )
            lost = [b for b in lost if b not in current]


def _norm(values):
    """Return the squared norm, the same for any number of threads."""
    values = values.ravel()
    return float(np.einsum("i,i->", values, values))


class _NoSum:
    """Replacement of a `TreeSum` whose sum is not needed."""

    received = 0

    def add(self, change, block=None, node=None):
        pass
