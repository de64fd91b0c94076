"""Block-coordinate ascent: training label sets whose labels interact in pairs.

The dual, its notation and the steps are stated in `_label_ascent.pyx`; this file has
the solver, and decides when passes include pairs and when the objective is computed.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_random_state

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.roles import factor_model
from sksstruct.solvers.core.base import Solver
from sksstruct.solvers.core.loop import Loop
from sksstruct.solvers.dual_decomposition.label_ascent import LabelAscent
from sksstruct.utils._clock import check_clock
from sksstruct.utils._param_validation import Count
from sksstruct.utils.parallel import run_in_chunks

# Passes are many times faster without pairs. The passes without pairs end once the gaps
# of the examples in a pass sum to at most this fraction of the dual's linear term.
_SETTLED = 0.05
# Largest number of passes without pairs.
_MOST_ALONE = 20
# The objective is computed once the gaps of the examples in a pass sum to at most this
# fraction of the last duality gap.
_FALL = 0.7
# Largest number of passes between two computations of the objective.
_MOST_PASSES = 5
# Number of scores read between two checks for signals: the work of some tenths of a
# second.
_WORK_OF_A_CALL = 5e5


@dataclass(eq=False, repr=False)
class BCA(Solver):
    """Block-coordinate ascent: the default for sets of many labels.

    Maximizes the dual of the structured hinge over the LP relaxation of label sets, one
    example at a time. A visit solves the relaxation at the current weights, as the
    oracle of block-coordinate Frank-Wolfe does [1]_. Bounds decide most labels, and a
    minimum cut decides the few others. Each label that differs from the solution then
    makes its own step, and groups of labels that are coupled by pairs make a common
    step, all with exact line search. The method therefore converges like coordinate
    ascent for one support vector machine per label, and not like Frank-Wolfe on all
    labels at once. Every iterate is feasible, and the duality gap is a certificate.

    Parameters
    ----------
    max_iter : int, default=1000
        Maximum number of passes over the data.
    tol : float, default=3e-3
        Stop at a duality gap of ``tol`` times the objective at w = 0, which is the
        number of labels.
    check_every : int or "auto", default="auto"
        Number of passes between two computations of the objective. "auto" computes it
        when the gaps measured during a pass have become clearly smaller, and after at
        most five passes.

    References
    ----------
    .. [1] S. Lacoste-Julien, M. Jaggi, M. Schmidt and P. Pletscher, "Block-coordinate
       Frank-Wolfe optimization for structural SVMs", ICML 2013.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> from sksstruct.solvers import BCA
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    >>> classifier = MultilabelPairwise(
    ...     0.01, loss="structured_hinge", interaction_scaling=1.0, inference="lp",
    ...     solver=BCA(),
    ... )
    >>> classifier.fit(X, y).predict([[0.1, 0.9]])
    array([[0, 1, 1]])
    """

    max_iter: int = 1000
    tol: float = 3e-3
    _: KW_ONLY
    check_every: Count | Literal["auto"] = "auto"

    required_oracles = ("label_sets",)

    def layout(self, model: BoundModel) -> Any:
        return factor_model(model)

    def _solve(self, model, alpha, options):
        return BCARun(self, factor_model(model), alpha, options).run()


class BCARun:
    """A run of `BCA` on a model of label sets.

    Parameters
    ----------
    solver : BCA
        The solver whose parameters the run uses.
    model : BinaryFactorModel
        The model bound to its training data; its weights are overwritten.
    alpha : float
        Regularization.
    options : Options
        Random state, threads and output.
    """

    def __init__(self, solver, model, alpha, options):
        self.solver, self.model, self.alpha = solver, model, alpha
        self.n_jobs = options.n_jobs
        self.rng = check_random_state(options.random_state)
        model.start()
        self.state = LabelAscent(model, alpha)
        self.loop = Loop(solver, alpha, options, scale=model.loss_at_zero())
        self.hinge = np.empty(model.n_examples)
        # number of visits between two checks for signals
        work = model.n_labels + np.sqrt(model.n_pairs * model.n_labels)
        self.visits_of_a_call = max(1, int(_WORK_OF_A_CALL / work))
        self.last_gap, self.evaluated_after = np.inf, 0
        self.alone = model.n_pairs > 0

    def run(self):
        """Make passes until the gap is small enough; return the result."""
        self.loop.report(self.loop.scale, np.zeros_like(self.model.weights()), 0.0)
        return self.loop.run(
            self.one_pass, self.evaluate, dual_state=dict, weights=self.model.weights
        )

    def one_pass(self):
        """Visit all examples in a random order, and evaluate if a check is due."""
        state, loop, without_pairs = self.state, self.loop, self.alone
        order = self.rng.permutation(self.model.n_examples).astype(np.intp)
        state.gap = 0.0
        for first in range(0, len(order), self.visits_of_a_call):
            check_clock()
            part = order[first : first + self.visits_of_a_call]
            state.visit_alone(part) if without_pairs else state.visit(part)
        if without_pairs and self.are_labels_settled():
            # the model without pairs is reported, as the first report of a model with
            # pairs comes much later
            self.evaluate()
            state.begin_pairs()
            self.alone = False
        # sums of scores are recomputed, as updates accumulate rounding errors
        state.load()
        loop.calls = state.calls
        if not without_pairs and self.is_time_to_evaluate():
            self.evaluate()

    def are_labels_settled(self):
        """Return whether further passes without pairs would gain little."""
        n_iter = self.loop.n_iter
        return (
            n_iter >= min(_MOST_ALONE, self.solver.max_iter - 1)
            or self.state.gap <= _SETTLED * self.state.expected_loss()
        )

    def is_time_to_evaluate(self):
        """Return whether the objective is computed after this pass."""
        n_iter, every = self.loop.n_iter, self.solver.check_every
        if every != "auto":
            return n_iter % every == 0
        return (
            self.state.gap <= max(_FALL * self.last_gap, self.loop.target)
            or n_iter >= self.evaluated_after + _MOST_PASSES
        )

    def evaluate(self):
        """Report the objective and the dual value at the current weights."""
        state, model = self.state, self.model

        def sweep(first, last):
            state.hinge(first, last, self.hinge)

        run_in_chunks(sweep, model.n_examples, self.n_jobs)
        weights = model.weights()
        penalty = self.alpha / 2 * float(weights @ weights)
        primal = float(model.example_weights @ self.hinge) + penalty
        # during passes without pairs the point is not feasible
        dual = 0.0 if self.alone else state.expected_loss() - penalty
        self.loop.report(primal, weights, dual)
        self.last_gap, self.evaluated_after = primal - dual, self.loop.n_iter
