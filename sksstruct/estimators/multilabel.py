"""Multilabel classification with scores of pairs of labels."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from sksstruct.estimators._parameters import TEXTS, TRAINING
from sksstruct.estimators._train import train
from sksstruct.models.multilabel.multilabel import MultilabelModel, decode
from sksstruct.solvers import SOLVERS
from sksstruct.solvers.core.base import Solver
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import Interval, StrOptions

# Up to so many labels, inference="auto" enumerates all labelings.
FEW_LABELS = 12


@fill_doc(
    {
        **TEXTS,
        "solvers": listing(SOLVERS.names("max", "factors", "label_sets", losses=("hinge",))),
    }
)
@dataclass(eq=False, repr=False)
class MultilabelPairwise(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Multilabel classifier whose labels interact in pairs.

    The score of a set of labels y, as an indicator, for features x is

        ``sum_j y_j (coef_[j] . x + intercept_[j])
        + sum_(j<k) interactions_[j, k] y_j y_k``

    and training minimises ``alpha/2 |w|^2`` plus the mean over the samples of the
    structured hinge with the Hamming loss, the number of wrong labels. Without pairs
    this is one linear support vector machine for each label, as in
    ``OneVsRestClassifier(LinearSVC(loss="hinge", C=1 / (n_samples * alpha)))`` with a
    regularised intercept.

    Parameters
    ----------
    alpha : float, default=1e-3
        Regularisation, as in `sklearn.linear_model.SGDClassifier`: 1 / (n C).
    pairs : {"all", "cooccurring"} or array-like of shape (n_pairs, 2), default="all"
        Pairs of labels that interact. "all": every pair. "cooccurring": pairs that
        occur together in some training sample, which cannot learn that labels exclude
        each other. An array has the numbers of two columns of y in each row.
    interaction_scaling : float, default=1.0
        Value of the feature of a pair: larger values regularise interactions less.
    inference : {"auto", "exact", "lp", "gdmm"}, default="auto"
        How labels are found. "exact": by trying all sets of labels, in training as
        well. "lp": by the LP relaxation, one minimum cut for each sample, which is
        exact where labels only attract each other; labels that it leaves open are
        settled in prediction. "gdmm": predictions by Algorithm 2 of [2]_. "auto" is
        "exact" for up to twelve labels, else "lp".
    solver : str or solver object, default="auto"
        Optimiser, an object of `sksstruct.solvers` or the name of one with its
        defaults:
        %(solvers)s.
        "auto" is the configuration of
        `sksstruct.solvers.BCFW` that reaches a given duality gap soonest where sets of
        labels are enumerated, else `sksstruct.solvers.GDMM` by block-greedy coordinate
        descent (Algorithm 3 of [1]_).
    max_iter : int, default=1000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=5e-4
        Where `solver` is a name, training stops at a duality gap of ``tol`` times the
        objective at w = 0, which is the number of labels.
    fit_intercept : bool, default=True
        Whether labels have a bias; it is regularised like the other weights.
    n_jobs : int, default=None
        Threads for computing the objective and for prediction. The result is the same
        for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the samples.
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,), or (2,)
        Numbers of the labels; the two values of y where it was 1-D.
    coef_ : ndarray of shape (n_labels, n_features)
        Weights of the labels.
    intercept_ : ndarray of shape (n_labels,)
        Bias of each label; zeros without `fit_intercept`.
    label_pairs_ : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact.
    interactions_ : ndarray of shape (n_labels, n_labels)
        Score of each pair of labels, symmetric; zero for pairs that do not interact.
    %(features_seen)s
    n_iter_ : int
        Passes over the data.
    objective_ : float
        Primal objective at the fitted weights, with the LP relaxation of the structured
        hinge unless sets of labels were enumerated.
    dual_gap_ : float
        The objective is at most this much above the optimum.
    %(history_)s
    %(solver_)s

    See Also
    --------
    sksstruct.plotting.InteractionsDisplay : The interactions as a heat map.
    sksstruct.solvers.GDMM : The solver and its options.

    References
    ----------
    .. [1] I. E.-H. Yen, X. Huang, K. Zhong, R. Zhang, P. Ravikumar and I. S. Dhillon,
       "Dual decomposed learning with factorwise oracle for structural SVM of large
       output domain", NIPS 2016.
    .. [2] X. Huang, I. E.-H. Yen, R. Zhang, Q. Huang, P. Ravikumar and I. S. Dhillon,
       "Greedy direction method of multiplier for MAP inference of large output
       domain", AISTATS 2017.
    .. [3] T. Finley and T. Joachims, "Training structural SVMs when exact inference is
       intractable", ICML 2008.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    >>> classifier = MultilabelPairwise(alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([[0.1, 0.9]])
    array([[0, 1, 1]])
    """

    alpha: float = 1e-3
    _: KW_ONLY
    pairs: str | ArrayLike = "all"
    interaction_scaling: float = 1.0
    inference: str = "auto"
    solver: str | Solver = "auto"
    max_iter: int = 1000
    tol: float = 5e-4
    fit_intercept: bool = True
    n_jobs: int | None = None
    random_state: int | RandomState | None = None
    verbose: int = 0

    _parameter_constraints = {
        **TRAINING,
        "pairs": [StrOptions({"all", "cooccurring"}), "array-like"],
        "interaction_scaling": [Interval(Real, 0, None, closed="neither")],
        "inference": [StrOptions({"auto", "exact", "lp", "gdmm"})],
        "fit_intercept": ["boolean"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    # ---- training ----

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train on label sets.

        Parameters
        ----------
        %(matrix)s
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator: a column for each label, 1 where a sample has it. A 1-D
            array of two values is a single label.
        %(loss_weight)s

        Returns
        -------
        self : MultilabelPairwise
            The fitted classifier.

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "classifier")

    def _model(self):
        return MultilabelModel(
            pairs=self.pairs,
            interaction_scaling=self.interaction_scaling,
            fit_intercept=self.fit_intercept,
            enumerates=self._is_exact,
        )

    def _is_exact(self, n_labels):
        if self.inference == "auto":
            return n_labels <= FEW_LABELS
        if self.inference == "exact" and n_labels > 20:
            raise ValueError(
                f"inference='exact' tries all sets of labels, which is for at most 20 "
                f"labels; y has {n_labels}"
            )
        return self.inference == "exact"

    # ---- prediction ----

    def _unaries(self, X):
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _labels(self, unaries):
        """Best labels as 0 and 1."""
        return decode(
            unaries,
            self.label_pairs_,
            self.interactions_,
            exact=self._is_exact(unaries.shape[1]),
            by_gdmm=self.inference == "gdmm",
            n_jobs=self.n_jobs,
        )

    def predict(self, X):
        """Predict label sets.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        y : ndarray or CSR array of shape (n_samples, n_labels) or (n_samples,)
            Label indicator, sparse or 1-D where the training labels were.
        """
        labels = self._labels(self._unaries(X))
        if self._values is not None:
            return self._values[labels[:, 0]]
        return sparse.csr_array(labels) if self._sparse_output else labels

    def decision_function(self, X):
        """Score of each label given the other labels that are predicted.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
            What each label adds, or would add, to the score of the other predicted
            labels: not negative where it is predicted, not positive elsewhere.
        """
        unaries = self._unaries(X)
        scores = unaries + self._labels(unaries) @ self.interactions_
        return scores if self._values is None else scores[:, 0]

    def score(self, X, y, sample_weight=None):
        """Subset accuracy: share of the samples whose label set is predicted exactly.

        Parameters
        ----------
        %(matrix)s
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator.
        %(score_weight)s

        Returns
        -------
        score : float
            Accuracy.
        """
        predicted = self.predict(X)
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
