"""State of GDMM on binary labels and pairs; `_binary_blocks.pyx` states notation."""

import numpy as np

from sksstruct.solvers.dual_decomposition._binary_state import BinaryVisits


class BinaryGDMMState(BinaryVisits):
    """State of Algorithm 3 on binary labels: probabilities, pairs and multipliers.

    Parameters
    ----------
    model : BinaryFactorModel
        The model; its weights are written.
    alpha, rho : float
        See `GDMMState`.

    Attributes
    ----------
    ignore : float
        A label at its observed value moves only if its gain exceeds this value. A pair
        becomes active by its score only if the absolute score exceeds this value.
    block_gap, primal_residual, dual_residual : float
        See `GDMMState`.
    infeasibility : float
        Mean distance between the marginals of active pairs and the probabilities of
        their labels, in the last pass.
    calls : int
        Number of visits of labels and pairs.
    n_active : int
        Number of active pairs in all examples.
    """

    def __init__(self, model, alpha, rho):
        n, n_labels = model.n_examples, model.n_labels
        self._probabilities = np.empty((n, n_labels))
        super().__init__(
            model,
            alpha,
            rho,
            self._probabilities,
            np.zeros((n, n_labels), dtype=np.uint8),
            # kernels write scores in whole vectors, the last of which may end behind
            # the labels
            np.zeros(n_labels + 8),
            np.zeros((2, n_labels)),
            np.zeros((3, n_labels), dtype=np.int32),
            np.zeros(model.n_pairs, dtype=np.int32),
        )
        # `BinaryBlocks.__init__` has set the probabilities to the observed labels
        self._observed = self._probabilities.copy()

    def begin_pairs(self):
        """Choose s for the probabilities found without pairs, and activate pairs.

        Each s lies in the range that the labels' probabilities allow, and makes the
        weight of its pair zero if possible, so that the objective does not change.
        """
        self.activate_first(np.zeros((3, self.model.n_pairs)))

    def visit(self, order, parts, n_parts, most, eta):
        """Make one pass over examples, and update the multipliers.

        Parameters
        ----------
        order : ndarray of shape (n,), intp
            The examples in the order in which they are visited.
        parts : ndarray of shape (n_examples,)
            The part of the labels that each visit scores, as a number in [0, 1).
        n_parts : int
            Number of parts.
        most : int
            Largest number of pairs with a positive score that a visit activates.
        eta : float
            Step of the multipliers in units of rho.
        """
        model = self.model
        # Scores change during the pass. Visits read current scores of pairs, but in the
        # order that the scores had at the start of the pass, which avoids the ordered
        # multimap of the paper.
        scores = model.scaling * model.pair_weights()
        descending = np.argsort(-scores, kind="stable")
        positive = descending[scores[descending] > self.ignore].astype(np.int32)
        negative = np.repeat(np.maximum(-scores, 0.0), 2)
        sums = np.bincount(model.pairs.ravel(), negative, model.n_labels).astype(float)
        budget = np.zeros(model.n_labels)
        super().visit(order, parts, n_parts, most, eta, positive, sums, budget)

    def expected_loss(self):
        """Return sum_i p_i sum_j |q_j - y_j|."""
        missed = np.abs(self._probabilities - self._observed).sum(axis=1)
        return float(self.model.example_weights @ missed)

    def feasible_changes(self):
        """Return changes of pair weights that make pairs consistent with labels.

        Returns
        -------
        changes : ndarray of shape (n_pairs,)
            Sums over the examples.
        """
        changes = np.zeros(self.model.n_pairs)
        self.add_feasible_changes(changes)
        return changes
