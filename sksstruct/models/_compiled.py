"""Common parts of the compiled models of lists of inputs."""

import numpy as np

from sksstruct.models.structured import StructuredModel, as_list, as_pairs
from sksstruct.utils.parallel import run_in_chunks


class CompiledModel(StructuredModel):
    """A model with a bound form of its own.

    Subclasses define ``_input(x, name)``, which checks an input, ``_output(x, y,
    name)``, which checks an output, and ``_learn(X, y, weight)``, which learns from
    training data; ``_labeling(x, y)``, which turns a checked output into integers, and
    ``_shown(x, labeling)``, which turns integers into an output; and ``_bound(X,
    y_true, example_weights)``, which binds the model. Where there are marginal
    probabilities, ``_marginals_of(model, i, means)`` turns what the exp oracle of the
    bound model returns for its i-th example into an array for the user.
    """

    def prepare(self, X, Y):
        X, Y = as_pairs(X, Y)
        self._learn_from(X, Y, np.ones(len(X)))

    def _learn_from(self, X, y, weight):
        self._forget()
        X = [self._input(x, f"X[{i}]") for i, x in enumerate(X)]
        y = self._learn(X, y, weight)
        self.n_weights_ = self._bound(X[:1], None, None).n_weights
        return X, y

    def _forget(self):
        """Drop what was learned from an earlier training set."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)

    def _learn(self, X, y, weight):
        """Learn from checked inputs, and from outputs; return the checked outputs."""
        raise NotImplementedError

    def _outputs(self, X, y):
        return [
            self._output(a, b, f"y[{i}]")
            for i, (a, b) in enumerate(zip(X, y, strict=True))
        ]

    def _check_input(self, X, estimator):
        return [self._input(x, f"X[{i}]") for i, x in enumerate(as_list("X", X))]

    def _bind(self, examples):
        return self._bound(*examples)

    def _predict(self, X, weights, n_jobs=None):
        model = self._bound(X, None, None)
        outputs, scores = [None] * len(X), np.empty(len(X))

        def decode(first, last):
            workspace = model.workspace(weights, training=False)
            for i in range(first, last):
                labeling, scores[i] = model.labeling(workspace, i)
                outputs[i] = self._shown(X[i], labeling)

        run_in_chunks(decode, len(X), n_jobs)
        return outputs, scores

    # None without marginals
    _marginals_of = None

    @property
    def _has_marginals(self):
        return self._marginals_of is not None

    def _marginals(self, X, weights, n_jobs=None):
        model = self._bound(X, None, None)
        found = [None] * len(X)

        def expect(first, last):
            workspace = model.workspace(weights, training=False)
            for i in range(first, last):
                means, _ = model.expectation(workspace, i)
                found[i] = self._marginals_of(model, i, means)

        run_in_chunks(expect, len(X), n_jobs)
        return found

    def _views(self, model, weights):
        """Fitted attributes: the named blocks of flat weights."""
        return {f"{k}_": v.copy() for k, v in model.views(weights).items()}

    def _predict_topk(self, X, weights, k):
        found = [self._topk(x, weights, k) for x in X]
        return [outputs for outputs, _ in found], [scores for _, scores in found]

    def _topk(self, x, weights, k):
        model = self._bound([x], None, None)
        if "topk" not in model.oracles:
            raise ValueError(f"{type(self).__name__} does not find the k best outputs")
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        workspace = model.workspace(weights, training=False)
        labelings, scores = model.topk(workspace, 0, k)
        return [self._shown(x, labeling) for labeling in labelings], scores

    # ---- the methods of any model, for one example ----

    def joint_feature(self, x, y):
        x = self._input(x, "x")
        model = self._bound([x], None, None)
        labeling = self._labeling(x, self._output(x, y, "y"))
        workspace = model.workspace(np.zeros(model.n_weights))
        return model.joint_feature(workspace, 0, labeling)

    def decode(self, x, w):
        w = np.asarray(w, dtype=np.float64)
        return self._predict([self._input(x, "x")], w)[0][0]

    def loss_augmented_decode(self, x, y, w):
        x = self._input(x, "x")
        model = self._bound([x], [self._output(x, y, "y")], None)
        w = np.ascontiguousarray(w, dtype=np.float64)
        return self._shown(x, model.labeling(model.workspace(w), 0)[0])

    def decode_topk(self, x, w, k):
        return self._topk(self._input(x, "x"), np.asarray(w, dtype=np.float64), k)[0]


def check_features(values, name, ndim, n_features=None):
    """Float features of a given number of axes, the last of a given length."""
    try:
        values = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of numbers") from None
    if values.ndim != ndim:
        raise ValueError(f"{name} must be {ndim}-D, got {values.ndim}-D")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} has an entry that is NaN or infinite")
    if n_features is not None and values.shape[-1] != n_features:
        raise ValueError(
            f"{name} has {values.shape[-1]} features, {n_features} were expected"
        )
    return values
