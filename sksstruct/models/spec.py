"""What an estimator knows of a model: parameters, data in, attributes out."""

import numpy as np

from sksstruct.utils._param_validation import validate_params

# What scikit-learn's validation is told of a matrix of samples.
ROWS = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}


class ModelSpec:
    """A model before it is bound to data; estimators are trained on one.

    `sksstruct.estimators._train` calls the methods in this order: `check`, `_read`,
    `_bind`, and `_attributes` for the weights that a solver found in between.
    """

    def check(self):
        """Raise an error if a parameter is not valid."""
        if hasattr(self, "_parameter_constraints"):
            validate_params(self)

    def _read(self, X, y, sample_weight, seen):
        """Check training data and learn what attributes say of them.

        Parameters
        ----------
        X, y, sample_weight : objects
            As given to fit.
        seen : estimator
            A copy of the estimator, where scikit-learn's validation may note what it
            sees of X: a fit that fails changes nothing.

        Returns
        -------
        examples : object
            Examples of positive weight, as `_bind` takes them.
        """
        raise NotImplementedError

    def _bind(self, examples):
        """The model bound to checked data, as solvers take it."""
        raise NotImplementedError

    def _attributes(self, weights, views=None):
        """Fitted attributes for flat weights.

        Parameters
        ----------
        weights : ndarray
            Flat weights.
        views : dict of ndarray, default=None
            Their named blocks, where the layout is not the model's own.

        Returns
        -------
        attributes : dict
            By their names, which end in an underscore.
        """
        raise NotImplementedError

    def _can_continue(self, previous, state):
        """Whether duals, or weights, of an earlier fit mean the same to this model.

        Parameters
        ----------
        previous : ModelSpec
            The model of the earlier fit.
        state : dict
            What its solver left.
        """
        return True
