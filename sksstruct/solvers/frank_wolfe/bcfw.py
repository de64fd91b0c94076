"""Block-coordinate Frank-Wolfe for the structured hinge loss."""

import time
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.core.loop import SCALING, check_order
from sksstruct.solvers.core.result import SolverResult, Trace
from sksstruct.solvers.frank_wolfe._bcfw import BCFWKernel
from sksstruct.solvers.frank_wolfe._blocks import fits
from sksstruct.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sksstruct.utils.parallel import run_in_chunks

# Table entries decoded between two looks at signals, some tenths of a second: an
# interrupt waits for so much work.
_SEGMENT = 2e8
# Passes over known labelings without a look at what the oracle says.
_MOST_KNOWN = 100


class BCFW(Solver):
    """Block-coordinate Frank-Wolfe with gap sampling, pairwise steps and caching.

    Maximises the dual of

        ``alpha/2 |w|^2 + sum_i p_i max_y [L_i(y) + <w, phi(x_i, y) - phi(x_i, y_i)>]``

    one training example at a time, with exact line search (a safe step with bounds)
    and the duality gap as certificate [1]_. Any combination of the options works.

    Parameters
    ----------
    sampling : {"gap", "uniform", "permutation"}, default="gap"
        Which example to visit: in proportion to the estimates of the block gaps
        (Algorithm 2), uniformly with replacement, or in a new random order every pass.
    step : {"fw", "pairwise", "away"}, default="fw"
        Frank-Wolfe (Algorithm 1), pairwise (Algorithm 3) or away steps (Algorithm 4).
    cache : bool, default=False
        Keep the labelings the oracle returned, and call it only where none of them
        promises enough progress (Algorithm 5).
    averaging : bool or "suffix", default=True
        Return the weighted average of the iterates, weights 1, 2, 3, ...; "suffix"
        starts the average again whenever the number of passes has grown by the
        square root of two, so that it forgets the first steps.
    gap_every : int or "auto", default=10
        Passes between two computations of the duality gap. "auto" computes it when the
        gap is expected to reach the tolerance, going by its last two values, and after
        ten passes at the latest. Gap sampling computes it earlier when its estimates
        are used up, a hundredth of the last gap or less.
    max_iter : int, default=1000
        Largest number of passes. A pass makes as many visits as there are examples.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0.
    cache_factor : float, default=0.25
        F in the cache hit criterion: part of the example's last measured gap. ``inf``
        calls the oracle on every visit.
    cache_nu : float, default=0.01
        nu in the cache hit criterion: part of the mean block gap.
    max_cached : int, default=20
        Labelings kept per example. Those with a weight are always kept; plain steps
        give every labeling met a weight for good, pairwise and away steps do not.
    inner_steps : int, default=1
        Steps on each visit among the labelings known. They use the example's Gram
        matrix and do not read its features again. Sequences too long for a Gram
        matrix, and problems with bounds, take one; so do plain steps without a cache,
        which keep no labelings.
    cached_passes : int or "auto", default=0
        Passes over known labelings only after each pass. Needs ``cache``. "auto" goes
        on while such a pass gains more per unit of work than what was done since the
        oracle was last used.
    bounds : dict, default=None
        Box constraints on named blocks of weights (Algorithm 9), for instance
        ``{"transitions": (None, 0.0)}``: a lower and an upper bound, each a number,
        an array of the block's shape or None. The blocks of `sksstruct.ChainCRF` are
        "coef", "intercept", "start", "end" and "transitions", in the shapes of its
        attributes.

    Notes
    -----
    The dual variables of an example are mean parameters, or labelings with weights:
    memory grows with the labelings kept and not with the number of weights.

    References
    ----------
    .. [1] A. Osokin, J.-B. Alayrac, I. Lukasewitz, P. Dokania and S. Lacoste-Julien,
       "Minding the gaps for block Frank-Wolfe optimization of structured SVMs",
       ICML 2016.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.solvers import BCFW
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["a", "b"], ["b", "a"]]
    >>> tagger = ChainCRF(alpha=0.1, solver=BCFW(step="pairwise", tol=0.01))
    >>> tagger.fit(X, y).predict([[[1.0], [1.0]]])[0].tolist()
    ['b', 'b']
    """

    bounded = True
    _parameter_constraints = {
        "sampling": [StrOptions({"gap", "uniform", "permutation"})],
        "step": [StrOptions({"fw", "pairwise", "away"})],
        "cache": ["boolean"],
        "averaging": ["boolean", StrOptions({"suffix"})],
        "gap_every": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "cache_factor": [
            Interval(Real, 0, None, closed="left"),
            Options(Real, {np.inf}),
        ],
        "cache_nu": [Interval(Real, 0, None, closed="left")],
        "max_cached": [Interval(Integral, 1, 2**31, closed="left")],
        "inner_steps": [Interval(Integral, 1, 2**31, closed="left")],
        "cached_passes": [
            Interval(Integral, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "bounds": [dict, None],
    }

    def __init__(
        self,
        sampling="gap",
        step="fw",
        cache=False,
        averaging=True,
        gap_every=10,
        max_iter=1000,
        tol=3e-3,
        *,
        cache_factor=0.25,
        cache_nu=0.01,
        max_cached=20,
        inner_steps=1,
        cached_passes=0,
        bounds=None,
    ):
        self.sampling = sampling
        self.step = step
        self.cache = cache
        self.averaging = averaging
        self.gap_every = gap_every
        self.max_iter = max_iter
        self.tol = tol
        self.cache_factor = cache_factor
        self.cache_nu = cache_nu
        self.max_cached = max_cached
        self.inner_steps = inner_steps
        self.cached_passes = cached_passes
        self.bounds = bounds

    def check(self):
        """Raise an error if a parameter, or their combination, is not valid."""
        validate_params(self)
        if self.cached_passes != 0 and not self.cache:
            raise ValueError(
                "cached_passes needs cache=True: without a cache no labelings are kept"
            )

    def _solve(self, model, alpha, options):
        return _Run(self, model, alpha, options).run(options.callback)

    def solve_stream(self, model, alpha, weights, averaged, seen, *, random_state=None):
        """Visit every example of a mini-batch once, other duals frozen.

        Parameters
        ----------
        model : BoundModel
            Model with the mini-batch; its p_i are those of the whole stream.
        alpha : float
            Regularisation.
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
            The same after the mini-batch. Without averaging they are one array.
        """
        self.check()
        if self.bounds is not None:
            raise ValueError("bounds cannot be used with mini-batches (partial_fit)")
        model.start(average=bool(self.averaging))
        model.set_weights(weights)
        kernel = self._kernel(model, alpha)
        kernel.iterate = seen
        order = check_random_state(random_state).permutation(model.n_examples)
        kernel.visit_in_order(order.astype(np.intp))
        if not np.isfinite(model.w @ model.w):
            raise ValueError(
                f"training broke down: the weights are not finite. {SCALING}"
            )
        if not self.averaging:
            return model.w, model.w
        # sum_k k w_k over the new iterates, S = k (k + 1) / 2, from u = sum S change:
        # w (S_new - S_old) - (u - S_old (w - w_old))
        old, new = (k * (k + 1.0) / 2.0 for k in (seen, kernel.iterate))
        averaged *= old
        averaged += model.w * new
        averaged -= model.u
        averaged -= old * weights
        averaged /= new
        return model.w, averaged

    def accepts(self, dual_state, model):
        return fits(dual_state, model, self.step == "fw" and not self.cache)

    def _kernel(self, model, alpha):
        return BCFWKernel(
            model,
            alpha,
            step=self.step,
            cache=self.cache,
            cache_factor=self.cache_factor,
            cache_nu=self.cache_nu,
            inner_steps=self.inner_steps,
            max_cached=self.max_cached,
            sample_by_gap=self.sampling == "gap",
        )


class _Run:
    """One call of `BCFW.solve`: the passes, checks and the stopping rule."""

    def __init__(self, solver, model, alpha, options):
        self.started = time.perf_counter()
        self.solver = solver
        self.model = model
        self.alpha = alpha
        self.rng = check_random_state(options.random_state)
        self.n_jobs = options.n_jobs
        self.verbose = options.verbose
        model.start(average=bool(solver.averaging), bounds=model.box(solver.bounds))
        self.hinge = np.empty(model.n_examples)
        self.gaps = np.empty(model.n_examples)
        self.scale = self._primal(model.w)
        self.target = solver.tol * self.scale
        self.kernel = solver._kernel(model, alpha)
        if options.dual_state is not None:
            self.kernel.restore(options.dual_state)
        self.first_dual = dual_value(model, alpha, self.kernel.loss, model.v, model.w)
        self.segment = int(np.clip(_SEGMENT / model.visit_work, 1, 2000))
        # memory for the averaged weights, which are formed when asked for
        self.average = np.empty_like(model.w) if solver.averaging else None
        self.n_pass = 0
        # With a suffix average: when it begins anew, and whether the average that is
        # being formed will still be the one when the gap is computed next.
        self.restart_at = 2
        self.is_averaging = solver.averaging is True
        self.needs_gaps = False
        self.check_at = 4 if solver.gap_every == "auto" else solver.gap_every
        self.calls_of_checks = model.n_examples
        self.trace = Trace()
        self.certificate = self.certified_at = None

    # ---- certificates ----

    def _primal(self, w):
        """Objective at flat weights w, by one sweep of max oracles."""
        model = self.model
        model.read_from(w)
        try:
            run_in_chunks(
                lambda a, b: model.hinge(
                    model.workspace(training=False), a, b, self.hinge
                ),
                model.n_examples,
                self.n_jobs,
            )
        finally:  # an interrupt must not leave the model with these weights
            model.read_from(model.w)
        return self._objective(w)

    def _objective(self, w):
        return 0.5 * self.alpha * (w @ w) + float(
            self.model.example_weights @ self.hinge
        )

    def _averaged(self):
        """Averaged weights before truncation, and the linear term of their dual."""
        kernel, model = self.kernel, self.model
        total = kernel.iterate * (kernel.iterate + 1.0) / 2.0
        if not self.is_averaging or total == 0.0:
            return model.v, kernel.loss
        np.divide(model.u, -total, out=self.average)
        self.average += model.v
        return self.average, kernel.loss - kernel.loss_average / total

    def _truncated(self, v):
        if self.model.lower is None or v is self.model.v:
            return self.model.w if v is self.model.v else v
        return np.clip(v, self.model.lower, self.model.upper)

    def weights(self):
        """Copy of the weights that would be returned now."""
        return np.array(self._truncated(self._averaged()[0]))

    def certify(self):
        """Compute objective and gap of the weights to return; a row of the trace."""
        solver, model, kernel = self.solver, self.model, self.kernel
        v, loss = self._averaged()
        w = self._truncated(v)
        primal = None
        block_gaps = solver.sampling == "gap" or (
            solver.cache and np.isfinite(solver.cache_factor)
        )
        if block_gaps or w is model.w:
            run_in_chunks(
                lambda a, b: kernel.check(
                    model.workspace(training=False), a, b, self.hinge, self.gaps
                ),
                model.n_examples,
                self.n_jobs,
            )
            self.calls_of_checks += model.n_examples
            kernel.set_gaps(self.gaps)
            last = self._objective(model.w)
            # The average may lag behind an iterate that no visit improves any more.
            if w is model.w or self.gaps.sum() <= 0.5 * self.target:
                v, w, loss, primal = model.v, model.w, kernel.loss, last
        if primal is None:
            primal = self._primal(w)
            self.calls_of_checks += model.n_examples
        dual = dual_value(model, self.alpha, loss, v, w)
        # No step lowers the dual. Where it falls, or nothing is finite, rounding errors
        # have got the better of the features, and no certificate would be true.
        slack = 1e-6 * max(abs(self.first_dual), self.scale)
        if not (np.isfinite(primal) and dual >= self.first_dual - slack):
            raise ValueError(
                f"training broke down: the objective is {primal:.3g}, the dual "
                f"{dual:.3g} after starting from {self.first_dual:.3g}. {SCALING}"
            )
        check_order(primal, dual, self.scale)
        # Rounding may put the dual a hair above the primal at the optimum.
        gap = max(primal - dual, 0.0)
        calls = kernel.oracle_calls + self.calls_of_checks
        seconds = time.perf_counter() - self.started
        self.trace.add(self.n_pass, calls, seconds, primal, dual, gap)
        if self.verbose:
            print(
                f"pass {self.n_pass:5d}  oracle calls {calls:10d}  {seconds:8.2f} s  "
                f"primal {primal:.6g}  dual {dual:.6g}  gap {gap:.3g} "
                f"(target {self.target:.3g})",
                flush=True,
            )
        self.certificate = (w, primal, gap, loss)
        self.certified_at = (self.n_pass, kernel.iterate)
        return gap

    def _next_check(self):
        """The pass after which the gap is computed again."""
        every = self.solver.gap_every
        if every != "auto":
            return (self.n_pass // every + 1) * every
        rows = self.trace.last(2)
        wait = min(self.n_pass, 10)
        if len(rows) == 2 and self.target > 0:
            (first, old), (last, new) = ((row[0], row[-1]) for row in rows)
            rate = np.log(old / new) / (last - first) if new > 0 else 0.0
            if rate > 0:  # a constant rate of decrease, as it mostly is
                wait = min(wait, np.ceil(np.log(new / self.target) / rate))
        return self.n_pass + max(int(wait), 1)

    # ---- passes ----

    def _in_order(self, order):
        for k in range(0, len(order), self.segment):
            self.kernel.visit_in_order(order[k : k + self.segment])

    def _known(self):
        """A pass over known labelings; the number of visits."""
        order = self.rng.permutation(self.model.n_examples).astype(np.intp)
        # Blocks that promised little at their last visit are left out.
        promises = self.kernel.promises_[np.isfinite(self.kernel.promises_)]
        least = 0.1 * promises.mean() if len(promises) else 0.0
        return sum(
            self.kernel.visit_known(order[k : k + self.segment], least)
            for k in range(0, len(order), self.segment)
        )

    def _plan_average(self):
        """Begin the suffix average anew, or leave out what would be thrown away."""
        restart = self.n_pass + 1 == self.restart_at
        if restart:
            self.restart_at = max(self.restart_at + 1, int(self.restart_at * 2**0.5))
        if self.restart_at <= self.check_at:
            self.is_averaging = False
            self.kernel.average(False)
        elif restart:
            self.is_averaging = True
            self.kernel.average(True)

    def one_pass(self):
        """As many visits as there are examples, then passes over known labelings."""
        solver, kernel, n = self.solver, self.kernel, self.model.n_examples
        if solver.averaging == "suffix":
            self._plan_average()
        kernel.gain = 0.0
        if solver.sampling == "gap" and self.n_pass:
            uniforms = self.rng.uniform(size=n)
            visits = sum(
                kernel.visit_by_gap(uniforms[k : k + self.segment])
                for k in range(0, n, self.segment)
            )
            # Estimates used up: without new ones nothing more would be visited.
            self.needs_gaps = visits < n
        elif solver.sampling == "uniform":
            self._in_order(self.rng.randint(n, size=n).astype(np.intp))
        else:
            # For gap sampling too: all estimates are infinite before the first pass.
            self._in_order(self.rng.permutation(n).astype(np.intp))
        if solver.cached_passes == "auto":
            # The rule of Shah, Kolmogorov and Lampert (CVPR 2015), with work counted
            # instead of timed so that runs can be repeated.
            gain, work = kernel.gain, self.model.oracle_cost * n
            for _ in range(_MOST_KNOWN):
                kernel.gain = 0.0
                visits = self._known()
                gain, work = gain + kernel.gain, work + visits
                if not kernel.gain > gain * visits / work:
                    break
        else:
            for _ in range(solver.cached_passes):
                self._known()
        self.n_pass += 1

    def run(self, callback):
        status = "max_iter"
        try:
            while self.n_pass < self.solver.max_iter:
                self.one_pass()
                stop = callback is not None and callback(self.n_pass, self.weights)
                if self.needs_gaps or stop or self.n_pass == self.check_at:
                    if self.certify() <= self.target:
                        status = "converged"
                        break
                    self.check_at = self._next_check()
                if stop:
                    status = "callback"
                    break
        except KeyboardInterrupt:
            status = "interrupted"
        try:
            if self.certified_at != (self.n_pass, self.kernel.iterate):
                if self.certify() <= self.target and status == "max_iter":
                    status = "converged"
        except KeyboardInterrupt:
            status = "interrupted"
            if self.certificate is None:
                self.certificate = (self.weights(), np.inf, np.inf, self.kernel.loss)
        weights, objective, gap, loss = self.certificate
        return SolverResult(
            weights=weights,
            objective=objective,
            dual_gap=gap,
            dual_loss=loss,
            n_iter=self.n_pass,
            status=status,
            history=self.trace.as_dict(),
            target=self.target,
            dual_state=self.kernel.export(),
        )
