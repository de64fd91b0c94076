"""Weights of a tagger as dicts whose keys are names of features and labels."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted


class WeightsByName:
    """Properties that show the weights of a fitted `sksstruct.ChainCRF`."""

    classes_: np.ndarray
    coef_: Any
    transitions_: Any
    triples_: Any

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: weight of each pair of labels (from, to).

        If ``transitions_`` is sparse, the dict has only the stored pairs.
        """
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
    def pair_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of triples (feature, from, to), with `transition_features`.

        Features are named as in `state_features_`.
        """
        check_is_fitted(self, "coef_")
        if "transition_coef_" not in vars(self):
            raise AttributeError(
                "pair_features_: the ChainCRF was fitted without transition_features"
            )
        features, names = self._feature_names(), self.classes_.tolist()
        table = self.transition_coef_.tocoo()
        before, after = np.divmod(table.col, len(names))
        return {
            (features[j], names[a], names[b]): float(value)
            for j, a, b, value in zip(table.row, before, after, table.data, strict=True)
        }

    @property
    def triple_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of three consecutive labels, with ``order=2``."""
        check_is_fitted(self, "coef_")
        if "triples_" not in vars(self):
            raise AttributeError(
                "triple_features_: the ChainCRF was fitted with order=1, not order=2"
            )
        names, table = self.classes_.tolist(), self.triples_.tocoo()
        second, third = np.divmod(table.col, len(names))
        return {
            (names[a], names[b], names[c]): float(value)
            for a, b, c, value in zip(table.row, second, third, table.data, strict=True)
        }

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: the nonzero weights of pairs (feature, label).

        Features are named by ``feature_names_in_``, or ``x0``, ``x1``, ...
        """
        check_is_fitted(self, "coef_")
        if "score_parameters_" in vars(self):
            raise AttributeError(
                "state_features_: a ChainCRF with a score_function has no weights of "
                "features"
            )
        features, names = self._feature_names(), self.classes_.tolist()
        table = sparse.coo_array(self.coef_)
        return {
            (features[j], names[k]): float(value)
            for k, j, value in zip(table.row, table.col, table.data, strict=True)
        }

    def _feature_names(self):
        """Names of the features, or ``x0``, ``x1``, ... if X had none in fit."""
        names = self._names_in
        if names is None:
            return [f"x{j}" for j in range(self.n_features_in_)]
        return names.to_array()
