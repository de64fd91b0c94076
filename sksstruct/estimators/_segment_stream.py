"""Training a tagger of segments on mini-batches of a stream, each seen once."""

import copy

import numpy as np

from sksstruct.estimators._losses import loss_of
from sksstruct.estimators._train import checked_model, named_solver, replace_attributes
from sksstruct.losses import resolve_loss
from sksstruct.solvers.core.procedures import completed_once
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.validation import check_weight


def train_on_batch(tagger, X, y, classes, sample_weight):
    """Implement `SegmentCRF.partial_fit`: visit each sequence of a mini-batch once.

    As in `sksstruct.estimators._stream`, which is for chains, dual variables of earlier
    sequences stay fixed, and the objective is that of all sequences so far.
    """
    solver, spec = _check_parameters(tagger)
    fresh = "model_" not in vars(tagger)
    if not fresh:
        spec = copy.copy(tagger.model_)
    X, y, sample_weight = spec._without_empty(X, y, sample_weight)
    weight = check_weight(sample_weight, len(X))
    keep = np.flatnonzero(weight)
    if not len(keep):
        raise ValueError("sample_weight is zero for every sequence")
    X, y, weight = spec._chosen(X, keep), spec._chosen(y, keep), weight[keep]
    if fresh:
        spec._learn_from_batch(X, y, weight, classes)
    elif classes is not None and set(classes) != set(spec.classes_.tolist()):
        raise ValueError(
            "classes must be those of the first partial_fit, classes_, or None"
        )
    # do not scale or center features: the scale and the centers of each mini-batch
    # would differ, and with them the meaning of the weights
    spec.follows_scale, spec.centers_ = False, None
    spec._warn_of_cuts(y, 4)  # stack level of the caller of partial_fit
    labelings = spec._outputs(X, y)
    seen, total = (0.0 if fresh else spec._total), float(weight.sum())
    spec._total = seen + total
    # update the mean length of all sequences so far
    size = float(np.average(X.packed.lengths, weights=weight))
    spec.mean_size_ = (seen * spec.mean_size_ + total * size) / (seen + total)
    model = spec._bind((X, labelings, weight / (seen + total)))
    alpha = spec.default_alpha if tagger.alpha == "auto" else tagger.alpha
    stream = {"visits": seen, "alpha": alpha, **dict(tagger._stream)}
    averaged = aligned_zeros(model.n_weights)
    if not fresh:
        # for given dual variables, weights are proportional to 1 / alpha
        averaged[:] = tagger.weights_ * (stream["alpha"] / alpha)
    model = completed_once(
        solver,
        model,
        spec.solver_alpha(alpha),
        None if fresh else averaged,
        random_state=tagger.random_state,
        n_jobs=tagger.n_jobs,
    )
    iterate = averaged.copy()
    if "iterate" in stream:
        iterate[:] = stream["iterate"] * (stream["alpha"] / alpha)
    iterate *= seen / (seen + total)
    iterate, weights = solver.solve_stream(
        model,
        spec.solver_alpha(alpha),
        iterate,
        averaged,
        stream["visits"],
        random_state=tagger.random_state,
    )
    stream.update(iterate=iterate, alpha=alpha, visits=stream["visits"] + len(X))
    attributes = {
        **tagger._describe(spec, weights, None),
        "solver_": solver,
        "alpha_": alpha,
        "_stream": stream,
    }
    replace_attributes(tagger, attributes)
    return tagger


def _check_parameters(tagger):
    """The solver and the model, or an error if they do not support mini-batches."""
    spec, solver = checked_model(tagger), named_solver(tagger)
    if resolve_loss(tagger.loss).is_smooth:
        raise ValueError(
            f"loss={tagger.loss!r} cannot be trained on mini-batches; partial_fit "
            "minimizes the structured hinge, loss='hinge'"
        )
    # with another loss, weights have another scale and alpha another meaning
    if loss_of(tagger).is_smooth:
        raise ValueError(
            f"partial_fit cannot go on from a fit with loss={tagger._loss!r}: clone "
            "the SegmentCRF first"
        )
    if tagger.alpha == 0:
        raise ValueError("partial_fit needs alpha > 0, got 0")
    if not solver.in_streams:
        raise ValueError(
            f"solver={tagger.solver!r} cannot train on mini-batches: use solver='auto'"
        )
    return solver, spec
