"""Ascent of the dual of label sets; `_label_ascent.pyx` states notation."""

import numpy as np

from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from sksstruct.solvers.dual_decomposition._label_ascent import LabelVisits


class LabelAscent(LabelVisits):
    """Probabilities of labels and pairs, and passes that improve them.

    Parameters
    ----------
    model : BinaryFactorModel
        The model; its weights are written.
    alpha : float
        Regularization.

    Attributes
    ----------
    gap : float
        Sum of the gaps of the examples visited since `gap` was last set.
    calls : int
        Number of maximizations of the relaxation.
    """

    def __init__(self, model, alpha):
        n_labels = model.n_labels
        self._probabilities = np.empty((model.n_examples, n_labels))
        integers = np.zeros((5, n_labels), dtype=np.int32)
        # row 4: place of each label in the list of labels that are on or may move in
        # the visited example; -1 if not in the list, which is still empty
        integers[4] = -1
        super().__init__(
            model,
            alpha,
            LabelPairs(model.pairs, n_labels),
            self._probabilities,
            # kernels write scores in whole vectors, the last of which may end behind
            # the labels
            np.zeros(n_labels + 8),
            np.zeros(n_labels),
            np.zeros(n_labels, dtype=np.uint8),
            integers,
            np.zeros(model.n_pairs, dtype=np.int32),
        )
        # `LabelVisits.__init__` has set the probabilities to the observed labels
        self._observed = self._probabilities.copy()

    def begin_pairs(self):
        """Choose s for the probabilities found without pairs.

        Each s lies in the range that the labels' probabilities allow, and makes the
        weight of its pair zero if possible, so that the objective does not change.
        """
        self.choose_pairs(np.zeros((3, self.model.n_pairs)))
        self.load()

    def load(self):
        """Copy the pair weights of the model, and recompute sums of scores."""
        self.load_scores(self.model.scaling * self.model.pair_weights())

    def expected_loss(self):
        """Return sum_i p_i sum_j |q_j - y_j|, the linear term of the dual."""
        missed = np.abs(self._probabilities - self._observed).sum(axis=1)
        return float(self.model.example_weights @ missed)

    def probabilities(self):
        """Return q, of shape (n_examples, n_labels); for tests."""
        return self._probabilities.copy()

    def pair_probabilities(self):
        """Return s, of shape (n_examples, n_pairs); for tests of few pairs."""
        q = self._probabilities
        first, second = self.model.pairs.T
        # the product is s of all pairs except open pairs, which `read_open` overwrites
        out = np.ascontiguousarray(q[:, first] * q[:, second])
        self.read_open(out)
        return out

    def hinge(self, first, last, values):
        """Compute the relaxed hinge losses of examples at the current weights.

        Parameters
        ----------
        first, last : int
            The examples first <= i < last.
        values : ndarray of shape (n_examples,)
            The entries of these examples are overwritten with their losses.
        """
        # each call has its own scratch, as threads may share only data that no thread
        # writes
        oracle = ReducedRoofDual(self.graph)
        unary = np.zeros(self.model.n_labels + 8)
        states = np.zeros(self.model.n_labels, dtype=np.int32)
        self.read_hinge(oracle, first, last, unary, states, values)
