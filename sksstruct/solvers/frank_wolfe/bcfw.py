"""Block-coordinate Frank-Wolfe for the structured hinge loss.

This file has the solver and its certificates; `_bcfw.pyx` states notation and steps.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.random import RandomState
from sklearn.utils import check_random_state

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.core.base import SCALING, Solver
from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.core.loop import Loop, next_check
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.frank_wolfe._bcfw import BCFWKernel
from sksstruct.solvers.frank_wolfe.exported import export, fits, restore
from sksstruct.solvers.frank_wolfe.passes import Passes
from sksstruct.utils._param_validation import (
    Count,
    Interval,
    NonNegative,
    NonNegativeInt,
    Options,
)
from sksstruct.utils.parallel import run_in_chunks

# Type of positive parameters that kernels store in 32 bits.
Small = Annotated[int, Interval(Integral, 1, 2**31, closed="left")]


@dataclass(eq=False, repr=False)
class BCFW(Solver):
    """Block-coordinate Frank-Wolfe: the default for the hinge.

    Maximizes the dual of

        ``alpha/2 |w|^2 + sum_i p_i max_y [L_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>]``

    one training example at a time, with exact line search (a safe step with bounds)
    and the duality gap as certificate [1]_. Any combination of the options works,
    except where a parameter says otherwise. The defaults are those that reach a given
    gap soonest: pairwise steps, several for each visit, passes over known labelings
    while these gain more per unit of work than passes with the oracle, and an average
    that forgets the first steps. `as_published` returns the solver with the options of
    the paper.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes. A pass makes as many visits as there are examples.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.
    sampling : {"permutation", "gap", "uniform"}, default="permutation"
        Order of the visits. "permutation": in a new random order every pass. "gap": in
        proportion to the estimates of the block gaps (Algorithm 2). "uniform": with
        replacement.
    step : {"pairwise", "away", "fw"}, default="pairwise"
        Pairwise (Algorithm 3), away (Algorithm 4) or Frank-Wolfe steps (Algorithm 1).
    cache : bool, default=True
        Whether to keep the labelings that the oracle returned, and call the oracle only
        if none of them gives enough progress (Algorithm 5).
    averaging : bool or "suffix", default="suffix"
        Whether to return the average of the iterates with weights 1, 2, 3, ...;
        "suffix" restarts the average whenever the number of passes has grown by a
        factor of the square root of two, so that it forgets the first steps.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the duality gap. "auto" predicts
        from the last two values when the gap will reach the tolerance, and computes it
        then, or after at most ten passes. Gap sampling computes it earlier if the sum
        of its estimates is a hundredth of the last gap or less.
    cache_factor : float, default=inf
        F in the cache hit criterion: share of the example's last measured gap. ``inf``
        calls the oracle on every visit.
    cache_nu : float, default=0.01
        nu in the cache hit criterion: share of the mean block gap.
    max_cached : int, default=6
        Maximum number of labelings kept per example. Labelings with a positive weight
        are always kept. With plain steps, every labeling keeps a positive weight; with
        pairwise and away steps, weights can become zero. Labelings beyond the few that
        are active cost more time than they save.
    inner_steps : int, default=5
        Number of steps per visit among the known labelings of the example. These steps
        use the Gram matrix of the example and do not read its features again. There is
        only one step for sequences that are too long for a Gram matrix, for problems
        with bounds, and for plain steps without a cache, which keep no labelings.
    cached_passes : int or "auto", default="auto"
        Number of passes over known labelings only, after each pass with the oracle.
        "auto" continues as long as such a pass gains more per unit of work than all
        work since the oracle was last used. Without a cache there are none.
    step_size : {"line_search", "decreasing"}, default="line_search"
        "line_search" maximizes the dual along each step (Algorithm 1, line 7).
        "decreasing" is ``2n / (k + 2n)`` at visit k = 0, 1, ... of n examples, the
        steps of the proof of Theorem 1 [2]_. Their rate is the same, but the dual can
        fall, and the first pass nearly forgets the dual variables of a warm start. Only
        for ``step="fw"``, with one step for each visit.
    bounds : dict, default=None
        Box constraints on named blocks of weights (Algorithm 9), for instance
        ``{"transitions": (None, 0.0)}``: a lower and an upper bound, each a number,
        an array of the block's shape or None. The blocks of `sksstruct.ChainCRF` are
        "coef", "intercept", "start", "end" and "transitions", in the shapes of its
        attributes.

    Notes
    -----
    The dual variables of an example are mean parameters, or labelings with weights.
    Memory grows with the number of labelings kept, and not with the number of weights.

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016.
    .. [2] S. Lacoste-Julien, M. Jaggi, M. Schmidt and P. Pletscher, "Block-coordinate
       Frank-Wolfe optimization for structural SVMs", ICML 2013, Algorithm 3.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.solvers import BCFW
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, solver=BCFW(step="away", tol=0.01))
    >>> tagger.fit(X, y).predict([[[1.0], [1.0]]])[0].tolist()
    ['b', 'b']
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    sampling: Literal["permutation", "gap", "uniform"] = "permutation"
    step: Literal["pairwise", "away", "fw"] = "pairwise"
    cache: bool = True
    averaging: bool | Literal["suffix"] = "suffix"
    check_every: Count | Literal["auto"] = "auto"
    cache_factor: float = float("inf")
    cache_nu: NonNegative = 0.01
    max_cached: Small = 6
    inner_steps: Small = 5
    cached_passes: NonNegativeInt | Literal["auto"] = "auto"
    step_size: Literal["line_search", "decreasing"] = "line_search"
    bounds: dict | None = None

    bounded = in_streams = True
    _parameter_constraints = {
        "cache_factor": [
            Interval(Real, 0, None, closed="left"),
            Options(Real, {np.inf}),
        ],
    }

    @classmethod
    def as_published(cls, **parameters: Any) -> Self:
        """Return the solver with the options of Osokin et al. (2016).

        These are Frank-Wolfe steps, gap sampling, the average of all iterates, and the
        gap every ten passes, without a cache. With ``cache=True``, the size of the
        cache and the hit criterion are those of the paper.

        Parameters
        ----------
        **parameters : dict
            Parameters of the solver, which replace the options of the paper.

        Returns
        -------
        solver : BCFW
            The solver.

        Examples
        --------
        >>> from sksstruct.solvers import BCFW
        >>> solver = BCFW.as_published(step="away", cache=True)
        >>> solver.sampling, solver.step, solver.cache_factor
        ('gap', 'away', 0.25)
        """
        published = {
            "sampling": "gap",
            "step": "fw",
            "cache": False,
            "averaging": True,
            "check_every": 10,
            "cache_factor": 0.25,
            "max_cached": 20,
            "inner_steps": 1,
            "cached_passes": 0,
        }
        return cls(**published | parameters)

    def check(self) -> None:
        """Raise an error if a parameter, or a combination of parameters, is invalid."""
        super().check()
        if self.cached_passes not in (0, "auto") and not self.cache:
            raise ValueError(
                "cached_passes needs cache=True: without a cache no labelings are kept"
            )
        if self.step_size == "decreasing" and self.step != "fw":
            raise ValueError(
                f"step_size='decreasing' needs step='fw', got step={self.step!r}"
            )

    def _solve(self, model, alpha, options):
        state = BCFWState(self, model, alpha, options)
        loop = Loop(self, alpha, options, state.scale, keep_best=False)
        check_every = self.check_every
        check_at = 2 if check_every == "auto" else check_every

        def look():
            state.certify(loop)

        def one_pass():
            nonlocal check_at
            state.one_pass(loop.n_iter, check_at)
            if state.needs_gaps or loop.n_iter == check_at:
                look()
                check_at = next_check(loop, check_every)

        return loop.run(
            one_pass, look, partial(export, state.kernel), state.averaged_weights
        )

    def solve_stream(
        self,
        model: BoundModel,
        alpha: float,
        weights: np.ndarray,
        averaged: np.ndarray,
        seen: float,
        *,
        random_state: int | RandomState | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Visit each example of a mini-batch once; duals of other examples are fixed.

        Parameters
        ----------
        model : BoundModel
            Model with the mini-batch; its p_i are those of the whole stream.
        alpha : float
            Regularization.
        weights : ndarray
            Flat weights so far, scaled to the p_i of earlier examples.
        averaged : ndarray
            Mean of the iterates so far with weights 1, 2, 3, ...; overwritten.
        seen : float
            Number of iterates so far.
        random_state : int, RandomState instance or None, default=None
            Order of the visits.

        Returns
        -------
        weights, averaged : ndarray
            Flat weights and averaged weights after the mini-batch. Without averaging
            they are the same array.
        """
        self.check()
        self.check_model(model)
        if self.bounds is not None:
            raise ValueError(
                "bounds cannot be used with mini-batches (partial_fit): use fit"
            )
        if self.step_size == "decreasing":
            raise ValueError(
                "step_size='decreasing' cannot be used with mini-batches (partial_fit):"
                " the steps depend on the number of all examples"
            )
        iterate = Weights(model.n_weights, average=bool(self.averaging))
        iterate.set(weights)
        kernel = self._kernel(model, iterate, alpha)
        kernel.iterate = seen
        order = check_random_state(random_state).permutation(model.n_examples)
        kernel.visit_in_order(order.astype(np.intp))
        w = iterate.w
        if not np.isfinite(w @ w):
            raise ValueError(
                f"training broke down: the weights are not finite. {SCALING}"
            )
        if not self.averaging:
            return w, w
        # sum_k k w_k over the new iterates, with S = k (k + 1) / 2 and u = sum S
        # change, is w (S_new - S_old) - (u - S_old (w - w_old)); S_old times the old
        # mean is added. Updates are in place, as vectors may be long.
        old_sum, new_sum = (k * (k + 1.0) / 2.0 for k in (seen, kernel.iterate))
        averaged -= weights
        averaged *= old_sum
        averaged -= iterate.u
        averaged /= new_sum
        averaged += w
        return w, averaged

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        means = self.step == "fw" and not self.cache and model.has_means
        return fits(dual_state, model, means)

    def _kernel(self, model, weights, alpha):
        return BCFWKernel(
            model,
            weights,
            alpha,
            step=self.step,
            cache=self.cache,
            cache_factor=self.cache_factor,
            cache_nu=self.cache_nu,
            inner_steps=self.inner_steps,
            max_cached=self.max_cached,
            sample_by_gap=self.sampling == "gap",
            step_size=self.step_size,
        )


class BCFWState:
    """The duals and weights of block-coordinate Frank-Wolfe, and passes over them.

    Parameters
    ----------
    solver : BCFW
        Its options of sampling, steps, caching and averaging are read.
    model : BoundModel
        The model with its data.
    alpha : float
        Regularization.
    options : Options
        Its `random_state`, `n_jobs` and `dual_state` are read.

    Attributes
    ----------
    kernel : BCFWKernel
        The compiled passes, which own the duals.
    weights : Weights
        The iterate, and the sum for its average.
    scale : float
        The objective at w = 0.
    calls_of_checks : int
        Oracle calls for certificates.
    """

    def __init__(self, solver, model, alpha, options):
        self.solver, self.model, self.alpha = solver, model, alpha
        self.n_jobs = options.n_jobs
        self.weights = Weights(
            model.n_weights,
            average=bool(solver.averaging),
            box=model.box(solver.bounds),
        )
        self.risk = Risk(model, options.n_jobs)
        self.gaps = np.empty(model.n_examples)
        self.scale = self._primal(self.weights.w)
        self.kernel = solver._kernel(model, self.weights, alpha)
        if options.dual_state is not None:
            restore(self.kernel, options.dual_state)
            # alpha or the features may have changed: the duals are mixed with the
            # observed labelings, in the proportion that makes the dual value (without
            # bounds) highest
            square = alpha * float(self.weights.w @ self.weights.w)
            share = self.kernel.loss / square if square > 0.0 else 1.0
            if share < 1.0:
                self.kernel.rescale(share, alpha)
        self.first_dual = dual_value(self.weights, alpha, self.kernel.loss)
        self.passes = Passes(
            solver, self.kernel, check_random_state(options.random_state)
        )
        # memory for the averaged weights, which are computed on demand
        self.average = np.empty_like(self.weights.w) if solver.averaging else None
        # For a suffix average: the next pass that restarts the average, and whether
        # the present average will still be in use at the next check of the gap.
        self.restart_at = 2
        self.is_averaging = solver.averaging is True
        self.calls_of_checks = model.n_examples

    @property
    def needs_gaps(self):
        """Whether exact gaps have to be computed before more visits by gap."""
        return self.passes.needs_gaps

    # ---- certificates ----

    def _objective(self, w, risk):
        return 0.5 * self.alpha * (w @ w) + risk

    def _primal(self, w):
        """Return the objective at flat weights w, by one sweep of max oracles."""
        return self._objective(w, self.risk.value(w))

    def check_gaps(self):
        """Compute exact block gaps by a sweep; return the mean hinge of the iterate."""
        kernel, model, hinge = self.kernel, self.model, self.risk.hinge

        def check(first, last):
            workspace = model.workspace(self.weights.w, training=False)
            kernel.check(workspace, first, last, hinge, self.gaps)

        run_in_chunks(check, model.n_examples, self.n_jobs)
        self.calls_of_checks += model.n_examples
        kernel.set_gaps(self.gaps)
        return float(model.example_weights @ hinge)

    def _averaged(self):
        """Return averaged weights before truncation, and their dual's linear term."""
        kernel, weights = self.kernel, self.weights
        total = kernel.iterate * (kernel.iterate + 1.0) / 2.0
        if not self.is_averaging or total == 0.0:
            return weights.v, kernel.loss
        np.divide(weights.u, -total, out=self.average)
        self.average += weights.v
        return self.average, kernel.loss - kernel.loss_average / total

    def _truncated(self, v):
        weights = self.weights
        if v is weights.v:
            return weights.w
        if weights.lower is None:
            return v
        return np.clip(v, weights.lower, weights.upper)

    def averaged_weights(self):
        """Return a copy of the weights that the run would return now."""
        return np.array(self._truncated(self._averaged()[0]))

    def certify(self, loop):
        """Report objective and dual value of the weights to return."""
        solver, weights, kernel = self.solver, self.weights, self.kernel
        v, loss = self._averaged()
        w = self._truncated(v)
        primal = None
        block_gaps = solver.sampling == "gap" or (
            solver.cache and np.isfinite(solver.cache_factor)
        )
        if block_gaps or w is weights.w:
            last_primal = self._objective(weights.w, self.check_gaps())
            # near the optimum the iterate may be better than the average, and is then
            # returned
            if w is weights.w or self.gaps.sum() <= 0.5 * loop.target:
                v, w, loss, primal = weights.v, weights.w, kernel.loss, last_primal
        if primal is None:
            primal = self._primal(w)
            self.calls_of_checks += self.model.n_examples
        dual = dual_value(weights, self.alpha, loss, v, w)
        # No step with line search lowers the dual. If the dual falls, or values are not
        # finite, rounding errors dominate, and a certificate would be wrong.
        lowest = self.first_dual - 1e-6 * max(abs(self.first_dual), self.scale)
        if solver.step_size == "decreasing":
            lowest = -np.inf
        if not (np.isfinite(primal) and dual >= lowest):
            raise ValueError(
                f"training broke down: the objective is {primal:.3g}, the dual "
                f"{dual:.3g} after starting from {self.first_dual:.3g}. {SCALING}"
            )
        loop.calls = kernel.oracle_calls + self.calls_of_checks
        loop.report(primal, w, dual, dual_loss=loss)

    # ---- passes ----

    def _plan_average(self, number, check_at):
        """Restart the suffix average if it is time, or stop it until the next restart.

        It is stopped if it would be restarted before the gap is computed next.
        """
        restart = number == self.restart_at
        if restart:
            self.restart_at = max(self.restart_at + 1, int(self.restart_at * 2**0.5))
        if self.restart_at <= check_at:
            self.is_averaging = False
            self.kernel.average(False)
        elif restart:
            self.is_averaging = True
            self.kernel.average(True)

    def one_pass(self, number, check_at=np.inf):
        """Make as many visits as there are examples, then passes over known labelings.

        Parameters
        ----------
        number : int
            Number of the pass, from 1.
        check_at : int, default=inf
            The pass after which the gap is computed next.
        """
        if self.solver.averaging == "suffix":
            self._plan_average(number, check_at)
        self.passes.one_pass(first=number == 1)
