"""Chains whose transitions depend on the observations.

The score is that of `_chain.pyx` plus weights v of some features on pairs of labels,

    sum_{t>=2} sum_j F_tj v[j, y_{t-1}, y_t]

which are the B templates of CRF++ and Wapiti. Each position then has its own table of
transitions, and edge means have keys

    size_i * ld + (t - 1) * K * ld + from * ld + to

for the edge that ends at t = 1, .., size_i - 1. Flat weights have the v after the
transitions, in the order of `_pair_features.pyx`. A change of edge means is stored
as the change of all these weights: a labeling changes few of them.
"""

from libc.stdint cimport int32_t
from libc.string cimport memcpy

from sksstruct.models.chain._chain cimport BoundChain
from sksstruct.models.chain._pair_features cimport PairFeatures
from sksstruct.models.chain._workspace cimport ChainScratch, add_edge, clear_edges
from sksstruct.models.protocols._bound_model cimport Workspace

from sksstruct.models.chain._chain import chain_views


def bind_chain(X, n_labels, *, pairs=None, **chain):
    """Bind a chain to packed sequences; with pairs it is a `PairChain`.

    See both classes for the arguments.
    """
    if pairs is None:
        return BoundChain(X, n_labels, **chain)
    return PairChain(X, n_labels, pairs=pairs, **chain)


cdef inline bint edge_differs(const int32_t* y, const int32_t* z,
                              Py_ssize_t t) noexcept nogil:
    """Return whether the edges of two labelings that end at t differ."""
    return y[t - 1] != z[t - 1] or y[t] != z[t]


cdef class PairChain(BoundChain):
    """A chain with weights of features on pairs of labels, bound to packed sequences.

    Parameters
    ----------
    X : PackedSequences
        Features.
    n_labels : int
        Number of labels K.
    labels, example_weights, label_costs, fit_intercept, boundary, known, mask, \
forbidden_labels, loss_length, feature_scale : objects
        As in `BoundChain`.
    pairs : PairSupport
        Which weights on pairs of labels exist.

    Attributes
    ----------
    pair_support : PairSupport
        The same.
    pair_features : PairFeatures
        The features that have such weights.
    """

    # factors share one table of transitions
    oracles = ("max", "topk", "exp", "projection")
    oracle_note = (
        "dual decomposition needs transitions that are the same everywhere, without "
        "transition_features")

    def __cinit__(self, X, Py_ssize_t n_labels, *args, pairs, **chain):
        self.pair_support = pairs
        self.pair_features = PairFeatures(X, pairs, self.ld, self.feature_scale)
        # tables are formed before they are read
        self.visit_work *= 2.0

    def views(self, w):
        return chain_views(w, self.n_labels, self.n_features, self.pair_support)

    def flatten_bounds(self, bounds):
        flat = BoundChain.flatten_bounds(self, bounds)
        # the padding after the last weight stays zero, as that of rows does
        for array in flat:
            array[self.first_pair + self.n_pair_weights:] = 0.0
        return flat

    def smooth_loss(self, smoothing, nonsmooth=False):
        # not at the top: that module needs this one
        from sksstruct.models.chain._pair_smooth import PairSmoothLoss

        return PairSmoothLoss(
            self, smoothing, self.unknown, self.numbers, nonsmooth, self.support)

    def entropy_dual(self, smoothing, state=None):
        from sksstruct.models.chain._pair_entropy_dual import PairEntropyDual

        return PairEntropyDual(self, smoothing.mu, state)

    def fits_entropy_dual(self, state, smoothing):
        # means and entropies are of these features, and of no others
        return (BoundChain.fits_entropy_dual(self, state, smoothing)
                and self.pair_features.same_as(state.get("pair_features")))

    @property
    def entropy_dual_bytes(self):
        """The bytes that `entropy_dual` and the lists of `weights_read` take."""
        n_read = len(self.weights_read()[1])
        return super().entropy_dual_bytes + 20 * n_read

    def weights_read(self):
        """Return the weights on pairs that each sequence reads, as two arrays.

        See `PairFeatures.of_sequences`.
        """
        # once for all who ask, the threads of a sweep among them
        if self._weights_read is None:
            self._weights_read = self.pair_features.of_sequences(self.starts)
        return self._weights_read

    def factors(self):
        raise ValueError(self.oracle_note)

    # ---- potentials ----

    cdef int potentials(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        BoundChain.potentials(self, workspace, i)
        # here, since no other call reads features
        self._form_tables(<ChainScratch*> workspace.scratch, i)
        return 0

    cdef void _form_tables(self, ChainScratch* ws, Py_ssize_t i) noexcept nogil:
        """Write the transitions of each position of a sequence."""
        cdef const double* shared = BoundChain._transitions(self, ws)
        cdef Py_ssize_t first = self._starts[i], t
        cdef double* table = ws.tables
        ws.shared = shared
        # what is forbidden stays so: -inf and a score are -inf
        for t in range(1, self._sizes[i]):
            memcpy(table, shared, self._table_step * sizeof(double))
            self.pair_features.add_scores(first + t, ws.pair_weights, table)
            table += self._table_step

    cdef const double* _transitions(self, ChainScratch* ws) noexcept nogil:
        """Return the tables of the sequence whose potentials are loaded."""
        return ws.tables

    # ---- changes of mean parameters ----

    cdef int add_labeling(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                          double coef) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t t
        BoundChain.add_labeling(self, workspace, i, y, coef)
        # edges that two labelings share cancel: what is listed may be zero
        for t in range(1, self._sizes[i]):
            self._add_pair(ws, i, t, y, coef)
        return 0

    cdef void _add_pair(self, ChainScratch* ws, Py_ssize_t i, Py_ssize_t t,
                        const int32_t* y, double coef) noexcept nogil:
        """Add the edge of a labeling that ends at t to the weights' change."""
        self.pair_features.add(
            ws, self._starts[i] + t, y[t - 1] * self.ld + y[t], coef,
            self._table_step)

    cdef int add_mean(self, Workspace workspace, Py_ssize_t i, Py_ssize_t n_keys,
                      const int32_t* keys, const double* values, double coef,
                      double* value) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef Py_ssize_t edges = self._sizes[i] * self.ld, step = self._table_step
        cdef Py_ssize_t second = self._starts[i] + 1, k, edge
        cdef double total = ws.constant
        # a key of an edge says which position it is of
        for k in range(n_keys):
            edge = keys[k] - edges
            if edge < 0:
                ws.node_change[keys[k]] += coef * values[k]
                total += values[k] * ws.theta[keys[k]]
            else:
                # tables are one after the other
                total += values[k] * ws.tables[edge]
                add_edge(ws, edge % step, coef * values[k])
                self.pair_features.add(
                    ws, second + edge // step, edge % step, coef * values[k], step)
        ws.scanned = False
        if value != NULL:
            value[0] = total
        return 0

    # ---- inner products of labelings ----

    cdef int gram_row(self, Workspace workspace, Py_ssize_t i, const int32_t* y,
                      Py_ssize_t n_labelings, const int32_t* labelings,
                      double* out) except -1 nogil:
        cdef ChainScratch* ws = <ChainScratch*> workspace.scratch
        cdef const int32_t* y_true = &self._labels[self._starts[i]]
        cdef const int32_t* z = labelings
        cdef Py_ssize_t size = self._sizes[i], k, t
        BoundChain.gram_row(self, workspace, i, y, n_labelings, labelings, out)
        # the weights that y changes, relative to the observed labeling, are written out
        for t in range(1, size):
            if edge_differs(y, y_true, t):
                self._add_pair(ws, i, t, y, 1.0)
                self._add_pair(ws, i, t, y_true, -1.0)
        # and met by those that each of the others changes
        for k in range(n_labelings):
            for t in range(1, size):
                if edge_differs(z, y_true, t):
                    out[k] += self._pair_product(ws, i, t, z)
                    out[k] -= self._pair_product(ws, i, t, y_true)
            z += size
        clear_edges(ws)
        return 0

    cdef double _pair_product(self, const ChainScratch* ws, Py_ssize_t i, Py_ssize_t t,
                              const int32_t* y) noexcept nogil:
        """Return the product of the weights' change with the edge that ends at t."""
        return self.pair_features.score(
            self._starts[i] + t, y[t - 1] * self.ld + y[t],
            ws.edge_change + self._table_step)
