"""A tagger of dicts and strings: a vectorizer and a chain in one estimator."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline

from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils._available import available_if
from sksstruct.utils.typing import Items, Labelings


def _last_step_has(name):
    def check(tagger):
        getattr(tagger[-1], name)

    return check


class Tagger(Pipeline):
    """Pipeline whose last step is a tagger, with the tagger's methods.

    In addition to the methods of `sklearn.pipeline.Pipeline`, it has `predict_topk`,
    `predict_marginals` and the weights by name. Create it with `make_tagger`, or like
    any pipeline.

    Parameters
    ----------
    steps : list of tuple of (str, estimator)
        Transformers of sequences, and a `ChainCRF`.
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

    # Pipeline's own method, if there are no probabilities, does not say why
    @available_if(_last_step_has("predict_proba"))
    def predict_proba(self, X: Items, **params: Any) -> list[np.ndarray]:
        """Probability of each label at each position; only with ``loss="log"``.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        **params : dict
            Constraints, as for `ChainCRF.predict_proba`.

        Returns
        -------
        probabilities : list of ndarray of shape (n_positions, n_classes)
            Marginal probabilities, labels in the order of ``classes_``.
        """
        return super().predict_proba(X, **params)

    @available_if(_last_step_has("predict_marginals"))
    def predict_marginals(self, X: Items, **params: Any) -> np.ndarray:
        """Probabilities as dicts, as in CRFsuite; only with ``loss="log"``.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        **params : dict
            Constraints, as for `ChainCRF.predict_marginals`.

        Returns
        -------
        probabilities : ndarray of shape (n_sequences,), of lists of dict
            For each position the marginal probability of each label.
        """
        return self[-1].predict_marginals(self._transformed(X), **params)

    @available_if(_last_step_has("predict_topk"))
    def predict_topk(
        self, X: Items, k: int, **params: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The k best labelings of each sequence, and their scores.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        k : int
            Number of labelings.
        **params : dict
            Constraints, as for `ChainCRF.predict_topk`.

        Returns
        -------
        y : list of ndarray of shape (n, n_positions)
            Different labelings, the best first.
        scores : list of ndarray of shape (n,)
            Their scores.
        """
        return self[-1].predict_topk(self._transformed(X), k, **params)

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

    @property
    def triple_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of three consecutive labels, with ``order=2``."""
        return self[-1].triple_features_


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
