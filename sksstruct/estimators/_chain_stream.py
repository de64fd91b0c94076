"""Training a chain on mini-batches of a stream."""

import numpy as np
from scipy import sparse

from sksstruct.estimators._chain_attributes import weight_attributes
from sksstruct.estimators._chain_training import (
    TrainingData,
    label_costs,
    without_zeros,
)
from sksstruct.models.chain._chain import BoundChain
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequence_weight,
    check_sequences,
)


def _dense(table):
    return table.toarray() if sparse.issparse(table) else table


class ChainStream:
    """The part of `ChainCRF` that sees every sequence once."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train on a mini-batch of a stream of sequences.

        Every sequence is visited once by the solver's block step on the objective of
        all sequences seen so far; the dual variables of earlier ones are not changed
        any more, and are not stored. Where the solver averages, the fitted attributes
        hold the average of the iterates. May follow `fit`.

        Parameters
        ----------
        X : list of {array-like, CSR matrix} of shape (n_positions, n_features)
            Features.
        y : list of array-like of shape (n_positions,)
            Labels.
        classes : array-like of shape (n_classes,), default=None
            All labels of the stream. Required on the first call.
        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence.

        Returns
        -------
        self : ChainCRF
            The tagger.
        """
        solver, _ = self._check_parameters()
        if hasattr(self, "score_function_"):
            raise ValueError("partial_fit cannot go on from a fit with score_function")
        if not hasattr(solver, "solve_stream"):
            raise ValueError(f"solver {solver!r} cannot train on mini-batches")
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs all labels at once; pass a dict"
            )
        fresh = not hasattr(self, "classes_")
        packed = check_sequences(X, n_features=None if fresh else self.n_features_in_)
        flat = check_labels(y, packed.lengths)
        weight = check_sequence_weight(sample_weight, len(packed))
        if fresh:
            if classes is None:
                raise ValueError("classes must be given on the first partial_fit")
            if not hasattr(classes, "__len__"):
                raise TypeError(f"classes must be a list of labels, got {classes!r}")
            encoder = LabelEncoder.from_labels(
                check_labels([list(classes)], [len(classes)], name="classes")
            )
            if len(encoder.classes_) < 2:
                raise ValueError("classes must name at least 2 labels")
        else:
            encoder = LabelEncoder(self.classes_)
            if classes is not None and set(classes) != set(self.classes_.tolist()):
                raise ValueError("classes differ from those of the first call")
        labels = encoder.encode(flat, default=-1)
        if (labels < 0).any():
            k = int(np.flatnonzero(labels < 0)[0])
            i = int(np.searchsorted(packed.offsets, k, "right")) - 1
            raise ValueError(f"y[{i}] has the label {flat[k]!r}, which classes lacks")
        costs = label_costs(self.class_weight, encoder.classes_)
        names, total = packed.feature_names, float(len(packed))
        if not fresh:
            self._check_feature_names(packed)
        numbers = np.arange(len(packed))
        data = TrainingData(
            packed, labels, None, weight, encoder.classes_, names, total, numbers
        )
        forbidden, mask = self._forbidden(data)
        data = without_zeros(data)
        packed, labels, total = data.packed, data.labels, data.total
        share = np.ones(len(packed)) if weight is None else data.weight * total
        seen = 0.0 if fresh else self.n_seen_
        model = BoundChain(
            packed.compact(),
            len(encoder.classes_),
            labels,
            share / (seen + total),
            costs,
            fit_intercept=self.fit_intercept,
            boundary=self.boundary,
            mask=mask,
        )
        averaged = aligned_zeros(model.n_weights)
        if not fresh:
            blocks = model.blocks(averaged)
            for name, value in self._blocks().items():
                blocks[name][...] = value
        # The iterate goes on from where it was, the attributes hold the average.
        stream = {"iterate": averaged, "visits": seen, "alpha": self.alpha}
        stream.update(getattr(self, "_stream", {}))
        # The mean over more sequences gives each of the earlier ones less weight, and
        # the weights of given dual variables go by 1 / alpha.
        rescale = stream["alpha"] / self.alpha
        iterate = stream["iterate"] * (rescale * seen / (seen + total))
        averaged *= rescale
        iterate, weights = solver.solve_stream(
            model,
            self.alpha,
            iterate,
            averaged,
            stream["visits"],
            random_state=self.random_state,
        )
        self._stream = {
            "iterate": iterate,
            "visits": stream["visits"] + len(packed),
            "alpha": self.alpha,
        }
        if fresh:
            self._set_feature_names(names)
            self.classes_ = encoder.classes_
            self.n_features_in_ = packed.n_features
        blocks = weight_attributes(weights, len(encoder.classes_), packed.n_features)
        for name, value in blocks.items():
            setattr(self, name, value)
        self.n_seen_ = seen + total
        self.solver_ = solver
        self.forbidden_transitions_ = forbidden
        self._loss = self.loss
        # The certificate of an earlier fit is not one of these weights.
        self._forget_certificate()
        return self

    def _blocks(self):
        return {
            "coef": self.coef_,
            "intercept": self.intercept_,
            "start": self.start_,
            "end": self.end_,
            "transitions": _dense(self.transitions_),
        }
