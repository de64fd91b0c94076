"""What a fitted chain does: labels, scores, probabilities."""

import numpy as np
from scipy import sparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._chain_training import most_labelings
from sksstruct.estimators._constraints import (
    barred_labels,
    check_forbidden,
    sparse_mask,
    transition_mask,
)
from sksstruct.inference._checks import check_k
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._smooth import write_marginals
from sksstruct.models.chain._sparse import SparseChain
from sksstruct.utils._layout import aligned_zeros, padded_length
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.parallel import run_in_chunks
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequence_weight,
    check_sequences,
)


def _is_probabilistic(estimator):
    # what was fitted, and not what the parameter says since
    loss = getattr(estimator, "_loss", estimator.loss)
    if loss != "log":
        raise AttributeError(
            f"probabilities need loss='log', the likelihood, not {loss!r}"
        )
    return True


class ChainPrediction:
    """Prediction and inspection for estimators with the weights of a chain."""

    def __setstate__(self, state):
        super().__setstate__(state)
        # Arrays travel without the padding that prediction reads: put it back once.
        if "coef_" in state:
            n_classes = len(self.coef_)
            rows = padded_rows(self.coef_, padded_length(n_classes))
            self.coef_ = rows[:, :n_classes].T

    def predict(self, X, *, known=None, excluded=None, forbidden_transitions=None):
        """Best labeling of each sequence.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        known : list of list, default=None
            A list for each sequence: the label at positions where it is given, None
            elsewhere; or None for the whole sequence.
        excluded : list of list, default=None
            A list for each sequence: a collection of labels that are not allowed, or
            None, for each position; or None for the whole sequence.
        forbidden_transitions : list of tuple or "bio", default=None
            Pairs of labels that must not follow each other, beside those of the
            parameter of the same name.

        Returns
        -------
        y : list of ndarray of shape (n_positions,)
            Labels.

        Raises
        ------
        ValueError
            If a constraint names a label not seen in fit, or leaves no labeling.
        """
        codes, _, offsets = self._decode(X, known, excluded, forbidden_transitions)
        return _split(self.classes_[codes], offsets)

    def predict_topk(
        self, X, k, *, known=None, excluded=None, forbidden_transitions=None
    ):
        """The k best labelings of each sequence, and their scores.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        k : int
            Number of labelings.
        known, excluded, forbidden_transitions : optional
            Constraints; see `predict`.

        Returns
        -------
        y : list of ndarray of shape (n, n_positions)
            Labelings, the best first, all different. n is k, or less where there are
            no more.
        scores : list of ndarray of shape (n,)
            Their scores.
        """
        k = check_k(k)
        model, packed = self._bind(
            X, known, excluded, forbidden_transitions, dense=True
        )
        k = min(k, most_labelings(len(self.classes_), packed.lengths))
        codes = np.empty(packed.offsets[-1] * k, dtype=np.int32)
        scores = np.empty((len(packed), k))
        counts = np.empty(len(packed), dtype=np.intp)
        run_in_chunks(
            lambda a, b: model.predict_topk(
                model.workspace(training=False), a, b, k, codes, scores, counts
            ),
            len(packed),
            self.n_jobs,
        )
        best = np.where(counts > 0, scores[:, 0], -np.inf)
        _check_feasible(best, model.is_constrained)
        first, lengths = packed.offsets[:-1] * k, packed.lengths
        labelings = [
            self.classes_[codes[a : a + n * size].reshape(n, size)]
            for a, n, size in zip(
                first.tolist(), counts.tolist(), lengths.tolist(), strict=True
            )
        ]
        return labelings, [row[:n] for row, n in zip(scores, counts, strict=True)]

    @available_if(_is_probabilistic)
    def predict_proba(
        self, X, *, known=None, excluded=None, forbidden_transitions=None
    ):
        """Probability of each label at each position; with ``loss="log"``.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        known, excluded, forbidden_transitions : optional
            Constraints; see `predict`. The probabilities are those given them.

        Returns
        -------
        probabilities : list of ndarray of shape (n_positions, n_classes)
            Marginal probabilities, labels in the order of `classes_`.
        """
        nodes, offsets = self._marginals(X, known, excluded, forbidden_transitions)
        return _split(nodes, offsets)

    @available_if(_is_probabilistic)
    def predict_marginals(
        self, X, *, known=None, excluded=None, forbidden_transitions=None
    ):
        """Probabilities as dicts, as in CRFsuite; with ``loss="log"``.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        known, excluded, forbidden_transitions : optional
            Constraints; see `predict`. The probabilities are those given them.

        Returns
        -------
        probabilities : list of list of dict
            For each position the marginal probability of each label.
        """
        nodes, offsets = self._marginals(X, known, excluded, forbidden_transitions)
        names = self.classes_.tolist()
        flat = [dict(zip(names, row, strict=True)) for row in nodes.tolist()]
        return _split(flat, offsets)

    def decision_function(self, X):
        """Score of the best labeling of each sequence.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_sequences,)
            Scores.
        """
        return self._decode(X)[1]

    def score(self, X, y, sample_weight=None):
        """Token accuracy: share of the positions labeled correctly.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        y : list of array-like of shape (n_positions,)
            True labels. Labels never seen in training count as errors.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence's positions.

        Returns
        -------
        score : float
            Accuracy.
        """
        codes, _, offsets = self._decode(X)
        lengths = np.diff(offsets)
        flat = check_labels(y, lengths)
        weight = check_sequence_weight(sample_weight, len(lengths))
        y_true = LabelEncoder(self.classes_).encode(flat, default=-1)
        if weight is not None:
            weight = np.repeat(weight, lengths)
        return float(np.average(codes == y_true, weights=weight))

    def _bind(
        self,
        X,
        known=None,
        excluded=None,
        forbidden_transitions=None,
        dense=False,
    ):
        """Chain model with the fitted weights, and the packed features."""
        check_is_fitted(self, "coef_")
        packed = check_sequences(X, n_features=self.n_features_in_)
        self._check_feature_names(packed)
        n_classes = len(self.classes_)
        if hasattr(self, "score_parameters_"):
            scores = self.score_function_.value(
                self.score_parameters_, packed.values, n_classes
            )
            packed = PackedSequences(scores, packed.offsets)
        ld = padded_length(n_classes)
        index = {label: k for k, label in enumerate(self.classes_.tolist())}
        forbidden = self.forbidden_transitions_ + check_forbidden(
            forbidden_transitions, index, strict=True
        )
        barred = barred_labels(known, excluded, index, packed.offsets)
        transitions = self.transitions_
        if sparse.issparse(transitions):
            if not dense:
                ends, transitions = sparse_mask(forbidden, index, ld, transitions)
                weights = aligned_zeros((self.n_features_in_ + 3) * ld).reshape(-1, ld)
                weights[:-3] = padded_rows(self.coef_, ld)
                weights[-3:, :n_classes] = self.intercept_, self.start_, self.end_
                return SparseChain(packed, weights, transitions, ends, barred), packed
            transitions = transitions.toarray()
        model = BoundChain(
            packed,
            n_classes,
            mask=transition_mask(forbidden, index, ld),
            barred=barred,
        )
        tail = aligned_zeros((3 + n_classes) * ld).reshape(-1, ld)
        tail[:, :n_classes] = np.vstack(
            [self.intercept_, self.start_, self.end_, transitions]
        )
        model.use_weights(padded_rows(self.coef_, ld), tail)
        return model, packed

    def _decode(self, X, *constraints):
        """Flat codes of the labels, scores, and offsets of the sequences."""
        model, packed = self._bind(X, *constraints)
        codes = np.empty(packed.offsets[-1], dtype=np.int32)
        scores = np.empty(len(packed))
        run_in_chunks(
            lambda a, b: model.predict(
                model.workspace(training=False), a, b, codes, scores
            ),
            len(packed),
            self.n_jobs,
        )
        _check_feasible(scores, model.is_constrained)
        return codes, scores, packed.offsets

    def _marginals(self, X, *constraints):
        """Node marginals, stacked, and offsets of the sequences."""
        model, packed = self._bind(X, *constraints, dense=True)
        nodes = np.empty((packed.offsets[-1], model.ld))
        log_partition = np.empty(len(packed))
        run_in_chunks(
            lambda a, b: write_marginals(model, a, b, nodes, log_partition),
            len(packed),
            self.n_jobs,
        )
        _check_feasible(log_partition, model.is_constrained)
        return nodes[:, : len(self.classes_)], packed.offsets

    def _check_feature_names(self, packed):
        if packed.feature_names is not None and hasattr(self, "feature_names_in_"):
            if not np.array_equal(packed.feature_names, self.feature_names_in_):
                raise ValueError("X has other feature names than those seen in fit")

    @property
    def transition_features_(self):
        """dict: weight of each pair of labels (from, to); of those that are stored,
        where ``transitions_`` is sparse."""
        check_is_fitted(self, "transitions_")
        names = self.classes_.tolist()
        if sparse.issparse(self.transitions_):
            table = self.transitions_.tocoo()
            return {
                (names[i], names[j]): float(value)
                for i, j, value in zip(table.row, table.col, table.data, strict=True)
            }
        return {
            (a, b): float(self.transitions_[i, j])
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        }

    @property
    def state_features_(self):
        """dict: weight of each (feature, label) with a weight that is not zero.

        Features go by ``feature_names_in_``, or by ``x0``, ``x1``, ...
        """
        check_is_fitted(self, "coef_")
        if hasattr(self, "score_parameters_"):
            raise AttributeError("state_features_: the score is no sum over features")
        features = getattr(self, "feature_names_in_", None)
        if features is None:
            features = [f"x{j}" for j in range(self.n_features_in_)]
        names = self.classes_.tolist()
        rows, columns = np.nonzero(self.coef_)
        values = self.coef_[rows, columns]
        return {
            (features[j], names[k]): float(value)
            for k, j, value in zip(rows, columns, values, strict=True)
        }


def _split(flat, offsets):
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def _check_feasible(scores, is_constrained):
    if not np.isfinite(scores).all():
        i = np.flatnonzero(~np.isfinite(scores))[0]
        what = "the constraints leave no labeling"
        if scores[i] != -np.inf or not is_constrained:
            what = "its scores are too large for floating-point arithmetic"
        raise ValueError(f"X[{i}]: {what}")


def padded_rows(coef, ld):
    """coef_ as rows of ld, one for each feature; a view where it was made as one."""
    n_classes, n_features = coef.shape
    rows, base = coef.T, coef.base
    if (
        isinstance(base, np.ndarray)
        and base.dtype == np.float64
        and base.ndim == 1
        and base.flags.c_contiguous
        and rows.strides == (8 * ld, 8)
    ):
        first = (rows.ctypes.data - base.ctypes.data) // 8
        if first + n_features * ld <= base.size:
            return base[first : first + n_features * ld].reshape(n_features, ld)
    out = aligned_zeros(n_features * ld).reshape(n_features, ld)
    out[:, :n_classes] = rows
    return out
