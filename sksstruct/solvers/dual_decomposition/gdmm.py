"""Greedy direction method of multipliers: training through factorwise oracles.

Algorithm 1 of Yen et al. (2016): a pass over the factors that minimizes the augmented
Lagrangian (12), then a step of the multipliers (13). `_state.pyx` states notation,
blocks and signs. Dual values are reported at a feasible point near the iterate
(`_feasible.pyx`): lower bounds of the optimum, so that the duality gap is a
certificate.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._factors import BinaryFactorModel
from sksstruct.models.roles import factor_model
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.dual_decomposition._away_state import AwayGDMMState
from sksstruct.solvers.dual_decomposition._clique_state import CliqueGDMMState
from sksstruct.solvers.dual_decomposition._feasible import (
    clique_changes,
    expected_loss,
    feasible_changes,
)
from sksstruct.solvers.dual_decomposition._multipliers import scaled_multipliers
from sksstruct.solvers.dual_decomposition._state import GDMMState
from sksstruct.solvers.dual_decomposition.binary_state import BinaryGDMMState
from sksstruct.solvers.dual_decomposition.feasible_joint import joint_value
from sksstruct.solvers.dual_decomposition.restart import (
    check_state,
    export_cliques,
    export_state,
    restore_cliques,
    restore_state,
    signature,
)
from sksstruct.utils._param_validation import Count, NonNegativeInt, Positive

# Initial rho, as a multiple of the mean curvature of a pair; with update="afw" it is 1.
_START = 4.0
# rho is adapted such that the relative primal residual is this multiple, the balance,
# of the dual residual.
_BALANCE = 5.0
# Initial balance with inner steps or cached passes. With these additional steps, the
# distributions can follow the larger steps of multipliers that a larger rho causes.
_CACHED_BALANCE = 1.0
# The balance is reduced if the primal residual at the end of a period is more than this
# multiple of its value before: rho is then too small for the steps to converge.
_FALL = 0.95
# Number of passes in a period, at whose end the balance may change.
_PERIOD = 5
# Number of passes before the balance may change.
_FIRST_PASSES = 20
# Factor by which the balance, or eta, is reduced.
_REDUCTION = 0.6
# Lower bound of a reduced balance, unless there are cycles. The first reduction raises
# an initial balance below this bound.
_LEAST_BALANCE = 1.5
# If pairs form cycles, the steps need a larger rho to converge. The initial rho is then
# at least this multiple of the mean cost, the scale of the multipliers.
_LOOPY_START = 3.0
# Initial balance if there are cycles.
_LOOPY_BALANCE = 0.5
# Lower bound of the balance if there are cycles.
_LOOPY_LEAST_BALANCE = 0.1
# If there are cycles, the balance is reduced if the primal residual at the end of a
# period is more than this multiple of its value before.
_LOOPY_RISE = 1.0
# If there are cycles, the balance, or eta, grows again if the primal residual at the
# end of a period is less than this multiple of its value before: rho may be too large.
_LOOPY_FALL = 0.9
# Factor by which the balance, or eta, grows if there are cycles.
_LOOPY_GROWTH = 1.25
# Upper bound of the balance if there are cycles.
_LOOPY_MOST_BALANCE = 1.0
# With the balance at its lower bound, eta is reduced, down to this fraction of the
# solver's `eta`.
_LEAST_ETA = 0.1
# Largest factor by which rho changes between two passes.
_CHANGE = 1.25
# Largest factor between rho and its first value.
_RANGE = 1e4
# First pass after which check_every="auto" may compute the objective.
_FIRST_EVALUATION = 5
# An outcome becomes active only if its gain is above the gain at which its q becomes
# positive, by at least this fraction of tol times its loss. All outcomes that stay
# inactive by this rule add only a small fraction of the target to the duality gap.
_IGNORE = 0.1
# The gain must also be above the gain at which q becomes positive by at least this
# multiple of the relative duality gap times the loss. Far from the optimum, most other
# outcomes would soon have q = 0 again, but would make visits of the factor slower.
_IGNORE_GAP = 1.0
# Before the first duality gap is computed, the gain must be above the gain at which q
# becomes positive by at least this fraction of the loss. Later, the multiple of the
# relative gap is at most this fraction.
_IGNORE_FIRST = 0.3
# Binary labels: number of passes without pairs, before the passes with pairs.
_PASSES_ALONE = 2
# Binary labels: numbers of passes with pairs after which unneeded pairs are
# deactivated.
_DEACTIVATE_AFTER = 5, 10, 20
# Binary labels: largest number of pairs with a positive score that a visit activates.
_NEW_PAIRS = 16


@dataclass(eq=False, repr=False)
class FactorSolver(Solver):
    """Base of the solvers that split training into a problem for each factor.

    Parameters
    ----------
    max_iter, tol, update, oracle, partitions, rho, check_every : objects
        See `GDMM`.
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    update: Literal["auto", "bcfw", "afw", "bgcd"] = "auto"
    oracle: Literal["sublinear", "scan"] = "sublinear"
    partitions: Count | Literal["auto"] = "auto"
    rho: Positive | Literal["auto"] = "auto"
    check_every: Count | Literal["auto"] = "auto"

    # the published algorithms have no further steps; in `GDMM`, these are parameters
    inner_steps = cached_passes = 0

    required_oracles = ("factors",)

    def layout(self, model: BoundModel) -> Any:
        # the flat weights of this solver are those of the factor model, which may store
        # weights in another order than the bound model
        return factor_model(model)

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        state, factors = dual_state.get("factors"), factor_model(model)
        # binary labels and away steps store distributions in other forms
        if not isinstance(state, dict) or isinstance(factors, BinaryFactorModel):
            return False
        return self.update != "afw" and state.get("signature") == signature(factors)

    def _solve(self, model, alpha, options):
        factors = factor_model(model)
        is_binary = isinstance(factors, BinaryFactorModel)
        # "bgcd" has a variant for binary labels; other updates need a graph of pairs
        if is_binary and self.update not in ("auto", "bgcd"):
            factors, is_binary = factors.graph(), False
        if _has_cliques(factors) and self.update == "afw":
            raise ValueError(
                "update='afw' takes pairs of variables, and not cliques of more: use "
                "update='bcfw' or 'bgcd'"
            )
        return self._run_type(is_binary)(self, factors, alpha, options).run()

    def _run_type(self, is_binary):
        """Return the class that runs this solver."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class GDMM(FactorSolver):
    """Greedy direction method of multipliers: for thousands of labels or many pairs.

    Splits training into one multiclass problem for each factor, and passes messages
    between factors that share a variable. Each visit maximizes over the outcomes of one
    factor, and never over labelings. Only the few outcomes that get a probability are
    stored.
    Use it for variables with many labels, or for many pairs of binary variables.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes over the factors.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.
    update : {"auto", "bcfw", "afw", "bgcd"}, default="auto"
        How a pass over the factors is made.

        - "bcfw": one step for each factor in turn, on its active outcomes
          (Algorithm 4).
        - "afw": away-step Frank-Wolfe on all factors at once (Algorithm 2). The
          convergence theorem of the paper is about this variant, which is slow, and
          meant for small problems. A pass moves all factors by one step size, so that
          minimizing the augmented Lagrangian for given multipliers takes most passes.
        - "bgcd": block-greedy coordinate descent, in which every example activates the
          factor with the largest expected gain and makes steps for the active factors
          (Algorithm 3).
        - "auto": "bgcd" for binary labels, as in `MultilabelPairwise`, else "bcfw".

        For graphs with cliques, use "bcfw" or "bgcd".
    oracle : {"sublinear", "scan"}, default="sublinear"
        How the best outcome of a factor is found. "sublinear" keeps the scores of
        indicator factors sorted, and searches one part of the labels of inner-product
        factors at a time; "scan" evaluates every outcome.
    partitions : int or "auto", default="auto"
        Number of parts into which the labels of an inner-product factor are divided.
        Each visit searches one of them. "auto" is about one eighth of the square root
        of the number of labels.
    rho : float or "auto", default="auto"
        Weight of the quadratic terms of the augmented Lagrangian, in the units of the
        scores. "auto" starts at a multiple of the mean curvature of the factors, and
        then balances the primal and the dual residuals.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the objective and the dual value.
        "auto" chooses it so that the computations take a small part of the time.
    eta : float, default=1.0
        Step size of the multipliers, in units of `rho`. With ``update="afw"`` it is the
        largest step size: steps are shorter if the minimization makes too little
        progress.
    inner_steps : int, default=1
        Number of additional steps per visit for each factor of an example, among active
        outcomes. Each step follows an update of the multipliers of the example.
        `inner_steps` and `cached_passes` are used only with ``update="bcfw"``. With
        both at zero, the solver is Algorithm 4.
    cached_passes : int or "auto", default="auto"
        Number of passes among active outcomes only, after each pass with oracles.
        "auto" is one. It is zero for graphs with cycles and without cliques, because
        multipliers that move more often than outcomes are added converge more slowly.

    Notes
    -----
    ``history_`` has two more columns: ``infeasibility``, the mean total variation
    distance between the marginals of the factors and the distributions of their
    variables, and ``elements``, the number of scores that the oracles have evaluated.

    The objective is that of the LP relaxation. On chains and forests the relaxation is
    tight, and the objective is that of the structured support vector machine.

    References
    ----------
    I. E.-H. Yen, X. Huang, K. Zhong, R. Zhang, P. Ravikumar and I. S. Dhillon, "Dual
    decomposed learning with factorwise oracle for structural SVM of large output
    domain", NIPS 2016.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.solvers import GDMM
    >>> X = [[[0.0], [1.0], [0.0]], [[1.0], [0.0]]]
    >>> y = [["low", "high", "low"], ["high", "low"]]
    >>> tagger = ChainCRF(alpha=0.1, solver=GDMM(tol=1e-3), random_state=0).fit(X, y)
    >>> tagger.predict([[[1.0], [1.0], [0.0]]])[0].tolist()
    ['high', 'high', 'low']
    """

    _: KW_ONLY
    eta: Positive = 1.0
    inner_steps: NonNegativeInt = 1
    cached_passes: NonNegativeInt | Literal["auto"] = "auto"  # type: ignore[assignment]

    def _run_type(self, is_binary):
        return BinaryGDMMRun if is_binary else GDMMRun


class GDMMRun:
    """A run of `GDMM`, or of a solver derived from it, on a model of factors.

    Parameters
    ----------
    solver : GDMM
        The solver whose parameters the run uses.
    model : FactorModel
        The model bound to its training data; its weights are overwritten.
    alpha : float
        Regularization.
    options : Options
        Random state, threads and output.
    """

    # With check_every="auto", the objective is evaluated once the oracles have read
    # this many times the number of scores that one evaluation reads.
    evaluation_interval = 5.0

    def __init__(self, solver, model, alpha, options):
        self.solver, self.model, self.alpha = solver, model, alpha
        self.n_jobs = options.n_jobs
        self.rng = check_random_state(options.random_state)
        model.start()
        # mean curvature of a pair: mean of C_i times the squared norm of the pair's
        # features
        self.curvature = float(np.mean(model.example_weights)) / alpha
        self.curvature *= model.pair_norm or 1.0
        self.first_rho = self.initial_rho()
        self.balance = _CACHED_BALANCE if any(self.further_steps()) else _BALANCE
        self.least_balance = _LEAST_BALANCE
        if self.is_loopy:
            self.balance, self.least_balance = _LOOPY_BALANCE, _LOOPY_LEAST_BALANCE
        previous = options.dual_state and options.dual_state["factors"]
        self.eta, self.residuals = solver.eta, []
        self.loop = Loop(
            solver,
            alpha,
            options,
            scale=model.loss_at_zero(),
            extra=("infeasibility", "elements"),
        )
        self.state = self.make_state()
        self.visited_before = 0
        self.is_warm = previous is not None
        if self.is_warm:
            check_state(model, previous)
            # rho keeps its ratio to the curvature, which a new alpha changes
            if self.adapts_rho:
                self.state.set_rho(previous["rho"] * self.curvature)
            restore_state(self.state, previous["arrays"])
            if _has_cliques(model):
                restore_cliques(self.state, previous["cliques"])

    def initial_rho(self):
        """Return the weight of the quadratic terms in the first pass."""
        if self.solver.rho != "auto":
            return self.solver.rho
        rho = (1.0 if self.solver.update == "afw" else _START) * self.curvature
        return max(rho, _LOOPY_START * self.model.mean_cost()) if self.is_loopy else rho

    @property
    def is_loopy(self):
        """Whether the pairs of variables form cycles."""
        return self.model.loopy

    @property
    def adapts_rho(self):
        """Whether rho is adapted to the residuals.

        The update "afw" makes one step for all factors at once, so that its residuals
        do not show whether rho is too small.
        """
        return self.solver.rho == "auto" and self.solver.update != "afw"

    def further_steps(self):
        """Return `inner_steps` and `cached_passes`, which only "bcfw" uses."""
        if self.solver.update in ("bgcd", "afw"):
            return 0, 0
        cached = self.solver.cached_passes
        if cached == "auto":
            cached = int(not self.is_loopy or _has_cliques(self.model))
        return self.solver.inner_steps, cached

    def final_status(self):
        """Return a status if the run ends whatever the duality gap is, else None."""
        return None

    def make_state(self):
        """Divide the labels of the model into parts, and return the initial state."""
        solver, model = self.solver, self.model
        n_parts = solver.partitions
        if solver.oracle == "scan":
            n_parts = 1
        elif n_parts == "auto":
            n_parts = max(1, round(np.sqrt(model.n_labels) / 8))
        self.n_parts = model.set_partition(n_parts)
        state_type = AwayGDMMState if solver.update == "afw" else GDMMState
        if _has_cliques(model):
            state_type = CliqueGDMMState
        state = state_type(model, self.alpha, self.first_rho)
        state.ignore = max(_IGNORE * solver.tol, _IGNORE_FIRST)
        return state

    def run(self):
        """Make passes until the duality gap is small enough; return the result."""
        if self.is_warm:
            self.evaluate()
        else:
            zero = np.zeros_like(self.model.weights())
            self.loop.report(self.loop.scale, zero, 0.0, extra=(0.0, 0))
        weights = self.model.weights
        return self.loop.run(self.one_pass, self.evaluate, self.export, weights)

    def export(self):
        """Return the state that another run can start from; empty with "afw"."""
        if self.solver.update == "afw":
            return {}
        state = {
            "signature": signature(self.model),
            "arrays": export_state(self.state),
            "rho": self.state.rho / self.curvature,
        }
        if _has_cliques(self.model):
            state["cliques"] = export_cliques(self.state)
        return {"factors": state}

    def one_pass(self):
        """Carry out steps 1 and 2 of Algorithm 1, and evaluate if a check is due."""
        self.step()
        self.loop.calls = self.state.calls
        status = self.final_status()
        if self.is_time_to_evaluate() or status:
            self.evaluate()
        return status

    def step(self):
        """Make one pass over the factors, and update multipliers and rho."""
        solver, state = self.solver, self.state
        linear = solver.oracle == "scan"
        n = self.model.n_variables
        parts = self.rng.random_sample(n) if self.n_parts > 1 else np.full(n, -1.0)
        if solver.update == "afw":
            state.away_step(parts, linear)
            return self.move_multipliers()
        inner_steps, cached_passes = self.further_steps()
        for n_before in range(1 + cached_passes):
            order = self.rng.permutation(self.model.n_examples).astype(np.intp)
            state.visit(
                order,
                parts,
                linear,
                solver.update == "bgcd",
                oracles=n_before == 0,
                inner_steps=inner_steps,
                eta=self.eta,
            )
            self.move_multipliers()

    def move_multipliers(self):
        """Carry out step 2 of Algorithm 1, and adapt rho to the residuals."""
        self.state.update(self.eta)
        if self.adapts_rho:
            self.state.set_rho(self.next_rho())

    def next_rho(self):
        """Return the rho that balances the residuals."""
        state = self.state
        self.residuals.append(state.primal_residual)
        n = len(self.residuals)
        if n >= _FIRST_PASSES and n % _PERIOD == 0:
            self.adapt_balance(self.residuals[-1], self.residuals[-1 - _PERIOD])
        if not (state.primal_residual > 0.0 and state.dual_residual > 0.0):
            return state.rho
        ratio = state.primal_residual / (self.balance * state.dual_residual)
        rho = state.rho * np.clip(ratio**0.25, 1 / _CHANGE, _CHANGE)
        rho_range = self.first_rho / _RANGE, self.first_rho * _RANGE
        return float(np.clip(rho, *rho_range))

    def adapt_balance(self, residual, before):
        """Adapt the balance, and eta, to the change of the primal residual in a period.

        `residual` is the primal residual now, and `before` that one period earlier.
        """
        most_eta = self.solver.eta
        if residual > (_LOOPY_RISE if self.is_loopy else _FALL) * before:
            if self.balance == self.least_balance:
                # if the residual does not fall at the least balance, the multipliers
                # oscillate
                self.eta = max(_REDUCTION * self.eta, _LEAST_ETA * most_eta)
            self.balance = max(_REDUCTION * self.balance, self.least_balance)
        elif self.is_loopy and residual < _LOOPY_FALL * before:
            if self.eta == most_eta:
                balance = _LOOPY_GROWTH * self.balance
                self.balance = min(balance, _LOOPY_MOST_BALANCE)
            self.eta = min(_LOOPY_GROWTH * self.eta, most_eta)

    def is_time_to_evaluate(self):
        """Return whether the objective is computed after this pass."""
        loop, every = self.loop, self.solver.check_every
        if every != "auto":
            return loop.n_iter % every == 0
        if loop.n_iter < _FIRST_EVALUATION:
            return False
        # work is counted rather than timed, so that runs are reproducible
        visited = self.model.visited - self.visited_before
        return visited >= self.evaluation_interval * self.model.work_of_maxima()

    def evaluate(self):
        """Report the objective and a dual value at the current weights."""
        weights = self.model.weights()
        loss = self.maxima(weights)
        primal = loss + self.alpha / 2 * float(weights @ weights)
        dual = self.dual_value()
        ignored = min(_IGNORE_GAP * (primal - dual) / self.loop.scale, _IGNORE_FIRST)
        self.state.ignore = max(_IGNORE * self.solver.tol, ignored)
        extra = (self.state.infeasibility, self.model.visited)
        self.loop.report(primal, weights, dual, extra=extra)
        self.visited_before = self.model.visited

    def dual_value(self):
        """Return the dual value of a feasible point near the iterate."""
        if self.model.constrained:
            return joint_value(self.state)
        return self.expected_loss() - self.alpha / 2 * self.feasible_square()

    def maxima(self, weights):
        """Return the loss at the weights, or an upper bound from the multipliers."""
        messages = partial(scaled_multipliers, self.state)
        return self.model.maxima(weights, self.n_jobs, messages)

    def expected_loss(self):
        """Return the expected loss, which is the linear term of the dual value."""
        return expected_loss(self.state)

    def feasible_square(self):
        """Return |w|^2 at the feasible point near the iterate."""
        square = self.model.square_with(*feasible_changes(self.state))
        if not _has_cliques(self.model):
            return square
        tables = self.model.cliques.weights + clique_changes(self.state)
        return square + float(tables @ tables)


def _has_cliques(model):
    """Whether a model has factors of three and more variables."""
    return model.cliques is not None


class BinaryGDMMRun(GDMMRun):
    """A run on binary labels and pairs of them: Algorithm 3."""

    # the interval is smaller than for other models: a pass reads few pairs, while an
    # evaluation counts every pair as four scores
    evaluation_interval = 2.0

    def further_steps(self):
        return 0, 0

    def export(self):
        return {}

    def make_state(self):
        """Choose how passes search for pairs, and return the initial state."""
        solver = self.solver
        # labels are divided into parts only if `partitions` is a number, and not with
        # oracle="scan"; otherwise each visit scores all labels
        is_divided = solver.oracle != "scan" and solver.partitions != "auto"
        self.n_parts = solver.partitions if is_divided else 1
        # the first passes are without pairs, but at least the last pass has pairs
        self.n_alone = min(_PASSES_ALONE, solver.max_iter - 1)
        state = BinaryGDMMState(self.model, self.alpha, self.first_rho)
        # this threshold is used until the first evaluation computes a duality gap
        state.ignore = _IGNORE * solver.tol
        return state

    def step(self):
        solver, state, model = self.solver, self.state, self.model
        n = model.n_examples
        order = self.rng.permutation(n).astype(np.intp)
        if self.loop.n_iter <= self.n_alone:
            # The first passes are without pairs: at w = 0 every label moves, and would
            # activate all of its pairs.
            state.visit_alone(order)
            if self.loop.n_iter == self.n_alone:
                state.begin_pairs()
            return
        parts = self.rng.random_sample(n) if self.n_parts > 1 else np.zeros(n)
        n_new_pairs = model.n_pairs if solver.oracle == "scan" else _NEW_PAIRS
        state.visit(order, parts, self.n_parts, n_new_pairs, self.eta)
        if self.adapts_rho:
            state.rho = self.next_rho()
        if self.loop.n_iter - self.n_alone in _DEACTIVATE_AFTER:
            state.deactivate_pairs()

    def maxima(self, weights):
        return self.model.maxima(weights, self.n_jobs)

    def expected_loss(self):
        return self.state.expected_loss()

    def feasible_square(self):
        return self.model.square_with(self.state.feasible_changes())
