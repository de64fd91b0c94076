"""A tagger of dicts and strings: a vectorizer and a chain in one estimator."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline

from sksstruct.estimators._tagger_methods import TaggerMethods, has_method
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils._available import available_if
from sksstruct.utils.typing import Items, Labelings


class Tagger(TaggerMethods, Pipeline):
    """Pipeline whose last step is a tagger, with the tagger's methods.

    In addition to the methods of `sklearn.pipeline.Pipeline`, it has `predict_topk`,
    `predict_marginals`, `predict_entities`, `predict_segments`, `log_proba`, `entropy`,
    `explain` and the weights by name. Create it with `make_tagger`, or like any
    pipeline.

    Parameters
    ----------
    steps : list of tuple of (str, estimator)
        Transformers of sequences, and a `ChainCRF` or a `SegmentCRF`.
    transform_input, memory, verbose : object
        As in `sklearn.pipeline.Pipeline`.

    See Also
    --------
    make_tagger : Tagger of dicts and strings with default names of the steps.

    Notes
    -----
    `predict` and the other methods pass constraints such as ``known`` to the last step.
    For other attributes, access the steps: ``tagger[-1].dual_gap_``.

    Examples
    --------
    >>> from sksstruct import ChainCRF, Tagger
    >>> from sksstruct.feature_extraction import SequenceVectorizer
    >>> tagger = Tagger([("features", SequenceVectorizer()), ("crf", ChainCRF())])
    >>> X = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
    >>> tagger = tagger.fit(X, [["PRP", "VBD"], ["PRP", "VBD"]])
    >>> labelings, scores = tagger.predict_topk([[{"w": "he"}, {"w": "ran"}]], 2)
    >>> labelings[0][0].tolist()
    ['PRP', 'VBD']
    """

    if TYPE_CHECKING:
        # of the pipeline, which has no annotations

        def fit(self, X: Items, y: Labelings, **params: Any) -> Self: ...

        def score(self, X: Items, y: Labelings, **params: Any) -> float: ...

    def predict(self, X: Items, **params: Any) -> np.ndarray:
        """Best labeling of each sequence.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        **params : dict
            Constraints, as for `ChainCRF.predict`.

        Returns
        -------
        y : ndarray of shape (n_sequences,), of ndarrays of shape (n_positions,)
            Labels.
        """
        if params:
            return super().predict(X, **params)
        # There is nothing to route, and each step knows whether it is fitted. Tags of
        # all steps, which scikit-learn asks for first, take longer than a sentence.
        return self.steps[-1][1].predict(self._transformed(X))

    def _answering(self):
        return self[-1]

    def _answer(self, name, X, *args, **params):
        return getattr(self[-1], name)(self._transformed(X), *args, **params)

    @available_if(has_method("predict_segments"))
    def predict_segments(
        self, X: Items, **params: Any
    ) -> list[list[tuple[int, int, Any, float]]]:
        """Best segments of each sequence, with their probabilities; of `SegmentCRF`.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        **params : dict
            Constraints, as for `SegmentCRF.predict_segments`.

        Returns
        -------
        segments : list of list of tuple
            Tuples (start, stop, label, probability) for each sequence.
        """
        return self[-1].predict_segments(self._transformed(X), **params)

    def _transformed(self, X):
        """Input of the last step."""
        for _, step in self.steps[:-1]:
            if step not in (None, "passthrough"):
                X = step.transform(X)
        return X

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: the nonzero weights of pairs (feature, label)."""
        return self[-1].state_features_

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: weight of each pair of labels (from, to)."""
        return self[-1].transition_features_

    @property
    def pair_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of triples (feature, from, to), with `transition_features`."""
        return self[-1].pair_features_


def make_tagger(vectorizer: BaseEstimator | None = None, **params: Any) -> Tagger:
    """Tagger that takes dicts or strings: a vectorizer and a `ChainCRF`.

    Parameters
    ----------
    vectorizer : transformer, default=None
        The first step. None: `sksstruct.feature_extraction.SequenceVectorizer` with its
        defaults.
    **params : dict
        Parameters of `ChainCRF`.

    Returns
    -------
    tagger : Tagger
        Pipeline of the steps ``"sequencevectorizer"`` and ``"chaincrf"``, the names
        that `sklearn.pipeline.make_pipeline` gives them.

    Examples
    --------
    >>> from sksstruct import make_tagger
    >>> X = [[{"w": "he"}, {"w": "ran"}], [["w=ran"], ["w=he"]]]
    >>> y = [["PRP", "VBD"], ["VBD", "PRP"]]
    >>> tagger = make_tagger(alpha=0.01, loss="log").fit(X, y)
    >>> tagger.predict([[{"w": "he"}]])[0].tolist()
    ['PRP']
    >>> tagger.state_features_["w=he", "PRP"] > 0.1
    True
    """
    if vectorizer is None:
        vectorizer = SequenceVectorizer()
    return Tagger(make_pipeline(vectorizer, ChainCRF(**params)).steps)
