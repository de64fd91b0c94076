"""The n-slack cutting-plane method.

Minimizes alpha/2 |w|^2 + sum_i p_i max_{y in W_i} H_i(y) for working sets W_i of
labelings, adds the labelings that the oracle returns at the minimum, and repeats until
the H_i of the new labelings is little above the largest H_i in the set (Tsochantaridis
et al., 2005, Algorithm 1).
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.core.base import Solver, example
from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.solvers.frank_wolfe._bcfw import BCFWKernel
from sksstruct.solvers.frank_wolfe.exported import export, fits, restore
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._param_validation import Interval

# Largest number of passes over the working sets between two calls of the oracles.
_MOST_PASSES = 1000
# Number of passes without a rise of the dual after which the run ends.
_IDLE = 10


@fill_doc(example('solver="cutting_plane"'))
@dataclass(eq=False, repr=False)
class CuttingPlane(Solver):
    """The n-slack cutting-plane method: fewest oracle calls for a small gap.

    Every pass calls the oracle on all examples, adds the labelings that violate their
    margin most to the working sets, and solves the problem restricted to these sets
    almost to its optimum, by pairwise coordinate steps [1]_. Of all solvers, this one
    needs the fewest oracle calls for a small gap. Use it if the oracle is expensive.

    Parameters
    ----------
    %(passes)s
    inner_tol : float, default=0.1
        Gap of the restricted problem at which the oracles are called again, as a share
        of the whole gap.
    max_cached : int, default=100
        Maximum number of labelings kept per example. Labelings with a positive dual
        variable are always kept.

    References
    ----------
    .. [1] I. Tsochantaridis, T. Joachims, T. Hofmann and Y. Altun, "Large margin
       methods for structured and interdependent output variables", JMLR 6, 2005,
       Algorithm 1.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    inner_tol: float = 0.1
    max_cached: int = 100

    bounded = True
    _parameter_constraints = {
        "inner_tol": [Interval(Real, 0, 1, closed="neither")],
        "max_cached": [Interval(Integral, 2, None, closed="left")],
    }

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        return fits(dual_state, model, False)

    def _solve(self, model, alpha, options):
        weights = Weights(model.n_weights, box=model.box())
        rng = check_random_state(options.random_state)
        risk = Risk(model, options.n_jobs)
        kernel = BCFWKernel(
            model,
            weights,
            alpha,
            step="pairwise",
            cache=True,
            cache_factor=np.inf,
            cache_nu=0.0,
            inner_steps=100,
            max_cached=self.max_cached,
            sample_by_gap=False,
        )
        n = model.n_examples
        loop = Loop(self, alpha, options)
        if options.dual_state is not None:
            loop.scale = risk.decode(weights.w)[0]
            loop.calls += n
            restore(kernel, options.dual_state)

        def look():
            w = weights.w
            loop.calls += n
            value = risk.decode(w)[0]
            loop.report(
                value + alpha / 2 * float(w @ w),
                w,
                dual_value(weights, alpha, kernel.loss),
            )

        idle = 0

        def one_pass():
            nonlocal idle
            kernel.add_known(risk.labelings)
            for _ in range(_MOST_PASSES):
                # -1 makes the kernel visit all blocks, as each step changes the gaps of
                # all other blocks
                kernel.visit_known(rng.permutation(n).astype(np.intp), -1.0)
                if not kernel.promises_.sum() > self.inner_tol * loop.gap:
                    break
            before = loop.dual
            look()
            # the dual rises until its rise is below rounding errors
            idle = 0 if loop.dual > before else idle + 1
            return idle == _IDLE

        look()
        if loop.scale is None:
            loop.scale = loop.primal
        return loop.run(one_pass, dual_state=partial(export, kernel))
