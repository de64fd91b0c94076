"""Predictions of a fitted tagger, and the precision and sparsity of its weights."""

from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._fitted import TrainedChain
from sksstruct.estimators._losses import loss_of
from sksstruct.estimators._parameters import TEXTS
from sksstruct.inference._checks import check_k
from sksstruct.models.chain.constraints import check_forbidden
from sksstruct.models.chain.fitted import FittedChain, padded_rows
from sksstruct.models.scores.score import score_rows
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import in_form_of, padded_length
from sksstruct.utils.observed import share_of_right
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.sparse_input import check_sparse, is_sparse
from sksstruct.utils.typing import (
    Items,
    Labelings,
    Sequences,
    Transitions,
)
from sksstruct.utils.validation import check_labels, check_sequences


def _above(weights, threshold):
    """A sparse array without its entries of absolute value up to `threshold` > 0."""
    if threshold > 0.0:
        weights = weights.copy()
        weights.data[np.abs(weights.data) <= threshold] = 0.0
        weights.eliminate_zeros()
    return weights


def check_probabilistic(estimator, what, error):
    """Raise `error` if the tagger has no probabilities; `what` begins the message."""
    # the loss of the last fit counts: the parameter may have changed since
    if not loss_of(estimator).is_likelihood and estimator._temperature is None:
        loss = estimator._loss or estimator.loss
        raise error(
            f"{what} loss='log', the likelihood; this "
            f"{type(estimator).__name__} has loss={loss!r}, whose scores say which "
            "labeling is best, but not how probable it is. "
            "sksstruct.CalibratedTagger finds probabilities for them"
        )


@fill_doc(TEXTS)
class ChainPrediction(TrainedChain):
    """Methods of `sksstruct.ChainCRF` that predict, and that convert its weights."""

    def _restore(self, state):
        super()._restore(state)
        # prediction reads padded rows, and pickled arrays are not padded: pad coef_
        # once, and not in every call of `predict`
        if "coef_" in state and not sparse.issparse(self.coef_):
            self._keep_padded(self.coef_)

    def cast(self, dtype: type[np.float32] | type[np.float64]) -> Self:
        """Convert the weights to single precision, or back to double, in place.

        Weights in single precision take half the memory, and `predict`, `score` and
        `decision_function` then compute in single precision. Labels may differ if two
        labelings have nearly the same score. All other methods, and training, compute
        in double precision; a fit sets weights in double precision.

        Parameters
        ----------
        dtype : {numpy.float32, numpy.float64}
            Precision of ``coef_``.

        Returns
        -------
        self : ChainCRF
            The fitted tagger.
        """
        check_is_fitted(self, "coef_")
        if dtype not in (np.float32, np.float64, "float32", "float64"):
            raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
        if self.coef_.dtype == dtype:
            return self
        if sparse.issparse(self.coef_):
            self.coef_ = self.coef_.astype(dtype)
        else:
            self._keep_padded(self.coef_.astype(dtype))
        return self

    def sparsify(self, threshold: float = 0.0) -> Self:
        """Convert ``coef_`` to a sparse matrix, in place.

        With an l1 penalty most weights are zero: the sparse matrix is small in memory
        and in files. Predictions are the same up to rounding, and slower. The next fit
        sets a dense matrix again.

        Parameters
        ----------
        threshold : float, default=0.0
            Weights of features with absolute value at most `threshold` become zero,
            also in ``transition_coef_``. The score of a labeling changes by at most
            `threshold` times the sum of the absolute features of the sequence, plus
            `threshold` times the sum over the features in `transition_features`. A
            labeling whose score is higher than that of every other labeling by more
            than twice this bound stays the best.

        Returns
        -------
        self : ChainCRF
            The fitted tagger.
        """
        check_is_fitted(self, "coef_")
        if threshold != 0.0:
            self._check_threshold(threshold)
        # prediction multiplies features by the transpose of coef_; the transpose of a
        # CSC array is CSR
        self.coef_ = _above(sparse.csc_array(self.coef_), threshold)
        if "transition_coef_" in vars(self):
            self.transition_coef_ = _above(self.transition_coef_, threshold)
        return self

    def _check_threshold(self, threshold):
        if not isinstance(threshold, Real) or not 0.0 <= threshold < np.inf:
            raise ValueError(
                f"threshold must be finite and not negative, got {threshold!r}"
            )
        if "score_parameters_" in vars(self):
            raise ValueError(
                "threshold needs weights of features: a ChainCRF with a score_function "
                "has none"
            )

    def _columns_above(self, threshold):
        """Columns of the features with a weight above `threshold` in absolute value."""
        self._check_threshold(threshold)
        if isinstance(self.transition_features, np.ndarray | list | tuple) and not all(
            isinstance(each, str) for each in self.transition_features
        ):
            raise ValueError(
                "transition_features has numbers or a mask of columns, which would "
                "mean other features once columns are dropped: name the features"
            )
        largest = abs(self.coef_).max(axis=0)
        # old versions of SciPy return a matrix of one row, or of one column
        largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
        if "transition_coef_" in vars(self):
            pairs = abs(self.transition_coef_).max(axis=1).toarray()
            largest = np.maximum(largest, pairs.ravel())
        return np.flatnonzero(largest > threshold)

    def _keep_columns(self, columns, names):
        """Drop all features but `columns`; drop solver states, which have all features.

        `names` are the names of the features that are kept.
        """
        coef = self.coef_[:, columns]
        self.n_features_in_, self._names_in = len(columns), names
        if "transition_coef_" in vars(self):
            self.transition_coef_ = self.transition_coef_[columns]
        if sparse.issparse(coef):
            self.coef_ = coef
        else:
            self._keep_padded(coef)
        self._warm = None
        stream = {key: x for key, x in dict(self._stream).items() if key != "iterate"}
        if stream.get("centers") is not None:
            stream["centers"] = stream["centers"][columns]
        self._stream = stream

    def densify(self) -> Self:
        """Convert ``coef_`` to a dense array, in place.

        Returns
        -------
        self : ChainCRF
            The fitted tagger.
        """
        check_is_fitted(self, "coef_")
        if sparse.issparse(self.coef_):
            self._keep_padded(self.coef_.toarray())
        return self

    def _keep_padded(self, coef):
        """Set ``coef_`` to a view of the padded rows that prediction reads."""
        n_classes = len(self.classes_)
        rows = padded_rows(coef, padded_length(n_classes))
        self.coef_ = rows[:, :n_classes].T

    def _fitted(self, X, known=None, excluded=None, forbidden=None, *, dense=False):
        """The chain with the fitted weights, bound to sequences to decode."""
        # `check_is_fitted` reads the tags of the estimator, which takes time
        if "coef_" not in vars(self):
            check_is_fitted(self, "coef_")
        packed = check_sequences(X, n_features=self.n_features_in_, all_empty=True)
        self._check_feature_names(packed)
        n_classes = len(self.classes_)
        fitted = vars(self)
        if "score_parameters_" in fitted:
            scores = score_rows(
                self.score_function_,
                self.score_parameters_,
                packed.in_one_form().values,
                n_classes,
                packed.offsets,
            )
            packed = PackedSequences(scores, packed.offsets)
        coef, pair_coef = self.coef_, fitted.get("transition_coef_")
        triples = fitted.get("triples_")
        sparse_weights = {
            "coef_": coef,
            "transition_coef_": pair_coef,
            "triples_": triples,
        }
        for name, value in sparse_weights.items():
            if is_sparse(value):
                check_sparse(value, name)
        used = None
        if is_sparse(coef) and pair_coef is None and packed.is_sparse:
            used = np.unique(packed.values.indices)
        if used is not None and len(used) < n_classes:
            # a dense table of the weights of the features in X is smaller than the
            # table of all pairs of labels
            packed = PackedSequences(packed.values[:, used], packed.offsets)
            coef = coef[:, used].toarray()
        elif is_sparse(coef) and pair_coef is None:
            # multiply the sparse weights here: the scores of the labels become the
            # features, with unit weights
            scores = packed.values @ coef.T
            scores = scores.toarray() if sparse.issparse(scores) else scores
            packed = PackedSequences(scores, packed.offsets)
            coef = np.eye(n_classes)
        elif is_sparse(coef):
            coef = coef.toarray()
        pairs = []
        if isinstance(forbidden, str) and forbidden == "auto":
            raise ValueError(
                "forbidden_transitions='auto' is for training, whose labels show their "
                "scheme: name it, 'bio', 'iob1', 'iobes' or 'bilou'"
            )
        if forbidden is not None:
            index = {label: k for k, label in enumerate(self.classes_.tolist())}
            pairs = check_forbidden(forbidden, index, strict=True)
        chain = FittedChain(
            packed,
            self.classes_,
            coef,
            self.intercept_,
            self.start_,
            self.end_,
            self.transitions_,
            self.forbidden_transitions_ + pairs,
            known,
            excluded,
            self.n_jobs,
            dense,
            pair_coef,
            triples,
        )
        if self._temperature is not None:
            chain.temperature = self._temperature
        return chain

    def _predicted(self, X, *constraints, dense=False):
        """The chain, and the class indices that `predict` returns, concatenated."""
        by_label = self.risk == "hamming"
        if by_label:
            check_is_fitted(self, "coef_")
            check_probabilistic(self, "risk='hamming' needs", ValueError)
        elif self.risk != "sequence":
            raise ValueError(f"risk must be 'sequence' or 'hamming', got {self.risk!r}")
        chain = self._fitted(X, *constraints, dense=dense or by_label)
        return chain, chain.likely() if by_label else chain.decode()[0]

    @property
    def feature_names_in_(self) -> np.ndarray:  # type: ignore[override]
        """ndarray of shape (n_features,): names of the features, if X had any."""
        names = self._names_in
        if names is None:
            raise AttributeError("feature_names_in_: X had no feature names in fit")
        return names.to_array()

    def _check_feature_names(self, packed):
        seen = self._names_in
        if seen is not None and packed.feature_names is not None:
            if packed.feature_names != seen:
                raise ValueError(
                    "X has other feature names than those seen in fit: transform X "
                    "with the vectorizer of the training data"
                )

    def predict(
        self,
        X: Sequences,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> np.ndarray:
        """Best labeling of each sequence, in the sense of the parameter `risk`.

        Parameters
        ----------
        %(sequences)s
        known : list of list, default=None
            A list for each sequence: the label at positions where it is given, None
            elsewhere; or None for the whole sequence.
        excluded : list of list, default=None
            A list for each sequence: a collection of labels that are not allowed, or
            None, for each position; or None for the whole sequence.
        forbidden_transitions : list of tuple, "bio", "iob1", "iobes" or "bilou", \
default=None
            Pairs of labels that must not follow each other, in addition to those of
            the estimator's parameter of the same name.

        Returns
        -------
        y : ndarray of shape (n_sequences,), of ndarrays of shape (n_positions,)
            Labels. If X is a 3-D array, it is an array of shape (n_sequences,
            n_positions).

        Raises
        ------
        ValueError
            If a constraint names a label not seen in fit, or leaves no labeling; and
            with ``risk="hamming"`` if there are no probabilities.
        """
        chain, codes = self._predicted(X, known, excluded, forbidden_transitions)
        return in_form_of(X, chain.split(self.classes_[codes]))

    def predict_topk(
        self,
        X: Sequences,
        k: int,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The k best labelings of each sequence, and their scores.

        Parameters
        ----------
        %(sequences)s
        k : int
            Number of labelings.
        %(constraints)s

        Returns
        -------
        y : list of ndarray of shape (n, n_positions)
            Different labelings, the best first. n is k, or less if there are fewer
            labelings.
        scores : list of ndarray of shape (n,)
            Scores of the labelings.
        """
        k = check_k(k)
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        return chain.topk(k)

    def decision_function(self, X: Sequences) -> np.ndarray:
        """Score of the best labeling of each sequence.

        Parameters
        ----------
        %(sequences)s

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Scores.
        """
        return self._fitted(X).decode()[1]

    def score(
        self, X: Sequences, y: Labelings, sample_weight: ArrayLike | None = None
    ) -> float:
        """Token accuracy: share of the positions labeled correctly.

        Parameters
        ----------
        %(sequences)s
        y : list of array-like of shape (n_positions,)
            True labels. Labels never seen in training count as errors. Positions with
            None are left out; at a position with a set, any label of the set is right.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of the positions of each sequence.

        Returns
        -------
        score : float
            Accuracy, from 0 to 1.
        """
        chain, codes = self._predicted(X)
        lengths = chain.packed.lengths
        true = check_labels(y, lengths, unknown=True, sets=True)
        found = self.classes_[codes].tolist()
        return share_of_right(true, found, lengths, sample_weight)
