"""The best labels, and the best sets of them, of a fitted `MultilabelPairwise`."""

from typing import Any

import numpy as np
from scipy import sparse

from sksstruct.estimators._fitted import TrainedMultilabel
from sksstruct.estimators._parameters import TEXTS
from sksstruct.inference._checks import check_k
from sksstruct.models.multilabel.best_sets import best_sets
from sksstruct.models.multilabel.decoding import MOST_OPEN
from sksstruct.models.multilabel.forms import as_sets
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import MatrixLike

# With inference="exact", all sets of the labels that the LP relaxation leaves undecided
# are enumerated if there are at most this number of such labels.
MOST_LABELS = 20


@fill_doc(TEXTS)
class RankedLabels(TrainedMultilabel):
    """Methods that predict several labels or sets, the best first."""

    def _unaries(self, X):
        """Unary score of each label of each sample, without the scores of pairs."""
        raise NotImplementedError

    def _label_scores(self, unaries):
        """Log-odds of each label of each sample, from unary scores and pairs."""
        raise NotImplementedError

    def predict_topk(self, X: MatrixLike, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k most likely labels of each sample, and their scores.

        Labels are ranked by their log-odds for every `target`. Thresholds do not
        matter: even a sample whose predicted set is empty has k labels. Of labels with
        equal scores, the first in `classes_` is first.

        Parameters
        ----------
        %(matrix)s
        k : int
            Number of labels.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Entries of `classes_`, the best first. There are fewer than k columns if
            there are fewer labels.
        scores : ndarray of shape (n_samples, k)
            Log-odds of these labels, ``log(p / (1 - p))``.
        """
        k = check_k(k)
        scores = self._label_scores(self._unaries(X))
        if self._values is not None:
            raise ValueError(
                "predict_topk ranks labels, but y had a single label as a 1-D array: "
                "use predict or decision_function"
            )
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return self.classes_[order], np.take_along_axis(scores, order, axis=1)

    def predict_sets(
        self, X: MatrixLike, k: int
    ) -> tuple[np.ndarray | list[Any], np.ndarray]:
        """The k sets of labels with the highest scores, and their scores.

        The first set is the prediction with ``target="subset"``, unless the set is
        empty. With other targets `predict` may return another set.

        Lawler's method partitions all sets, and solves the LP relaxation of each part.
        The sets are exactly the best without pairs, or if the relaxation leaves at most
        16 labels undecided (20 with ``inference="exact"``). If it leaves more labels
        undecided, the scores are those of the returned sets, but other sets may have
        higher scores. ``inference="gdmm"`` is the same as "lp" here.

        Parameters
        ----------
        %(matrix)s
        k : int
            Number of sets.

        Returns
        -------
        y : ndarray of shape (n_samples, k, n_labels), or (n_samples, k), or list
            Distinct sets for each sample, the best first. There are fewer than k if
            there are fewer sets. The sets have the form of the training labels: an
            indicator array; a CSR array of shape (k, n_labels) for each sample if the
            training labels were sparse; tuples of labels if they were sets; values if
            they were 1-D.
        scores : ndarray of shape (n_samples, k)
            Scores of the sets, see the class.
        """
        k = check_k(k)
        unaries = self._unaries(X)
        labels, scores = best_sets(
            unaries,
            self.label_pairs_,
            self.interactions_,
            k,
            most_open=MOST_LABELS if self.inference == "exact" else MOST_OPEN,
            n_jobs=self.n_jobs,
        )
        if self._values is not None:
            return self._values[labels[:, :, 0]], scores
        if self._in_sets:
            sets = as_sets(labels.reshape(-1, labels.shape[2]), self.classes_)
            return sets.reshape(scores.shape), scores
        if self._sparse_output:
            return [sparse.csr_array(rows) for rows in labels], scores
        return labels, scores
