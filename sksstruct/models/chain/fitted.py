"""Chains with given weights: labelings, scores and probabilities of sequences."""

import numpy as np

from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._given import GivenChain, SingleChain, entries_before
from sksstruct.models.chain._posterior import (
    write_likely_labels,
    write_log_proba,
    write_marginals,
    write_spans,
)
from sksstruct.models.chain._sparse import SparseChain
from sksstruct.models.chain.constraints import (
    forbidden_labels,
    sparse_mask,
    transition_mask,
)
from sksstruct.models.chain.pair_support import PairSupport
from sksstruct.utils._layout import address, aligned_zeros, padded_length
from sksstruct.utils.parallel import LITTLE, run_in_chunks
from sksstruct.utils.sparse_input import check_sparse, is_sparse


class FittedChain:
    """Weights of a chain, bound to sequences to decode.

    Parameters
    ----------
    packed : PackedSequences
        Features.
    classes : ndarray of shape (n_classes,)
        The labels.
    coef, intercept, start, end, transitions : ndarray or CSR array
        The weights, as in `sksstruct.ChainCRF`.
    forbidden : list of tuple
        Pairs of labels that must not follow each other.
    known, excluded : list or None
        Constraints on the labels, as in `sksstruct.ChainCRF.predict`.
    n_jobs : int or None
        Number of threads.
    dense : bool
        Whether all weights are needed as tables in double precision, which methods
        other than `decode` read.
    transition_coef, triples : CSR array or None
        Weights of features on pairs of labels, and of triples of labels, as in
        `sksstruct.ChainCRF`.

    Attributes
    ----------
    temperature : float
        Divisor of the scores before their exponentials become probabilities.
    """

    temperature = 1.0

    def __init__(
        self,
        packed,
        classes,
        coef,
        intercept,
        start,
        end,
        transitions,
        forbidden,
        known=None,
        excluded=None,
        n_jobs=None,
        dense=False,
        transition_coef=None,
        triples=None,
    ):
        n_classes = len(classes)
        shape = n_classes, packed.n_features
        for name, value, expected in (
            ("coef_", coef, shape),
            ("intercept_", intercept, shape[:1]),
            ("start_", start, shape[:1]),
            ("end_", end, shape[:1]),
            ("transitions_", transitions, (n_classes, n_classes)),
        ):
            if type(value) is not np.ndarray or value.shape != expected:
                _check_weights(name, value, expected)
        self.packed, self.classes, self.n_jobs = packed, classes, n_jobs
        # kernels expect sequences that are not empty
        bound, self._numbers = packed.without_empty()
        self._ld = padded_length(n_classes)
        index = {}
        if forbidden or known is not None or excluded is not None:
            index = {label: k for k, label in enumerate(classes.tolist())}
        entries = forbidden_labels(known, excluded, index, packed.offsets)
        self._tail = self._pair_weights = None
        if len(bound):
            weights = coef, (intercept, start, end), transitions
            weights += transition_coef, triples
            self.model = self._bind(bound, weights, forbidden, index, entries, dense)

    def _bind(self, bound, weights, forbidden, index, entries, dense):
        """Return the fastest kind of chain that has the requested methods."""
        coef, vectors, transitions, *pair_parts = weights
        n_classes, ld = len(self.classes), self._ld
        # a support without weights is None: the chain then has one table of transitions
        pairs, triples = (
            PairSupport.stored(part) if part is not None and part.nnz else None
            for part in pair_parts
        )
        given = [part.data for part in pair_parts if part is not None]
        plain = pairs is None and triples is None
        if not plain:
            self._pair_weights = np.concatenate(given, dtype=np.float64)
            dense = True
        # `BoundChain` computes in double precision
        if dense:
            coef = coef.astype(np.float64, copy=False)
        rows = padded_rows(coef, ld)
        vectors = [np.asarray(vector, dtype=np.float64) for vector in vectors]
        if is_sparse(transitions) and not dense:
            rows = rows.astype(np.float64, copy=False)
            ends, table = sparse_mask(forbidden, index, ld, transitions)
            return SparseChain(bound, rows, *vectors, None, ends, entries, pairs=table)
        if is_sparse(transitions):
            transitions = transitions.toarray()
        mask = transition_mask(forbidden, index, ld)
        transitions = np.asarray(transitions, dtype=np.float64)
        if not dense:
            chain = SingleChain if rows.dtype == np.float32 else GivenChain
            return chain(bound, rows, *vectors, transitions, mask, entries)
        self._emission = rows
        self._tail = aligned_zeros((3 + n_classes) * ld).reshape(-1, ld)
        self._tail[:, :n_classes] = np.vstack([*vectors, transitions])
        return BoundChain(
            bound,
            n_classes,
            pairs=pairs,
            triples=triples,
            mask=mask,
            forbidden_labels=entries,
        )

    def _workspace(self):
        if self._tail is None:  # chains that only decode have no workspace
            return None
        return self.model.workspace_of_rows(
            self._emission, self._tail, self._pair_weights
        )

    def decode(self):
        """Return the best labels of all positions as numbers, and labelings' scores."""
        codes = np.empty(self.packed.offsets[-1], dtype=np.int32)
        scores = np.empty(len(self._numbers))
        # work: number of operations of products with the weights, and of Viterbi
        stored = self.packed.stored
        size = stored.data.size if self.packed.is_sparse else stored.size
        work = (size + codes.size * len(self.classes)) * self._ld
        self._run(
            lambda a, b: self.model.predict(self._workspace(), a, b, codes, scores),
            work,
        )
        self._check_feasible(scores)
        return codes, self._of_all(scores, 0.0)

    def likely(self):
        """Return the allowed labels with the highest expected number of correct ones,
        flat.
        """
        codes = np.empty(self.packed.offsets[-1], dtype=np.int32)
        self._run_posterior(write_likely_labels, out=codes)
        return codes

    def topk(self, k):
        """Return the k best labelings of each sequence, and their scores, as lists."""
        packed, n = self.packed, len(self._numbers)
        k = min(k, len(self.classes) ** min(int(packed.lengths.max()), 64))
        codes = np.empty(packed.offsets[-1] * k, dtype=np.int32)
        scores, counts = np.empty((n, k)), np.empty(n, dtype=np.intp)
        self._run(
            lambda a, b: self.model.predict_topk(
                self._workspace(), a, b, k, codes, scores, counts
            )
        )
        self._check_feasible(np.where(counts > 0, scores[:, 0], -np.inf))
        # an empty sequence has one labeling, of score 0
        scores, counts = self._of_all(scores, 0.0), self._of_all(counts, 1)
        first, lengths = packed.offsets[:-1] * k, packed.lengths
        labelings = [
            self.classes[codes[a : a + n * size].reshape(n, size)]
            for a, n, size in zip(
                first.tolist(), counts.tolist(), lengths.tolist(), strict=True
            )
        ]
        return labelings, [row[:n] for row, n in zip(scores, counts, strict=True)]

    def marginals(self):
        """Return the probability of each label at each position, stacked."""
        return self._sums(None)

    def entropies(self):
        """Return the entropy of the labelings of each sequence."""
        self._check_order("entropy")
        entropies = np.empty(len(self._numbers))
        self._sums(entropies)
        return self._of_all(entropies, 0.0)

    def _sums(self, entropies):
        nodes = np.empty((self.packed.offsets[-1], self._ld))
        self._run_posterior(write_marginals, nodes, out=entropies)
        return nodes[:, : len(self.classes)]

    def log_proba(self, forbidden):
        """Return for each sequence the log-probability of having no forbidden label.

        `forbidden` is an array of shape (n_positions, n_classes), uint8.
        """
        found = np.empty(len(self._numbers))
        self._run_posterior(write_log_proba, forbidden, out=found)
        # rounding errors may make a log-probability positive
        return np.minimum(self._of_all(found, 0.0), 0.0)

    def span_probabilities(self, kinds, begins, starts, stops, kinds_of_spans):
        """Return the probabilities of spans.

        Parameters
        ----------
        kinds : ndarray of shape (n_classes,), intp
            Kind of each label, -1 for labels outside of spans.
        begins : ndarray of shape (n_classes, n_classes), bool
            Whether a span begins where the second label follows the first.
        starts, stops, kinds_of_spans : ndarray of shape (n_spans,)
            Flat positions, ascending, and kinds.
        """
        self._check_order("predict_entities")
        # the kernel counts the positions of each sequence from zero
        offsets = self.packed.offsets[self._numbers]
        first = np.searchsorted(starts, offsets).astype(np.intp)
        base = offsets[np.searchsorted(offsets, starts, "right") - 1]
        spans = [starts - base, stops - base, kinds_of_spans]
        found = np.empty(len(starts))
        self._run_posterior(
            write_spans,
            kinds,
            begins.astype(np.uint8),
            np.append(first, len(starts)),
            np.column_stack(spans).astype(np.intp),
            out=found,
        )
        return np.minimum(found, 1.0)

    def _check_order(self, method):
        """Raise an error for order=2, as the labels are then no first-order Markov
        chain.
        """
        if len(self._numbers) and self.model.n_triples:
            raise ValueError(
                f"{method} is for order=1: with order=2 use log_proba, predict_proba "
                "or predict_topk"
            )

    def _run_posterior(self, write, *arrays, out):
        """Run a function of `_posterior.pyx`, and check that each sequence has a
        labeling."""
        log_partition = np.empty(len(self._numbers))
        self._run(
            lambda a, b: write(
                self.model,
                self._workspace(),
                self.temperature,
                a,
                b,
                *arrays,
                log_partition,
                out,
            )
        )
        self._check_feasible(log_partition)

    def split(self, flat):
        """Return a flat array cut into sequences."""
        bounds = self.packed.offsets.tolist()
        return [flat[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)]

    def _run(self, function, work=LITTLE):
        """Call ``function(start, stop)`` on ranges of the sequences with positions."""
        if len(self._numbers):
            run_in_chunks(function, len(self._numbers), self.n_jobs, work)

    def _of_all(self, values, default):
        """Return values of all sequences, with a default for empty sequences."""
        if len(values) == len(self.packed):
            return values
        shape = len(self.packed), *values.shape[1:]
        full = np.full(shape, default, dtype=values.dtype)
        full[self._numbers] = values
        return full

    def _check_feasible(self, scores):
        if np.count_nonzero(np.isfinite(scores)) < len(scores):
            i = np.flatnonzero(~np.isfinite(scores))[0]
            what = "the constraints leave no labeling"
            if scores[i] != -np.inf or not self.model.is_constrained:
                what = "its scores are too large for floating-point arithmetic"
            raise ValueError(f"X[{self._numbers[i]}]: {what}")


def _check_weights(name, value, shape):
    """Check weights, which users may set: their shape and, if sparse, their entries."""
    if np.shape(value) != shape:
        raise ValueError(
            f"{name} has shape {np.shape(value)}, but the classes and the features of "
            f"X need {shape}"
        )
    if is_sparse(value):
        check_sparse(value, name)


def padded_rows(coef, ld):
    """Return coef as rows of length ld, one per feature, in its precision.

    If coef is a view of such rows, returns these rows without a copy.
    """
    n_classes, n_features = coef.shape
    base, code = coef.base, "f" if coef.dtype.char == "f" else "d"
    width = 4 if code == "f" else 8
    if (
        coef.strides == (width, width * ld)
        and isinstance(base, np.ndarray)
        and base.dtype.char == coef.dtype.char == code
        and base.strides == (width,)
    ):
        if code == "d" and coef.size:
            # `entries_before` takes a tenth of the time of `address`, which is as slow
            # as decoding a sequence of one token
            first = entries_before(base, coef)
        else:
            first = (address(coef) - address(base)) // width
        if first + n_features * ld <= base.size:
            return base[first : first + n_features * ld].reshape(n_features, ld)
    out = aligned_zeros(n_features * ld, code).reshape(n_features, ld)
    out[:, :n_classes] = coef.T
    return out
