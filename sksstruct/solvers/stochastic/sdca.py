"""Stochastic dual coordinate ascent for losses smoothed by the entropy.

Maximizes the dual of P(w) = alpha/2 |w|^2 + l1 |w|_1 + sum_i p_i f_i(w). With dual
variables mu_i and v = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i),

    D = sum_i p_i (L_i(mu_i) + mu H(mu_i)) - alpha/2 |w|^2

where w is v after soft thresholding by l1 / alpha. P - D is the sum of the block gaps
at every step.

If alpha n is small relative to the features, a step for one example undoes the gains of
others, and w = v is far from the optimum until D is close to it. The ascent then works
on P(w) + kappa/2 |w - c|^2, where the center c is the w after the previous pass: the
proximal point algorithm, as in the outer loop of Shalev-Shwartz and Zhang (2016), but
with one inexact pass per center and without extrapolation. With S = alpha v,

    w = (S + kappa c) / (alpha + kappa)

after soft thresholding by l1 / (alpha + kappa). D, evaluated at S / alpha, is a lower
bound of P for any w. The sum of the block gaps at w is the gap of the inner problem. If
this gap is only a fraction of P - D, kappa limits the progress, and is halved.
"""

import contextlib
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._weights import Weights
from sksstruct.models.roles import entropy_dual, fits_entropy_dual
from sksstruct.solvers.core.base import GradientSolver, SolverRun, example
from sksstruct.solvers.core.loop import Loop, later_check
from sksstruct.solvers.stochastic.dual_ascent import DualAscentKernel, steepness
from sksstruct.utils._clock import OutOfTime
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._free_memory import free_bytes
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils._param_validation import Count
from sksstruct.utils.parallel import run_in_chunks

# Number of passes in order before sampling by gap: the gap estimate of an example is
# reliable after its second visit.
IN_ORDER = 2
# SDCA can be the default if its dual variables need at most this number of bytes.
ENOUGH_BYTES = 2**29
# The dual variables may also need more bytes, up to this number for each position, as
# is common for text.
BYTES_OF_POSITION = 2**12
# In that case, the dual variables may need at most this number of bytes in total.
MOST_BYTES = 2**31
# Unless the data are on disk, the dual variables may need at most this fraction of the
# free memory.
PART_OF_FREE = 0.5
# Cost of a visit for each entry of the dual variables of single labels, in units of
# table entries that a sweep decodes; measured on texts, images and series.
COST_OF_NODE = 4.0
# Cost of a visit for each entry of the dual variables of pairs, in the same units.
COST_OF_PAIR = 23.0
# Cost of an L-BFGS iteration for each weight, in the same units.
COST_OF_WEIGHT = 55.0
# If an L-BFGS iteration costs less than this, SDCA and L-BFGS both take a few
# hundredths of a second. L-BFGS is then preferred, as it reaches any tolerance.
LITTLE = 5e5
# L-BFGS needs more iterations than SDCA needs passes if there are many examples. The
# ratio is modeled as the cube root of the number of examples divided by this.
EXAMPLES_ROOT = 4.0
# Lower bound of this ratio.
FEWEST = 1.0
# Upper bound of this ratio.
MOST = 2.5
# Initially alpha + kappa is the steepness divided by this. The choice matters little,
# as kappa decreases.
STEEP = 20.0
# Number of examples on which the steepness is computed.
STEEPNESS_EXAMPLES = 500
# kappa is halved if the gap of the inner problem is less than this fraction of the gap.
INNER_PART = 0.4
# kappa is doubled if the objective exceeds this multiple of its lowest value: with
# tiny alpha and weak kappa, steps undo the gains of other examples.
RISEN = 1.1


@fill_doc(example('loss="log", solver="sdca", random_state=0'))
@dataclass(eq=False, repr=False)
class SDCA(GradientSolver):
    """Stochastic dual coordinate ascent: the default for the likelihood.

    Visits one example after the other, and moves its dual variables, the mean
    parameters of a distribution of its labelings [1]_ [3]_, so that the dual objective
    rises. A visit calls the sum-product oracle once. There is no step size to set: the
    solver computes the gain of a step exactly, and uses it to choose the length of the
    next step. The duality gap is a sum over the examples, which are sampled in
    proportion to their share. The gap is useful for any strength of regularization. The
    solver also supports the elastic net [2]_.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes, each of as many visits as there are examples.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective.
    sampling : {"gap", "permutation"}, default="gap"
        Order of the visits after the first two passes: in proportion to the estimated
        gaps, or all examples in a new random order every pass. The first two passes
        are permutations.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the objective and the gap. Each
        computation takes an oracle call per example. "auto": a number that grows with
        the number of passes.

    Notes
    -----
    The solver stores a number of 4 bytes for each score of each example: for each
    position and label, and for each pair of labels. For examples with few scores, up to
    64 MiB of values that follow from these numbers are stored to save time. If less
    memory is free than the numbers take, the solver raises a `MemoryError` before it
    begins.

    If `alpha` is small against the features, the ascent is on the objective plus a
    proximal term ``kappa/2 |w - c|^2``, where c is w at the end of the pass before, as
    in the outer loop of [2]_ without extrapolation. kappa follows from the features,
    and is halved when the term limits the progress. Objective and gap are those of the
    problem without the term.

    References
    ----------
    .. [1] R. Le Priol, A. Piche and S. Lacoste-Julien, "Adaptive stochastic dual
       coordinate ascent for conditional random fields", UAI 2018.
    .. [2] S. Shalev-Shwartz and T. Zhang, "Accelerated proximal stochastic dual
       coordinate ascent for regularized loss minimization", Mathematical Programming
       155, 2016.
    .. [3] M. Collins, A. Globerson, T. Koo, X. Carreras and P. Bartlett, "Exponentiated
       gradient algorithms for conditional random fields and max-margin Markov
       networks", JMLR 9, 2008.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    sampling: Literal["gap", "permutation"] = "gap"
    check_every: Count | Literal["auto"] = "auto"

    required_oracles = ("exp",)
    remedy = "Or try solver='lbfgs'."
    penalties = ("l2", "elasticnet")

    @classmethod
    def suits(
        cls, model: BoundModel, l1: float = 0.0, alpha: float | None = None
    ) -> bool:
        if not model.surrogate.by_sums or not _observed(model):
            return False
        if model.entropy_dual_bytes is None:
            return False
        # with an l1 penalty, SDCA is selected without a comparison of costs
        if l1:
            return True
        return _costs_less(model, alpha) and _fits_memory(model)

    def asks_for(self, model: BoundModel) -> tuple[str, ...]:
        return self.required_oracles

    def check_model(self, model: BoundModel) -> None:
        super().check_model(model)
        if not model.surrogate.by_sums:
            raise ValueError(
                "SDCA keeps distributions of labelings: it needs loss='log' or "
                "smoothing='entropy'"
            )
        if model.entropy_dual_bytes is None:
            raise ValueError(
                "SDCA has no dual variables for this model; use solver='lbfgs'"
            )
        if not _observed(model):
            raise ValueError(
                "missing labels make loss='log' non-convex, which needs solver='lbfgs'"
            )

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        state = dual_state.get("entropy_dual")
        return isinstance(state, dict) and fits_entropy_dual(
            model, state, model.surrogate
        )

    def _solve(self, model, alpha, options):
        return Ascent(self, model, alpha, options).run()


def _costs_less(model, alpha):
    """Whether visits are expected to take less time than L-BFGS.

    The estimate counts table entries read and written. The number of examples has
    little influence, so that a larger data set does not switch to a slower solver.
    """
    sweep = model.n_examples * model.visit_work
    entries = model.entropy_dual_size
    nodes = min(float(model.starts[-1]) * model.ld, entries)
    visits = sweep + COST_OF_NODE * nodes + COST_OF_PAIR * (entries - nodes)
    iteration = sweep + COST_OF_WEIGHT * model.n_weights
    if iteration < LITTLE:
        return False
    if alpha is not None and model.quick_ascent(alpha):
        return True
    ratio = np.clip(np.cbrt(model.n_examples) / EXAMPLES_ROOT, FEWEST, MOST)
    return bool(visits <= ratio * iteration)


def _fits_memory(model):
    """Whether the dual variables are small enough for a default solver."""
    n_bytes = model.entropy_dual_bytes
    usual = BYTES_OF_POSITION * int(model.starts[-1])
    most = max(ENOUGH_BYTES, min(usual, MOST_BYTES))
    return n_bytes <= most and (model.on_disk or n_bytes <= PART_OF_FREE * free_bytes())


def _check_memory(model, l1):
    """Raise an error, before the run, if memory for the dual variables is lacking."""
    taken, free = model.entropy_dual_bytes, free_bytes()
    if model.on_disk or taken <= free:
        return
    labels = getattr(model, "n_labels", None)
    of_labels = "" if labels is None else f" with {labels} labels"
    remedy = "use solver='lbfgs'"
    if l1:
        remedy += ", or fewer labels or examples"
    raise MemoryError(
        f"SDCA keeps a number for each score of each example: {taken} bytes for "
        f"{model.n_examples} examples{of_labels}, and {free} bytes of memory are free; "
        f"{remedy}"
    )


def _observed(model):
    """Whether all labels of the training data were observed."""
    return model.unknown is None


class Ascent(SolverRun):
    """A run of `SDCA`: passes, certificates, and their common state."""

    def __init__(self, solver, model, alpha, options):
        super().__init__(solver, model, alpha, options)
        _check_memory(model, options.l1)
        self.l1 = options.l1
        state = options.dual_state and options.dual_state["entropy_dual"]
        if state and not fits_entropy_dual(model, state, model.surrogate):
            raise ValueError(
                "dual_state must be of the same examples, labels and loss: pass None, "
                "or set warm_start=False"
            )
        self.dual = entropy_dual(model, model.surrogate, state)
        self.loop = Loop(solver, alpha, options)
        self.kappa = self.next_kappa = self.most_kappa = self.first_kappa()
        self.lowest = np.inf
        total = alpha + self.kappa
        self.weights = Weights(
            model.n_weights, threshold=options.l1 / total, support=model.support
        )
        self.kernel = DualAscentKernel(self.dual, self.weights, total)
        self.center = aligned_zeros(model.n_weights) if self.kappa else None
        if state:
            self.kernel.restore()
            if self.kappa:
                self.center[:] = options.start(model.n_weights)
                self.weights.set(self.weights.v + self.kappa / total * self.center)
        self.losses, self.gaps = np.empty((2, model.n_examples))
        self.next_check = 0
        # whether the gaps for sampling are exact, not estimates
        self.exact_gaps = False

    def first_kappa(self):
        """Return the initial strength of the proximal term."""
        n = self.model.n_examples
        sample = np.linspace(0, n - 1, min(n, STEEPNESS_EXAMPLES)).astype(np.intp)
        with self.loop.at_start():
            kappa = steepness(self.dual, sample) / STEEP - self.alpha
        # a weak proximal term changes little
        return kappa if kappa > self.alpha else 0.0

    def run(self):
        """Make passes until the duality gap is small enough."""
        with contextlib.suppress(OutOfTime), self.loop.at_start():
            self.look()
        return self.loop.run(
            self.one_pass, self.look, self.state, lambda: self.weights.w.copy()
        )

    def state(self):
        """Return the state that another run can start from."""
        return {"weights": self.loop.weights, "entropy_dual": self.dual.state()}

    def one_pass(self):
        """Make as many visits as examples; return whether no visit can improve D."""
        n, kernel, loop = self.model.n_examples, self.kernel, self.loop
        if self.kappa:
            self.recenter()
        before, kernel.gain = kernel.oracle_calls, 0.0
        exact, self.exact_gaps = self.exact_gaps, False
        complete = True
        if self.solver.sampling == "gap" and loop.n_iter > IN_ORDER:
            complete = kernel.visit_by_gap(self.rng.random_sample(n))
        else:
            kernel.visit_in_order(self.rng.permutation(n).astype(np.intp))
        loop.calls += kernel.oracle_calls - before
        if loop.n_iter >= self.next_check or not complete:
            self.look()
        # only exact gaps of zero prove optimality
        return kernel.gain == 0.0 and (complete or exact) and not self.kappa

    def recenter(self):
        """Move the center to the weights, and set kappa as chosen by `look`."""
        old, new = self.kappa, self.next_kappa
        total = self.alpha + new
        self.weights.recenter(
            self.center,
            (self.alpha + old) / total,
            old / total,
            new / total,
            self.l1 / total,
        )
        self.kernel.use(self.weights, total)
        self.kappa = new

    def own_weights(self):
        """Return the weights that the dual variables define without a proximal term."""
        if not self.kappa:
            return self.weights.w
        v = (1.0 + self.kappa / self.alpha) * self.weights.v
        v -= self.kappa / self.alpha * self.center
        if self.l1:
            v = np.sign(v) * np.maximum(np.abs(v) - self.l1 / self.alpha, 0.0)
        return v if self.model.support is None else v[self.model.support]

    def dual_value(self):
        """Return D at the dual variables."""
        dual = self.dual
        # far from the optimum with tiny alpha, D may overflow, and gives no bound
        with np.errstate(over="ignore", invalid="ignore"):
            w = self.own_weights()
            square = float(w @ w)
        if not np.isfinite(square):
            return -np.inf
        linear = self.model.example_weights @ (dual.losses + dual.entropies)
        return float(linear) - self.alpha / 2 * square

    def look(self):
        """Compute and report the objective, the dual value and the block gaps."""
        w = self.weights.w

        def check(first, last):
            dual = self.dual.sharing()
            workspace = self.model.workspace(w, training=False)
            dual.check(workspace, first, last, self.losses, self.gaps)

        run_in_chunks(check, self.model.n_examples, self.n_jobs)
        shares = self.model.example_weights
        self.kernel.set_gaps(shares * self.gaps)
        self.exact_gaps = True
        self.loop.calls += self.model.n_examples
        penalty = self.alpha / 2 * float(w @ w)
        if self.l1:
            penalty += self.l1 * float(np.abs(w).sum())
        primal, dual = float(shares @ self.losses) + penalty, self.dual_value()
        self.loop.report(primal, w, dual)
        if shares @ self.gaps < INNER_PART * (primal - dual):
            # a weak proximal term is dropped, as it changes little
            weak = self.kappa < self.alpha
            self.next_kappa = 0.0 if weak else self.kappa / 2.0
        if self.kappa and primal > RISEN * self.lowest:
            self.next_kappa = min(2.0 * self.kappa, self.most_kappa)
        self.lowest = min(self.lowest, primal)
        self.next_check = later_check(self.loop, self.solver.check_every)
