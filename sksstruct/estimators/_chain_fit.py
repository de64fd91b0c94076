"""One fit of a chain: the problems that the solver is given, one after the other."""

import numpy as np
from sklearn.base import clone

from sksstruct.estimators._chain_attributes import chain_attributes
from sksstruct.estimators._chain_training import (
    bind_loss,
    complete,
    existing_weights,
    known_segments,
    most_labelings,
)
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._factors import ChainFactors
from sksstruct.models.chain._scored import ScoredChain
from sksstruct.solvers import LBFGS

# Rounds of completing labels that were not observed, and training.
MAX_ROUNDS = 10


class ChainFit:
    """Train on one data set: at once, from a smoother loss, or in rounds.

    Parameters
    ----------
    estimator : ChainCRF
        Its parameters are read.
    data : TrainingData
        Sequences of positive weight.
    solver : solver object
        What solves the problems.
    loss : tuple or None
        Smoothing, strength and k of a smooth loss; None for the hinge.
    costs : ndarray of shape (n_classes,) or None
        Loss of missing each label.
    mask : ndarray or None
        Forbidden transitions as scores.
    score : ScoreFunction or None
        Nonlinear score of the labels.
    """

    def __init__(self, estimator, data, solver, loss, costs, mask, score=None):
        self.estimator = estimator
        self.data = data
        self.solver = solver
        self.loss = loss
        self.costs = costs
        self.mask = mask
        self.score = score
        self.callback = None
        self.passes = 0
        self.factors = None

    def attributes(self, constant, weights):
        """All fitted attributes for flat weights, the constant ones included."""
        if self.factors is None:
            return chain_attributes(constant, self.score, weights)
        blocks = self.factors.blocks(weights)
        return {**constant, **{f"{name}_": part for name, part in blocks.items()}}

    @property
    def in_rounds(self):
        """Whether labels are completed, and trained on, in turns."""
        return self.data.known is not None and self.estimator.loss != "log"

    def run(self, callback, state=None):
        """Solve, from a state if there is one; the last result, with all passes."""
        self.callback = callback
        if self.in_rounds:
            return self._rounds()
        is_l2 = self.loss is not None and self.loss[0] == "l2"
        if is_l2 and state is None and self.score is None:
            return self._after_entropy()
        return self._solve(self.problem(), state)

    def problem(self, data=None, labels=None, mask=None, loss=None, boundary=True):
        """The model bound to data, with its loss."""
        estimator = self.estimator
        data = self.data if data is None else data
        loss = self.loss if loss is None else loss
        packed = data.packed.compact()
        chain = {
            "labels": data.labels if labels is None else labels,
            "example_weights": data.weight,
            "label_costs": self.costs,
            "boundary": estimator.boundary and boundary,
            "known": data.known,
            "mask": self.mask if mask is None else mask,
        }
        if self.score is not None:
            return self._scored(packed, loss, chain)
        if "factors" in self.solver.required_oracles:
            chain.pop("mask")
            self.factors = ChainFactors(
                packed,
                len(data.classes),
                fit_intercept=estimator.fit_intercept,
                **chain,
            )
            return self.factors
        model = BoundChain(
            packed, len(data.classes), fit_intercept=estimator.fit_intercept, **chain
        )
        nonsmooth = loss is None
        if nonsmooth:
            if not getattr(self.solver, "smooths", False):
                return model
            loss = (self.solver.smoothing, 1.0, self.solver.k)
        known = data.known if estimator.loss == "log" else None
        problem = bind_loss(model, data, packed, known, loss)
        problem.nonsmooth = nonsmooth
        problem.support = existing_weights(
            model,
            data,
            estimator.all_possible_states,
            estimator.all_possible_transitions,
        )
        return problem

    def _scored(self, packed, loss, chain):
        """A chain with a score function, and its loss."""
        n_classes = len(self.data.classes)
        nonsmooth = loss is None
        if nonsmooth:
            loss = (self.solver.smoothing, 1.0, self.solver.k)
        smoothing, strength, k = loss
        k = min(k, most_labelings(n_classes, packed.lengths))
        return ScoredChain(
            self.score, packed, n_classes, (smoothing, strength, k), nonsmooth, **chain
        )

    def _solve(self, problem, state=None, solver=None):
        before = self.passes
        solver = self.solver if solver is None else solver
        result = solver.solve(
            problem,
            self.estimator.alpha,
            random_state=self.estimator.random_state,
            n_jobs=self.estimator.n_jobs,
            verbose=self.estimator.verbose,
            callback=lambda passes, weights: self.callback(before + passes, weights),
            dual_state=state,
        )
        self.passes += result.n_iter
        result.n_iter = self.passes
        return result

    def _after_entropy(self):
        """Solve the problem with l2 from about the solution with entropy.

        All labelings are equal at w = 0, where the k best say nothing.
        """
        solver = self.solver
        start = LBFGS(solver.max_iter, max(solver.tol, 0.05))
        smooth = ("entropy", min(self.loss[1], 0.1), 1)
        result = self._solve(self.problem(loss=smooth), solver=start)
        left = solver.max_iter - result.n_iter
        if left < 1 or result.status in ("interrupted", "callback"):
            # of another loss: nothing is known of this one
            result.dual_gap, result.exact = np.inf, 0.0
            return result
        rest = clone(solver).set_params(max_iter=left)
        return self._solve(self.problem(), result.dual_state, rest)

    def _rounds(self):
        """Complete labels that were not observed, and train, in turns."""
        free = self.mask
        if free is not None:  # segments start and end anywhere
            free = free.copy()
            free[:2] = 0.0
        segments = known_segments(self.data)
        result = self._solve(self.problem(segments, mask=free, boundary=False))
        labels = None
        try:
            for _ in range(MAX_ROUNDS):
                if result.status in ("interrupted", "callback"):
                    break
                completed = complete(
                    self.data, result.weights, self.mask, self.estimator.n_jobs
                )
                if labels is not None and np.array_equal(completed, labels):
                    break
                labels = completed
                result = self._solve(self.problem(labels=labels))
            else:
                completed = complete(
                    self.data, result.weights, self.mask, self.estimator.n_jobs
                )
                if result.status == "converged" and (completed != labels).any():
                    result.status = "rounds"
        except KeyboardInterrupt:
            result.status = "interrupted"
        result.dual_gap = np.inf
        return result
