"""Dual variables of tables, for losses that are smoothed by the entropy.

The notation is that of `models/protocols/_entropy_dual.pyx`. Natural parameters eta_i
and means mu_i have the size of the tables theta_i of the example. The exp oracle of the
model computes the means from natural parameters, which replace the potentials. Models
with weights beyond the blocks are excluded: no table has the features of these weights.
"""

import numpy as np

from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._entropy_dual cimport DualStep, EntropyDual
from sksstruct.models.tables._blocks cimport tables_end
from sksstruct.models.tables._table cimport BoundTable, TableScratch

from sksstruct.utils._layout import aligned_zeros


cdef inline double inner(Py_ssize_t n, const double* x,
                         const double* y) noexcept nogil:
    """Return <x, y>."""
    cdef Py_ssize_t k
    cdef double total = 0.0
    for k in range(n):
        total += x[k] * y[k]
    return total


cdef class TableEntropyDual(EntropyDual):
    """The dual variables of a model of tables.

    Parameters
    ----------
    table : BoundTable
        The model with its data; it has the oracle "exp".
    mu : float
        Strength of the smoothing.
    state : dict, default=None
        The state of another object, whose distributions are used.
    shared : bool, default=False
        Whether that object is there, too, so that there is nothing to check.
    """

    cdef readonly BoundTable table
    # natural parameters and means of all examples, and where those of each begin
    cdef readonly list kept
    cdef double[::1] _natural, _means
    cdef const Py_ssize_t[::1] _first
    # of one example: loaded potentials over mu, what is tried, its means, the change
    # from those that are kept, and the loss alone with its constant part
    cdef double[::1] _loaded, _tried, _tried_means, _change, _loss_table
    cdef double _loss_constant
    cdef int32_t[::1] _labeling

    def __init__(self, BoundTable table, double mu, state=None, shared=False):
        first = np.concatenate([[0], np.cumsum(table._layout.table_sizes)])
        self.table, self._first = table, first.astype(np.intp)
        sizes = [max(int(first[-1]), 1)] * 2
        if state is None:
            self.kept = [aligned_zeros(size) for size in sizes]
        else:
            self.kept = self._checked(state, sizes, shared)
        self._natural, self._means = self.kept
        self._loaded, self._tried, self._tried_means, self._change, self._loss_table = (
            aligned_zeros(table.table_size) for _ in range(5))
        self._labeling = np.zeros(max(table.max_size, 1), dtype=np.int32)
        if state is None:
            self._begin_all()

    def _begin_all(self):
        """Write the means of the observed labelings."""
        cdef Py_ssize_t i
        cdef int32_t[::1] keys = np.zeros(self.table.max_keys + 1, dtype=np.int32)
        for i in range(self.table.n_examples):
            # not an address beyond the end, where the last tables are empty
            if self._first[i + 1] > self._first[i]:
                self._write_observed(i, &keys[0], &self._means[self._first[i]])

    def sharing(self):
        return TableEntropyDual(self.table, self.mu, self.state(), True)

    def state(self):
        return {
            "mu": self.mu, "signature": self.table.signature,
            "labels": np.asarray(self.table._y_true), "distributions": self.kept,
            "losses": self.losses, "entropies": self.entropies,
        }

    cdef Py_ssize_t _size(self, Py_ssize_t i) noexcept nogil:
        """Return the number of entries of an example's tables."""
        return self._first[i + 1] - self._first[i]

    cdef Py_ssize_t _write_observed(self, Py_ssize_t i, int32_t* keys,
                                    double* means) except -1 nogil:
        """Write the means of the observed labeling and its keys; returns how many."""
        cdef Py_ssize_t n_keys, k
        memset(means, 0, self._size(i) * sizeof(double))
        self.table.y_true(i, &self._labeling[0])
        n_keys = self.table.indicator(i, &self._labeling[0], keys)
        # a part that is shared is there as often as it counts
        for k in range(n_keys):
            means[keys[k]] += 1.0
        return n_keys

    # ---- potentials and distributions ----

    cdef int load(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef TableScratch alone = ws[0]
        cdef Py_ssize_t k
        self.table.potentials(workspace, i)
        self.table.y_true(i, &self._labeling[0])
        for k in range(self._size(i)):
            self._loaded[k] = ws.theta[k] / self.mu
        # the loss alone, whose expectation every trial asks for
        memset(&self._loss_table[0], 0, self._size(i) * sizeof(double))
        self._loss_constant = 0.0
        if not self.table.likelihood:
            alone.theta, alone.constant = &self._loss_table[0], 0.0
            self.table.add_loss(&alone, i, 1.0)
            self._loss_constant = alone.constant
        return 0

    cdef int begin(self, Workspace workspace, Py_ssize_t i, double advantage,
                   DualStep* out) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t n_keys = self._write_observed(
            i, ws.keys, &self._tried_means[0])
        cdef Py_ssize_t k
        # potentials alone would be too far away at first: at large weights every step
        # of an example takes back most of what the others have learned
        memcpy(&self._tried[0], &self._loaded[0], self._size(i) * sizeof(double))
        for k in range(n_keys):
            if ws.keys[k] < self._nodes(i):
                self._tried[ws.keys[k]] += advantage
        self._find_means(workspace, i, out)
        # eta_i is infinite: there is no slope
        out.slope = 0.0
        return 0

    cdef Py_ssize_t _nodes(self, Py_ssize_t i) noexcept nogil:
        """Return where the table of the first block ends: later ones may be shared."""
        return tables_end(self.table._blocks, min(self.table._layout.n_blocks, 1), i)

    cdef int mix(self, Workspace workspace, Py_ssize_t i, double share,
                 DualStep* out) except -1 nogil:
        cdef const double* natural = &self._natural[self._first[i]]
        cdef Py_ssize_t size = self._size(i), k
        cdef double rest = 1.0 - share
        # potentials took over the natural parameters' layout, padding included
        for k in range(size):
            self._tried[k] = rest * natural[k] + share * self._loaded[k]
        self._find_means(workspace, i, out)
        out.slope = out.linear - self.mu * inner(size, natural, &self._change[0])
        return 0

    cdef double _expect(self, Workspace workspace, Py_ssize_t i,
                        const double* natural) except? -1 nogil:
        """Write the means of natural parameters; return the log-partition function."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef double log_partition
        # in the place of potentials, which were copied
        memcpy(ws.theta, natural, self._size(i) * sizeof(double))
        ws.constant = 0.0
        self.table.expect(workspace, i, 1.0, &self._tried_means[0], &log_partition)
        return log_partition

    cdef int _find_means(self, Workspace workspace, Py_ssize_t i,
                         DualStep* out) except -1 nogil:
        """Find the means of what is tried, and prepare the change from those kept."""
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const double* means = &self._means[self._first[i]]
        cdef Py_ssize_t size = self._size(i), n_keys, k
        cdef double log_partition = self._expect(workspace, i, &self._tried[0])
        out.loss = self._loss_constant + inner(
            size, &self._loss_table[0], &self._tried_means[0])
        out.entropy = self.mu * (
            log_partition - inner(size, &self._tried[0], &self._tried_means[0]))
        n_keys = self.table.indicator(i, &self._labeling[0], ws.keys)
        # nodes only: of what several parts share, no share is that of one labeling
        out.wrong = 0.0
        for k in range(n_keys):
            if ws.keys[k] < self._nodes(i):
                out.wrong += 1.0 - self._tried_means[ws.keys[k]]
        for k in range(size):
            self._change[k] = self._tried_means[k] - means[k]
        # all labelings gain the same from the constant part of the loss
        out.linear = self.mu * inner(size, &self._loaded[0], &self._change[0])
        return self.table.add_means(ws, i, &self._change[0])

    cdef int accept(self, Py_ssize_t i, const DualStep* step) except -1 nogil:
        cdef Py_ssize_t bytes = self._size(i) * sizeof(double)
        # natural parameters with their means: no later visit calls the oracle for both
        memcpy(&self._natural[self._first[i]], &self._tried[0], bytes)
        memcpy(&self._means[self._first[i]], &self._tried_means[0], bytes)
        return EntropyDual.accept(self, i, step)

    cdef int distance(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef const double* means = &self._means[self._first[i]]
        cdef Py_ssize_t size = self._size(i), k
        self.load(workspace, i)
        # costs may be others than those of the problem that the means are from
        self._losses[i] = self._loss_constant + inner(
            size, &self._loss_table[0], means)
        # in the scratch of what is tried, which nobody needs now
        self._write_observed(i, ws.keys, &self._tried_means[0])
        for k in range(size):
            self._change[k] = means[k] - self._tried_means[k]
        return self.table.add_means(ws, i, &self._change[0])

    # ---- certificates ----

    cdef int gap(self, Workspace workspace, Py_ssize_t i, double* loss,
                 double* gap) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Py_ssize_t size = self._size(i)
        cdef double log_partition
        self.load(workspace, i)
        log_partition = self._expect(workspace, i, &self._loaded[0])
        self._write_observed(i, ws.keys, &self._tried_means[0])
        # the constant part of the loss is in both, and in no difference
        loss[0] = self.mu * (log_partition - inner(
            size, &self._loaded[0], &self._tried_means[0]))
        gap[0] = self.mu * (log_partition - inner(
            size, &self._loaded[0], &self._means[self._first[i]])) - self._entropies[i]
        return 0
