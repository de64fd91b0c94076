"""Checks that a model does what solvers expect of it."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_random_state

from sksstruct.models.python.python import fingerprint
from sksstruct.models.structured import StructuredModel, inner_product
from sksstruct.utils.labels import shown

# Relative difference of two scores up to which the scores count as equal.
RTOL = 1e-9


class _Problems(list):
    """Mistakes that were found, one of each kind."""

    def note(self, kind, text):
        if all(kind != other for other, _ in self):
            self.append((kind, text))


def check_model(
    model: StructuredModel,
    X: Sequence[Any] | np.ndarray,
    y: Sequence[Any] | np.ndarray,
    *,
    enumerate_outputs: bool = False,
    n_weights: int = 3,
    random_state: int | RandomState | None = None,
) -> None:
    """Check a structured model on data, and report its mistakes.

    The check has these parts:

    - `joint_feature` returns a finite vector of the same length, and the same values
      at each call;
    - inputs, outputs and weights are not changed;
    - the loss is 0 for the observed output and not negative for other outputs;
    - the outputs of `decode` and `loss_augmented_decode` score at least as high as the
      observed outputs and the outputs found with other weights. If all outputs are
      enumerated, the oracles' outputs are compared with the best output.

    Parameters
    ----------
    model : StructuredModel
        The model; a copy is checked.
    X : list or array
        A few inputs, small ones if outputs are enumerated.
    y : list or array
        Their outputs.
    enumerate_outputs : bool, default=False
        Whether to enumerate all outputs, ``model.labelings(x)``.
    n_weights : int, default=3
        Number of random weight vectors, besides zero, for the calls of oracles. Sizes
        are 1, 0.1, 0.01, 1, ... If the model has `bounds`, weights are clipped to them.
    random_state : int, RandomState instance or None, default=None
        Seed or source of the random weights.

    Raises
    ------
    ValueError
        If the model has mistakes. The message lists all mistakes, with one line for
        each kind.
    TypeError
        If `model` is not a `StructuredModel`.

    Examples
    --------
    >>> from sksstruct.models import StructuredModel, check_model
    >>> class Sign(StructuredModel):
    ...     def joint_feature(self, x, y):
    ...         return [x * y]
    ...     def loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def labelings(self, x):
    ...         return [-1, 1]
    ...     def decode(self, x, w):
    ...         return 1 if w[0] * x > 0 else -1
    ...     def loss_augmented_decode(self, x, y, w):
    ...         return y if 2 * w[0] * x * y > 1 else -y
    >>> X, y = [0.5, -2.0], [1, -1]
    >>> check_model(Sign(), X, y, enumerate_outputs=True, random_state=0)

    A model whose loss-augmented oracle ignores the loss:

    >>> class Mistaken(Sign):
    ...     def loss_augmented_decode(self, x, y, w):
    ...         return self.decode(x, w)
    >>> check_model(Mistaken(), X, y, enumerate_outputs=True, random_state=0)
    Traceback (most recent call last):
    ...
    ValueError: Mistaken: check_model found mistakes
    - loss_augmented_decode of example 0 gives 1, worth ...
    """
    if not isinstance(model, StructuredModel):
        raise TypeError(f"model must be a StructuredModel, got {model!r}")
    model = clone(model)
    model.check()
    model.prepare(X, y)
    rng = check_random_state(random_state)
    problems = _Problems()
    d = _check_features(model, X, y, problems)
    if d is None:
        _complain(model, problems)
    weights = [np.zeros(d)]
    # large weights, whose scores exceed the loss, and small ones, whose scores do not
    for k in range(n_weights):
        w = rng.normal(size=d) * 10.0 ** -(k % 3)
        weights.append(_confine(model, X, y, w))
    others = [set() for _ in X]
    pools = [[] for _ in X]
    for i, (x, y_true) in enumerate(zip(X, y, strict=True)):
        outputs = [y_true]
        if enumerate_outputs:
            outputs += list(model.labelings(x))
        seen = _fingerprint_or_none(x), _fingerprint_or_none(y_true)
        for w in weights:
            for oracle, call in (
                ("decode", lambda w=w, x=x: model.decode(x, w)),
                (
                    "loss_augmented_decode",
                    lambda w=w, x=x, t=y_true: model.loss_augmented_decode(x, t, w),
                ),
            ):
                before = w.copy()
                output = call()
                if not np.array_equal(before, w):
                    problems.note(oracle, f"{oracle} changes the weights it is given")
                    w[:] = before
                if fingerprint(call()) != fingerprint(output):
                    problems.note(
                        f"{oracle} twice",
                        f"{oracle} gives different outputs for the same arguments, "
                        f"X[{i}]; solvers need it to be the same each time",
                    )
                outputs.append(output)
                if (_fingerprint_or_none(x), _fingerprint_or_none(y_true)) != seen:
                    problems.note("input", f"{oracle} changes X[{i}] or y[{i}]")
                    seen = _fingerprint_or_none(x), _fingerprint_or_none(y_true)
        for output in outputs:
            key = fingerprint(output)
            if key not in others[i]:
                others[i].add(key)
                pools[i].append(output)
    _check_losses(model, X, y, pools, problems)
    for i, (x, y_true) in enumerate(zip(X, y, strict=True)):
        _check_oracles(
            model, i, x, y_true, pools[i], weights, enumerate_outputs, problems
        )
    _complain(model, problems)


def _fingerprint_or_none(value):
    """Fingerprint of a value, to notice changes; None if the value has none."""
    try:
        return fingerprint(value)
    except (TypeError, AttributeError, pickle.PicklingError):
        return None


def _complain(model, problems):
    if problems:
        lines = "\n".join(f"- {text}" for _, text in problems)
        raise ValueError(f"{type(model).__name__}: check_model found mistakes\n{lines}")


def _vector(phi):
    """A joint feature vector as a dense array."""
    if sparse.issparse(phi):
        phi = phi.toarray()
        return phi.ravel() if min(phi.shape, default=0) <= 1 else phi
    return np.asarray(phi, dtype=np.float64)


def _check_features(model, X, y, problems):
    """The number of weights, or None if joint features are unusable."""
    sizes = set()
    for i, (x, y_true) in enumerate(zip(X, y, strict=True)):
        before = fingerprint(y_true)
        phi = _vector(model.joint_feature(x, y_true))
        if phi.ndim != 1:
            problems.note(
                "shape",
                f"joint_feature of example {i} has shape {phi.shape}, expected a "
                "vector",
            )
            return None
        if not np.isfinite(phi).all():
            problems.note("finite", f"joint_feature of example {i} is not finite")
        sizes.add(len(phi))
        if not np.array_equal(phi, _vector(model.joint_feature(x, y_true))):
            problems.note(
                "repeat",
                f"joint_feature of example {i} differs from one call to the next: "
                "scores would not be linear in the weights",
            )
        if fingerprint(y_true) != before:
            problems.note("changed", f"joint_feature changes y[{i}]")
    if len(sizes) > 1:
        problems.note(
            "length",
            f"joint_feature has different lengths, {sorted(sizes)}: there is one "
            "weight for each entry",
        )
        return None
    return sizes.pop()


def _confine(model, X, y, w):
    """The weights, clipped to the bounds of the model."""
    if model.bounds() is None:
        return w
    lower, upper = model._bind(model._read(X, y, None, model)).box()
    return np.clip(w, lower, upper)


def _check_losses(model, X, y, pools, problems):
    for i, (x, y_true) in enumerate(zip(X, y, strict=True)):
        value = model._loss_at(x, y_true, y_true)
        if value != 0:
            problems.note(
                "loss 0", f"loss(y[{i}], y[{i}]) is {value}: the observed output must "
                "cost nothing"
            )  # fmt: skip
        for output in pools[i]:
            value = model._loss_at(x, y_true, output)
            if not 0 <= value < np.inf:
                problems.note(
                    "loss",
                    f"loss(y[{i}], {shown(output)!r:.80}) is {value}: it must be "
                    "finite and not negative",
                )


def _check_oracles(model, i, x, y_true, pool, weights, exhaustive, problems):
    features = [model.joint_feature(x, output) for output in pool]
    losses = np.array([model._loss_at(x, y_true, output) for output in pool])
    which = {fingerprint(output): k for k, output in enumerate(pool)}
    rival = "the best of all outputs" if exhaustive else "another output"
    for w in weights:
        scores = np.array([inner_product(phi, w) for phi in features])
        slack = RTOL * (1.0 + np.abs(scores).max() + np.abs(losses).max())
        for name, values, output in (
            ("decode", scores, model.decode(x, w)),
            (
                "loss_augmented_decode",
                scores + losses,
                model.loss_augmented_decode(x, y_true, w),
            ),
        ):
            k = which.get(fingerprint(output))
            if k is None:
                problems.note(
                    f"{name} twice",
                    f"{name} gives different outputs for the same arguments, X[{i}], "
                    "or outputs that do not look equal where they are",
                )
                continue
            value = values[k]
            if value < values.max() - slack:
                best = pool[int(values.argmax())]
                problems.note(
                    name,
                    f"{name} of example {i} gives {shown(output)!r:.80}, worth "
                    f"{value:.6g}; {rival}, {shown(best)!r:.80}, is worth "
                    f"{values.max():.6g}",
                )
