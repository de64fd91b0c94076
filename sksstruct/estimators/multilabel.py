"""Multilabel classification with scores of pairs of labels."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._pair_scaling import choose_scaling
from sksstruct.estimators._parameters import TEXTS, TRAINING
from sksstruct.estimators._train import train
from sksstruct.models.multilabel.multilabel import MultilabelModel, decode
from sksstruct.solvers import SOLVERS
from sksstruct.solvers.core.base import Solver
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import Interval, StrOptions
from sksstruct.utils.sparse_input import validate_rows
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import MatrixLike, with_callbacks

# Up to so many labels, inference="auto" enumerates all labelings.
FEW_LABELS = 12


def _is_likelihood(estimator):
    """A check for `available_if`: whether there are probabilities."""
    loss = getattr(estimator, "_loss", estimator.loss)
    if loss != "log":
        raise AttributeError(f"predict_proba needs loss='log', got loss={loss!r}")
    return True


@fill_doc(
    {
        **TEXTS,
        "solvers": listing(
            SOLVERS.names(
                "max", "factors", "coordinates", "label_sets", losses=("hinge",)
            )
        ),
    }
)
@dataclass(eq=False, repr=False)
class MultilabelPairwise(
    CallbackSupportMixin, ClassifierMixin, Versioned, BaseEstimator
):
    """Multilabel classifier whose labels interact in pairs.

    The score of a set of labels y, as an indicator, for features x is

        ``sum_j y_j (coef_[j] . x + intercept_[j])
        + sum_(j<k) interactions_[j, k] y_j y_k``

    and the best set is predicted. Training minimizes ``alpha/2 |w|^2`` plus the mean
    over the samples of the losses of all labels. The loss of label j is that of a
    binary classifier with the score

        ``coef_[j] . x + intercept_[j] + sum_k interactions_[j, k] y_k``

    in which the other labels have their observed values: with ``loss="log"`` this is
    the pseudo-likelihood [1]_, with the hinges the pseudo-max method [2]_. The problem
    is convex, and no sets of labels are searched in training. Without pairs this is
    ``OneVsRestClassifier(LinearSVC(loss=loss, C=1 / (n_samples * alpha)))``, which
    regularizes the intercept, or with ``LogisticRegression``, which does not.

    By default pairs are tried on samples that are held out, and left out unless they
    predict better than labels alone: see `interaction_scaling`.

    Parameters
    ----------
    alpha : float, default=1e-3
        Regularization, as in `sklearn.linear_model.SGDClassifier`: 1 / (n C).
    loss : {"squared_hinge", "hinge", "log", "structured_hinge"}, \
            default="squared_hinge"
        Loss of a label given the others. "structured_hinge" is for sets of labels: the
        structured hinge with the Hamming loss, the number of wrong labels, as a
        structural support vector machine has it [4]_. Without pairs it equals "hinge".
    class_weight : dict, list of dict or "balanced", default=None
        Factors of the loss of a label where it is off, 0, and where it is on, 1, for
        all labels or for each; in place of 0 and 1 the values of a 1-D y. "balanced":
        inversely proportional to how often either is. Not for "structured_hinge".
    pairs : {"auto", "all", "significant", "cooccurring"} or array-like of shape \
            (n_pairs, 2), default="auto"
        Pairs of labels that interact. "all": every pair. "significant": pairs that come
        together, or exclude each other, more often than by chance, one in a thousand,
        by the G statistic of their counts [3]_; of these the 20 n_labels with the
        largest.
        "cooccurring": pairs that occur together in some training sample, which cannot
        learn that labels exclude each other. An array has the numbers of two columns of
        y in each row. "auto" is "all" for up to 100 labels, else "significant".
    interaction_scaling : float or "auto", default="auto"
        Value of the feature of a pair: larger values regularize interactions less.
        Zero leaves pairs out. "auto": zero, or 0.03, 0.1, 0.3 or 1 times the mean
        norm of a row of X, chosen by training on parts of the samples. Micro, macro and
        sample F1 and the Hamming loss on the other samples are compared with those of
        labels alone: where one of them is worse by half a standard error of the
        difference, or the mean gain is below that, the value is not taken. There are
        up to five folds, fewer once 1000 samples were held out together. Samples count
        by their `sample_weight`. An interrupt while values are tried leaves no
        classifier.
    inference : {"auto", "exact", "lp", "gdmm"}, default="auto"
        How sets of labels are found. "exact": by trying all of them. "lp": by the LP
        relaxation, one minimum cut for each sample, which is exact where labels only
        attract each other; labels that it leaves open are settled in prediction.
        "gdmm": predictions by Algorithm 2 of [5]_. "auto" is "exact" for up to twelve
        labels, else "lp". Only "structured_hinge" searches sets in training too.
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults:
        %(solvers)s.
        "auto" is `sksstruct.solvers.DCD`. For "structured_hinge" it is the
        configuration of `sksstruct.solvers.BCFW` that reaches a given duality gap
        soonest where sets of labels are enumerated, else `sksstruct.solvers.BCA`.
    max_iter : int, default=1000
        Largest number of passes over the data, where `solver` is a name.
    tol : float, default=5e-4
        Where `solver` is a name, training stops at a duality gap of ``tol`` times the
        objective; for "structured_hinge", times the number of labels.
    fit_intercept : bool, default=True
        Whether labels have a bias. It is regularized like the other weights, except
        with ``loss="log"``: as in the classifiers of scikit-learn. Labels that all
        samples have, or none has, always have a regularized one.
    n_jobs : int, default=None
        Threads for computing the objective and for prediction. The result is the same
        for any number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the samples, and which samples are held out.
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
        Pairs of labels that interact; none if `interaction_scaling_` is zero.
    interaction_scaling_ : float
        The value of the feature of a pair.
    interactions_ : ndarray of shape (n_labels, n_labels)
        Score of each pair of labels, symmetric; zero for pairs that do not interact.
    %(features_seen)s
    n_iter_ : int
        Passes over the data.
    objective_ : float
        Primal objective at the fitted weights; for "structured_hinge" with the LP
        relaxation unless sets of labels were enumerated.
    dual_gap_ : float
        The objective is at most this much above the optimum.
    %(history_)s
    %(solver_)s

    See Also
    --------
    sksstruct.plotting.InteractionsDisplay : The interactions as a heat map.
    sksstruct.solvers.DCD : The solver and its options.

    References
    ----------
    .. [1] J. Besag, "Statistical analysis of non-lattice data", The Statistician 24(3),
       1975.
    .. [2] D. Sontag, O. Meshi, T. Jaakkola and A. Globerson, "More data means less
       inference: a pseudo-max approach to structured learning", NIPS 2010.
    .. [3] T. Dunning, "Accurate methods for the statistics of surprise and
       coincidence", Computational Linguistics 19(1), 1993.
    .. [4] T. Finley and T. Joachims, "Training structural SVMs when exact inference is
       intractable", ICML 2008.
    .. [5] X. Huang, I. E.-H. Yen, R. Zhang, Q. Huang, P. Ravikumar and I. S. Dhillon,
       "Greedy direction method of multiplier for MAP inference of large output
       domain", AISTATS 2017.

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
    loss: Literal["squared_hinge", "hinge", "log", "structured_hinge"] = "squared_hinge"
    class_weight: dict | Sequence[dict] | Literal["balanced"] | None = None
    pairs: Literal["auto", "all", "significant", "cooccurring"] | ArrayLike = "auto"
    interaction_scaling: float | Literal["auto"] = "auto"
    inference: Literal["auto", "exact", "lp", "gdmm"] = "auto"
    solver: str | Solver = "auto"
    max_iter: int = 1000
    tol: float = 5e-4
    fit_intercept: bool = True
    n_jobs: int | None = None
    random_state: int | RandomState | None = None
    verbose: int = 0

    _parameter_constraints = {
        **TRAINING,
        "loss": [StrOptions({"squared_hinge", "hinge", "log", "structured_hinge"})],
        "class_weight": [StrOptions({"balanced"}), dict, list, None],
        "pairs": [
            StrOptions({"auto", "all", "significant", "cooccurring"}),
            "array-like",
        ],
        "interaction_scaling": [
            Interval(Real, 0, None, closed="left"),
            StrOptions({"auto"}),
        ],
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
    def fit(
        self, X: MatrixLike, y: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> Self:
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
        if self.loss == "structured_hinge" and self.class_weight is not None:
            raise ValueError(
                "class_weight is for losses of labels; loss='structured_hinge' counts "
                "each wrong label once"
            )
        return MultilabelModel(
            loss=self.loss,
            class_weight=self.class_weight,
            pairs=self.pairs,
            interaction_scaling=self.interaction_scaling,
            fit_intercept=self.fit_intercept,
            enumerates=self._is_exact,
            choose_scaling=partial(choose_scaling, self),
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
        X = validate_rows(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
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

    def predict(self, X: MatrixLike) -> np.ndarray | Any:
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

    def decision_function(self, X: MatrixLike) -> np.ndarray:
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

    @available_if(_is_likelihood)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of each label given the other labels that are predicted.

        Available with ``loss="log"``. These are the conditional probabilities whose
        product is the pseudo-likelihood, and without pairs those of one logistic
        regression for each label. They are above one half for the labels predicted.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_labels) or (n_samples, 2)
            Probability of each label; of the two values where the training y was 1-D.
        """
        probabilities = expit(self.decision_function(X))
        if self._values is None:
            return probabilities
        return np.column_stack([1.0 - probabilities, probabilities])

    def score(
        self, X: MatrixLike, y: MatrixLike, sample_weight: ArrayLike | None = None
    ) -> float:
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
