"""Newton's method with conjugate gradients, for many small problems at once.

Minimizes sum_j P_j(w_j), where the blocks w_j of the weights share only the features,
so that one product with all features serves many blocks. All weights may also form a
single block. Steps are those of Lin, Weng and Keerthi (2008), with a line search in
place of the trust region (Galli and Lin, 2021).
"""

from dataclasses import KW_ONLY, dataclass

import numpy as np

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import curved_blocks
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.utils._param_validation import Count, Fraction
from sksstruct.utils.parallel import run_in_chunks

# Armijo's condition: fraction of the decrease along the slope that a step must reach.
_DECREASE = 1e-4
# Largest number of halvings of a step.
_TRIALS = 30
# Largest number of conjugate gradient iterations in a step.
_MOST_INNER = 250
# Converged blocks are removed from products once they exceed this fraction of the
# active blocks.
_MANY_DONE = 0.25
# Dual values are computed once the residual is below this fraction of the objective.
_NEAR = 0.1
# The tolerance of a block is tol times a mixture of its own objective, with this
# weight, and the mean objective.
_SHARE = 0.5


@dataclass(eq=False, repr=False)
class Newton(Solver):
    """Newton's method with conjugate gradients: for each label given the other labels.

    Each step of a label minimizes the quadratic approximation of its objective, by
    conjugate gradients, and is halved until the objective falls [1]_ [2]_. The steps of
    many labels are computed together, as products with the features take about as long
    for many labels as for a few; labels that have converged are left out. The solver
    stores the weights, and ``n_samples`` times `n_together` scores. With pairs, which
    couple the labels, each step changes all weights.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of steps. A step takes a few to some hundred products of features
        and weights.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective.
    n_together : int, default=64
        Number of labels whose steps are computed at once, without pairs.
    accuracy : float, default=0.1
        Conjugate gradients end where the gradient of the approximation is this share of
        the gradient.

    References
    ----------
    .. [1] C.-J. Lin, R. C. Weng and S. S. Keerthi, "Trust region Newton method for
       large-scale logistic regression", JMLR 9, 2008.
    .. [2] L. Galli and C.-J. Lin, "A study on truncated Newton methods for linear
       classification", IEEE Transactions on Neural Networks and Learning Systems, 2021.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.solvers import Newton
    >>> X, y = [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]]
    >>> classifier = MultilabelPairwise(
    ...     0.1, interaction_scaling=0.0, solver=Newton(tol=1e-6), random_state=0
    ... )
    >>> classifier.fit(X, y).predict([[0.1, 0.9]])
    array([[0, 1]])
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    n_together: Count = 64
    accuracy: Fraction = 0.1

    required_oracles = ("curvature",)

    @classmethod
    def suits(
        cls, model: BoundModel, l1: float = 0.0, alpha: float | None = None
    ) -> bool:
        return model.prefers_curvature

    def accepts(self, dual_state: dict, model: BoundModel) -> bool:
        weights = dual_state.get("weights")
        return weights is not None and len(weights) == model.n_weights

    def _solve(self, model, alpha, options):
        return _Run(self, model, alpha, options).result()


class _Run:
    """A run of `Newton`: steps of all blocks, and the certificate."""

    def __init__(self, solver, model, alpha, options):
        self.solver, self.n_jobs = solver, options.n_jobs
        self.blocks = curved_blocks(model, alpha)
        self.loop = Loop(solver, alpha, options)
        start = options.start(model.n_weights)
        self.w = (self.blocks.start if start is None else start).copy()
        # for each block, its objective at the present weights, and a lower bound of its
        # optimum
        n = self.blocks.n_blocks
        self.primal, self.dual = np.zeros(n), np.zeros(n)
        self.mean = 0.0
        self.active, self.moved = np.arange(n), np.zeros(n, dtype=bool)

    def result(self):
        self._look_at_all()
        return self.loop.run(self._pass, self._look_at_all, weights=self.w.copy)

    def _look_at_all(self):
        """Report all blocks: before any step, and after an interrupt.

        An interrupt may come after the weights of a group have changed, and before its
        objective is recorded.
        """
        self._visit(self._look)
        self._report()

    def _visit(self, visit):
        """Visit the blocks that have not converged, in groups."""
        size = self.solver.n_together
        # the mean is fixed before the visits, so that the order of threads does not
        # matter
        self.mean = self.primal.mean()
        groups = [self.active[k : k + size] for k in range(0, len(self.active), size)]

        def run(first, last):
            for blocks in groups[first:last]:
                visit(blocks)

        run_in_chunks(run, len(groups), self.n_jobs)

    def _report(self):
        self.loop.report(float(self.primal.sum()), self.w, float(self.dual.sum()))

    def _pass(self):
        """Make one step of every block that has not converged."""
        self.moved[self.active] = False
        self._visit(self._step)
        self.loop.calls += self.blocks.n_examples
        stalled = not self.moved[self.active].any()
        self.active = self.active[self.moved[self.active]]
        self._report()
        return stalled

    def _look(self, blocks):
        """Record objectives and lower bounds of blocks; return their group."""
        group = self.blocks.group(blocks, self.w)
        self.primal[blocks] = group.primal
        if (group.residual <= _NEAR * group.primal).any():
            self.dual[blocks] = np.maximum(self.dual[blocks], group.dual())
        return group

    def _tolerance(self, primal):
        """Return the largest duality gaps at which blocks count as converged."""
        return self.solver.tol * (_SHARE * primal + (1.0 - _SHARE) * self.mean)

    def _step(self, blocks):
        """Make one step of the blocks of a group."""
        group = self._look(blocks)
        left = self.primal[blocks] - self.dual[blocks] > self._tolerance(group.primal)
        if not left.any():
            return
        if not left.all():
            blocks = blocks[left]
            group.keep(left)
        directions, changes = _directions(group, self.solver.accuracy)
        self.moved[blocks] = group.step(directions, changes, _DECREASE, _TRIALS)
        self.blocks.put(blocks, group, self.w)
        self.primal[blocks] = group.primal


def _directions(group, accuracy):
    """Return approximate Newton directions, and the changes of scores along them.

    Conjugate gradients run for all blocks of a group, each until its residual is small,
    with a diagonal preconditioner where the diagonal of the Hessian is uneven.
    """
    shape = group.gradient.shape
    active = np.arange(shape[1])
    steps = changes = None
    curvature = group.curvature
    residual, diagonal = -group.gradient, group.diagonal()
    scaled = residual / diagonal
    direction = scaled.copy()
    step, change = np.zeros(shape), np.zeros(group.scores.shape)
    square = np.einsum("ij,ij->j", residual, scaled)
    tolerance = accuracy**2 * square
    for _ in range(_MOST_INNER):
        image, score_change = group.product(direction, active, curvature)
        curve = np.einsum("ij,ij->j", direction, image)
        live = (square > tolerance) & (curve > 0.0)
        length = np.where(live, square / np.where(live, curve, 1.0), 0.0)
        step += length * direction
        change += length * score_change
        residual -= length * image
        scaled = residual / diagonal
        new_square = np.einsum("ij,ij->j", residual, scaled)
        live &= new_square > tolerance
        if not live.any():
            break
        ratio = np.where(live, new_square / np.where(live, square, 1.0), 0.0)
        # the direction of converged blocks is zero until they are removed
        direction = ratio * direction + np.where(live, scaled, 0.0)
        square = np.where(live, new_square, 0.0)
        if np.count_nonzero(~live) > _MANY_DONE * len(live):
            if steps is None:
                steps, changes = np.zeros(shape), np.zeros(group.scores.shape)
            steps[:, active], changes[:, active] = step, change
            active, tolerance, square = active[live], tolerance[live], square[live]
            diagonal = diagonal if diagonal.size == 1 else diagonal[:, live]
            step, change, residual, direction, curvature = (
                np.ascontiguousarray(each[:, live])
                for each in (step, change, residual, direction, curvature)
            )
    if steps is None:
        return step, change
    steps[:, active], changes[:, active] = step, change
    return steps, changes
