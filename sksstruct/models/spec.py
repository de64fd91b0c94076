"""An estimator's view of a model: parameters, data in, attributes out."""

import numpy as np

from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.sparse_input import rows_between

# Options for scikit-learn's validation of a matrix of samples.
ROWS = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}


class ModelSpec:
    """A model before it is bound to data, as estimators train it.

    `sksstruct.estimators._train` calls the methods in this order: `check`, `_read`,
    `_bind`, and, after a solver has found weights, `_attributes`.
    """

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if hasattr(self, "_parameter_constraints"):
            validate_params(self)

    def _read(self, X, y, sample_weight, seen):
        """Check training data, and learn the attributes that describe them.

        Parameters
        ----------
        X, y, sample_weight : objects
            As given to fit.
        seen : estimator
            A copy of the estimator, on which scikit-learn's validation sets the
            attributes of X, so that a fit that fails changes nothing.

        Returns
        -------
        examples : object
            Examples of positive weight, as `_bind` takes them.
        """
        raise NotImplementedError

    def _bind(self, examples):
        """The model bound to checked data, as solvers take it."""
        raise NotImplementedError

    def _bind_part(self, examples, first, last):
        """The model bound to a range of checked data, with the p_i of all of them.

        Parameters
        ----------
        examples : tuple
            What `_bind` has bound before; the entries have a row for each example.
        first, last : int
            The examples first <= i < last.
        """
        return self._bind(tuple(rows_between(each, first, last) for each in examples))

    def _cannot_be_cut(self):
        """The error of `_bind_part` where parts are not possible."""
        return ValueError(
            f"this {type(self).__name__} cannot be cut into blocks of examples, as "
            "solver='partitioned' needs: it has a score function, or completes labels "
            "that were not observed"
        )

    # ---- data in parts, none of which is seen by others ----

    def _facts(self, X, y, sample_weight, number):
        """What a part of the data tells of the whole.

        Parameters
        ----------
        X, y, sample_weight : objects
            The part, as `fit` takes all data.
        number : int
            Number of the part.

        Returns
        -------
        facts : Facts
        """
        raise ValueError(
            f"{type(self).__name__} cannot be trained on data in parts: it learns from "
            "all data at once"
        )

    def _learn_facts(self, facts):
        """Learn from the facts of all parts what `_read` learns from all data."""
        raise NotImplementedError

    def _read_part(self, X, y, sample_weight):
        """Check a part of the data, once facts are known.

        Returns
        -------
        examples : object
            As `_bind` takes them, with the p_i of all data.
        """
        raise NotImplementedError

    @property
    def _looks_twice(self):
        """Whether parts tell more once labels are known, by `_facts_seen`."""
        return False

    def _facts_seen(self, X, y, sample_weight):
        """What a part tells once facts of all parts are known.

        Returns
        -------
        seen : dict of str to ndarray of int64
            Numbers of what was seen, ascending; those of all parts are joined.
        """
        raise NotImplementedError

    def _learn_seen(self, seen):
        """Learn from what all parts have seen."""
        raise NotImplementedError

    def _attributes(self, weights, views=None):
        """Fitted attributes for flat weights.

        Parameters
        ----------
        weights : ndarray
            Flat weights.
        views : dict of ndarray, default=None
            The weights as named blocks, where the layout is not the model's own.

        Returns
        -------
        attributes : dict
            Attributes by name; names end in an underscore.
        """
        raise NotImplementedError

    @property
    def default_alpha(self) -> float:
        """The regularization that alpha="auto" stands for, once data were read."""
        raise NotImplementedError

    def _can_continue(self, previous, state):
        """Whether duals, or weights, of an earlier fit are valid for this model.

        Parameters
        ----------
        previous : ModelSpec
            The model of the earlier fit.
        state : dict
            State that its solver left.
        """
        return True
