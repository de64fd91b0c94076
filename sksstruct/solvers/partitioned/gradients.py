"""L-BFGS over blocks: the losses and gradients that blocks compute are added.

Blocks have no state. A lost block is made again, and only the call in which it was lost
is repeated.

With bounds, scipy does not expose its Hessian approximation. A checkpoint therefore
stores the gradient of every sweep; a resumed run repeats its steps with these gradients
instead of the data, bitwise equal and in little time.
"""

import hashlib

import numpy as np

from sksstruct.solvers.core.box import Box
from sksstruct.solvers.lbfgs import LBFGSLoop, Objective, run_lbfgs
from sksstruct.solvers.partitioned.changes import TreeSum, compress, dense
from sksstruct.solvers.partitioned.checkpoint import warn_unwritten
from sksstruct.utils._layout import aligned_zeros


class GradientBlock:
    """A block that computes its part of the loss and of the gradient.

    Parameters
    ----------
    solver : LBFGS
        Defines the loss.
    bind : callable
        Returns the model bound to the examples of the block, the p_i being those of all
        data.
    outline : Outline
        The problem. If it is lean, the block stores nothing between calls: the
        model is bound again, and features are read from disk.
    """

    def __init__(self, solver, bind, outline):
        self.solver, self.bind, self.outline = solver, bind, outline
        self._loss = None

    def slope(self, w):
        """Return the block's part of loss and gradient at the weights w.

        Returns
        -------
        slope : tuple of (float, int, bool)
            sum_i p_i f_i(w), the number of examples whose loss is exact, and
            whether the losses are convex.
        gradient : ndarray or SparseChange
            The gradient.
        """
        loss = self._loss
        if loss is None:
            loss = self.solver.smooth_loss(self.bind())
        if not self.outline.lean:
            # the data that the model was bound from may be released
            self._loss, self.bind = loss, None
        gradient = aligned_zeros(loss.model.n_weights)
        # the loss uses one thread, as threads are distributed over the blocks
        value = loss.value_and_gradient(w, gradient, 1)
        n_exact = int(np.count_nonzero(loss.exact))
        return (value, n_exact, loss.convex), compress(gradient)


class SummedLoss:
    """The mean of smooth losses over all blocks, as the loss of an `Objective`.

    Parameters
    ----------
    outline : Outline
        The problem.
    executor : Executor
        Executor of the blocks.
    record : Record or None
        Gradients in a checkpoint.

    Attributes
    ----------
    model : Outline
        Has the numbers of examples and weights.
    support, convex, exact
        As in `SmoothLoss`.
    """

    # every weight has a penalty
    unpenalized = None

    def __init__(self, outline, executor, record=None):
        self.model, self.executor, self.record = outline, executor, record
        self.support = outline.support
        self.convex, self.exact = True, 1.0

    def value_and_gradient(self, w, gradient, n_jobs=None):
        """Return the mean loss at weights w, and write its gradient."""
        record = self.record
        answer = None if record is None else record.next(w, self._sweep)
        if answer is None:
            answer = self._sweep(w)
            if record is not None and record.writes:
                record.add(w, *answer)
        loss, self.exact, self.convex, gradient[:] = answer
        return loss

    def _sweep(self, w):
        """Call all blocks, and return their summed loss and gradient at the weights w.

        Between loss and gradient are the fraction of exact losses, and whether all
        losses are convex.
        """
        executor, n_blocks = self.executor, self.executor.n_blocks
        total, values, lost = TreeSum(n_blocks), {}, range(n_blocks)
        # the weights are copied if calls may be repeated, as weights change in place
        w = w.copy() if executor.loses_blocks else w
        while True:
            values.update(executor.call("slope", w, blocks=lost, total=total))
            lost = [number for number in range(n_blocks) if number not in values]
            if not lost:
                break
            executor.rebuild(lost)
        slopes = (values[number] for number in range(n_blocks))
        losses, n_exact, convex = zip(*slopes, strict=True)
        return (
            float(sum(losses)),
            sum(n_exact) / self.model.n_examples,
            all(convex),
            dense(total.total()),
        )


class Record:
    """The gradients of a run in a checkpoint.

    Parameters
    ----------
    checkpoint : Checkpoint
        Checkpoint with the gradients.
    identity : str
        Fingerprint of the problem and parameters, which a resumed run must share.
    resume : bool
        Whether to continue from the gradients in the checkpoint.

    Attributes
    ----------
    seconds : float
        Duration of the run that wrote the gradients.
    """

    def __init__(self, checkpoint, identity, resume):
        self.checkpoint, self.identity = checkpoint, identity
        self.sweeps, self.n_repeated, self.seconds = [], 0, 0.0
        # the loop of the present run, set by `minimize_sum`
        self.loop = None
        # whether results of sweeps are still written; False after a failed write
        self.writes = True
        if not resume:
            checkpoint.prepare()
            return
        entries = checkpoint.read_driver(identity)
        sweeps = entries.get("sweeps", list, "a list of files")
        self.sweeps = checkpoint.named(sweeps, r"sweep-{k}\.npz")
        self.seconds = entries.real("seconds", 0.0)

    def next(self, w, sweep):
        """Return the stored result of the next sweep, None at the end."""
        number = self.n_repeated
        if number == len(self.sweeps):
            return None
        entries = self.checkpoint.read(*self.sweeps[number], kind="sweep")
        if entries.text("weights") != _digest(w):
            raise self.checkpoint.other_run()
        answer = (
            entries.real("loss"),
            entries.real("exact", 0.0, 1.0),
            entries.flag("convex"),
            entries.array("gradient", w.shape),
        )
        if number == 0:
            # the first sweep is repeated to detect other data; another machine may
            # round differently
            computed = sweep(w)
            size = max(np.abs(answer[-1]).max(), 1e-300)
            same = np.isclose(computed[0], answer[0], rtol=1e-6) and np.allclose(
                computed[-1], answer[-1], rtol=1e-6, atol=1e-6 * size
            )
            if not same:
                raise ValueError(
                    f"the checkpoint in {self.checkpoint.url!r} belongs to other "
                    "examples; train with resume=False to start from the beginning"
                )
        self.n_repeated += 1
        return answer

    def add(self, w, loss, exact, convex, gradient):
        """Write the result of a sweep at the weights w to the checkpoint."""
        number = len(self.sweeps)
        name, state = f"sweep-{number}.npz", {"weights": _digest(w), "loss": loss}
        state.update(exact=exact, convex=convex, gradient=gradient)
        try:
            digest = self.checkpoint.write(name, state, "sweep")
            sweeps = [*self.sweeps, (name, digest)]
            state = {"identity": self.identity, "sweeps": sweeps}
            self.checkpoint.write_driver({**state, "seconds": self.loop.seconds()})
        except OSError as error:
            # no further sweeps are written: a resumed run needs all sweeps in order
            self.writes = False
            if number:
                self.checkpoint.remove([name])
            kept_files = f"there are the gradients of the first {number} sweeps"
            warn_unwritten(self.checkpoint, error, kept_files)
            return
        self.sweeps = sweeps
        self.n_repeated += 1


def _digest(w):
    return hashlib.sha256(w.tobytes()).hexdigest()


class SummedObjective(Objective):
    """An objective whose reports include the bytes sent and received."""

    @property
    def extra(self):
        executor = self.loss.executor
        return executor.sent, executor.received


def minimize_sum(solver, outline, executor, alpha, options, record=None):
    """Minimize the sum of the losses of all blocks.

    Parameters
    ----------
    solver : Partitioned
        Its `solver`, `max_iter` and `tol` are read.
    outline : Outline
        The problem.
    executor : Executor
        Executor of the blocks, each a `GradientBlock`.
    alpha : float
        Regularization.
    options : Options
        How the problem is to be solved.
    record : Record or None
        Gradients in a checkpoint.

    Returns
    -------
    result : SolverResult
        Weights, certificate and trace.
    """
    loss = SummedLoss(outline, executor, record)
    box = None if outline.box is None else Box(*outline.box)
    objective = SummedObjective(loss, box, alpha, options)
    loop = LBFGSLoop(solver, alpha, options, None, ("bytes_down", "bytes_up"))
    if record is not None:
        record.loop = loop
        loop.started -= record.seconds
    return run_lbfgs(objective, loop, solver.solver.memory)
