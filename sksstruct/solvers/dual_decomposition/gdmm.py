"""Greedy direction method of multipliers: training through factorwise oracles.

Algorithm 1 of Yen et al. (2016); the augmented Lagrangian, its blocks and the signs are
stated in `_gdmm.pyx`. The dual value that is reported belongs to a feasible point, next
to the iterate: it is a lower bound of the optimum, and the duality gap a certificate.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.models.protocols._factors import BinaryFactorModel
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.dual_decomposition._away_state import AwayGDMMState
from sksstruct.solvers.dual_decomposition._binary_state import BinaryGDMMState
from sksstruct.solvers.dual_decomposition._feasible import (
    expected_loss,
    feasible_changes,
)
from sksstruct.solvers.dual_decomposition._state import GDMMState
from sksstruct.utils._param_validation import Interval, StrOptions

# rho begins with so many times the curvature p_i / alpha of a pair, and follows the
# residuals: the relative primal one is kept at so many times the relative dual one.
_START, _BALANCE = 4.0, 5.0
# Where the primal one falls by less than this in so many passes, after the first ones,
# rho is too small for the steps to converge, and that ratio is reduced.
_FALL, _PERIOD, _FIRST_PASSES, _REDUCTION, _LEAST = 0.95, 5, 20, 0.6, 1.5
# Where it is as small as that already, the multipliers' steps are reduced.
_LEAST_ETA = 0.1
# Largest change of rho between two passes, and in all.
_CHANGE, _RANGE = 1.25, 1e4
# Passes before the objective is computed for the first time.
_FIRST_LOOK = 5
# Outcomes that would gain less than this part of tol times their loss are left out.
_IGNORE = 0.1
# Passes over labels without pairs, and passes with them before those that came in too
# early are let go.
_PASSES_ALONE, _FORGET_AFTER = 2, (5, 10, 20)
# Pairs of labels that an example lets in at a time.
_NEW_PAIRS = 16


class GDMM(Solver):
    """Greedy direction method of multipliers.

    Splits training into one multiclass problem for each factor, and passes messages
    between factors that share a variable. Visits maximise over the outcomes of one
    factor and never over labelings; only outcomes that were ever worth it are kept.
    For variables with many labels, or many pairs of binary variables.

    Parameters
    ----------
    max_iter : int, default=1000
        Largest number of passes over the factors.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.
    update : {"auto", "bcfw", "afw", "bgcd"}, default="auto"
        "auto": "bgcd" for labels that are on or off, as `MultilabelPairwise` has them,
        else "bcfw". "bcfw": a step for one factor after the other, on its active
        outcomes (Algorithm 4). "afw": away-step Frank-Wolfe over all factors at once
        (Algorithm 2), for small problems: the theory's algorithm, which is slow.
        "bgcd": block-greedy coordinate descent, where every example lets in its most
        promising factor and steps for its active ones (Algorithm 3).
    oracle : {"sublinear", "scan"}, default="sublinear"
        How outcomes are found: with ordered scores for indicator factors and a part
        of the labels at a time for inner-product factors; or by looking at all of
        them.
    partitions : int or "auto", default="auto"
        Parts into which the labels of an inner-product factor are divided, one of
        which is looked at in a visit. "auto" is about the square root of the number of
        labels over eight, so that a part has eight times the square root.
    rho : float or "auto", default="auto"
        Weight of the quadratic terms of the augmented Lagrangian, relative to the
        scores. "auto" begins at the mean curvature of the factors and balances the
        residuals.
    eta : float, default=1.0
        Step of the multipliers in units of `rho`.
    check_every : int or "auto", default="auto"
        Passes between two computations of the objective and the dual value; "auto"
        keeps their share of the time small.

    Notes
    -----
    ``history_`` has two more columns: ``infeasibility``, the mean total variation
    distance between the marginals of the factors and the distributions of their
    variables, and ``elements``, the number of scores that the oracles have looked at.

    The objective is that of the LP relaxation: the structured support vector machine's
    on chains, where the relaxation is tight.

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

    required_oracles = ("factors",)
    _parameter_constraints = {
        **Solver._parameter_constraints,
        "update": [StrOptions({"auto", "bcfw", "afw", "bgcd"})],
        "oracle": [StrOptions({"sublinear", "scan"})],
        "partitions": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "rho": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "eta": [Interval(Real, 0, None, closed="neither")],
        "check_every": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
    }

    def __init__(
        self,
        max_iter=1000,
        tol=3e-3,
        *,
        update="auto",
        oracle="sublinear",
        partitions="auto",
        rho="auto",
        eta=1.0,
        check_every="auto",
    ):
        self.max_iter = max_iter
        self.tol = tol
        self.update = update
        self.oracle = oracle
        self.partitions = partitions
        self.rho = rho
        self.eta = eta
        self.check_every = check_every

    def _solve(self, model, alpha, options):
        kind = BinaryRun if isinstance(model, BinaryFactorModel) else Run
        return kind(self, model, alpha, options).run()


class Run:
    """One run of `GDMM` or a relative of it on a model of factors."""

    # oracles look at so many times the scores of computing the objective in between
    work = 5.0

    def __init__(self, solver, model, alpha, options):
        self.solver, self.model, self.alpha = solver, model, alpha
        self.n_jobs = options.n_jobs
        self.rng = check_random_state(options.random_state)
        model.start()
        # of a pair of weight one
        self.curvature = float(np.mean(model.example_weights)) / alpha
        self.first_rho = self.rho_at_start()
        self.balance, self.eta, self.residuals = _BALANCE, solver.eta, []
        self.loop = Loop(
            solver,
            alpha,
            options,
            scale=model.loss_at_zero(),
            extra=("infeasibility", "elements"),
        )
        self.state = self.make_state()
        self.looked = 0

    def rho_at_start(self):
        """The weight of the quadratic terms, or what it begins with."""
        if self.solver.rho != "auto":
            return self.solver.rho
        return (1.0 if self.solver.update == "afw" else _START) * self.curvature

    @property
    def adapts(self):
        """Whether rho follows the residuals; they say nothing after one step of all
        factors at once."""
        return self.solver.rho == "auto" and self.solver.update != "afw"

    def is_done(self):
        """A status where passes make no more progress, whatever the gap is."""
        return None

    def make_state(self):
        """Distributions and multipliers, and the parts of the labels."""
        solver, model = self.solver, self.model
        parts = solver.partitions
        if solver.oracle == "scan":
            parts = 1
        elif parts == "auto":
            parts = max(1, round(np.sqrt(model.n_labels) / 8))
        self.n_parts = model.set_partition(parts)
        kind = AwayGDMMState if solver.update == "afw" else GDMMState
        state = kind(model, self.alpha, self.first_rho)
        state.ignore = _IGNORE * solver.tol
        return state

    def run(self):
        """Passes until the gap is small enough."""
        zero = np.zeros_like(self.model.weights())
        self.loop.report(self.loop.scale, zero, 0.0, extra=(0.0, 0))
        return self.loop.run(self.one_pass, self.look, dual_state=dict)

    def one_pass(self):
        """Step 1 and 2 of Algorithm 1, and a look where it is time."""
        self.step()
        self.loop.calls = self.state.calls
        done = self.is_done()
        if self.is_time() or done:
            self.look()
        return done

    def step(self):
        """One pass over the factors, and the multipliers."""
        solver, state = self.solver, self.state
        linear = solver.oracle == "scan"
        n = self.model.n_variables
        parts = self.rng.random_sample(n) if self.n_parts > 1 else np.full(n, -1.0)
        if solver.update == "afw":
            state.away_step(parts, linear)
        else:
            order = self.rng.permutation(self.model.n_examples).astype(np.intp)
            state.visit(order, parts, linear, solver.update == "bgcd")
        state.update(self.eta)
        if self.adapts:
            state.set_rho(self.next_rho())

    def next_rho(self):
        """A weight of the quadratic terms that balances the residuals."""
        state = self.state
        self.residuals.append(state.primal_residual)
        n = len(self.residuals)
        if n >= _FIRST_PASSES and n % _PERIOD == 0:
            if self.residuals[-1] > _FALL * self.residuals[-1 - _PERIOD]:
                if self.balance == _LEAST:
                    # the multipliers turn in circles
                    self.eta = max(_REDUCTION * self.eta, _LEAST_ETA * self.solver.eta)
                self.balance = max(_REDUCTION * self.balance, _LEAST)
        if not (state.primal_residual > 0.0 and state.dual_residual > 0.0):
            return state.rho
        ratio = state.primal_residual / (self.balance * state.dual_residual)
        rho = state.rho * np.clip(ratio**0.25, 1 / _CHANGE, _CHANGE)
        limits = self.first_rho / _RANGE, self.first_rho * _RANGE
        return float(np.clip(rho, *limits))

    def is_time(self):
        """Whether the objective is computed after this pass."""
        loop, every = self.loop, self.solver.check_every
        if every != "auto":
            return loop.n_pass % every == 0
        if loop.n_pass < _FIRST_LOOK:
            return False
        # counted and not timed, so that a run can be repeated
        done = self.model.visited - self.looked
        return done >= self.work * self.model.work_of_maxima()

    def look(self):
        """Compute the objective at the weights, and a dual value."""
        weights = self.model.weights()
        value = self.model.maxima(weights, self.n_jobs)
        primal = value + self.alpha / 2 * float(weights @ weights)
        dual = self.expected_loss() - self.alpha / 2 * self.feasible_square()
        extra = (self.state.infeasibility, self.model.visited)
        self.loop.report(primal, weights, dual, extra=extra)
        self.looked = self.model.visited

    def expected_loss(self):
        """The linear term of the dual."""
        return expected_loss(self.state)

    def feasible_square(self):
        """|w|^2 of the feasible point next to the iterate."""
        return self.model.square_with(*feasible_changes(self.state))


class BinaryRun(Run):
    """A run on labels that are on or off, and pairs of them: Algorithm 3."""

    work = 2.0

    def make_state(self):
        solver, model = self.solver, self.model
        parts = 1
        if solver.oracle != "scan" and solver.partitions != "auto":
            parts = solver.partitions
        self.n_parts = parts
        self.n_alone = min(_PASSES_ALONE, solver.max_iter - 1)
        state = BinaryGDMMState(model, self.alpha, self.first_rho)
        state.ignore = _IGNORE * solver.tol
        return state

    def step(self):
        solver, state, model = self.solver, self.state, self.model
        n = model.n_examples
        order = self.rng.permutation(n).astype(np.intp)
        if self.loop.n_pass <= self.n_alone:
            # at w = 0 every label would move, and with it every pair come in
            state.visit_alone(order)
            if self.loop.n_pass == self.n_alone:
                state.begin_pairs()
            return
        parts = self.rng.random_sample(n) if self.n_parts > 1 else np.zeros(n)
        most = model.n_pairs if solver.oracle == "scan" else _NEW_PAIRS
        state.visit(order, parts, self.n_parts, most, self.eta)
        if self.adapts:
            state.rho = self.next_rho()
        if self.loop.n_pass - self.n_alone in _FORGET_AFTER:
            state.deactivate_pairs()

    def expected_loss(self):
        return self.state.expected_loss()

    def feasible_square(self):
        return self.model.square_with(self.state.feasible_changes())
