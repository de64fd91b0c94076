"""Chains some of whose labels were not observed, for losses that need all labels.

Rounds of training alternate with decoding, which completes the labels (Yu and
Joachims, 2009); the first weights come from the runs of observed labels.
"""

from dataclasses import replace

import numpy as np

from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain.constraints import SparseMask
from sksstruct.models.chain.data import rows_of
from sksstruct.models.protocols.decoding import best_labelings
from sksstruct.models.protocols.trainable import Trainable
from sksstruct.models.roles import factor_model
from sksstruct.utils.packed import PackedSequences


class IncompleteChain(Trainable):
    """A chain whose labels are completed between rounds: the oracle "completion".

    Parameters
    ----------
    data : TrainingData
        Sequences with known and unknown labels.
    bind : callable
        ``bind(data, labels=None, mask=..., boundary=True)`` returns a chain bound
        to data, with the given labels and mask; with ``boundary=False``, without start
        and end weights.
    mask : ndarray, SparseMask or None
        Forbidden transitions as scores.
    pairs, triples : PairSupport or None
        Weights of features on pairs of labels, and of triples of labels.

    Attributes
    ----------
    runs : BoundChain
        The runs of observed labels as separate sequences; all positions if no label
        was observed.
    latest : BoundChain
        The chain of the last round; before the first round, `runs`.
    by_factors : bool
        Whether rounds are trained by factors, which keep the pairs of earlier rounds.
    """

    def __init__(self, data, bind, mask, pairs, triples):
        self.data, self.mask, self.pairs = data, mask, pairs
        self.triples = triples
        self._bind = bind
        # runs may start and end with any label, as they begin and end within sequences
        if isinstance(mask, SparseMask):
            mask = mask.without_ends()
        elif mask is not None:
            mask = mask.copy()
            mask[:2] = 0.0
        observed = known_runs(data) if data.known.any() else data
        self.runs = bind(observed, mask=mask, boundary=False)
        # chains of different completions differ in labels only
        self.surrogate = self.runs.surrogate
        # attributes that decide which solver "auto" stands for
        self.n_examples, self.n_weights = len(data.packed), self.runs.n_weights
        for name in ("entropy_dual_size", "entropy_dual_bytes", "visit_work", "ld",
                     "starts", "on_disk"):  # fmt: skip
            setattr(self, name, getattr(self.runs, name))
        self.quick_ascent = self.runs.quick_ascent
        self.oracles = ("completion", *self.runs.oracles)
        self.oracle_note = self.runs.oracle_note
        self.latest, self.by_factors = self.runs, False

    @property
    def completion(self):
        """The object that completes labels between rounds: the chain itself."""
        return self

    @property
    def first(self):
        """The chain of the first round."""
        if not self.data.known.any():
            raise ValueError(
                "y has no position with a single label: the hinge losses need some to "
                "begin with; loss='log' does without"
            )
        return self.runs

    @property
    def mask_ends(self):
        """Scores of first and last labels, 0 or -inf, or None."""
        if self.mask is None:
            return None
        return self.mask.ends if isinstance(self.mask, SparseMask) else self.mask[:2]

    @property
    def views_need_data(self):
        """Whether `views` depends on data, beyond the layout of all chains."""
        return self.runs.views_need_data

    def views(self, w):
        """Return named views of the flat weights of any round."""
        return self.runs.views(w)

    def complete(self, weights, n_jobs=None, layout=None):
        """Return all labels; decoding at the given weights completes unknown labels.

        Weights have the layout of the chain, or of its factors if `layout` is given.
        """
        data, n_classes = self.data, len(self.data.classes)
        forbidden = np.zeros((len(data.labels), n_classes), dtype=np.uint8)
        forbidden[data.known] = 1
        forbidden[data.known, data.labels[data.known]] = 0
        if data.choices is not None:
            listed = data.choices.tocoo()
            forbidden[np.unique(listed.row)] = 1
            forbidden[listed.row, listed.col] = 0
        if isinstance(layout, RoundFactors):
            chain = layout.prediction(data.packed, weights, forbidden)
        elif isinstance(self.mask, SparseMask):
            chain = self.runs.prediction(
                data.packed, weights, self.mask.ends, forbidden
            )
        else:
            chain = BoundChain(
                data.packed,
                n_classes,
                pairs=self.pairs,
                triples=self.triples,
                mask=self.mask,
                forbidden_labels=forbidden,
                feature_scale=self.runs.feature_scale,
            )
        offsets = data.packed.offsets
        labels, scores = best_labelings(chain, weights, offsets, n_jobs)
        if not (scores > -np.inf).all():
            i = data.numbers[np.flatnonzero(scores == -np.inf)[0]]
            raise ValueError(
                f"y[{i}]: no labeling agrees with its known labels and "
                "forbidden_transitions"
            )
        return labels

    def with_labels(self, labels):
        """Return the chain bound to completed labels."""
        before, self.latest = self.latest, self._bind(self.data, labels=labels)
        if self.by_factors:
            self.latest.stored_pairs = factor_model(before).entries()[:2]
        return self.latest


class RoundFactors:
    """The layout of weights of factors, in which each round keeps all earlier pairs.

    Parameters
    ----------
    chain : IncompleteChain
        The chain that is trained in rounds.
    """

    def __init__(self, chain):
        self._chain = chain

    def views(self, w):
        """Return named views of the flat weights of any round."""
        return factor_model(self._chain.latest).views(w)

    def prediction(self, X, w, forbidden_labels):
        """Return a `SparseChain` with the flat weights w."""
        # factors of the first round are bound to runs, whose ends have no constraints
        ends = self._chain.mask_ends
        factors = factor_model(self._chain.latest)
        return factors.prediction(X, w, forbidden_labels, ends)


@factor_model.register
def _(model: IncompleteChain):
    model.by_factors = True
    return RoundFactors(model)


def known_runs(data):
    """Return runs of observed labels as separate sequences, with their weights."""
    offsets, known = data.packed.offsets, data.known
    starts = known.copy()
    starts[1:] &= ~known[:-1]
    starts[offsets[:-1]] = known[offsets[:-1]]
    first = np.flatnonzero(starts)
    rows = np.flatnonzero(known)
    lengths = np.diff(np.append(np.searchsorted(rows, first), len(rows)))
    owner = np.searchsorted(offsets, first, "right") - 1
    weight = None
    if data.weight is not None:
        weight = data.weight[owner] / data.weight[owner].sum()
    return replace(
        data,
        packed=PackedSequences.from_lengths(rows_of(data.packed, rows), lengths),
        labels=data.labels[rows],
        known=None,
        choices=None,
        weight=weight,
        numbers=data.numbers[owner],
    )
