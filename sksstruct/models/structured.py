"""The definition of a structured prediction problem: features, loss and oracles."""

from collections.abc import Iterable, Sized
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from sksstruct.models.facts import Facts, part_weight
from sksstruct.models.python.python import BoundPython
from sksstruct.models.spec import ModelSpec
from sksstruct.utils.validation import LabelEncoder, check_example_weight


class StructuredModel(ModelSpec, BaseEstimator):
    """Base class of all models; subclass it to define your own.

    Inputs x and outputs y may be any Python objects. The score of y is ``<w,
    joint_feature(x, y)>``, linear in the weights w. Four methods are required,
    `joint_feature`, `loss`, `decode` and `loss_augmented_decode`. With these methods,
    every solver that needs only the max oracle can train the model. As in scikit-learn,
    the constructor must only assign the parameters, so that you can search over
    ``model__parameter``.

    See Also
    --------
    check_model : Finds mistakes in a model.
    sksstruct.SSVMClassifier : Trains a model.

    Notes
    -----
    Equal outputs must have equal representations: arrays of the same dtype, shape and
    entries, numbers, strings, or lists, tuples and dicts of these. Oracles must be
    exact, and must return the same output for the same arguments. Otherwise the duality
    gap is not a certificate. Training stores all different outputs that oracles return.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import StructuredModel
    >>> class Ordinal(StructuredModel):
    ...     # grades from 0 to 3; the loss is their distance
    ...     grades = np.arange(4)
    ...     def joint_feature(self, x, y):
    ...         return np.array([y * x[0], y, y * y], dtype=float)
    ...     def loss(self, y, y_hat):
    ...         return float(abs(y - y_hat))
    ...     def _scores(self, x, w):
    ...         return np.array([self.joint_feature(x, y) @ w for y in self.grades])
    ...     def decode(self, x, w):
    ...         return int(self._scores(x, w).argmax())
    ...     def loss_augmented_decode(self, x, y, w):
    ...         return int((self._scores(x, w) + abs(self.grades - y)).argmax())
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3]
    >>> classifier = SSVMClassifier(Ordinal(), random_state=0).fit(X, y)
    >>> list(classifier.predict([[0.9], [2.1]]))
    [1, 2]
    """

    # Whether X is one 2-D array with a row for each example, and y is an array with an
    # entry for each example.
    is_flat = False
    # The reason in error messages why an oracle is missing.
    _oracle_note: ClassVar[str | None] = None
    # Rules by which `Facts` merges the learned attributes of parts: "equal" for all
    # attributes that are not listed; "mean" is the mean over examples. None: the model
    # cannot learn from parts.
    _from_parts: ClassVar[dict[str, Any] | None] = {}
    # The estimator's parameter class_weight, for flat models.
    _class_weight = None
    # Note in error messages for models without class_weight.
    _class_weight_note = "has none; sample_weight of fit weighs whole examples"
    # The score function that replaces the first block of weights, or None.
    _score_function = None

    def _own_units(self, weights):
        """A copy of flat weights, for features that are neither scaled nor centered."""
        return weights.copy()

    def prepare(self, X: Any, Y: Any) -> None:
        """Learn sizes from the training data; called on a copy of the model.

        Learned values are attributes that end in an underscore. The default learns the
        number of weights from the first joint feature vector.

        Parameters
        ----------
        X : list
            Inputs.
        Y : list
            Outputs.
        """
        shape = np.shape(_row(self.joint_feature(X[0], Y[0])))
        if not shape or not shape[-1]:
            raise ValueError(
                f"joint_feature of example 0 has shape {shape}, expected a vector"
            )
        self.n_weights_ = int(shape[-1])

    def joint_feature(self, x: Any, y: Any) -> Any:
        """Joint feature vector of an input and an output.

        Parameters
        ----------
        x : object
            Input.
        y : object
            Output.

        Returns
        -------
        phi : ndarray of shape (n_weights,) or sparse matrix of shape (1, n_weights)
            Features; sparse vectors save memory and time if most entries are zero.
        """
        raise NotImplementedError(f"{type(self).__name__} must define joint_feature")

    def loss(self, y: Any, y_hat: Any) -> float:
        """Loss of predicting y_hat where y was observed.

        Parameters
        ----------
        y : object
            Observed output.
        y_hat : object
            Predicted output.

        Returns
        -------
        loss : float
            Not negative; 0 if the two are equal. Losses of at most 1 keep the score
            of the classifier, one minus the mean loss, from becoming negative.
        """
        raise NotImplementedError(f"{type(self).__name__} must define loss")

    def decode(self, x: Any, w: np.ndarray) -> Any:
        """Output with the highest score (max oracle).

        Parameters
        ----------
        x : object
            Input.
        w : ndarray of shape (n_weights,)
            Weights; must not be changed.

        Returns
        -------
        y_hat : object
            An output that maximizes ``<w, joint_feature(x, y)>``.
        """
        raise NotImplementedError(f"{type(self).__name__} must define decode")

    def loss_augmented_decode(self, x: Any, y: Any, w: np.ndarray) -> Any:
        """Output with the highest sum of score and loss.

        Parameters
        ----------
        x : object
            Input.
        y : object
            Observed output.
        w : ndarray of shape (n_weights,)
            Weights; must not be changed.

        Returns
        -------
        y_hat : object
            An output that maximizes ``loss(y, y_hat) + <w, joint_feature(x, y_hat)>``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define loss_augmented_decode"
        )

    def decode_topk(self, x: Any, w: np.ndarray, k: int) -> list:
        """The k outputs with the highest scores; optional.

        Parameters
        ----------
        x : object
            Input.
        w : ndarray of shape (n_weights,)
            Weights.
        k : int
            Number of outputs.

        Returns
        -------
        outputs : list
            Different outputs, the best first; fewer if there are no more.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define decode_topk")

    def loss_augmented_topk(self, x: Any, y: Any, w: np.ndarray, k: int) -> list:
        """The k outputs of highest sum of score and loss; optional.

        `sksstruct.solvers.Casimir` needs this method to train on the hinge smoothed by
        l2.

        Parameters
        ----------
        x : object
            Input.
        y : object
            Observed output.
        w : ndarray of shape (n_weights,)
            Weights.
        k : int
            Number of outputs.

        Returns
        -------
        outputs : list
            Different outputs, the best first; fewer if there are no more.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not define loss_augmented_topk"
        )

    def labelings(self, x: Any) -> Iterable:
        """All outputs of an input; optional, for checks on small inputs.

        Parameters
        ----------
        x : object
            Input.

        Returns
        -------
        outputs : iterable
            Every output once.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define labelings")

    # ---- called by estimators; compiled models override these ----

    def _set_score(self, score_function):
        """Use a score function for the rows of features."""
        raise ValueError(
            f"score_function takes the place of a model's coef_, and needs one that "
            f"scores rows of features by the exp or the top-K oracle; "
            f"{type(self).__name__} does not"
        )

    def _loss_at(self, x, y, y_hat):
        """The loss for a given input, on which the losses of some models depend."""
        return self.loss(y, y_hat)

    @property
    def _has_topk(self):
        """Whether training can use the k best outputs."""
        mine = type(self).loss_augmented_topk
        return mine is not StructuredModel.loss_augmented_topk

    @property
    def _has_marginals(self):
        """Whether the model defines `_predict_marginals`."""
        return type(self)._predict_marginals is not StructuredModel._predict_marginals

    def bounds(self) -> dict | None:
        """Box constraints that the oracles need; optional.

        Returns
        -------
        bounds : dict or None
            For a model of your own ``{"coef": (lower, upper)}``, each a number, an
            array of shape (n_weights,) or None. Solvers keep the weights in the box.
        """
        return None

    def _read(self, X, y, sample_weight, seen):
        X, y = self._pairs(X, y)
        sample_weight = self._weights_of(X, y, sample_weight)
        keep, weight = check_example_weight(sample_weight, len(X))
        X, y = self._chosen(X, keep), self._chosen(y, keep)
        return *self._learn_from(X, y, weight), weight

    def _pairs(self, X, y):
        """Inputs and outputs, equally many, of which `_chosen` selects entries."""
        return as_pairs(X, y)

    def _weights_of(self, X, y, sample_weight):
        """Weights as given; zero for examples without parts, if these may occur."""
        return sample_weight

    def _chosen(self, examples, numbers):
        """Inputs, or outputs, with the given numbers."""
        return [examples[i] for i in numbers]

    def _learn_from(self, X, y, weight):
        """Learn from the data; return inputs and outputs for `_bind`."""
        self.prepare(X, y)
        return X, y

    # ---- data in parts ----

    def _facts(self, X, y, sample_weight, number):
        if self._from_parts is None:
            return super()._facts(X, y, sample_weight, number)
        X, y, weight = self._part(X, y, sample_weight)
        if not len(X):
            return None
        part, total, learned = clone(self), float(weight.sum()), {}
        part.follows_scale = self.follows_scale
        part._learn_from_part(X, y, weight)
        for name, value in vars(part).items():
            rule = self._from_parts.get(name, "equal")
            if name == "moments_":
                rule = "moments"
            if name.endswith("_"):
                if rule == "mean":
                    rule, value = "sum", total * value
                elif rule == "labels" and value is not None:
                    value = value.tolist()
                learned[name] = rule, value
        return Facts({number: len(X)}, None, total=total, learned=learned)

    def _learn_from_part(self, X, y, weight):
        """Learn from a part of the data, which may lack some labels."""
        self._learn_from(X, y, weight)

    def _learn_facts(self, facts):
        self._total = facts.total
        for name, (rule, value) in facts.learned.items():
            if self._from_parts.get(name) == "mean":
                value = value / facts.total
            elif rule == "labels" and value is not None:
                value = LabelEncoder.from_labels(value).classes_
            setattr(self, name, value)

    def _read_part(self, X, y, sample_weight):
        X, y, weight = self._part(X, y, sample_weight)
        return X, y, weight / self._total

    def _part(self, X, y, sample_weight):
        """Examples of positive weight, and their weights as given."""
        X, y = self._pairs(X, y)
        weight, keep = part_weight(self._weights_of(X, y, sample_weight), len(X))
        return self._chosen(X, keep), self._chosen(y, keep), weight[keep]

    def _check_input(self, X, estimator):
        """Check inputs for prediction."""
        return as_list("X", X)

    def _bind(self, examples):
        return BoundPython(self, *examples)

    def _bind_part(self, examples, first, last):
        if self._score_function is not None:
            raise self._cannot_be_cut()
        return super()._bind_part(examples, first, last)

    def _attributes(self, weights, views=None):
        return {"coef_": weights.copy()}

    def _predict(self, X, weights, n_jobs=None):
        """Best output of each checked input, and its score."""
        outputs = [self.decode(x, weights) for x in X]
        scores = [
            inner_product(self.joint_feature(x, y), weights)
            for x, y in zip(X, outputs, strict=True)
        ]
        return outputs, np.array(scores, dtype=np.float64)

    def _predict_topk(self, X, weights, k):
        """The k best outputs of each checked input, and their scores."""
        outputs = [list(self.decode_topk(x, weights, k)) for x in X]
        scores = [
            np.array([inner_product(self.joint_feature(x, y), weights) for y in some])
            for x, some in zip(X, outputs, strict=True)
        ]
        return outputs, scores

    def _predict_marginals(self, X, weights, n_jobs=None):
        """Marginal probabilities of the parts of the outputs of checked inputs.

        The probability of an output is proportional to the exponential of its score.

        Returns
        -------
        marginals : ndarray of shape (n_samples, n_classes) or list of ndarray
            An array if the model is flat.
        """
        raise NotImplementedError

    def _score(self, X, y, predicted, sample_weight=None):
        """Score of predicted outputs for checked inputs: one minus the mean loss."""
        y = as_list("y", y)
        if len(y) != len(predicted):
            raise ValueError(
                f"y must have an output for each of the {len(predicted)} examples of "
                f"X, got {len(y)}"
            )
        losses = [self._loss_at(*each) for each in zip(X, y, predicted, strict=True)]
        sample_weight = self._weights_of(X, y, sample_weight)
        if sample_weight is not None and not np.sum(sample_weight) > 0:
            raise ValueError("sample_weight must have a sum above zero")
        return 1.0 - float(np.average(losses, weights=sample_weight))


def as_pairs(X, y):
    """Lists of inputs and outputs of equal length."""
    X, y = as_list("X", X), as_list("y", y)
    if len(X) != len(y):
        raise ValueError(
            f"y must have an output for each of the {len(X)} examples of X, got "
            f"{len(y)}"
        )
    return X, y


def as_list(name, values):
    """A list of the entries of a sequence, which must not be empty."""
    if sparse.issparse(values):
        values = values.tocsr()
    elif isinstance(values, (str, bytes, dict)) or not (
        isinstance(values, Sized) and hasattr(values, "__getitem__")
    ):
        raise TypeError(
            f"{name} must be a list with an entry for each example, got "
            f"{type(values).__name__}"
        )
    n = values.shape[0] if hasattr(values, "shape") else len(values)
    if n == 0:
        raise ValueError(f"{name} has no examples")
    if hasattr(values, "iloc"):
        values = values.iloc
    return [values[i] for i in range(n)]


def _row(phi):
    """A joint feature vector as an array or a sparse matrix."""
    return phi if sparse.issparse(phi) else np.asarray(phi)


def inner_product(phi, w):
    """<w, phi> for an array or a sparse row."""
    if sparse.issparse(phi):
        phi = sparse.csr_array(phi.reshape(1, -1) if phi.ndim == 1 else phi)
        return float(phi.data @ w[phi.indices])
    return float(np.asarray(phi, dtype=np.float64) @ w)
