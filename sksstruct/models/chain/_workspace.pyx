"""Weights and scratch that one thread needs to visit the sequences of a chain.

Weights are read in two parts: n_features emission rows of ld >= n_labels doubles, and
the tail: rows of bias, start and end, then n_labels rows of transitions, from -> to.
Flat weights hold both parts in this order; predictions pass them as two arrays.
Weights of features on pairs of labels, and then weights of triples of labels, follow
the tail, or are a third array.

The change of mean parameters that a visit prepares is d for the nodes and d_e for the
edges, as in `_chain.pyx`. Edges are listed when they are written, as a labeling picks
few entries of the table. Rows of d are searched for changes by a scan, as a labeling
picks an entry in each row.
"""

from sksstruct.inference.chains._second_order cimport SecondOrder
from sksstruct.inference.chains._triples cimport LabelTriples
from sksstruct.models.protocols._bound_model cimport Workspace


cdef class ChainWorkspace(Workspace):
    """Scratch of one thread for a chain, and the weights that it reads.

    Parameters
    ----------
    max_size : int
        Length of the longest sequence.
    n_labels, n_features, ld : int
        The shapes of the weights.
    masked : bool
        Whether some transitions are forbidden.
    paired : bool
        Whether every position has its own transitions.
    n_pair_weights : int
        Number of weights of features on pairs of labels.
    triples : LabelTriples or None
        Triples of labels that have a weight.
    """

    def __cinit__(self, *, Py_ssize_t max_size, Py_ssize_t n_labels,
                  Py_ssize_t n_features, Py_ssize_t ld, bint masked, bint paired,
                  Py_ssize_t n_pair_weights, LabelTriples triples):
        cdef Py_ssize_t nodes = max_size * ld
        cdef ChainScratch* ws = &self._scratch
        self._n_features, self._n_labels, self._ld = n_features, n_labels, ld
        self._paired, self._n_pair_weights = paired, n_pair_weights
        if triples is not None:
            self._n_triples, self.decoder = triples.n_weights, SecondOrder(triples)
        ws.theta, ws.delta = self.zeros(nodes), self.zeros(nodes)
        # without constraints, transitions are read from the weights
        ws.table = self.zeros(n_labels * ld if masked else 1)
        ws.tables = self.zeros((max_size - 1) * n_labels * ld if paired else 1)
        self.scratch = ws

    def read(self, w):
        cdef Py_ssize_t tail = self._n_features * self._ld
        Workspace.read(self, w)
        # flat weights hold the emission rows, the tail, and the weights after the tail
        self._scratch.emission = self.w
        self._read_tail(
            self.w + tail, self.w + tail + (TRANSITIONS + self._n_labels) * self._ld)

    def read_rows(self, const double[:, ::1] emission, const double[:, ::1] tail,
                  const double[::1] pair_weights=None):
        """Read weights in parts: (n_features, ld), (3 + K, ld), and one vector of the
        weights of features on pairs of labels and of triples."""
        if (emission.shape[0] != self._n_features or emission.shape[1] != self._ld
                or tail.shape[0] != TRANSITIONS + self._n_labels
                or tail.shape[1] != self._ld):
            raise ValueError(
                f"expected weights of {self._n_labels} labels and {self._n_features} "
                f"features, got {emission.shape[0]} x {emission.shape[1]} and "
                f"{tail.shape[0]} x {tail.shape[1]} numbers")
        n_given = 0 if pair_weights is None else pair_weights.shape[0]
        if n_given != self._n_pair_weights + self._n_triples:
            raise ValueError(
                f"expected {self._n_pair_weights} weights of pairs and "
                f"{self._n_triples} of triples, got {n_given}")
        # this reference keeps the arrays alive until weights are read again
        self._held = (emission, tail, pair_weights)
        # an array without features has no first entry
        self._scratch.emission = &emission[0, 0] if emission.shape[0] else NULL
        self._read_tail(&tail[0, 0], &pair_weights[0] if n_given else NULL)

    cdef int _read_tail(self, const double* tail, const double* pair_weights) except -1:
        """Store the addresses of the weights after the emission rows."""
        cdef ChainScratch* ws = &self._scratch
        ws.tail, ws.pair_weights = tail, pair_weights
        ws.triple_weights = pair_weights + self._n_pair_weights
        # transitions that depend on features are formed on each visit
        ws.transitions = ws.tables if self._paired else tail + TRANSITIONS * self._ld
        return 0
