"""Models as estimators use them: parameters, reading of data, fitted attributes."""

import math
from typing import ClassVar

import numpy as np

from sksstruct.losses import LOSSES, Hamming, task_loss_of
from sksstruct.models.scale import centered, divided
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.sparse_input import rows_between

# Factor of alpha="auto", per mean square of the centered rows of features: their
# product is about 1 for texts, for which the constants below were chosen.
FACTOR_OF_SQUARE = 0.1
# alpha="auto" with hinge losses and many short sequences, before `alpha_factor`, which
# is about 1 for texts.
HINGE_ALPHA = 0.02
# Sequences are few for their length if their number is less than this multiple of their
# mean length; see `hinge_alpha`. Chosen on texts and series, also on parts of them.
MANY_FOR_LENGTH = 50.0
# alpha="auto" with the likelihood, in units of CRFsuite's c2, which is alpha n / 2.
LIKELIHOOD_C2 = 0.0075
# alpha="auto" for X of one matrix with hinge losses: factor of the mean square of the
# rows over their number.
ROW_ALPHA = 0.5
# As `ROW_ALPHA`, with the likelihood.
ROW_LOG_ALPHA = 0.1
# Least mean square of features for alpha="auto": if it is smaller, squares of features
# are not normal floating-point numbers.
_LEAST_SQUARE = 1e-300


def hinge_alpha(mean_length, n_sequences):
    """alpha="auto" for hinge losses whose costs are means, before `alpha_factor`.

    Costs are divided by the length T of sequences, features are summed over positions.
    In terms of T w, the objective of n sequences is the mean over n T positions of
    losses that do not depend on T, plus ``alpha / (2 T^2) |T w|^2``. So sequences that
    are cut into pieces train nearly the same model if alpha is proportional to T / n.

    Parameters
    ----------
    mean_length : float
        Mean number of positions of a sequence.
    n_sequences : float
        Number, or total weight, of the sequences.
    """
    return HINGE_ALPHA * max(1.0, MANY_FOR_LENGTH * mean_length / n_sequences)


def alpha_factor(mean_square):
    """Factor of alpha="auto" that follows the scale of the features.

    The constant feature of a bias must be multiplied by the square root of the factor.
    Then predictions do not change if all features are multiplied by a number.

    Parameters
    ----------
    mean_square : float
        The result of `ColumnMoments.mean_square`.
    """
    if not np.isfinite(mean_square):
        raise ValueError(
            "alpha='auto' needs features whose squares are finite; those of X are too "
            "large: divide them, or give alpha"
        )
    if 0.0 < mean_square < _LEAST_SQUARE:
        raise ValueError(
            "alpha='auto' needs features whose squares are normal floating-point "
            "numbers; those of X are too small: multiply them, or give alpha"
        )
    # features whose mean square is zero have no scale
    return FACTOR_OF_SQUARE * mean_square if mean_square else 1.0


class ModelSpec:
    """A model before it is bound to data, for estimators.

    `sksstruct.estimators._train` calls the methods in this order: `check`, `_read`,
    `_bind`, and, after a solver has found weights, `_attributes`.
    """

    # Constraints for `validate_params`; empty if the model has its own checks.
    _parameter_constraints: ClassVar[dict] = {}

    def check(self) -> None:
        """Raise an error if a parameter is not valid."""
        if self._parameter_constraints:
            validate_params(self)

    # The surrogates that estimators of the model accept by name.
    _losses = LOSSES
    # Kinds of task losses that may replace the model's own loss.
    _task_losses: ClassVar[tuple[type, ...]] = ()
    # The task loss that replaces the model's own loss, or None.
    _task_loss = None
    # Parameters that are the cost of an error; None stands for a cost of 1.
    _loss_parameters: ClassVar[tuple[str, ...]] = ()

    def _take_loss(self, loss):
        """Set the loss that training minimizes; return its surrogate.

        Parameters
        ----------
        loss : str or Surrogate
            Parameter of an estimator.

        Raises
        ------
        ValueError
            If the loss, or a parameter of the model with it, is not valid, or if the
            model does not have what the task loss needs.
        """
        surrogate = self._losses.resolve(loss)
        surrogate.check()
        self.is_likelihood = surrogate.is_likelihood
        self._task_loss = task_loss_of(surrogate)
        given = [n for n in self._loss_parameters if getattr(self, n) is not None]
        if given and self.is_likelihood:
            raise ValueError(
                f"{given[0]} of {type(self).__name__} is the cost of an error, which "
                "loss='log' does not have; use sample_weight, or a hinge loss"
            )
        if self._task_loss is None:
            return surrogate
        self._task_loss.check()
        if not isinstance(self._task_loss, self._task_losses):
            raise ValueError(
                f"cost={self._task_loss!r} needs {self._task_loss.needs}; "
                f"{type(self).__name__} has {self._own_losses()}"
            )
        if given:
            raise ValueError(
                f"{given[0]} of {type(self).__name__} and cost={self._task_loss!r} "
                "both say what an error costs: give one of them"
            )
        return surrogate

    def _own_losses(self):
        """Losses of the model, for the error message about an unsuitable task loss."""
        kinds = " and ".join(each.needs for each in self._task_losses)
        return kinds or "a loss of its own: leave out the cost"

    def _label_costs(self, classes, counts):
        """Cost of missing each label, from the task loss or `class_weight`."""
        loss = self._task_loss or Hamming(self.class_weight)
        return loss.label_costs(classes, counts)

    def _read(self, X, y, sample_weight, seen):
        """Check training data, and learn the attributes that describe them.

        Parameters
        ----------
        X, y, sample_weight : objects
            As given to fit.
        seen : estimator
            A copy of the estimator, on which scikit-learn's validation sets the
            attributes of X, so that a fit that fails leaves the estimator as it was.

        Returns
        -------
        examples : object
            Examples of positive weight, the argument of `_bind`.
        """
        raise NotImplementedError

    def _bind(self, examples):
        """The model bound to checked data, for solvers."""
        raise NotImplementedError

    def _bind_part(self, examples, first, last):
        """The model bound to a range of checked data, with the p_i of all data.

        Parameters
        ----------
        examples : tuple
            Arguments of an earlier `_bind`, whose entries have a row for each example.
        first, last : int
            The examples first <= i < last.
        """
        return self._bind(tuple(rows_between(each, first, last) for each in examples))

    def _cannot_be_cut(self):
        """The error of `_bind_part` for models that cannot be cut into blocks."""
        return ValueError(
            f"this {type(self).__name__} cannot be cut into blocks of examples, as "
            "solver='partitioned' needs: it has a score function, or completes labels "
            "that were not observed"
        )

    # ---- data in parts, each of which a different process may read ----

    def _facts(self, X, y, sample_weight, number):
        """Facts about all data that a part contributes.

        Parameters
        ----------
        X, y, sample_weight : objects
            A part of the arguments of `fit`.
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
            Examples for `_bind`, with the p_i of all data.
        """
        raise NotImplementedError

    @property
    def _looks_twice(self):
        """Whether `_facts_seen` reads all parts again, once labels are known."""
        return False

    def _facts_seen(self, X, y, sample_weight):
        """Combinations of labels, or of features and labels, that occur in a part.

        Called once the facts of all parts are known.

        Returns
        -------
        seen : dict of str to ndarray of int64
            Ascending numbers of combinations; the model learns their union.
        """
        raise NotImplementedError

    def _learn_seen(self, seen):
        """Learn the combinations that `_facts_seen` found in any part of the data."""
        raise NotImplementedError

    def _layout(self):
        """A bound model whose `views` name blocks of weights, without any data.

        None if the model itself names the blocks.
        """
        return None

    def _attributes(self, weights, views=None):
        """Fitted attributes for flat weights.

        Parameters
        ----------
        weights : ndarray
            Flat weights.
        views : dict of ndarray, default=None
            The weights as named blocks, if the layout is not the model's own.

        Returns
        -------
        attributes : dict
            Attributes by name; names end in an underscore.
        """
        raise NotImplementedError

    # Whether alpha is "auto", so that the model learns the scale of features.
    follows_scale = False
    # Whether the loss is the likelihood, which has other constants of alpha.
    is_likelihood = False
    # Share of the positions whose label is not the most common one.
    share_of_others_ = 1.0
    # Result of `ColumnMoments.mean_square` for the rows of features; zero in models
    # without rows, which have no scale to follow.
    mean_square_ = 0.0
    # Numbers subtracted from the columns of features in training, or None.
    centers_ = None
    # alpha="auto" before its multiplication by `alpha_factor`.
    auto_alpha = 1e-3

    @property
    def default_alpha(self) -> float:
        """The regularization for alpha="auto", once data were read."""
        return self.auto_alpha * alpha_factor(self.mean_square_)

    @property
    def intercept_scaling_(self) -> float:
        """The value of constant features, such as the feature of a bias.

        In training constant features are one; other features are divided by this value,
        and alpha by its square.
        """
        return math.sqrt(alpha_factor(self.mean_square_))

    def _learn_scale(self, moments):
        """Learn the scale of features, and their centers."""
        self.mean_square_ = moments.mean_square()
        self.centers_ = moments.centers() if self._absorbs_centers else None

    @property
    def _absorbs_centers(self):
        """Whether the bias can compensate a number subtracted from a column."""
        return self.fit_intercept

    def _over_scale(self, X):
        """Rows of features with centers subtracted, and scaled, as in training."""
        return divided(centered(X, self.centers_), self.intercept_scaling_)

    def _off_centers(self, coef):
        """The bias for centered features minus the bias for features as given."""
        return 0.0 if self.centers_ is None else coef @ self.centers_

    def solver_alpha(self, alpha: float) -> float:
        """The regularization of the problem for solvers, from the user's alpha."""
        return alpha / (self.intercept_scaling_ * self.intercept_scaling_)

    def _first_state(self, model, solver):
        """Initial state of training without an earlier fit, or None.

        Parameters
        ----------
        model : BoundModel
            The model with its data.
        solver : Solver
            The solver that trains it.
        """
        return None

    def _can_continue(self, previous, state):
        """Whether duals, or weights, of an earlier fit are valid for this model.

        Parameters
        ----------
        previous : ModelSpec
            The model of the earlier fit.
        state : dict
            State that the solver of the earlier fit left.
        """
        return True
