"""Set-up of conflict-driven search."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.clauses._search import ConflictSearch

# Room for learned clauses, and for their literals: least number, and number per given
# clause or given literal.
_LEAST_LEARNED, _LEARNED = 5_000, 0.5
_LEAST_LITERALS, _LITERALS = 400_000, 2.0
# Largest room for learned literals, unless two clauses of all variables need more.
_MOST_LITERALS = 2**24


class ClauseSearch(ConflictSearch):
    """Search for an assignment of truth values that satisfies all clauses.

    Parameters
    ----------
    n_variables : int
        Number of variables.
    first : ndarray of shape (n_clauses + 1,), int64
        Offset of the literals of each clause.
    literals : ndarray of shape (first[-1],), int32
        Literals: ``2 v`` if variable v is true, ``2 v + 1`` if it is false. A clause
        contains no variable twice.
    preferred : ndarray of shape (n_variables,), bool
        Values that the search tries first.

    Attributes
    ----------
    unsatisfiable : bool
        Whether the clauses contradict each other.
    work : int
        Number of visits of clauses so far.
    n_conflicts : int
        Number of conflicts so far.
    """

    def __init__(self, n_variables, first, literals, preferred):
        n, size = len(first) - 1, len(literals)
        n_learned = int(max(_LEAST_LEARNED, _LEARNED * n))
        # room for at least two clauses, each of which may contain every variable
        room = int(max(_LEAST_LITERALS, _LITERALS * size, 2 * n_variables))
        room = max(min(room, _MOST_LITERALS), 2 * n_variables)
        arrays = SimpleNamespace(
            literals=np.zeros(size + room, dtype=np.int32),
            begin=np.zeros(n + n_learned + 1, dtype=np.int64),
            levels=np.zeros(n + n_learned, dtype=np.int32),
            head=np.zeros(2 * n_variables, dtype=np.int64),
            next=np.zeros(2 * (n + n_learned), dtype=np.int64),
            value=np.zeros(2 * n_variables, dtype=np.int8),
            phase=np.where(preferred, 1, -1).astype(np.int8),
            level=np.zeros(n_variables, dtype=np.int32),
            reason=np.zeros(n_variables, dtype=np.int64),
            trail=np.zeros(n_variables, dtype=np.int32),
            level_begin=np.zeros(n_variables, dtype=np.int32),
            activity=np.zeros(n_variables),
            heap=np.zeros(n_variables, dtype=np.int32),
            place=np.zeros(n_variables, dtype=np.int32),
            seen=np.zeros(n_variables, dtype=np.int8),
            learned=np.zeros(n_variables + 1, dtype=np.int32),
            level_mark=np.zeros(n_variables + 1, dtype=np.int64),
        )
        arrays.literals[:size], arrays.begin[: n + 1] = literals, first
        self._arrays = arrays
        super().__init__(arrays, n_variables, n)

    @property
    def values(self):
        """ndarray of shape (n_variables,), bool: the assignment that was found."""
        return self._arrays.value[::2] > 0

    def prefer(self, preferred):
        """Search again for an assignment, preferring other values.

        Parameters
        ----------
        preferred : ndarray of shape (n_variables,), bool
            Values that the search tries first.
        """
        self.begin_again()
        self._arrays.phase[:] = np.where(preferred, 1, -1)
