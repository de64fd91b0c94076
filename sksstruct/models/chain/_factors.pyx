"""Chains with many labels as factors, for training by dual decomposition.

The score is that of `_chain.pyx`. In the terms of Yen et al. (2016), Section 3.2,
positions are unigram factors with inner-product scores, which share the features, a
bias and the weights of first and last labels; neighbors are bigram factors with
indicator scores, the entries of an `IndicatorTable`. Variable v is position v of all
sequences, numbered consecutively.

Flat weights are n_features emission rows of ld, then rows of bias, start and end, then
the scores of the table's entries in the order in which entries were added: the vector
grows with the table.
"""

import numpy as np
from scipy import sparse

from libc.stdint cimport int32_t

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport Messages, Outcome
from sksstruct.models.tables._row_factors cimport (
    FIRST_MARK, SECOND_MARK, RowFactors,
)

from sksstruct.models.chain._sparse import SparseChain
from sksstruct.utils.parallel import run_in_chunks


cdef class ChainFactors(RowFactors):
    """Positions and pairs of neighbors of labeled sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    n_labels : int
        Number of labels K.
    labels : ndarray of shape (n_positions,), int32
        Observed labels.
    example_weights : ndarray of shape (n_sequences,) or None
        The p_i.
    label_costs : ndarray of shape (n_labels,) or None
        Loss of missing each label, before the division by the length.
    loss_length : float or None
        Divisor of the losses; see `position_costs`.
    known : ndarray of shape (n_positions,), bool, or None
        Positions with an observed label; unknown positions have no loss.
    forbidden : tuple of ndarray, default=None
        First and second labels of pairs that must not follow each other.
    ends : ndarray of shape (2, ld) or None
        Scores of 0 or -inf of first and last labels.
    stored : tuple of ndarray, default=None
        First and second labels of pairs that have an entry in the table from the
        start.
    fit_intercept, boundary : bool
        Whether there is a bias, and whether there are start and end weights.
    feature_scale : float
        Factor of all features.
    """

    def __init__(self, X, Py_ssize_t n_labels, labels, example_weights=None,
                 label_costs=None, known=None, *, forbidden=None, ends=None,
                 stored=None, loss_length=None, bint fit_intercept=True,
                 bint boundary=True, double feature_scale=1.0):
        n, lengths = len(X), X.lengths
        starts, stops = np.asarray(X.offsets)[:n], np.asarray(X.offsets)[1:]
        n_positions = int(stops[n - 1])
        if example_weights is None:
            example_weights = np.full(n, 1.0 / n)
        # every position but the last of its sequence is the left end of a pair
        left = np.delete(np.arange(n_positions), stops - 1)
        self.set_factors(
            X.offsets, np.concatenate([[0], np.cumsum(lengths - 1)]),
            np.column_stack([left, left + 1]), labels,
            position_costs(
                labels, lengths, starts, n_labels, label_costs, known, loss_length),
            example_weights, n_labels)
        self.boundary = boundary
        place = np.zeros(n_positions, dtype=np.uint8)
        # a sequence of one position has both marks
        place[starts] += FIRST_MARK
        place[stops - 1] += SECOND_MARK
        # marks select the boundary weights: without these, no position has a mark
        self.set_rows(X, fit_intercept, place if boundary else np.zeros_like(place),
                      feature_scale)
        self.feature_scale = feature_scale
        self._forbidden = no_pairs() if forbidden is None else forbidden
        self._stored = no_pairs() if stored is None else stored
        self.n_forbidden = len(self._forbidden[0])
        self._ends = ends
        if ends is not None:
            self.forbid_labels(ends, place)
        self.constrained = ends is not None or self.n_forbidden > 0
        self.start()

    def start(self):
        # a new table instead of zeros in the old one, as searches skip entries that are
        # not stored; entries of an earlier run come first, so that `views` can still
        # read the flat weights of that run
        if self.table is not None:
            self._stored = self.entries()[:2]
        self.table = IndicatorTable(self.n_labels, self.n_labels)
        self.table.add(*self._forbidden, np.full(self.n_forbidden, -np.inf))
        self.table.add(*self._stored, np.zeros(len(self._stored[0])))
        self.start_rows()

    # ---- weights ----

    def weights(self):
        return np.concatenate([np.ascontiguousarray(self._weights).ravel(),
                               self.entries()[2]])

    def entries(self):
        """Return first labels, second labels and scores of pairs that have weights."""
        return tuple(part[self.n_forbidden:] for part in self.table.entries())

    def views(self, weights):
        """Return named parts of flat weights, in the shapes of fitted attributes."""
        n_dense = (self.n_features + 3) * self.ld
        dense = weights[:n_dense].reshape(-1, self.ld)[:, :self.n_labels]
        rows, columns, _ = self.entries()
        # weights of an earlier iteration have fewer entries than the table has now
        n_stored = len(weights) - n_dense
        transitions = sparse.csr_array(sparse.coo_array(
            (weights[n_dense:], (rows[:n_stored], columns[:n_stored])),
            (self.n_labels, self.n_labels)))
        # removes entries that an oracle found, but that never got a weight
        transitions.eliminate_zeros()
        return {
            "coef": dense[:self.n_features].T,
            "intercept": dense[self.n_features],
            "start": dense[self.n_features + 1],
            "end": dense[self.n_features + 2],
            "transitions": transitions,
        }

    def square_with(self, pairs, left, right, amounts):
        # changes of one entry are summed before they are squared
        rows, columns, values = self.entries()
        table = sparse.csr_array(sparse.coo_array(
            (np.concatenate([values, amounts]),
             (np.concatenate([rows, left]), np.concatenate([columns, right]))),
            (self.n_labels, self.n_labels)))
        return float((self._weights ** 2).sum()) + float(table.data @ table.data)

    def maxima(self, weights, n_jobs=None, multipliers=None):
        chain = self.prediction(self._packed, weights, ends=self._ends)
        # `decode` writes labels, which are not needed here
        labels = np.empty(self.n_variables, dtype=np.int32)
        values = np.empty(self.n_examples)
        run_in_chunks(
            lambda start, stop: chain.decode(
                start, stop, labels, values, self._y_true, self._cost),
            self.n_examples, n_jobs)
        return float(self.example_weights @ values)

    def prediction(self, X, weights, forbidden_labels=None, ends=None):
        """Return a `SparseChain` with flat weights, to decode the sequences X.

        See `SparseChain` for the last two arguments.
        """
        n_dense = (self.n_features + 3) * self.ld
        transitions = self.views(weights)["transitions"]
        if self.n_forbidden:
            transitions = transitions + sparse.csr_array(
                (np.full(self.n_forbidden, -np.inf), self._forbidden),
                transitions.shape)
        rows = weights[:n_dense].reshape(-1, self.ld)
        return SparseChain.of_flat(
            X, rows, transitions, ends, forbidden_labels, self.feature_scale)

    # ---- bigram factors ----

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef const Messages* left = messages
        cdef const Messages* right = messages + 1
        cdef int found
        # `table.visited` counts the scores that one search reads
        self.table.visited = 0
        if linear:
            found = self.table.scan(
                left.size, left.labels, left.values, right.size, right.labels,
                right.values, floor, &outcome.labels[0], &outcome.labels[1],
                &outcome.value)
        else:
            found = self.table.best(
                left.size, left.labels, left.values, right.size, right.labels,
                right.values, floor, &outcome.labels[0], &outcome.labels[1],
                &outcome.value)
        self.visited += self.table.visited
        return found

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        # all pairs share one table
        return self.table.insert(first_label, second_label)

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self.table._value[entries[k]]
            # squared norm of an indicator
            norms[k] = 1.0
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            # skip changes of zero, as `change` would move the entry in three heaps
            if changes[k] != 0.0:
                self.table.change(entries[k], changes[k])
        return 0

    cdef bint allows(self, Py_ssize_t pair, Py_ssize_t first_label,
                     Py_ssize_t second_label) noexcept nogil:
        if (self._forbids(self._pairs[pair, 0], first_label)
                or self._forbids(self._pairs[pair, 1], second_label)):
            return False
        return not 0 <= self.table.find(first_label, second_label) < self.n_forbidden


def no_pairs():
    """Return empty arrays of first and second labels of pairs."""
    return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)


def chain_factors(model):
    """Return the positions and pairs of neighbors of a `BoundChain` as factors."""
    if "factors" not in model.oracles:
        raise ValueError(model.oracle_note)
    pairs, ends = model.forbidden()
    return ChainFactors(
        model.packed, model.n_labels, model.labels, model.example_weights,
        model.label_costs, model.known, forbidden=pairs, ends=ends,
        stored=model.stored_pairs, loss_length=model.loss_length,
        fit_intercept=model.fit_intercept, boundary=model.boundary,
        feature_scale=model.feature_scale)


def position_costs(labels, lengths, starts, n_labels, label_costs, known, loss_length,
                   zeros=np.zeros):
    """Return the loss of a wrong label at each position.

    The loss is divided by `loss_length`, a number for all sequences; None: by the
    number of observed labels of the sequence. Positions without an observed label have
    no loss. `zeros` allocates the costs if they are the same at all positions, as
    usual.
    """
    costs = np.ones(n_labels) if label_costs is None else label_costs
    if not np.any(costs):
        # memory for zeros is allocated only when it is written to
        return np.zeros(len(labels))
    if label_costs is None and known is None and loss_length is not None:
        cost = zeros(len(labels))
        cost[:] = 1.0 / loss_length
        return cost
    cost = np.asarray(costs, dtype=np.float64)[labels]
    if known is not None:
        cost = np.where(known, cost, 0.0)
    if loss_length is not None:
        return cost / loss_length
    counts = lengths
    if known is not None:
        # without observed labels all costs are zero; 1 avoids a division by zero
        counts = np.maximum(np.add.reduceat(known, starts, dtype=int), 1)
    return cost / np.repeat(counts, lengths)
