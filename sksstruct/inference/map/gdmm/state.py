"""Set-up of Algorithm 1, and access to its marginals and multipliers."""

from types import SimpleNamespace

import numpy as np

from sksstruct.factor_graphs import Logic
from sksstruct.inference.map.gdmm._edge_search import EntrySearch
from sksstruct.inference.map.gdmm._higher_search import HigherSearch
from sksstruct.inference.map.gdmm._state import GreedyState


class MAPGDMMState(GreedyState):
    """State of Algorithm 1 of Huang et al. (2017) on a factor graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    lists : Lists
        Sorted lists of the graph's tables.
    rho : float
        Initial weight of the quadratic terms.
    eta : float, default=1.0
        Step of the multipliers, in units of rho.

    Attributes
    ----------
    rho : float
        Current weight of the quadratic terms.
    primal_residual, dual_residual : float
        Norm of M y - x, and rho times the norm of the last change of x over all
        factors.
    looked_up : int
        Number of table entries that searches have read.
    n_active : int
        Number of active entries.
    """

    def __init__(self, problem, lists, rho, eta=1.0):
        n, states = problem.n_variables, problem.arrays.states
        first = np.repeat(problem.arrays.first[:-1], states)
        # states of each variable in descending order of scores, for search (7); ties in
        # the order of the states
        by_score = np.lexsort((-problem.arrays.unary, first)) - first
        arity = _largest_arity(problem)
        self._arrays = SimpleNamespace(
            slot=np.full(len(first), -1, dtype=np.int32),
            by_score=by_score.astype(np.int32),
            next=np.zeros(n, dtype=np.int32),
            n_slots=np.zeros(n, dtype=np.int32),
            capacity=np.zeros(n, dtype=np.int32),
            found=np.zeros(arity, dtype=np.intp),
            found_slot=np.zeros(arity, dtype=np.int32),
        )
        search, higher = EntrySearch(problem, lists), HigherSearch(_entries(problem))
        super().__init__(problem, search, higher, rho, eta, self._arrays)

    @property
    def n_slots(self):
        """Number of slots of all variables."""
        return int(self._arrays.n_slots.sum())

    def labeling(self):
        """Return the most probable state of each variable.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            States. Among equally probable states, the one that got its slot first; the
            state with the largest score has the first slot.
        """
        out = np.empty(self.problem.n_variables, dtype=np.int32)
        self.read_labeling(out)
        return out

    def flat_marginals(self):
        """Return the marginals x_i of all variables: the fractional solution.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            Marginals x_i of all variables.
        """
        out = np.zeros(len(self._arrays.slot))
        self.read_marginals(out)
        return out

    def multipliers(self, factor):
        """Return the multipliers of a factor.

        Parameters
        ----------
        factor : int
            The factor; edges come before larger factors.

        Returns
        -------
        mu : tuple of ndarrays of shape (n_states[i],)
            Multipliers of the factor's ends.
        """
        arrays = self.problem.arrays
        begin, end = arrays.scope_first[factor : factor + 2]
        mu = tuple(map(np.zeros, arrays.states[arrays.scope[begin:end]]))
        for place, row in enumerate(mu, begin):
            self.read_multipliers(place, row)
        return mu

    def residual(self):
        """Return the larger of the primal and dual residuals.

        Returns
        -------
        residual : float
            Relative to the square root of the number of ends.
        """
        scale = max(1.0, len(self.problem.arrays.scope)) ** 0.5
        return max(self.primal_residual, self.dual_residual) / scale


def _largest_arity(problem):
    """Return the largest number of variables of a factor; at least two."""
    return int(np.diff(problem.arrays.scope_first).max(initial=2))


def _entries(problem):
    """Return the sorted lists of larger factors' tables, and workspace, as arrays."""
    tables, arity = problem.graph.tables, _largest_arity(problem)
    begin, size = np.zeros((2, len(tables)), dtype=np.intp)
    orders, total = [np.empty(0, dtype=np.int32)], 0
    for table in np.unique(problem.arrays.table_of[problem.n_edges :]):
        # `Logic` tables have no entries
        if isinstance(tables[table], Logic):
            continue
        values = tables[table].dense().reshape(-1)
        # a stable sort finds the first of equal entries on every machine
        orders.append(np.argsort(-values, kind="stable").astype(np.int32))
        begin[table], size[table] = total, len(values)
        total += len(values)
    scratch = np.zeros((5, arity), dtype=np.intp)
    return SimpleNamespace(
        begin=begin, size=size, order=np.concatenate(orders),
        state=scratch[0], n_states=scratch[1], stride=scratch[2],
        # pointers to gradients and slots of the current factor's ends
        gradient=scratch[3], slot=scratch[4],
    )  # fmt: skip
