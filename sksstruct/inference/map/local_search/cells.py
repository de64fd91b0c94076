"""Set-up of cells, and the tables of their scores."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.local_search._cells import CellParts


class Cells(CellParts):
    """Cells of some labelings of a problem.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    labelings : array-like of shape (n_labelings, n_variables)
        At most 255 labelings.

    Attributes
    ----------
    n_cells : int
        Number of cells.
    cell : ndarray of shape (n_variables,), int32
        The cell of each variable; -1: all labelings agree.
    first : ndarray of shape (n_cells + 1,), intp
        Offset of the states of each cell.
    labeling : ndarray of shape (first[-1],), int32
        Index of the first labeling that has the state, for each state of each cell.
    n_touched : ndarray of shape (n_factors,), int32
        Number of cells in the scope of each factor, edges first.
    """

    def __init__(self, problem, labelings):
        n = problem.n_variables
        labelings = np.ascontiguousarray(labelings, dtype=np.int32)
        self.cell = np.zeros(n, dtype=np.int32)
        self.n_touched = np.zeros(problem.n_factors, dtype=np.int32)
        widest = np.diff(problem.arrays.scope_first).max(initial=2)
        arrays = SimpleNamespace(
            labelings=labelings, cell=self.cell, n_touched=self.n_touched,
            classes=np.zeros((n, len(labelings)), dtype=np.uint8),
            scratch=np.zeros(n, dtype=np.int32),
            touched=np.zeros(widest, dtype=np.int32),
        )  # fmt: skip
        super().__init__(problem, arrays)
        self.first = np.zeros(self.n_cells + 1, dtype=np.intp)
        self.count_states(self.first)
        self.labeling = np.zeros(self.first[-1], dtype=np.int32)
        self.find_states(self.labeling)

    def scopes(self, factors, size):
        """Return the cells of factors that have the same number of cells.

        Parameters
        ----------
        factors : ndarray of shape (n,), intp
            Factors; larger factors are numbered after the edges.
        size : int
            Number of cells of each factor.

        Returns
        -------
        scopes : ndarray of shape (n, size), int32
            The cells, in ascending order.
        """
        out = np.zeros((len(factors), size), dtype=np.int32)
        self.find_scopes(factors, size, out)
        return out

    def unaries(self):
        """Return scores of cells' states: sums over variables and factors in a cell.

        Returns
        -------
        unaries : ndarray of shape (first[-1],)
            The scores.
        """
        out = np.zeros(len(self.labeling))
        self.add_unaries(out)
        return out

    def tables(self, factors, starts, n_entries):
        """Return the scores of factors of several cells; factors may share a table.

        Parameters
        ----------
        factors, starts : ndarray of shape (n,), intp
            Factors, and the offset of each one's table. The last cell varies fastest.
        n_entries : int
            Number of entries of all tables.

        Returns
        -------
        entries : ndarray of shape (n_entries,)
            Sum of the factors of each table.
        """
        out = np.zeros(n_entries)
        self.add_tables(factors, starts, out)
        return out
