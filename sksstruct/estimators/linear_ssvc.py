"""Linear support vector classification of two classes by the structured solvers."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._fitted import Trained
from sksstruct.estimators._parameters import AUTO_ROWS, TEXTS, AnySolver
from sksstruct.estimators._train import train
from sksstruct.models.binary.binary import BinaryModel
from sksstruct.solvers import SOLVERS
from sksstruct.utils._doc import fill_doc, listing
from sksstruct.utils._param_validation import (
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
from sksstruct.utils.typing import MatrixLike


@fill_doc(
    {
        **TEXTS,
        "auto_rows": AUTO_ROWS.format("``0.5 * m / n``"),
        "solvers": listing(
            SOLVERS.names("max", "projection", "coordinates", losses=("hinge",))
        ),
    }
)
@dataclass(eq=False, repr=False)
class LinearSSVC(
    Trained, CallbackSupportMixin, ClassifierMixin, Versioned, BaseEstimator
):
    """Linear support vector classifier for two classes.

    Minimizes ``alpha/2 |w|^2`` plus the mean of the hinge losses
    ``max(0, 1 - y (<w, x> + b))``, y being -1 or 1, by the solvers for structured
    problems, as the experiments of [1]_ do.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Regularization, as in `sklearn.linear_model.SGDClassifier`;
        ``1 / (n_samples * C)`` in terms of `sklearn.svm.LinearSVC`.
        %(auto_rows)s
    solver : str or solver object, default="auto"
        Optimizer, an object of `sksstruct.solvers` or the name of one with its
        defaults:
        %(solvers)s.
        "auto" is `sksstruct.solvers.DCD`, coordinate descent as in
        `sklearn.svm.LinearSVC`, or `sksstruct.solvers.Pragam` if the intercept is
        not regularized.
    max_iter : int, default=10000
        Maximum number of passes over the data. Used only if `solver` is a name.
    tol : float, default=1e-3
        Tolerance of the duality gap, used only if `solver` is a name. Training stops at
        a gap of ``tol`` times the objective at w = 0, which is 1 without weights of
        classes or samples. With DCD, it stops at a gap of ``tol`` times the current
        objective.
    %(max_seconds)s
    fit_intercept : bool, default=True
        Whether there is a bias b.
    penalize_intercept : bool, default=True
        Whether the bias is regularized like the other weights, as in
        `sklearn.svm.LinearSVC`. Only Pragam supports False.
    class_weight : dict or "balanced", default=None
        Weight of the loss of each class, as in scikit-learn.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the last fit, for instance with another
        alpha or other sample weights. DCD starts from the dual variables of the last
        fit, and needs the same number of samples. A solver without warm starts, such as
        Pragam, starts from zero with a warning.
    n_jobs : int, default=None
        Number of threads for sweeps over all samples. The result does not depend on the
        number.
    random_state : int, RandomState instance or None, default=None
        Order in which samples are visited.
    %(verbose)s

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes.
    coef_ : ndarray of shape (1, n_features)
        Weights.
    intercept_ : ndarray of shape (1,)
        Bias; 0 without `fit_intercept`.
    %(features_seen)s
    alpha_ : float
        The regularization that was used.
    n_iter_ : int
        Number of passes over the data.
    objective_ : float
        Primal objective at the weights.
    dual_gap_ : float
        Duality gap: an upper bound on the difference between the objective and its
        minimum. ``inf`` if there is no bound.
    %(history_)s
    %(solver_)s

    See Also
    --------
    ChainCRF : Tagger for sequences.
    sklearn.svm.LinearSVC : The same model, trained by coordinate descent.

    References
    ----------
    .. [1] A. Saha, X. Zhang and S. V. N. Vishwanathan, "Lower bounds for BMRM and
       faster rates for training SVMs", 2009.

    Examples
    --------
    >>> from sksstruct import LinearSSVC
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], ["low", "low", "high", "high"]
    >>> classifier = LinearSSVC(alpha=0.01, random_state=0).fit(X, y)
    >>> classifier.predict([[0.5], [3.5]]).tolist()
    ['low', 'high']
    """

    alpha: NonNegative | Literal["auto"] = "auto"
    _: KW_ONLY
    solver: AnySolver = "auto"
    max_iter: Count = 10000
    tol: NonNegative = 1e-3
    max_seconds: Positive | None = None
    fit_intercept: bool = True
    penalize_intercept: bool = True
    class_weight: dict | Literal["balanced"] | None = None
    warm_start: bool = False
    n_jobs: Threads | None = None
    random_state: Seed = None
    verbose: Verbosity = 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    @with_callbacks
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train on labeled samples.

        Parameters
        ----------
        %(matrix)s
        y : array-like of shape (n_samples,)
            Classes. There must be two.
        %(loss_weight)s

        Returns
        -------
        self : LinearSSVC
            The fitted classifier.

        %(outcome)s
        """
        return train(self, X, y, sample_weight, "classifier")

    def _model(self):
        model = BinaryModel(
            fit_intercept=self.fit_intercept,
            penalize_intercept=self.penalize_intercept,
            class_weight=self.class_weight,
        )
        model.follows_scale = self.alpha == "auto"
        return model

    def decision_function(self, X: MatrixLike) -> np.ndarray:
        """Scores of the second class, ``classes_[1]``.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Positive if the second class is predicted.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, accept_sparse="csr", reset=False)
        return safe_sparse_dot(X, self.coef_[0]) + self.intercept_[0]

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Predict classes.

        Parameters
        ----------
        %(matrix)s

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.
        """
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(int)]

    def score(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy of the predicted classes.

        Parameters
        ----------
        %(matrix)s
        y : array-like of shape (n_samples,)
            Classes.
        %(score_weight)s

        Returns
        -------
        score : float
            Accuracy.
        """
        return super().score(X, y, sample_weight)
