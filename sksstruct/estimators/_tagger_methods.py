"""Methods that pipelines and meta-estimators delegate to the tagger inside."""

from typing import Any

import numpy as np

from sksstruct.estimators._explanation import Explanation
from sksstruct.estimators._parameters import TEXTS
from sksstruct.utils._available import available_if
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Items, Labelings, PathLike

_INPUTS = {
    "items": """
X : list of sequences
    Input of the first transformer.
""",
    "passed": """
**params : dict
    Constraints, as for `ChainCRF.predict`. Probabilities are conditional on them.
""",
}


def has_method(name):
    """A check for `available_if` that raises the error of the tagger inside."""

    def check(tagger):
        getattr(tagger._answering(), name)

    return check


@fill_doc({**TEXTS, **_INPUTS})
class TaggerMethods:
    """Methods of `sksstruct.ChainCRF` that scikit-learn's pipelines do not have.

    A subclass defines `_answering`, which returns the tagger inside, and `_answer`,
    which calls one of its methods.
    """

    # without probabilities, the error of Pipeline.predict_proba would give no reason
    @available_if(has_method("predict_proba"))
    def predict_proba(self, X: Items, **params: Any) -> list[np.ndarray]:
        """Probability of each label at each position; only with ``loss="log"``.

        Parameters
        ----------
        %(items)s
        %(passed)s

        Returns
        -------
        probabilities : list of ndarray of shape (n_positions, n_classes)
            Marginal probabilities; columns are in the order of ``classes_``.
        """
        return self._answer("predict_proba", X, **params)

    @available_if(has_method("predict_marginals"))
    def predict_marginals(self, X: Items, **params: Any) -> np.ndarray:
        """Probabilities as dicts, as in CRFsuite; only with ``loss="log"``.

        Parameters
        ----------
        %(items)s
        %(passed)s

        Returns
        -------
        probabilities : ndarray of shape (n_sequences,), of lists of dict
            For each position the marginal probability of each label.
        """
        return self._answer("predict_marginals", X, **params)

    @available_if(has_method("predict_topk"))
    def predict_topk(
        self, X: Items, k: int, **params: Any
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The k best labelings of each sequence, and their scores.

        Parameters
        ----------
        %(items)s
        k : int
            Number of labelings.
        **params : dict
            Constraints, as for `ChainCRF.predict_topk`.

        Returns
        -------
        y : list of ndarray of shape (n, n_positions)
            Distinct labelings, the best first. n is k, or less if there are fewer
            labelings.
        scores : list of ndarray of shape (n,)
            Scores of these labelings.
        """
        return self._answer("predict_topk", X, k, **params)

    @available_if(has_method("predict_entities"))
    def predict_entities(
        self, X: Items, **params: Any
    ) -> list[list[tuple[int, int, str, float]]]:
        """Entities of the best labeling, with their probabilities.

        Parameters
        ----------
        %(items)s
        **params : dict
            Constraints, as for `ChainCRF.predict`, on which probabilities are
            conditional; and `offsets`, the characters of the tokens, as for
            `ChainCRF.predict_entities`.

        Returns
        -------
        %(entities)s
        """
        return self._answer("predict_entities", X, **params)

    @available_if(has_method("predict_segments"))
    def predict_segments(
        self, X: Items, **params: Any
    ) -> list[list[tuple[int, int, Any, float]]]:
        """Best segments of each sequence, with probabilities; only for `SegmentCRF`.

        Parameters
        ----------
        %(items)s
        **params : dict
            Constraints and `offsets`, as for `SegmentCRF.predict_segments`.

        Returns
        -------
        segments : list of list of tuple
            Tuples (start, stop, label, probability) for each sequence.
        """
        return self._answer("predict_segments", X, **params)

    @available_if(has_method("log_proba"))
    def log_proba(self, X: Items, y: Labelings, **params: Any) -> np.ndarray:
        """Logarithm of the probability of a labeling of each sequence.

        Parameters
        ----------
        %(items)s
        y : list of array-like of shape (n_positions,)
            Labels; None stands for any label, and a set for any of its labels, as for
            `ChainCRF.log_proba`.
        %(passed)s

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            Natural logarithms.
        """
        return self._answer("log_proba", X, y, **params)

    @available_if(has_method("entropy"))
    def entropy(
        self, X: Items, *, positions: bool = False, **params: Any
    ) -> np.ndarray | list[np.ndarray]:
        """Entropy of the distribution over the labelings of each sequence.

        Parameters
        ----------
        %(items)s
        positions : bool, default=False
            Whether to return the entropy of the label at each position, in place of
            the entropy of whole labelings.
        %(passed)s

        Returns
        -------
        entropy : ndarray of shape (n_sequences,), or list of ndarray
            Entropies in nats; with `positions`, an array of shape (n_positions,) for
            each sequence.
        """
        return self._answer("entropy", X, positions=positions, **params)

    @available_if(has_method("explain"))
    def explain(self, x: Any, t: int, **params: Any) -> Explanation:
        """Explain why a position has its label: contributions of the features.

        Parameters
        ----------
        x : sequence
            One sequence, as an entry of X.
        t : int
            Position, from 0.
        **params : dict
            Constraints, as for `ChainCRF.explain`.

        Returns
        -------
        %(explanation)s
        """
        for name in params.keys() & {"known", "excluded"}:
            params[name] = None if params[name] is None else [params[name]]
        return self._explain([x], t, **params)

    def _explain(self, X, t, **params):
        return self._answer("_explain", X, t, **params)


class TaggerInside(TaggerMethods):
    """Methods of meta-estimators that export the tagger inside, or show its weights.

    `sksstruct.Tagger` has other definitions of these methods, for all of its steps.
    """

    @available_if(has_method("to_json"))
    def to_json(self, path: PathLike) -> None:
        """Write the fitted tagger as JSON, which is safe to load.

        `Tagger.from_json` or `ChainCRF.from_json` reads the file, and returns the
        fitted tagger, with the temperature if the tagger was calibrated.

        Parameters
        ----------
        path : path-like
            File to write; see `Tagger.to_json`.
        """
        self._answer("to_json", path)

    @available_if(has_method("to_crfsuite"))
    def to_crfsuite(
        self, path: PathLike, *, first: str = "__BOS__", last: str = "__EOS__"
    ) -> None:
        """Write the fitted tagger in the binary format of CRFsuite.

        If the tagger was calibrated, the weights are divided by the temperature, so
        that CRFsuite finds the same probabilities.

        Parameters
        ----------
        path : path-like
            File to write; see `Tagger.to_crfsuite`.
        first, last : str, default="__BOS__" and "__EOS__"
            Names of the attributes of the first and of the last position.
        """
        self._answer("to_crfsuite", path, first=first, last=last)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: the nonzero weights of pairs (feature, label)."""
        return self._answering().state_features_

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: weight of each pair of labels (from, to)."""
        return self._answering().transition_features_
