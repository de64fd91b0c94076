"""Methods of estimators with a `StructuredModel` that are the same for every model."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._fitted import TrainedModel
from sksstruct.estimators._losses import set_loss
from sksstruct.estimators._parameters import TEXTS
from sksstruct.inference._checks import check_k
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.typing import Examples


@fill_doc(TEXTS)
class ModelPrediction(TrainedModel):
    """Methods of estimators of any model: fitted attributes and the k best outputs."""

    def _set_loss(self, spec, model):
        set_loss(self.loss, spec, model)

    def _describe(self, spec, weights, views):
        weights = spec._own_units(weights)
        return {
            "model_": spec,
            "weights_": weights,
            "_loss": self.loss,
            **spec._attributes(weights, views),
        }

    def _checked(self, X):
        check_is_fitted(self, "weights_")
        return self.model_._check_input(X, self)

    def predict_topk(
        self, X: Examples, k: int
    ) -> tuple[np.ndarray | Any, np.ndarray | Any]:
        """The k best outputs of each input, and their scores.

        Parameters
        ----------
        %(inputs)s
        k : int
            Number of outputs.

        Returns
        -------
        y : ndarray of shape (n_samples, k) or list
            Distinct outputs for each input, the best first. There are fewer than k if
            no more exist.
        scores : ndarray of shape (n_samples, k) or list of ndarray
            Scores of these outputs.
        """
        k = check_k(k)
        X = self._checked(X)
        return self.model_._predict_topk(X, self.weights_, k)
