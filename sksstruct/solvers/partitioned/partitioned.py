"""CoCoA+: blocks of the data are trained in parallel, and their changes are added.

`Partitioned` is the solver, `Run` one run of it; `rounds.py` has the rounds, and
`scaling.py` states the method.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from os import PathLike
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.losses import SmoothedHinge
from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.solvers.core.base import Options, Solver, example
from sksstruct.solvers.core.loop import Loop, next_check
from sksstruct.solvers.core.result import SolverResult
from sksstruct.solvers.frank_wolfe.bcfw import BCFW
from sksstruct.solvers.lbfgs import LBFGS
from sksstruct.solvers.partitioned.blocks import Lender, Outline, make_block
from sksstruct.solvers.partitioned.checkpoint import (
    Checkpoint,
    fingerprint,
    warn_unwritten,
)
from sksstruct.solvers.partitioned.executors import Executor, Threads
from sksstruct.solvers.partitioned.gradients import Record, minimize_sum
from sksstruct.solvers.partitioned.rounds import Rounds
from sksstruct.solvers.stochastic.sdca import SDCA
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Count
from sksstruct.utils.entries import Entries, taken
from sksstruct.utils.parallel import one_blas_thread

# blocks="auto": smallest number of examples in a block if there are more than two
# blocks.
_EXAMPLES = 4000
# blocks="auto": smallest number of examples that are divided into two blocks.
_LEAST_EXAMPLES = 200
# blocks="auto": largest number of blocks.
_MOST_BLOCKS = 8
# check_every="auto" with the hinge: first pass after which the gap is computed. Later
# checks are at most this number of passes apart, or n_iter divided by this number if
# the quotient is larger.
_FIRST_CHECK = 4
# A gap below this fraction of the objective that `tol` refers to is a rounding error.
_ROUNDING = 1e-13
# States are saved earlier if the weights sent since the last save take this number of
# bytes: these weights are stored, to be sent again to a replacement of a lost worker.
_MOST_BYTES = 2**30


@fill_doc(
    example(
        "solver=Partitioned(blocks=2), n_jobs=2",
        "from sksstruct.solvers import Partitioned",
    )
)
@dataclass(eq=False, repr=False)
class Partitioned(Solver):
    """Parallel training on blocks of the examples: CoCoA+, or L-BFGS.

    Divides the examples into blocks. In each round, every block starts from the same
    weights and visits its own examples, and the changes of all blocks are added
    [1]_ [2]_. With `LBFGS`, every block computes its gradient, and the gradients are
    added. Blocks run on ``n_jobs`` threads, or on other machines with `sksstruct.dask`.
    The result depends on the number of blocks. It is bit-for-bit the same for any
    number of threads or machines.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of as many visits as there are examples.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0; for losses with a
        gradient, times the objective.
    solver : BCFW, SDCA, LBFGS or None, default=None
        The solver that each block uses for its visits, and for `BCFW`, for averaging.
        Its `max_iter`, `tol` and `check_every` have no effect. None: `BCFW` or `SDCA`,
        whichever "auto" selects. With `LBFGS`, which has no visits, `rounds`,
        `scaling`, `check_every` and `keep_every` have no effect.
    blocks : int or "auto", default="auto"
        Number of blocks. Each block is a range of the examples in the given order.
        "auto": 2, 4 or 8 blocks, with at least 4,000 examples in each if there are more
        than two, and 1 block for fewer than 200 examples. More threads than blocks have
        no effect. More blocks need more passes.
    rounds : int or "auto", default="auto"
        Number of rounds per pass, which is how often changes are added. With more
        rounds, training needs fewer passes, but more communication. "auto": 4 with the
        hinge, 16 with losses that have a gradient. Passes over known labelings have at
        most as many rounds as there are blocks.
    scaling : {"adaptive", "safe"}, default="adaptive"
        How to scale the steps, because blocks do not see the changes of other blocks.
        "safe": as if the changes of all blocks were equal, which is sigma' = B.
        "adaptive": by the similarity of the changes in the last rounds, with the same
        guarantee in the end; see the Notes.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the duality gap. "auto" computes it
        when it is expected to reach the tolerance, and after at most ten passes.
    keep_every : int, default=5
        Number of passes between two times that states are saved, to the checkpoint, or
        to the client if workers can be lost. After a failure, at most this many passes
        are repeated. States are saved sooner if the weights sent since the last save
        take more than a gigabyte.
    checkpoint : str, path or None, default=None
        Folder to which the state of the run is written every `keep_every` passes: a
        local folder, or a URL that fsspec supports. Workers on other machines must be
        able to reach it. If the state cannot be written, because the disk is full for
        instance, there is a warning, and training continues.
    resume : bool, default=False
        Whether to continue from the checkpoint. The result is bit-for-bit that of a run
        that was not stopped; if the checkpoint has `max_iter` passes or more, training
        ends at once. The data and all parameters must be those of the run that wrote
        the checkpoint, except for `max_iter`, `tol`, `keep_every`, `executor` and
        `n_jobs`. The checkpoint of `LBFGS` contains the gradient of every sweep.
    executor : Executor or None, default=None
        The executor that runs the blocks. None: threads of this process.

    Notes
    -----
    With ``scaling="adaptive"``, sigma' is a little more than the largest of
    ``|sum of changes|^2 / sum of |change|^2`` in the last three rounds. While it is at
    least that ratio, the dual rises in every round as much as the blocks promise. If
    the dual, which is known exactly, rises by less than a tenth of the promised gain, a
    lower limit of sigma' is doubled, up to B, which is safe.

    Each block stores its dual variables. Each block that is currently running also
    stores a copy of the weights. With `LBFGS` there are no dual variables. If the
    features are memory-mapped, blocks keep nothing between sweeps, so only the running
    blocks use memory.

    References
    ----------
    .. [1] C. Ma, V. Smith, M. Jaggi, M. Jordan, P. Richtarik and M. Takac, "Adding vs.
       averaging in distributed primal-dual optimization", ICML 2015.
    .. [2] V. Smith, S. Forte, C. Ma, M. Takac, M. Jordan and M. Jaggi, "CoCoA: a
       general framework for communication-efficient distributed optimization",
       JMLR 18, 2018.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    solver: BCFW | SDCA | LBFGS | None = None
    blocks: Count | Literal["auto"] = "auto"
    rounds: Count | Literal["auto"] = "auto"
    scaling: Literal["adaptive", "safe"] = "adaptive"
    check_every: Count | Literal["auto"] = "auto"
    keep_every: Count = 5
    checkpoint: str | PathLike | None = None
    resume: bool = False
    executor: Executor | None = None

    required_oracles = ("max", "exp")
    losses = ("hinge", "smooth")
    penalties = ("l2", "elasticnet")
    bounded = in_parts = True

    def check(self) -> None:
        super().check()
        if self.solver is not None:
            self.solver.check()
        if isinstance(self.solver, BCFW) and self.solver.step_size == "decreasing":
            raise ValueError(
                "Partitioned needs step_size='line_search': blocks know the gain of "
                "their own steps only"
            )
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs a checkpoint to continue from")

    def local(self, surrogate: SmoothedHinge | None) -> Solver:
        """Return the solver of a block.

        Parameters
        ----------
        surrogate : SmoothedHinge or None
            The loss; None for the hinge.

        Returns
        -------
        solver : BCFW, SDCA or LBFGS
        """
        if self.solver is not None:
            return self.solver
        return BCFW() if surrogate is None else SDCA()

    def check_model(self, model: BoundModel) -> None:
        self.local(model.surrogate).check_model(model)
        if "completion" in model.oracles:
            raise ValueError(
                "Partitioned cannot complete missing labels: for the "
                "hinge, use solver='auto'"
            )
        if self.checkpoint is not None and model.has_memory:
            raise ValueError(
                f"checkpoint={self.checkpoint!r}: {type(model.spec).__name__} has "
                "outputs that are objects of Python, which no checkpoint can hold; "
                "train with checkpoint=None, or with a compiled model"
            )

    def check_alpha(self, alpha: float) -> None:
        if self.solver is None:
            super().check_alpha(alpha)
        else:
            self.solver.check_alpha(alpha)

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        # dual variables of blocks are not exported
        return isinstance(self.solver, LBFGS) and self.solver.accepts(dual_state, model)

    def check_penalty(self, l1: float) -> None:
        if self.solver is not None:
            self.solver.check_penalty(l1)

    def n_blocks(self, n_examples: int) -> int:
        """Return the number of blocks.

        Parameters
        ----------
        n_examples : int
            Number of examples.

        Returns
        -------
        n_blocks : int
        """
        if self.blocks == "auto":
            # powers of two: on two threads, three blocks take as long as four
            most = n_examples // _EXAMPLES
            n_blocks = 1 << max(
                most.bit_length() - 1, int(n_examples >= _LEAST_EXAMPLES)
            )
            return min(n_blocks, _MOST_BLOCKS)
        return min(self.blocks, n_examples)

    def outline(self, model: BoundModel, alpha: float, l1: float = 0.0) -> Outline:
        """Return the properties of a model that the driver reads.

        Parameters
        ----------
        model : BoundModel
            Model with its data, or with part of the data.
        alpha, l1 : float
            Regularization.

        Returns
        -------
        outline : Outline
        """
        local = self.local(model.surrogate)
        bounds = local.bounds if isinstance(local, BCFW) else None
        return Outline(
            model.n_examples,
            model.n_weights,
            model.surrogate,
            model.ld,
            model.oracle_cost,
            box=model.box(bounds),
            threshold=l1 / alpha if l1 and alpha else 0.0,
            support=model.support,
            lean=model.on_disk,
        )

    def _solve(self, model, alpha, options):
        local = self.local(model.surrogate)
        local.check_penalty(options.l1)
        outline = self.outline(model, alpha, options.l1)
        lender, n = Lender(outline), model.n_examples
        n_blocks = self.n_blocks(n)
        bounds = [n * b // n_blocks for b in range(n_blocks + 1)]

        def build(number):
            bind = partial(model.part, bounds[number], bounds[number + 1])
            return make_block(local, bind, number, alpha, lender)

        builders = [partial(build, number) for number in range(n_blocks)]
        return self.solve_blocks(outline, builders, alpha, options)

    def solve_blocks(
        self,
        outline: Outline,
        builders: Sequence[Callable[[], Any]],
        alpha: float,
        options: Options,
    ) -> SolverResult:
        """Train on blocks that the executor makes.

        Parameters
        ----------
        outline : Outline
            The problem.
        builders : list of callable
            Each makes a block, by `make_block`.
        alpha : float
            Regularization.
        options : Options
            How the problem is to be solved.

        Returns
        -------
        result : SolverResult
            Weights, certificate and trace.
        """
        executor = self.executor
        if executor is None:
            executor = Threads(options.n_jobs)
        seed = check_random_state(options.random_state).randint(2**31 - 1)
        with one_blas_thread():
            try:
                executor.place(builders)
                checkpoint = self.checkpoint and Checkpoint(self.checkpoint)
                if isinstance(self.solver, LBFGS):
                    identity = self._identity(outline, executor, alpha, options.l1)
                    record = checkpoint and Record(checkpoint, identity, self.resume)
                    return minimize_sum(self, outline, executor, alpha, options, record)
                rounds = Rounds(self, outline, executor, alpha, int(seed), checkpoint)
                return Run(self, outline, rounds, alpha, options).run()
            finally:
                executor.close()

    def _identity(self, outline, executor, alpha, l1):
        """Return a fingerprint of everything that a resumed run must share."""
        free = ("max_iter", "tol", "keep_every", "checkpoint", "resume", "executor")
        parameters = self.get_params(deep=False)
        fixed = sorted((k, repr(v)) for k, v in parameters.items() if k not in free)
        return fingerprint(
            fixed,
            (outline.n_examples, outline.n_weights, outline.surrogate),
            (executor.n_blocks, alpha, l1),
        )


class Run:
    """A run of `Partitioned`: rounds until the certificate is small enough.

    Parameters
    ----------
    solver : Partitioned
        Its parameters are read.
    outline : Outline
        The problem.
    rounds : Rounds
        Weights and blocks.
    alpha : float
        Regularization.
    options : Options
        How the problem is to be solved.
    """

    def __init__(self, solver, outline, rounds, alpha, options):
        self.solver, self.rounds, self.alpha = solver, rounds, alpha
        self.outline, self.random_state = outline, options.random_state
        self.l1, self.weights = options.l1, rounds.weights
        local = solver.local(outline.surrogate)
        self.hinge = outline.surrogate is None
        self.average = rounds.average
        # only visits by gap and cache hits need the gaps of the examples
        self.by_gap = self.hinge and (
            local.sampling == "gap" or (local.cache and np.isfinite(local.cache_factor))
        )
        # the state to resume; the pass after which the checkpoint was written last; and
        # whether no further gain is possible
        self.resumed = self.kept_at = scale = None
        self.stalled = False
        if solver.resume:
            self.resumed = self._read_checkpoint()
        elif rounds.checkpoint is not None:
            rounds.checkpoint.prepare()
        if self.hinge:
            if self.resumed is None:
                w = self.weights.w
                scale = self._penalty(w) + rounds.value(w)
            else:
                scale = self.resumed.real("scale", 0.0)
        extra = ("sigma", "bytes_down", "bytes_up")
        self.loop = Loop(solver, alpha, options, scale, extra, keep_best=not self.hinge)
        check_every = solver.check_every
        # for smooth losses, the gap is first computed after one pass, as in `SDCA`
        first = _FIRST_CHECK if self.hinge else 1
        self.check_at = first if check_every == "auto" else check_every

    def run(self):
        """Make passes, or continue from the checkpoint; return the result."""
        if self.resumed is not None:
            self._resume(self.resumed)
            # the interrupted run may have been at its end already
            self.loop.status = self.loop.reason(self.stalled)
        elif not self.hinge:
            self.look()
        return self.loop.run(self.one_pass, self.look, None, self._weights_now)

    def one_pass(self):
        """Make a pass; return whether the run has stalled."""
        loop, rounds = self.loop, self.rounds
        self.average.plan(loop.n_iter, self.check_at)
        stalled = rounds.one_pass(loop.n_iter)
        if stalled or not rounds.complete or loop.n_iter == self.check_at:
            self.look(stalled)
            self.check_at = next_check(loop, self.solver.check_every)
            if self.solver.check_every == "auto":
                # checks take little time compared with many passes over known labelings
                most = max(_FIRST_CHECK, loop.n_iter // _FIRST_CHECK)
                self.check_at = min(self.check_at, loop.n_iter + most)
        self.stalled = stalled and rounds.complete
        # a gap below this fraction of the objective is a rounding error, as in `Path`
        scale = abs(loop.primal) if loop.scale is None else loop.scale
        self.stalled |= loop.gap <= _ROUNDING * scale
        sent_too_much = rounds.bytes_since > _MOST_BYTES
        if sent_too_much or loop.n_iter % self.solver.keep_every == 0:
            self._save_states()
        return self.stalled

    def _weights_now(self):
        """Return a copy of the weights that the run would return now."""
        v, _ = self.average.current(self.rounds.loss)
        return np.array(self._truncated(v))

    def _truncated(self, v):
        weights = self.weights
        if v is weights.v:
            return weights.w
        return v if weights.lower is None else np.clip(v, weights.lower, weights.upper)

    def _penalty(self, w):
        value = self.alpha / 2 * float(w @ w)
        return value + self.l1 * float(np.abs(w).sum()) if self.l1 else value

    def look(self, stalled=False):
        """Report objective and dual value of the weights to return.

        The weights are the average of the iterates, or the iterate itself if there is
        no average, if visits no longer improve the iterate, or if the gap of the
        iterate is small enough.
        """
        rounds, weights, loop = self.rounds, self.weights, self.loop
        v, loss = self.average.current(rounds.loss)
        w, primal = self._truncated(v), None
        if self.by_gap or stalled or v is weights.v:
            risk, gap = rounds.check()
            # the iterate may be better than the average
            if stalled or v is weights.v or gap <= 0.5 * loop.target:
                v, w, loss = weights.v, weights.w, rounds.loss
                primal = self._penalty(w) + risk
        if primal is None:
            primal = self._penalty(w) + rounds.value(w)
        loop.calls = rounds.calls
        executor = rounds.executor
        extra = rounds.scaling.value, executor.sent, executor.received
        dual = rounds.dual_of(loss, v, w)
        loop.report(primal, w, dual, extra=extra, dual_loss=loss)

    # ---- checkpoints ----

    def _identity(self):
        executor = self.rounds.executor
        return self.solver._identity(self.outline, executor, self.alpha, self.l1)

    def _save_states(self):
        """Save states of blocks that may be lost, and write the checkpoint."""
        rounds, loop = self.rounds, self.loop
        if rounds.checkpoint is None:
            if rounds.executor.loses_blocks:
                rounds.keep()
            return
        try:
            rounds.save(loop.n_iter, self._state)
            self.kept_at = loop.n_iter
        except OSError as error:
            kept = "there is none"
            if self.kept_at:
                kept = f"that of pass {self.kept_at} stays"
            warn_unwritten(rounds.checkpoint, error, kept)

    def _state(self):
        """Return the state of the driver for a checkpoint."""
        loop = self.loop
        names = "n_iter", "calls", "primal", "dual", "dual_loss", "values", "reported"
        return {
            "identity": self._identity(),
            **taken(loop, names),
            # None for smooth losses, for which `tol` refers to the objective reached
            "scale": loop.scale,
            "stalled": self.stalled,
            "rows": loop.trace.last(loop.n_iter + 1),
            "seconds": loop.seconds(),
            "weights": loop.weights,
            "check_at": self.check_at,
            "rounds": self.rounds.state(),
            "average": self.average.state(),
        }

    def _read_checkpoint(self):
        """Return the state in the checkpoint; an error if another run wrote it."""
        checkpoint = self.rounds.checkpoint
        entries = checkpoint.read_driver(self._identity())
        seed = entries.part("rounds").whole("seed")
        if isinstance(self.random_state, Integral) and seed != self.rounds.seed:
            raise checkpoint.other_run()
        return entries

    def _resume(self, entries):
        """Continue from the state in a checkpoint."""
        loop = self.loop
        self.rounds.resume(entries.part("rounds"))
        self.average.resume(entries.part("average"))
        self.check_at, self.stalled = entries.whole("check_at"), entries.flag("stalled")
        loop.n_iter, loop.calls = entries.whole("n_iter", 1), entries.whole("calls")
        loop.started -= entries.real("seconds", 0.0)
        loop.values = entries.reals("values")
        for row in entries.get("rows", list, "a list of rows"):
            if not isinstance(row, list) or len(row) != len(loop.trace.columns):
                raise entries.wrong("rows", row, f"rows of {len(loop.trace.columns)}")
            numbers = Entries(dict(enumerate(row)), "a row of the trace")
            loop.trace.add(*(numbers.real(k, infinite=True) for k in range(len(row))))
        self.kept_at = loop.n_iter
        # without a report before the checkpoint there are no weights
        if entries.state.get("weights") is not None:
            loop.weights = entries.array("weights", self.weights.w.shape)
            loop.reported = entries.whole("reported", 0, loop.n_iter)
            loop.primal = entries.real("primal")
            # after an interrupt the dual value may be -inf
            loop.dual = entries.real("dual", infinite=True)
            loop.dual_loss = entries.real("dual_loss", infinite=True)
