"""Kernels for the factors of graphs, which `factors.py` documents and sets up.

Outcome (a, b) is entry a ld + b of `EdgeRowKernel`, and entry a K + b of
`PottsKernel`; ordered tables number entries as they are inserted.
"""

from cpython.object cimport PyObject
from libc.math cimport INFINITY
from libc.stdint cimport int32_t
from libc.string cimport memset

from sksstruct.inference.chains._ordered_table cimport IndicatorTable
from sksstruct.models.protocols._factors cimport Messages, Outcome
from sksstruct.models.tables._feature_rows cimport FeatureRows
from sksstruct.models.tables._row_factors cimport RowFactors
from sksstruct.utils._pointers cimport const_doubles, const_int32s, doubles, intps
from sksstruct.utils._simd cimport sks_max, sks_maxplus


cdef class GraphKernel(RowFactors):
    """Nodes and edges of labeled graphs; subclasses score the edges."""

    # arrays that the pointers point into
    cdef object _edge_arrays
    # |G_e|^2, the squared norm of the features of each edge
    cdef const double* _edge_norms
    # scratch: messages to all labels of the two ends of an edge, in two rows of ld,
    # which are zero between calls
    cdef double* _dense

    def set_edges(self, norms, dense, double pair_norm, bint loopy):
        """Set |G_e|^2, scratch for messages, and attributes that solvers read."""
        self._edge_arrays = norms, dense
        self._edge_norms, self._dense = const_doubles(norms), doubles(dense)
        self.pair_norm, self.loopy = pair_norm, loopy

    @property
    def row_weights(self):
        return self._weights

    def best_outcome(self, Py_ssize_t pair, labels, values, double floor, bint linear):
        """Find the pair of labels of an edge with the largest score plus messages, if
        this sum is above floor; see `GraphFactors.maximum`.
        """
        cdef Messages messages[2]
        cdef Outcome outcome
        cdef int side
        for side in range(2):
            # the arrays end with a spare entry, so that they always have an address
            messages[side].size = len(labels[side]) - 1
            messages[side].labels = const_int32s(labels[side])
            messages[side].values = const_doubles(values[side])
        if self.find_pair(pair, linear, messages, floor, &outcome):
            return outcome.labels[0], outcome.labels[1], outcome.value
        return None

    def outcome_score(self, Py_ssize_t pair, first_label, second_label):
        """Return the score of a pair of labels of an edge; for tests."""
        cdef int32_t entry = <int32_t> self.entry(pair, first_label, second_label)
        cdef double score, norm
        self.pair_scores(pair, 1, &entry, &score, &norm)
        return score

    cdef void _write_messages(self, const Messages* messages) noexcept nogil:
        """Write the messages to each end to a row of all labels in `_dense`."""
        cdef Py_ssize_t k
        cdef int side
        for side in range(2):
            for k in range(messages[side].size):
                self._dense[side * self.ld + messages[side].labels[k]] = (
                    messages[side].values[k])

    cdef void _clear_messages(self, const Messages* messages) noexcept nogil:
        """Set the entries that `_write_messages` wrote to zero."""
        cdef Py_ssize_t k
        cdef int side
        for side in range(2):
            for k in range(messages[side].size):
                self._dense[side * self.ld + messages[side].labels[k]] = 0.0


# ---- a table for each feature ----

cdef class TableKernel(GraphKernel):
    """Edges whose scores are the table of one feature, times a factor of the edge."""

    cdef object _table_arrays
    # borrowed references, for calls of the tables without the GIL
    cdef PyObject** _addresses
    # number of each edge's table; factor by which the edge multiplies the table
    cdef const int32_t* _table
    cdef const double* _factor
    # scratch for messages divided by the factor: two rows
    cdef double* _divided

    def set_tables(self, tables, addresses, table, factor, divided):
        """Store new, empty tables, and the table and the factor of each edge."""
        self._table_arrays = tables, addresses, table, factor, divided
        self._addresses = <PyObject**> intps(addresses)
        self._table, self._factor = const_int32s(table), const_doubles(factor)
        self._divided = doubles(divided)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef PyObject* table = self._addresses[self._table[pair]]
        cdef double factor = self._factor[pair]
        cdef const double* left = messages[0].values
        cdef const double* right = messages[1].values
        cdef int found
        # max f v(a, b) + r(a) + c(b) is f times the maximum of v + r / f + c / f
        if factor != 1.0:
            left = self._divide(0, &messages[0], factor)
            right = self._divide(1, &messages[1], factor)
        # the table counts the entries that the search visits
        (<IndicatorTable> table).visited = 0
        if linear:
            found = (<IndicatorTable> table).scan(
                messages[0].size, messages[0].labels, left, messages[1].size,
                messages[1].labels, right, floor / factor, &outcome.labels[0],
                &outcome.labels[1], &outcome.value)
        else:
            found = (<IndicatorTable> table).best(
                messages[0].size, messages[0].labels, left, messages[1].size,
                messages[1].labels, right, floor / factor, &outcome.labels[0],
                &outcome.labels[1], &outcome.value)
        self.visited += (<IndicatorTable> table).visited
        outcome.value *= factor
        return found

    cdef const double* _divide(self, int side, const Messages* messages,
                               double factor) noexcept nogil:
        """Return the messages to one end, divided by the factor of an edge."""
        cdef Py_ssize_t k
        cdef double* divided = self._divided + side * self.n_labels
        for k in range(messages.size):
            divided[k] = messages.values[k] / factor
        return divided

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        return (<IndicatorTable> self._addresses[self._table[pair]]).insert(
            first_label, second_label)

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef const double* values = (
            <IndicatorTable> self._addresses[self._table[pair]])._value
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._factor[pair] * values[entries[k]]
            norms[k] = self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef PyObject* table = self._addresses[self._table[pair]]
        cdef Py_ssize_t k
        # an edge without features has no weights to change
        if self._edge_norms[pair] == 0.0:
            return 0
        for k in range(n):
            # a change moves the entry in three heaps, which a change of zero does not
            # need
            if changes[k] != 0.0:
                (<IndicatorTable> table).change(
                    entries[k], self._factor[pair] * changes[k])
        return 0


# ---- any features of edges ----

cdef class EdgeRowKernel(GraphKernel):
    """Edges whose features score all pairs of labels."""

    cdef FeatureRows _edge_features
    cdef object _row_arrays
    # weights (n_edge_features, K, ld), with stride `_step`; scratch for a table of
    # scores
    cdef double* _first_table_weight
    cdef double* _table
    cdef Py_ssize_t _step
    # number of the feature of each edge that has a single, positive one, else -1; value
    # of this feature
    cdef const int32_t* _single
    cdef const double* _factor
    # scratch: messages to the first end, and for each label of the second end a maximum
    cdef double* _row

    def set_rows_of_edges(self, FeatureRows features, single, factor, weights, table,
                          row):
        """Set features of edges, weights, and scratch for a table and two rows."""
        self._edge_features, self._row_arrays = features, (
            single, factor, weights, table, row)
        self._single, self._factor = const_int32s(single), const_doubles(factor)
        self._first_table_weight, self._table = doubles(weights), doubles(table)
        self._step, self._row = len(table), doubles(row)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef Py_ssize_t ld = self.ld, a, b = 0, best = 0
        cdef double* prev = self._row
        cdef double* out = self._row + ld
        cdef double factor = 1.0
        cdef const double* table = self._table
        if self._single[pair] >= 0:
            table = self._first_table_weight + self._single[pair] * self._step
            factor = self._factor[pair]
        else:
            self._edge_features.scores(pair, self._first_table_weight, self._step,
                                       self._zero_table(), self._table)
        self.visited += self.n_labels * self.n_labels
        # max f v(a, b) + r(a) + c(b) is f times the maximum of v + r / f + c / f
        self._write_messages(messages)
        for a in range(self.n_labels):
            prev[a], out[a] = self._dense[a] / factor, self._dense[self.ld + a] / factor
        # the padding must not be the maximum
        for a in range(self.n_labels, ld):
            out[a] = -INFINITY
        self._clear_messages(messages)
        sks_maxplus(self.n_labels, ld, prev, table, out)
        outcome.value = sks_max(ld, out) * factor
        if outcome.value <= floor:
            return 0
        # few maxima exceed the floor, so that the labels of the maximum are found here
        # only
        while out[b] * factor != outcome.value:
            b += 1
        for a in range(1, self.n_labels):
            if prev[a] + table[a * ld + b] > prev[best] + table[best * ld + b]:
                best = a
        outcome.labels[0], outcome.labels[1] = <int32_t> best, <int32_t> b
        return 1

    cdef const double* _zero_table(self) noexcept nogil:
        """Return the table of scores, set to zero."""
        memset(self._table, 0, self._step * sizeof(double))
        return self._table

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        # rows are padded, so that the entry is the offset of the weight
        return first_label * self.ld + second_label

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            scores[k] = self._edge_features.column_score(
                pair, self._first_table_weight + entries[k], self._step)
            norms[k] = self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(n):
            if changes[k] != 0.0:
                self._edge_features.add_to_column(
                    pair, changes[k], self._first_table_weight + entries[k],
                    self._step)
        return 0


# ---- equal labels ----

cdef class PottsKernel(GraphKernel):
    """Edges whose features score equal labels.

    With messages r and c, the best outcome has equal labels with a message at one end,
    or any equal labels without messages, or it pairs one of the two best labels of each
    end.
    """

    # a row of features for each edge, and the weight of each feature
    cdef FeatureRows _edge_features
    cdef object _row_arrays
    cdef double* _edge_weights

    def set_rows_of_edges(self, FeatureRows features, weights):
        """Set features of edges and their weights."""
        self._edge_features, self._row_arrays = features, weights
        self._edge_weights = doubles(weights)

    cdef double _equal_score(self, Py_ssize_t pair) noexcept nogil:
        """Return the score of an edge for equal labels."""
        return self._edge_features.column_score(pair, self._edge_weights, 1)

    cdef int find_pair(self, Py_ssize_t pair, bint linear, const Messages* messages,
                       double floor, Outcome* outcome) except -1 nogil:
        cdef double equal = self._equal_score(pair)
        outcome.value = floor
        self._write_messages(messages)
        if linear:
            self._scan(equal, outcome)
        else:
            self._search(equal, messages, outcome)
        self._clear_messages(messages)
        return outcome.value > floor

    cdef void _offer(self, Py_ssize_t first, Py_ssize_t second, double score,
                     Outcome* outcome) noexcept nogil:
        """Store a pair of labels if its score plus messages is above the value of the
        stored pair; `score` is without messages.
        """
        cdef double value = score + self._dense[first] + self._dense[self.ld + second]
        self.visited += 1
        if value > outcome.value:
            outcome.value = value
            outcome.labels[0], outcome.labels[1] = <int32_t> first, <int32_t> second

    cdef void _scan(self, double equal, Outcome* outcome) noexcept nogil:
        """Store the best of all pairs of labels, if it is above the stored value."""
        cdef Py_ssize_t a, b
        for a in range(self.n_labels):
            for b in range(self.n_labels):
                self._offer(a, b, equal if a == b else 0.0, outcome)

    cdef void _search(self, double equal, const Messages* messages,
                      Outcome* outcome) noexcept nogil:
        """Store the best pair of labels, if it is above the stored value: compare only
        pairs that can be best.
        """
        cdef Py_ssize_t best[2][2]
        cdef Py_ssize_t k, j, silent = 0
        cdef int side
        # equal labels: all labels with a message, and one label without messages
        for side in range(2):
            for k in range(messages[side].size):
                self._offer(messages[side].labels[k], messages[side].labels[k], equal,
                            outcome)
        while silent < self.n_labels and (
                has_message(&messages[0], silent) or has_message(&messages[1], silent)):
            silent += 1
        if silent < self.n_labels:
            self._offer(silent, silent, equal, outcome)
        # unequal labels: the best pair has one of the two best labels of each end. One
        # label of each end is not enough, as the best labels of both ends may be equal.
        for side in range(2):
            self._two_best(side, &messages[side], best[side])
        for k in range(2):
            for j in range(2):
                if best[0][k] != best[1][j] and min(best[0][k], best[1][j]) >= 0:
                    self._offer(best[0][k], best[1][j], 0.0, outcome)

    cdef void _two_best(self, int side, const Messages* messages,
                        Py_ssize_t* best) noexcept nogil:
        """Write the two labels of an end with the largest messages, or -1."""
        cdef Py_ssize_t k, label = 0, n_silent = 0
        best[0] = best[1] = -1
        for k in range(messages.size):
            self._rank(side, messages.labels[k], best)
        # all labels without a message have the message zero: two of these labels are
        # enough
        while label < self.n_labels and n_silent < 2:
            if not has_message(messages, label):
                self._rank(side, label, best)
                n_silent += 1
            label += 1

    cdef void _rank(self, int side, Py_ssize_t label, Py_ssize_t* best) noexcept nogil:
        """Insert a label of an end into `best`, the two labels with the largest
        messages so far, if its message is large enough.
        """
        cdef double message = self._dense[side * self.ld + label]
        if best[0] < 0 or message > self._dense[side * self.ld + best[0]]:
            best[0], best[1] = label, best[0]
        elif best[1] < 0 or message > self._dense[side * self.ld + best[1]]:
            best[1] = label

    cdef Py_ssize_t entry(self, Py_ssize_t pair, Py_ssize_t first_label,
                          Py_ssize_t second_label) except -1 nogil:
        return first_label * self.n_labels + second_label

    cdef int pair_scores(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                         double* scores, double* norms) except -1 nogil:
        cdef double equal = self._equal_score(pair)
        cdef Py_ssize_t k
        self.visited += n
        for k in range(n):
            # unequal labels have no features
            scores[k] = norms[k] = 0.0
            if are_equal(entries[k], self.n_labels):
                scores[k], norms[k] = equal, self._edge_norms[pair]
        return 0

    cdef int add_pairs(self, Py_ssize_t pair, Py_ssize_t n, const int32_t* entries,
                       const double* changes) except -1 nogil:
        cdef Py_ssize_t k
        cdef double change = 0.0
        for k in range(n):
            if are_equal(entries[k], self.n_labels):
                change += changes[k]
        if change != 0.0:
            self._edge_features.add_to_column(pair, change, self._edge_weights, 1)
        return 0


cdef inline bint are_equal(int32_t entry, Py_ssize_t n_labels) noexcept nogil:
    """Whether an entry is of two equal labels, in rows without padding."""
    return entry // n_labels == entry % n_labels


cdef inline bint has_message(const Messages* messages, Py_ssize_t label) noexcept nogil:
    """Whether a label has a message."""
    cdef Py_ssize_t k
    for k in range(messages.size):
        if messages.labels[k] == label:
            return True
    return False
