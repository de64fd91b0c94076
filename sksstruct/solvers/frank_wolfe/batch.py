"""Frank-Wolfe on all examples at once.

Minimizes alpha/2 |w|^2 + sum_i p_i max_y H_i(y) through its dual. Let y_i* be the
labelings that the oracle returns at w, l_s their mean loss, and

    w_s = sum_i p_i/alpha A_i^T (mu_i(y_i) - mu_i(y_i*))

A pass moves (v, l) towards (w_s, l_s) by gap / (alpha |v - w_s|^2), clipped to [0, 1],
with gap = l_s - l + alpha <w, v - w_s> (Lacoste-Julien et al., 2013, Algorithm 2); w
is v, truncated to the box if there is one (Osokin et al., 2016, Algorithm 9).
"""

from dataclasses import KW_ONLY, dataclass

from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers.core.base import Solver, example
from sksstruct.solvers.core.dual_value import dual_value
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.core.risk import Risk
from sksstruct.utils._doc import fill_doc


@fill_doc(example('solver="fw"'))
@dataclass(eq=False, repr=False)
class FrankWolfe(Solver):
    """Batch Frank-Wolfe: one step for all examples at once.

    Every pass decodes all examples at the same weights, and moves all dual variables
    towards the labelings found, by one exact line search [1]_. Without bounds this is
    the same as `BMRM` with a line search.

    Parameters
    ----------
    %(passes)s
    bounds : dict, default=None
        Box constraints on named blocks of weights, as in `BCFW`. With bounds, step
        sizes are the safe step sizes of Osokin et al. (2016), Algorithm 9.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt and P. Pletscher, "Block-coordinate
       Frank-Wolfe optimization for structural SVMs", ICML 2013, Algorithm 2.

    %(example)s
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    bounds: dict | None = None

    bounded = True

    def _solve(self, model, alpha, options):
        weights = Weights(model.n_weights, box=model.box(self.bounds))
        risk = Risk(model, options.n_jobs)
        v, w, loss = weights.v, weights.w, 0.0
        loop = Loop(self, alpha, options)

        def look():
            value, gradient, offset = risk.plane(w)
            loop.calls += risk.cost
            loop.report(
                value + alpha / 2 * float(w @ w),
                w,
                dual_value(weights, alpha, loss),
            )
            return gradient, offset

        def one_pass():
            nonlocal corner, loss
            gradient, offset = corner
            direction = gradient / -alpha
            direction -= v
            # the Frank-Wolfe gap, which equals the duality gap of (w, v)
            slope = offset - loss - alpha * float(w @ direction)
            curvature = alpha * float(direction @ direction)
            step = 1.0 if slope >= curvature else max(slope / curvature, 0.0)
            direction *= step
            weights.set(v + direction)
            loss += step * (offset - loss)
            corner = look()

        corner = look()
        loop.scale = loop.primal
        return loop.run(one_pass)
