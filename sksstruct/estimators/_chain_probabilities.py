"""Probabilities and entropies of labelings of a fitted tagger, and explanations."""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr

from sksstruct.estimators._chain_prediction import ChainPrediction, check_probabilistic
from sksstruct.estimators._explanation import Explanation, differences
from sksstruct.estimators._parameters import TEXTS
from sksstruct.models.chain.constraints import forbidden_others
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._layout import object_array
from sksstruct.utils._offsets import TokenOffsets
from sksstruct.utils._spans import SpanLabels, SpanSequence
from sksstruct.utils.typing import (
    Items,
    Labelings,
    MatrixLike,
    Sequences,
    Transitions,
)
from sksstruct.utils.validation import check_sequences


def _is_probabilistic(estimator):
    check_probabilistic(
        estimator,
        "predict_proba, predict_marginals, predict_entities, log_proba and entropy "
        "need",
        AttributeError,
    )
    return True


@fill_doc(TEXTS)
class ChainProbabilities(ChainPrediction):
    """Methods of `sksstruct.ChainCRF` for probabilities, entropies, explanations."""

    @available_if(_is_probabilistic)
    def predict_proba(
        self,
        X: Sequences,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> list[np.ndarray]:
        """Probability of each label at each position; only with ``loss="log"``.

        Parameters
        ----------
        %(sequences)s
        %(given)s

        Returns
        -------
        probabilities : list of ndarray of shape (n_positions, n_classes)
            Marginal probabilities; columns are in the order of `classes_`.
        """
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        return chain.split(chain.marginals())

    @available_if(_is_probabilistic)
    def predict_marginals(
        self,
        X: Sequences,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> np.ndarray:
        """Probabilities as dicts, as in CRFsuite; only with ``loss="log"``.

        Parameters
        ----------
        %(sequences)s
        %(given)s

        Returns
        -------
        probabilities : ndarray of shape (n_sequences,), of lists of dict
            For each position the marginal probability of each label.
        """
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        names = self.classes_.tolist()
        rows = chain.marginals().tolist()
        dicts = [dict(zip(names, row, strict=True)) for row in rows]
        return object_array(chain.split(dicts))

    @available_if(_is_probabilistic)
    def predict_entities(
        self,
        X: Sequences,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
        offsets: Sequence[ArrayLike] | None = None,
    ) -> list[list[tuple[int, int, str, float]]]:
        """Entities in the labelings that `predict` returns, with their probabilities.

        Parameters
        ----------
        %(sequences)s
        %(given)s
        offsets : list of array-like of shape (n_positions, 2), default=None
            For each token, the index in the text of its first character, and of the
            character after its last one, as for `sksstruct.metrics.labels_to_spans`.
            With offsets, `start` and `stop` of entities are indices of characters;
            without, positions.

        Returns
        -------
        %(entities)s

        Raises
        ------
        ValueError
            If a label of `classes_` fits no chunk scheme, or if labels are of several
            schemes; with ``order=2``; or if `offsets` do not match the sequences of X.
        """
        spans = SpanLabels(self.classes_.tolist(), lambda _: "classes_ has the label")
        spans.scheme()
        given = known, excluded, forbidden_transitions
        chain, codes = self._predicted(X, *given, dense=True)
        bounds, texts = chain.packed.offsets, None
        if offsets is not None:
            texts = TokenOffsets(offsets, chain.packed.lengths.tolist(), "positions")
        first = np.zeros(len(codes) + 1, dtype=bool)
        first[bounds] = True
        found = SpanSequence(spans, codes, first[:-1])
        starts, stops = found.read()
        kinds = found.kinds[starts]
        probabilities = chain.span_probabilities(
            spans.kinds, spans.begins(), starts, stops, kinds
        )
        owners = np.searchsorted(bounds, starts, "right") - 1
        entities: list[list] = [[] for _ in range(len(chain.packed))]
        columns = (owners, starts - bounds[owners], stops - bounds[owners], kinds)
        for i, start, stop, kind, probability in zip(
            *(column.tolist() for column in (*columns, probabilities)), strict=True
        ):
            place = (start, stop)
            if texts is not None:
                place = texts.characters(i, start, stop)
            if place is not None:
                entities[i].append((*place, spans.names[kind], probability))
        return entities

    @available_if(_is_probabilistic)
    def log_proba(
        self,
        X: Sequences,
        y: Labelings,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> np.ndarray:
        """Logarithm of the probability of a labeling of each sequence.

        Parameters
        ----------
        %(sequences)s
        y : list of array-like of shape (n_positions,)
            Labels. None stands for any label, and a set for any of its labels: the
            probability is the sum over all labelings that agree with y.
        %(given)s

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            Natural logarithms. ``-inf`` if y has a label not seen in fit, or violates
            the constraints.
        """
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        others = forbidden_others(y, self.classes_, chain.packed.lengths)
        return chain.log_proba(others)

    @available_if(_is_probabilistic)
    def entropy(
        self,
        X: Sequences,
        *,
        positions: bool = False,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> np.ndarray | list[np.ndarray]:
        """Entropy of the distribution over the labelings of each sequence.

        Parameters
        ----------
        %(sequences)s
        positions : bool, default=False
            Whether to return the entropy of the marginal distribution of the label at
            each position, in place of the entropy of whole labelings.
        %(given)s

        Returns
        -------
        entropy : ndarray of shape (n_sequences,), or list of ndarray
            Entropies in nats: of whole labelings, from 0 to ``n_positions *
            log(n_classes)``; or an array of shape (n_positions,) for each sequence.

        Raises
        ------
        ValueError
            If ``positions=False`` and ``order=2``.
        """
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        if positions:
            return chain.split(entr(chain.marginals()).sum(axis=1))
        return chain.entropies()

    def explain(
        self,
        x: MatrixLike,
        t: int,
        *,
        known: Items | None = None,
        excluded: Items | None = None,
        forbidden_transitions: Transitions | None = None,
    ) -> Explanation:
        """Explain why a position has its label: contributions of the features.

        Parameters
        ----------
        x : {array-like, CSR matrix} of shape (n_positions, n_features)
            Features of one sequence.
        t : int
            Position, from 0.
        known, excluded, forbidden_transitions : optional
            Constraints; see `predict`. `known` and `excluded` have an entry for each
            position.

        Returns
        -------
        %(explanation)s

        Raises
        ------
        ValueError
            If no other label is possible at the position.
        """
        return self._explain(
            [x],
            t,
            known=None if known is None else [known],
            excluded=None if excluded is None else [excluded],
            forbidden_transitions=forbidden_transitions,
        )

    def _explain(self, X, t, *, known=None, excluded=None, forbidden_transitions=None):
        """Implement `explain`, for a list of one sequence."""
        chain = self._fitted(X, known, excluded, forbidden_transitions, dense=True)
        if "score_parameters_" in vars(self):
            raise ValueError(
                "explain needs weights of features: a ChainCRF with a score_function "
                "has none"
            )
        # `differences` reads the features of positions as rows of one matrix
        packed = check_sequences(X).in_one_form()
        (size,) = chain.packed.lengths.tolist()
        if not isinstance(t, Integral) or not 0 <= t < size:
            raise ValueError(
                f"t must be a position of x, from 0 to {size - 1}, got {t!r}"
            )
        best, (score,) = chain.decode()
        label = self.classes_.tolist()[best[t]]
        without = [None] * size if excluded is None else list(excluded[0])
        without[t] = {label, *(without[t] or ())}
        chain = self._fitted(X, known, [without], forbidden_transitions, dense=True)
        try:
            other, (other_score,) = chain.decode()
        except ValueError:
            raise ValueError(
                f"the constraints leave position t={t} no label but {label!r:.80}: "
                "there is nothing to compare it with"
            ) from None
        codes, scores = np.array([best, other]), (float(score), float(other_score))
        labelings = object_array(self.classes_.tolist())[codes]
        return Explanation(int(t), labelings, scores, differences(self, packed, codes))
