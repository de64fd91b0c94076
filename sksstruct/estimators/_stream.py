"""Training a tagger on mini-batches of a stream, each of which is seen once."""

from collections.abc import Set, Sized

import numpy as np
from scipy import sparse

from sksstruct.estimators._losses import loss_of
from sksstruct.estimators._train import checked_model, named_solver, replace_attributes
from sksstruct.models.chain.chain import view_attributes
from sksstruct.models.chain.data import TrainingData
from sksstruct.models.chain.pair_support import PairSupport
from sksstruct.solvers.core.procedures import completed_once
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequence_weight,
    check_sequences,
    encode_choices,
)

# Attributes kept from one mini-batch to the next, besides the weights.
_KEPT = ("classes_", "n_features_in_", "_names_in")


def train_on_batch(tagger, X, y, classes, sample_weight):
    """Implement `ChainCRF.partial_fit`: visit every sequence of a mini-batch once."""
    solver, spec = _check_parameters(tagger)
    data = _read(tagger, X, y, classes, sample_weight)
    fitted = vars(tagger)
    if "coef_" in fitted and "n_seen_" not in fitted:
        raise ValueError(
            "partial_fit needs the number of sequences that the model was trained on: "
            "pass n_sequences to from_crfsuite"
        )
    seen = fitted.get("n_seen_", 0.0)
    names = data.packed.feature_names
    data = _learned(tagger, spec, data)
    earlier = _join_supports(tagger, spec)
    total, n = data.total, len(data.packed)
    # weights of the mini-batch in the mean over all sequences so far
    share = np.ones(n) if data.weight is None else data.weight * total
    data.weight = share / (seen + total)
    stream, alpha = _start(tagger, spec, seen)
    scaling = spec.intercept_scaling_
    model = spec._bind(data)
    averaged = aligned_zeros(model.n_weights)
    _write_weights(tagger, model.views(averaged), spec, earlier, scaling)
    model = completed_once(
        solver,
        model,
        spec.solver_alpha(alpha),
        averaged if seen else None,
        random_state=tagger.random_state,
        n_jobs=tagger.n_jobs,
    )
    # Frank-Wolfe continues from the last iterate; the attributes hold the average of
    # the iterates. For given dual variables, weights are proportional to 1 / alpha.
    rescale = stream["alpha"] / alpha
    iterate = averaged
    if "iterate" in stream:
        iterate = _in_layout(stream["iterate"], model, earlier)
    iterate = iterate * (rescale * seen / (seen + total))
    averaged *= rescale
    iterate, weights = solver.solve_stream(
        model,
        spec.solver_alpha(alpha),
        iterate,
        averaged,
        stream["visits"],
        random_state=tagger.random_state,
    )
    stream["iterate"], stream["alpha"] = iterate, alpha
    stream["visits"] += n
    blocks = view_attributes(model.views(weights), spec.pairs_, spec.triples_, scaling)
    blocks["intercept_"] -= spec._off_centers(blocks["coef_"])
    attributes = {
        **_inputs(tagger, spec, names),
        **blocks,
        "forbidden_transitions_": spec.forbidden_,
        "solver_": solver,
        "alpha_": alpha,
        "intercept_scaling_": scaling,
        "n_seen_": seen + total,
        "_loss": tagger.loss,
        "_stream": stream,
    }
    replace_attributes(tagger, attributes)
    return tagger


def _learned(tagger, spec, data):
    """Let the model read a mini-batch; return the data in the form for training.

    The model takes centers and forbidden pairs from earlier mini-batches, if any.
    """
    fitted = vars(tagger)
    # dense tables of pairs have the same weights in all mini-batches; sparse tables
    # would grow with new pairs
    spec.tables_only = True
    forbidden = spec.forbidden_transitions
    if isinstance(forbidden, str) and forbidden.lower() == "auto":
        # keep the pairs of the first call: the labels of the stream do not change
        forbidden = fitted.get("forbidden_transitions_", forbidden)
    if "coef_" in fitted:
        spec.kept_centers = (dict(tagger._stream).get("centers"),)
    return spec._learn(data, forbidden)


def _start(tagger, spec, seen):
    """The state of the stream, with the updated mean length of sequences, and alpha.

    The mean square and the centers of the features are those of the first mini-batch.
    """
    # a tagger from a file of CRFsuite has no mean length: use the mean length of this
    # mini-batch
    lengths, squares = spec.mean_length_, spec.mean_square_
    stream = {"visits": seen, "mean_length": lengths, "mean_square": squares}
    stream["intercept_scaling"] = spec.intercept_scaling_
    stream["centers"] = spec.centers_
    stream.update(tagger._stream)
    kept = stream["intercept_scaling"]
    if tagger.intercept_scaling not in ("auto", kept):
        raise ValueError(
            f"intercept_scaling must stay {kept:.6g}, as in the first partial_fit, got "
            f"{tagger.intercept_scaling!r}"
        )
    spec.mean_square_, spec.intercept_scaling = stream["mean_square"], kept
    # number of positions of all sequences so far
    positions = seen * stream["mean_length"] + spec.n_seen_ * spec.mean_length_
    spec.n_seen_ += seen
    stream["mean_length"] = spec.mean_length_ = positions / spec.n_seen_
    alpha = spec.default_alpha if tagger.alpha == "auto" else tagger.alpha
    return {"alpha": alpha, **stream}, alpha


def _check_parameters(tagger):
    """The solver and the model, or an error if they do not support mini-batches."""
    spec = checked_model(tagger)
    solver = named_solver(tagger)
    solver.check_penalty(tagger.l1_ratio)
    if tagger.early_stopping:
        raise ValueError("early_stopping needs all sequences at once; use fit")
    # with another loss, weights have another scale and alpha another meaning
    if loss_of(tagger).is_likelihood and not spec.is_likelihood:
        raise ValueError(
            "partial_fit cannot continue from a fit with loss='log': clone the "
            "ChainCRF first"
        )
    if tagger.score_function is not None:
        raise ValueError(
            "score_function cannot be trained on mini-batches: use fit, or set "
            "score_function=None"
        )
    if "score_function_" in vars(tagger):
        raise ValueError(
            "partial_fit cannot continue from a fit with score_function: clone the "
            "ChainCRF first"
        )
    if spec.surrogate_ is not None:
        raise ValueError(
            f"loss={tagger.loss!r} cannot be trained on mini-batches; partial_fit "
            "minimizes the structured hinge, loss='hinge'"
        )
    if tagger.alpha == 0:
        raise ValueError("partial_fit needs alpha > 0, got 0")
    if not solver.in_streams:
        raise ValueError(
            f"solver={tagger.solver!r} cannot train on mini-batches: use solver='auto'"
        )
    if tagger.class_weight == "balanced":
        raise ValueError(
            "class_weight='balanced' needs all labels at once; pass a dict"
        )
    return solver, spec


def _read(tagger, X, y, classes, sample_weight):
    """The checked mini-batch, with labels numbered as in the whole stream."""
    is_first = "classes_" not in vars(tagger)
    packed = check_sequences(X, n_features=None if is_first else tagger.n_features_in_)
    # `labels` index the distinct labels of the mini-batch
    distinct, labels, known, choices = encode_choices(y, packed.lengths)
    weight = check_sequence_weight(sample_weight, len(packed))
    # `numbers` map these indices to the classes of the stream
    encoder = _encoder(tagger, classes)
    numbers = encoder.encode(distinct.tolist(), default=-1)
    if (numbers < 0).any():
        raise _unknown_label(y, distinct.tolist()[np.argmin(numbers)])
    if not is_first:
        tagger._check_feature_names(packed)
    data = TrainingData.of_labels(packed, labels, known, weight, distinct, choices)
    return data.with_classes(numbers, encoder.classes_)


def _unknown_label(y, label):
    """The error for a label that is not among the classes of the stream."""

    def is_in(entry):
        return label in entry if isinstance(entry, Set) else entry == label

    i = next(i for i, row in enumerate(y) if any(map(is_in, row)))
    text = (
        f"y[{i}] has the label {label!r:.80}, which is not in classes: the first "
        "partial_fit must name all labels"
    )
    return ValueError(text)


def _encoder(tagger, classes):
    """Encoder of the labels of the stream, which the first `partial_fit` names."""
    if "classes_" in vars(tagger):
        if classes is not None and set(classes) != set(tagger.classes_.tolist()):
            raise ValueError(
                "classes must be those of the first partial_fit, classes_, or None"
            )
        return LabelEncoder(tagger.classes_)
    if classes is None:
        raise ValueError(
            "classes must be given on the first partial_fit: a list of all labels"
        )
    if not isinstance(classes, Sized):
        raise TypeError(f"classes must be a list of labels, got {classes!r:.80}")
    encoder = LabelEncoder.from_labels(
        check_labels([list(classes)], [len(classes)], name="classes")
    )
    if len(encoder.classes_) < 2:
        raise ValueError(
            f"classes must name at least 2 labels, got {list(classes)!r:.80}"
        )
    return encoder


def _join_supports(tagger, spec):
    """Add earlier supports of pairs and triples to the model; return them by name.

    A stream may show a new combination of feature and pair, or triple, at any time.
    """
    fitted, earlier = vars(tagger), {}
    for name, attribute in (("transition_coef", "pairs_"), ("triples", "triples_")):
        if f"{name}_" in fitted:
            earlier[name] = PairSupport.stored(fitted[f"{name}_"])
            now = getattr(spec, attribute)
            joined = earlier[name] if now is None else now.union(earlier[name])
            setattr(spec, attribute, joined)
    return earlier


def _write_weights(tagger, views, spec, earlier, scaling):
    """Copy the weights of a fitted tagger into named blocks of flat weights.

    Weights of features are converted for features that are centered and divided by
    `scaling`, as the solver uses them.
    """
    if "coef_" not in vars(tagger):
        return
    for name, support in (("transition_coef", spec.pairs_), ("triples", spec.triples_)):
        block = views.pop(name, None)
        if name in earlier:
            places = earlier[name].places_in(support)
            block[places] = vars(tagger)[f"{name}_"].data
            if name == "transition_coef":
                block *= scaling
    for name, block in views.items():
        value = vars(tagger)[f"{name}_"]
        block[...] = value.toarray() if sparse.issparse(value) else value
        if name == "coef":
            block *= scaling
        if name == "intercept":
            block += spec._off_centers(tagger.coef_)


def _in_layout(iterate, model, earlier):
    """The iterate of earlier mini-batches in the layout of the current model."""
    out, first = aligned_zeros(model.n_weights), model.first_pair
    out[:first] = iterate[:first]
    rest, views = iterate[first:], model.views(out)
    supports = {
        "transition_coef": model.pair_support,
        "triples": model.triple_support,
    }
    for name, support in earlier.items():
        views[name][support.places_in(supports[name])] = rest[: support.n_weights]
        rest = rest[support.n_weights :]
    return out


def _inputs(tagger, spec, names):
    """Attributes of labels and features, which the first mini-batch sets."""
    if "classes_" in vars(tagger):
        fitted = vars(tagger)
        return {name: fitted[name] for name in _KEPT if name in fitted}
    attributes = {"classes_": spec.classes_, "n_features_in_": spec.n_features_}
    if names is not None:
        attributes["_names_in"] = names
    return attributes
