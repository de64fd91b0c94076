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
from sksstruct.models.protocols._entropy_dual cimport EntropyDual, inner
from sksstruct.models.tables._blocks cimport tables_end
from sksstruct.models.tables._structure cimport Potentials
from sksstruct.models.tables._table cimport BoundTable, TableScratch

from sksstruct.utils._layout import aligned_zeros


cdef class TableEntropyDual(EntropyDual):
    """The dual variables of a model of tables, which has the oracle "exp".

    Parameters
    ----------
    table, mu, state, shared : objects
        As in `EntropyDual`.
    """

    cdef BoundTable _table
    # of one example: the change from the means that are kept, the loss alone with its
    # constant part, and a labeling with its keys
    cdef double[::1] _change, _loss_table
    cdef double _loss_constant
    cdef int32_t[::1] _labeling, _keys

    def __init__(self, BoundTable table, double mu, state=None, bint shared=False):
        self._table = table
        self._change = aligned_zeros(table.table_size)
        self._loss_table = aligned_zeros(table.table_size)
        self._labeling = np.zeros(max(table.max_size, 1), dtype=np.int32)
        self._keys = np.zeros(table.max_keys + 1, dtype=np.int32)
        EntropyDual.__init__(self, table, mu, state, shared)

    def sizes(self):
        return self._table._layout.table_sizes

    cdef Py_ssize_t _observed_keys(self, Py_ssize_t i) except -1 nogil:
        """Find the keys of the observed labeling; return how many."""
        self._table.y_true(i, &self._labeling[0])
        return self._table.indicator(i, &self._labeling[0], &self._keys[0])

    cdef Py_ssize_t _end_of_nodes(self, Py_ssize_t i) noexcept nogil:
        """Return where the table of the first block ends: later ones may be shared."""
        return tables_end(
            self._table._blocks, min(self._table._layout.n_blocks, 1), i)

    cdef int read(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Potentials alone = ws.at
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._loaded[k] = ws.at.theta[k] / self.mu
        # the loss alone, whose expectation every trial asks for
        memset(&self._loss_table[0], 0, self._size(i) * sizeof(double))
        self._loss_constant = 0.0
        if not self._table.likelihood:
            alone.theta, alone.constant = &self._loss_table[0], 0.0
            self._table.structure.add_loss(&alone, i, 1.0)
            self._loss_constant = alone.constant
        return 0

    cdef int favor(self, Py_ssize_t i, double* natural,
                   double advantage) except -1 nogil:
        cdef Py_ssize_t n_keys = self._observed_keys(i), k
        for k in range(n_keys):
            if self._keys[k] < self._end_of_nodes(i):
                natural[self._keys[k]] += advantage
        return 0

    cdef int observe(self, Py_ssize_t i, double* means) except -1 nogil:
        cdef Py_ssize_t n_keys = self._observed_keys(i), k
        memset(means, 0, self._size(i) * sizeof(double))
        # a part that is shared is there as often as it counts
        for k in range(n_keys):
            means[self._keys[k]] += 1.0
        return 0

    cdef double expect(self, Workspace workspace, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef double log_partition
        # in the place of potentials, which were copied
        memcpy(ws.at.theta, natural, self._size(i) * sizeof(double))
        ws.at.constant = 0.0
        self._table.expect(workspace, i, 1.0, means, &log_partition)
        return log_partition

    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        return self._loss_constant + inner(self._size(i), &self._loss_table[0], means)

    cdef double wrong(self, Py_ssize_t i, const double* means) except? -1 nogil:
        cdef Py_ssize_t n_keys = self._observed_keys(i), k
        cdef double total = 0.0
        # nodes only: of what several parts share, no share is that of one labeling
        for k in range(n_keys):
            if self._keys[k] < self._end_of_nodes(i):
                total += 1.0 - means[self._keys[k]]
        return total

    cdef int prepare(self, Workspace workspace, Py_ssize_t i, const double* new,
                     const double* old) except -1 nogil:
        cdef Py_ssize_t k
        for k in range(self._size(i)):
            self._change[k] = new[k] - old[k]
        return self._table.add_means(workspace, i, &self._change[0])

    cdef double change_score(self, Workspace workspace, Py_ssize_t i,
                             const double* natural) except? -1 nogil:
        return inner(self._size(i), natural, &self._change[0])
