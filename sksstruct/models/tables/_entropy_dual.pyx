"""Dual variables of tables, for losses that are smoothed by the entropy.

The notation is as in `models/protocols/_entropy_dual.pyx`. Natural parameters eta_i
and means mu_i have the size of the tables theta_i of the example. The exp oracle of the
model computes the means from natural parameters, which replace the potentials. Models
with weights beyond the blocks are excluded: no table has the features of these weights.
"""

from libc.string cimport memcpy, memset

from sksstruct.models.protocols._bound_model cimport Workspace
from sksstruct.models.protocols._entropy_dual cimport EntropyDual, inner
from sksstruct.models.tables._blocks cimport Block, n_rows_of
from sksstruct.models.tables._structure cimport Potentials
from sksstruct.models.tables._table cimport BoundTable, TableScratch

from sksstruct.utils._layout import aligned_zeros


cdef class TableEntropyDual(EntropyDual):
    """The dual variables of a model of tables, which has the oracle "exp".

    Parameters
    ----------
    table, mu, state, source : objects
        As in `EntropyDual`.
    """

    cdef BoundTable _table
    # loss of the loaded example: its tables, without scores, and its constant part
    cdef double[::1] _loss_table
    cdef double _loss_constant

    def __init__(self, BoundTable table, double mu, state=None,
                 EntropyDual source=None):
        self._table = table
        self._loss_table = aligned_zeros(table.table_size)
        EntropyDual.__init__(self, table, mu, state, source)

    def sizes(self):
        return self._table._layout.table_sizes

    cdef Py_ssize_t n_nodes(self, Py_ssize_t i) noexcept nogil:
        # nodes are the entries of the first block, as later blocks may be shared
        cdef Block* block = self._table._blocks
        return block.ld * n_rows_of(block, i)

    cdef int read(self, Workspace workspace, Py_ssize_t i) except -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef Potentials loss_only = ws.at
        cdef Py_ssize_t k
        for k in range(ws.at.rows):
            self._loaded[k] = ws.at.theta[k] / self.mu
        for k in range(ws.at.rows, ws.at.size):
            self._loaded[k] = ws.at.shared[k - ws.at.rows] / self.mu
        # the loss alone is stored, as every trial of a step needs its expectation
        memset(&self._loss_table[0], 0, self._size(i) * sizeof(double))
        self._loss_constant = 0.0
        if not self._table.likelihood:
            loss_only.theta, loss_only.constant = &self._loss_table[0], 0.0
            loss_only.shared = loss_only.theta + loss_only.rows
            self._table.structure.add_loss(&loss_only, i, 1.0)
            self._loss_constant = loss_only.constant
        return 0

    cdef double expect(self, Workspace workspace, Py_ssize_t i, const double* natural,
                       double* means) except? -1 nogil:
        cdef TableScratch* ws = <TableScratch*> workspace.scratch
        cdef double log_partition
        # overwrites the potentials, which `read` has copied
        memcpy(ws.at.theta, natural, self._size(i) * sizeof(double))
        self._table.take_tables(workspace, i)
        self._table.expect(workspace, i, 1.0, means, &log_partition)
        return log_partition

    cdef int _favor(self, Py_ssize_t i, double* natural,
                    double advantage) except -1 nogil:
        cdef Py_ssize_t nodes = self.n_nodes(i), n_keys, k
        EntropyDual._favor(self, i, natural, advantage)
        if self._table.structure.first_block_decides:
            return 0
        # Labelings that share all nodes may differ in the number of their other
        # entries, and the labelings with the most entries would dominate: entries that
        # were not observed lose the advantage.
        for k in range(nodes, self._size(i)):
            natural[k] -= advantage
        n_keys = self.observed_keys(i)
        for k in range(n_keys):
            if self._keys[k] >= nodes:
                natural[self._keys[k]] = self._loaded[self._keys[k]]
        return 0

    cdef double loss(self, Py_ssize_t i, const double* means) except? -1 nogil:
        return self._loss_constant + inner(self._size(i), &self._loss_table[0], means)
