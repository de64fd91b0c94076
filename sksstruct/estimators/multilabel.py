"""Multilabel classification with scores of pairs of labels."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from sksstruct.estimators._held_out import choose
from sksstruct.estimators._parameters import TEXTS, AnySolver
from sksstruct.estimators._ranked_labels import RankedLabels
from sksstruct.estimators._train import named_solver, train
from sksstruct.losses import LABEL_LOSSES, Hinge, LabelLoss, LabelLossName
from sksstruct.models.multilabel.decoding import decode
from sksstruct.models.multilabel.forms import (
    as_sets,
    check_columns,
    in_columns,
    indicator_of,
    read_labels,
)
from sksstruct.models.multilabel.multilabel import MultilabelModel
from sksstruct.models.multilabel.targets import Target, fill, label_scores
from sksstruct.models.multilabel.unknown import split_unknown
from sksstruct.solvers import SOLVERS
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import (
    Array,
    Count,
    NonNegative,
    Positive,
    Seed,
    Threads,
    Verbosity,
)
from sksstruct.utils.callbacks import CallbackSupportMixin, with_callbacks
from sksstruct.utils.sparse_input import validate_rows
from sksstruct.utils.state import Versioned
from sksstruct.utils.typing import LabelSets, MatrixLike
from sksstruct.utils.validation import check_weight

# Up to this number of labels, inference="auto" enumerates all sets of labels.
FEW_LABELS = 12


def _is_likelihood(estimator):
    """A check for `available_if`: whether there are probabilities."""
    loss = estimator._loss or estimator.loss
    if not LABEL_LOSSES.resolve(loss).is_likelihood:
        raise AttributeError(f"predict_proba needs loss='log', got loss={loss!r}")
    return True


def _known_accuracy(labels, predicted, unknown, sample_weight):
    """Share of the samples with a known label whose known labels are all right."""
    check_consistent_length(predicted, labels)
    weight = check_weight(sample_weight, len(labels))
    weight = np.where(unknown.all(axis=1), 0.0, weight)
    if not weight.any():
        raise ValueError("y has no known label in samples of positive weight")
    right = (unknown | (labels == predicted)).all(axis=1)
    return float(accuracy_score(np.ones_like(right), right, sample_weight=weight))


@fill_doc(
    {
        **TEXTS,
        "solvers": listing(
            SOLVERS.names(
                "max", "factors", "coordinates", "label_sets", "slopes", "curvature"
            )
        ),
    }
)
@dataclass(eq=False, repr=False)
class MultilabelPairwise(
    RankedLabels, CallbackSupportMixin, ClassifierMixin, Versioned, BaseEstimator
):
    """Multilabel classifier whose labels interact in pairs.

    The score of a set of labels y, as an indicator, for features x is

        ``sum_j y_j (coef_[j] . x + intercept_[j])
        + sum_(j<k) interactions_[j, k] y_j y_k``

    `predict` returns the set that is best for a measure: for ``target="subset"``, it is
    the set with the highest score, but see `target` for empty sets. Training minimizes
    ``alpha/2 |w|^2`` plus the mean over the samples of the losses of all labels. The
    loss of label j is that of a binary classifier with the score

        ``coef_[j] . x + intercept_[j] + sum_k interactions_[j, k] y_k``

    In this score the other labels have their observed values. With ``loss="log"`` this
    is the pseudo-likelihood [1]_, and with the hinges the pseudo-max method [2]_. The
    problem is convex, and training does not search over sets of labels. Without pairs,
    with a number for alpha, the weights are those of
    ``OneVsRestClassifier(LinearSVC(loss=loss, C=1 / (n_samples * alpha)))``, which
    regularizes the intercept. With ``loss="log"``, the weights are those of
    ``LogisticRegression``, which does not regularize the intercept.

    By default, pairs are evaluated on held-out samples, and are used only if they
    improve the predictions: see `interaction_scaling`.

    In an indicator of two or more columns, -1 and nan are entries that are not known,
    as are None and ``pandas.NA`` in arrays of objects and in DataFrames. The loss of a
    label is left out where the label is not known, or where a label that it interacts
    with is not known, because the score needs the values of these labels. The problem
    stays convex, and `dual_gap_` is finite. Thresholds and the measures of held-out
    samples use the known entries. Samples without any known entry are ignored, and a
    label without any known entry is an error. ``loss="structured_hinge"`` needs all
    labels.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization strength, as in `sklearn.linear_model.SGDClassifier`: 1 / (n C).
        "auto" is a factor times ``m / n``. m is the sum of the variances of the columns
        of X, and n is the number, or total weight, of the samples. A column whose range
        is more than ten times the median range counts as if it had the median range.
        The factor is chosen on held-out samples: from 8, 2 and 0.5 with the squared
        hinge, from 2, 0.5 and 0.1 with the hinge, and from 0.5, 0.1 and 0.02 with
        ``loss="log"``. The choice is the best factor for `target`, or for the mean of
        micro, macro and sample F1 if `target` is "auto". If the smallest factor is by
        far the best, up to two smaller ones are tried. The factor is 0.5 with
        "structured_hinge", for a single label, and for fewer than ten samples (for
        these two, 0.1 with ``loss="log"``). The feature of a bias
        that is regularized is then ``sqrt(0.1 * m)``, and columns with few zeros are
        centered in training: an offset or a factor of X changes no prediction.
    loss : {"squared_hinge", "hinge", "log", "structured_hinge"}, LabelLoss or Hinge, \
            default="squared_hinge"
        Loss of a label given the others, or an object of `sksstruct.losses`.
        "structured_hinge", or ``Hinge()``, is for sets of labels: the structured hinge
        with the Hamming loss, the number of wrong labels, as a structural support
        vector machine has it [4]_. Without pairs it equals "hinge".
    class_weight : dict, list of dict or "balanced", default=None
        Weights of the loss of a label if the label is off (key 0) and if it is on (key
        1). Pass one dict for all labels, or a list with a dict for each label, in the
        order of `classes_`. If y is 1-D, the keys are its two values. "balanced":
        weights inversely proportional to the frequencies. Not for "structured_hinge".
    pairs : {"auto", "all", "significant", "cooccurring"} or array-like of shape \
            (n_pairs, 2), default="auto"
        Pairs of labels that interact. "all": every pair. "significant": pairs of labels
        that occur together, or exclude each other, significantly more often than by
        chance. The test is the G statistic of their counts at a level of one in a
        thousand [3]_, and at most 20 n_labels pairs with the largest statistics are
        used. "cooccurring": pairs that occur together in at least one training sample.
        They cannot learn that labels exclude each other. An array contains two column
        indices of y, or places in `classes_`, in each row. "auto" is "all" for up to
        100 labels, otherwise "significant".
    interaction_scaling : float or "auto", default="auto"
        Value of the feature of a pair. Larger values regularize interactions less. Zero
        disables pairs. "auto": zero, or 0.03, 0.1, 0.3 or 1 times the mean norm of a
        row of X, chosen by cross-validation. The measures are that of `target`, or with
        target="auto" micro, macro and sample F1 and the share of right labels. A value
        is rejected if, on held-out samples, a measure is worse than without pairs by
        more than half a standard error of the difference, or if the mean gain is at
        most half a standard error. There are up to five folds; folds are left out when
        1000 samples have been held out. With more than 100 labels and ``pairs="auto"``
        the value is zero, because pairs of many labels improved no predictions in our
        benchmarks. Samples are weighted by `sample_weight`. If you interrupt the
        choice, the classifier stays unfitted.
    target : {"auto", "subset", "hamming", "f1", "micro", "macro"}, default="auto"
        The measure for predictions. "subset": the whole set; `predict` returns the set
        with the highest score. "hamming": the number of wrong labels; `predict` returns
        the labels that are more likely than not. "f1": the F1 of each sample, on
        average; `predict` returns the set whose expected F1 is largest, as if labels
        were independent given the sample [6]_, or labels above thresholds if this is
        better on held-out samples. "micro": the F1 of all labels together; `predict`
        returns the labels whose score is above a threshold, which may be lower for rare
        labels. "macro": the mean F1 of the labels, with a threshold for each; for
        labels of few samples it is near that of "micro". "auto" is "subset" with
        "structured_hinge" or a single label, otherwise "micro" with the thresholds that
        have the highest mean of all three kinds of F1. Thresholds and probabilities are
        learned from the scores of samples that are held out in turn. If every training
        sample has a label, `predict` returns the most likely label in place of an empty
        set for "subset", and for the kinds of F1 if this is better on the held-out
        samples. In the probability of a label, the probabilities of sets are
        proportional to ``exp(score)``: it is exact with inference="exact", and
        otherwise a mean-field approximation, which is exact without pairs.
    inference : {"auto", "exact", "lp", "gdmm"}, default="auto"
        Algorithm that finds the best set of labels. "exact": enumeration of all sets.
        "lp": the LP relaxation, solved by one minimum cut for each sample. The
        relaxation is exact if labels only attract each other. In prediction, labels
        that the relaxation leaves undecided are decided afterwards. "gdmm": Algorithm 2
        of Huang et al. [5]_, in prediction. "auto" is "exact" for up to twelve labels,
        otherwise "lp". Training uses `inference` only with "structured_hinge", and only
        with other solvers than "gdmm", "bca" and "soft_bcfw". These three train the
        relaxation, and "exact" is an error with them.
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults:
        %(solvers)s.
        "auto" is "dcd", but "newton" with ``loss="log"``, and without pairs also for
        dense X and for very many labels; "lbfgs" for very many labels with pairs and
        ``loss="log"``. For "structured_hinge", it is "bcfw" if sets of labels are
        enumerated, otherwise "bca".
    max_iter : int, default=1000
        Maximum number of passes over the data. Used only if `solver` is a name.
    tol : float, default=5e-4
        Tolerance of the duality gap, used only if `solver` is a name. Training stops at
        a gap of ``tol`` times the objective. With "structured_hinge", it stops at a gap
        of ``tol`` times the number of labels.
    max_seconds : float, default=None
        Time limit in seconds. Training stops within a pass, in time for a last
        computation of the duality gap. If the limit leaves no time for this
        computation, `objective_` and `dual_gap_` are inf. `n_iter_` counts whole
        passes. The choice of "auto" parameters on held-out samples, which comes first,
        has a limit of the same length, after which no more values are tried.
    fit_intercept : bool, default=True
        Whether labels have a bias. As in the classifiers of scikit-learn, the bias is
        regularized like the other weights, except with ``loss="log"``. Labels that all
        samples have, or that no sample has, always have a regularized bias.
    warm_start : bool, default=False
        Whether the training with the chosen parameters starts from the result of the
        last fit, for instance with another alpha. DCD starts from its dual variables,
        and needs the same numbers of samples and labels; Newton and L-BFGS start from
        the weights, and need the same number of weights. The choice of parameters that
        are "auto" does not use the last fit. If a warm start is not possible, `fit`
        gives a warning and starts from zero.
    n_jobs : int, default=None
        Number of threads for computing the objective and for prediction. The result
        does not depend on the number.
    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the samples, and which samples are held out.
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,), or (2,)
        The labels: sorted if y has sets, the columns of a DataFrame, or numbers. If y
        is 1-D, its two values.
    coef_ : ndarray or CSC array of shape (n_labels, n_features)
        Weights of the labels; sparse after `sparsify`.
    intercept_ : ndarray of shape (n_labels,)
        Bias of each label; zeros without `fit_intercept`.
    label_pairs_ : ndarray of shape (n_pairs, 2)
        Pairs of labels that interact. Empty if `interaction_scaling_` is zero.
    interaction_scaling_ : float
        The value of the feature of a pair.
    interactions_ : ndarray of shape (n_labels, n_labels)
        Score of each pair of labels, symmetric; zero for pairs that do not interact.
    %(features_seen)s
    alpha_ : float
        The regularization that was used.
    n_iter_ : int
        Passes over the data.
    objective_ : float
        Primal objective at the fitted weights; with "structured_hinge", the objective
        of the LP relaxation unless sets of labels were enumerated.
    dual_gap_ : float
        Upper bound on the difference between the objective and its minimum.
    %(history_)s
    %(solver_)s

    See Also
    --------
    sksstruct.plotting.InteractionsDisplay : The interactions as a heat map.
    sksstruct.solvers.DCD : The solver and its options.
    sksstruct.solvers.Newton : The solver of ``loss="log"``.

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
    .. [6] N. Ye, K. M. A. Chai, W. S. Lee and H. L. Chieu, "Optimizing F-measures: a
       tale of two approaches", ICML 2012.

    Examples
    --------
    >>> from sksstruct import MultilabelPairwise
    >>> X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    >>> y = [[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]]
    >>> classifier = MultilabelPairwise(alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([[0.1, 0.9]])
    array([[0, 1, 1]])
    """

    alpha: NonNegative | Literal["auto"] = "auto"
    _: KW_ONLY
    loss: LabelLossName | LabelLoss | Hinge = "squared_hinge"
    class_weight: dict | list[dict] | Literal["balanced"] | None = None
    pairs: Literal["auto", "all", "significant", "cooccurring"] | Array = "auto"
    interaction_scaling: NonNegative | Literal["auto"] = "auto"
    target: Literal["auto", "subset", "hamming", "f1", "micro", "macro"] = "auto"
    inference: Literal["auto", "exact", "lp", "gdmm"] = "auto"
    solver: AnySolver = "auto"
    max_iter: Count = 1000
    tol: NonNegative = 5e-4
    max_seconds: Positive | None = None
    fit_intercept: bool = True
    warm_start: bool = False
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0

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
        self,
        X: MatrixLike,
        y: MatrixLike | LabelSets,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on label sets.

        Parameters
        ----------
        %(matrix)s
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator: a column for each label, with the value 1 if a sample has
            the label. The columns of a DataFrame have the names of the labels. Or the
            labels of each sample: a list, tuple, Series or object array of sets, lists
            or tuples. Labels are strings, numbers or other objects that can be sorted,
            and a sample without labels has an empty set. Equally long lists of numbers
            are an indicator; sets never are. A 1-D array with two values is a single
            label. In an indicator of two or more columns, -1, nan, None and
            ``pandas.NA`` are entries that are not known.
        %(loss_weight)s

        Returns
        -------
        self : MultilabelPairwise
            The fitted classifier.

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "classifier")

    def _model(self):
        model = MultilabelModel(
            loss=self.loss,
            class_weight=self.class_weight,
            pairs=self.pairs,
            interaction_scaling=self.interaction_scaling,
            target=self.target,
            fit_intercept=self.fit_intercept,
            enumerates=self._is_exact,
            choose=partial(choose, self),
        )
        if model.in_sets and self.inference == "exact":
            solver = named_solver(self)
            relaxes = {"factors", "label_sets"} & set(solver.required_oracles)
            # without pairs the relaxation is exact
            if relaxes and np.size(self.pairs) and self.interaction_scaling != 0:
                raise ValueError(
                    f"{type(solver).__name__} trains the LP relaxation, whatever the "
                    "inference: use solver='auto' or 'bcfw', which can enumerate sets "
                    "of labels, or inference='lp'"
                )
        model.follows_scale = self.alpha == "auto"
        return model

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
        found = X @ self.coef_.T
        dense = found.toarray() if sparse.issparse(found) else np.asarray(found)
        return dense + self.intercept_

    def _label_scores(self, unaries):
        """Log-odds of each label of each sample, from unary scores and pairs."""
        exact = self._is_exact(unaries.shape[1])
        return label_scores(unaries, self.interactions_, exact, self.n_jobs)

    def _labels(self, unaries):
        """Indicator of the set of labels with the highest score, for each sample."""
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
            Label indicator, which is sparse or 1-D if the training labels were. If the
            training labels were sets, a 1-D array of tuples of labels.
        """
        labels = self._chosen(self._unaries(X))
        if self._values is not None:
            return self._values[labels[:, 0]]
        if self._in_sets:
            return as_sets(labels, self.classes_)
        return sparse.csr_array(labels) if self._sparse_output else labels

    def _given_others(self, unaries):
        """Log-odds of each label, given the other labels of the best set."""
        return unaries + self._labels(unaries) @ self.interactions_

    def _chosen(self, unaries):
        """Indicator of the set of labels that `predict` returns, for each sample."""
        if self._is_whole():
            labels = self._labels(unaries)
            if self._target is None:
                return labels
            return fill(labels, self._label_scores(unaries))
        target = Target(*self._target)
        return target.choose(self._label_scores(unaries), self.n_jobs)

    def _is_whole(self):
        """Whether the set with the highest score is predicted: target="subset"."""
        return self._target is None or self._target[0] == "subset"

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Scores that rank the labels, positive for labels that are predicted.

        The score of a label with the probability p is ``-log(1 - p)`` if `predict`
        returns the label, and ``log(p)`` if not. Predicted labels are in the order of
        their probabilities, and so are all other labels, so that measures of rankings
        can use the scores. Thresholds only decide on the signs. With target="subset", p
        is conditional on the other predicted labels; otherwise p is the probability
        whose log-odds `predict_topk` returns.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        scores : ndarray of shape (n_samples, n_labels) or (n_samples,)
            Scores of the labels, or of the second value if the training y was 1-D.
        """
        unaries = self._unaries(X)
        log_odds = self._given_others if self._is_whole() else self._label_scores
        odds = log_odds(unaries)
        signs = np.where(self._chosen(unaries) == 1, 1.0, -1.0)
        scores = signs * np.logaddexp(0.0, signs * odds)
        return scores if self._values is None else scores[:, 0]

    @available_if(_is_likelihood)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of each label.

        Available with ``loss="log"``. Without pairs, the probabilities are those of one
        logistic regression for each label. With target="subset", the probability of a
        label is conditional on the other labels that are predicted, and above one half
        for predicted labels; the product of the probabilities is the pseudo-likelihood.
        With other targets, the probabilities are marginal; for the kinds of F1, they
        are calibrated on held-out samples.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_labels) or (n_samples, 2)
            Probability of each label, or of the two values if the training y was 1-D.
        """
        unaries = self._unaries(X)
        if self._is_whole():
            probabilities = expit(self._given_others(unaries))
        else:
            scores = self._label_scores(unaries)
            probabilities = Target(*self._target).probabilities(scores)
        if self._values is None:
            return probabilities
        return np.column_stack([1.0 - probabilities, probabilities])

    def sparsify(self, threshold: float = 0.0) -> Self:
        """Convert `coef_` to a sparse matrix without small weights, in place.

        With thousands of labels and features, most weights are small: without them, the
        matrix is small in memory and in files, as in DiSMEC (Babbar and Schoelkopf,
        WSDM 2017). The next fit sets a dense matrix again.

        Parameters
        ----------
        threshold : float, default=0.0
            Weights whose absolute value is at most `threshold` become zero. The score
            of a label changes by at most `threshold` times the sum of the absolute
            features of the sample.

        Returns
        -------
        self : MultilabelPairwise
            The fitted classifier.
        """
        check_is_fitted(self, "coef_")
        if not isinstance(threshold, Real) or not 0.0 <= threshold < np.inf:
            raise ValueError(
                f"threshold must be finite and not negative, got {threshold!r}"
            )
        # prediction multiplies by the transpose, which is then CSR
        coef = sparse.csc_array(self.coef_)
        coef.data[np.abs(coef.data) <= threshold] = 0.0
        coef.eliminate_zeros()
        self.coef_ = coef
        return self

    def score(
        self,
        X: MatrixLike,
        y: MatrixLike | LabelSets,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Subset accuracy: share of the samples whose label set is predicted exactly.

        Parameters
        ----------
        %(matrix)s
        y : {array-like, sparse matrix} of shape (n_samples, n_labels) or (n_samples,)
            Label indicator, or the labels of each sample, as in `fit`. A sample with a
            label that training did not have counts as wrong, with a warning. A sample
            counts as right if all of its known labels are right; a sample without known
            labels is left out.
        %(score_weight)s

        Returns
        -------
        score : float
            Accuracy.
        """
        y, names, in_sets = read_labels(y)
        if not in_sets and self._values is not None:
            y = y.toarray() if sparse.issparse(y) else np.asarray(y)
            predicted = self.predict(X)
            return float(
                accuracy_score(column_or_1d(y), predicted, sample_weight=sample_weight)
            )
        predicted = self._chosen(self._unaries(X))
        if not in_sets:
            check_columns(names, self.classes_)
            y, unknown = split_unknown(y)
            labels = indicator_of(y, predicted.shape[1])
            if unknown is not None:
                return _known_accuracy(labels, predicted, unknown, sample_weight)
            return float(accuracy_score(labels, predicted, sample_weight=sample_weight))
        if self._values is not None:
            raise ValueError("y has sets of labels, but in training y was 1-D")
        labels, others = in_columns(y, names, self.classes_)
        check_consistent_length(predicted, labels)
        right = ~others & (labels == predicted).all(axis=1)
        # accuracy_score checks the weights
        return float(
            accuracy_score(np.ones_like(right), right, sample_weight=sample_weight)
        )
