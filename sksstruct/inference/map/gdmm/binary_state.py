"""Set-up of Algorithm 2, and the choice of variables and edges that become active."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.gdmm._binary_state import BinaryState

# Initial capacity of the arrays of active edges.
_FIRST_CAPACITY = 256
# Number of edges with the largest c_f that are sorted at first; each later sorting is
# of four times as many.
_FIRST_DEPTH = 1024


class MAPBinaryGDMMState(BinaryState):
    """State of Algorithm 2 of Huang et al. (2017) on binary variables and edges.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    rho : float
        Weight of the quadratic terms.
    eta : float, default=1.0
        Step of the multipliers, in units of rho.
    exact : bool, default=True
        Whether edge problems are solved exactly, or by one step (6).

    Attributes
    ----------
    unary, pair : ndarrays of shape (n_variables,) and (n_edges,)
        The c_i and c_f.
    constant : float
        Score of all variables at 0.
    x : ndarray of shape (n_variables,)
        The x_i.
    n_active, n_variables : int
        Number of active edges and variables.
    primal_residual, dual_residual : float
        As in `MAPGDMMState`.
    """

    def __init__(self, problem, rho, eta=1.0, exact=True):
        n, m = problem.n_variables, problem.n_edges
        self.unary, self.x, self.pair = np.zeros(n), np.zeros(n), np.empty(m)
        self._sum = np.zeros(n)
        self._is_active = np.zeros(n, dtype=np.int8)
        self._edge_is_active = np.zeros(m, dtype=np.int8)
        arrays = SimpleNamespace(
            unary=self.unary, x=self.x, pair=self.pair, sum=self._sum,
            degree=np.zeros(n, dtype=np.int32), is_active=self._is_active,
            edge_is_active=self._edge_is_active,
        )  # fmt: skip
        super().__init__(problem, rho, eta, exact, arrays)
        self._reserve_edges(0)
        # start at the optimum without edges: all edges are inactive, with zero
        # multipliers
        self.reduce()
        self._n_positive = np.count_nonzero(self.pair > 0.0)
        # edges are sorted when they are first needed
        self._best_edges, self._n_read, self._depth = np.empty(0, dtype=np.intp), 0, 0
        for variable in np.flatnonzero(self._is_active):
            self._activate_edges(self.activate(variable))

    def _reserve_edges(self, size):
        """Reserve arrays of active edges: indices, y_if, mu_if and y_f(1, 1)."""
        old = self.edges if self.n_active else None
        self.edges = edges = SimpleNamespace(
            number=np.zeros(size, dtype=np.int32), y=np.zeros((size, 2)),
            mu=np.zeros((size, 2)), joint=np.zeros(size),
        )  # fmt: skip
        if old is not None:
            for name, array in vars(edges).items():
                array[: self.n_active] = getattr(old, name)[: self.n_active]
        self.point_at(edges)

    def _activate_edges(self, new_edges):
        """Activate edges with marginals that are consistent with their ends."""
        size, capacity = self.n_active + len(new_edges), len(self.edges.number)
        # capacity at least doubles, so that copies stay cheap
        if size > capacity:
            self._reserve_edges(max(2 * capacity, size, _FIRST_CAPACITY))
        self.add_edges(new_edges)

    def _activate_best_edges(self, count):
        """Activate the edges with the largest positive c_f, at most `count`."""
        new_edges = []
        while len(new_edges) < count:
            # with c_f <= 0 and y_f(1, 1) = 0 an edge has no descent direction
            if self._n_read == self._depth:
                if self._depth >= self._n_positive:
                    break
                self._extend_list()
            # edges may have become active with their ends, without being read from the
            # list
            edge = self._best_edges[self._n_read]
            self._n_read += 1
            if not self._edge_is_active[edge]:
                self._edge_is_active[edge] = 1
                new_edges.append(edge)
        self._activate_edges(new_edges)

    def _extend_list(self):
        """Extend the list of edges with the largest c_f."""
        # partitioned before sorting: most edges never enter the list
        self._depth = min(max(_FIRST_DEPTH, 4 * self._depth), self._n_positive)
        if self._depth < len(self.pair):
            top = np.argpartition(-self.pair, self._depth - 1)[: self._depth]
        else:
            top = np.arange(len(self.pair))
        # descending c_f, ties in the order of the edges
        self._best_edges = top[np.lexsort((top, -self.pair[top]))]
        # read from the start: among edges of equal c_f, the longer list may have other
        # edges
        self._n_read = 0

    def grow(self, variables, edges):
        """Activate variables and edges of steepest descent: steps 1, 2 and 4.

        Parameters
        ----------
        variables, edges : int
            Largest number of each to activate.

        Returns
        -------
        activated : int
            Number of variables that became active.
        """
        # now `_sum` is the descent (10) of inactive variables, which have x_i = 0
        self.sum_over_edges()
        # a stable sort keeps ties in the order of variables on every machine
        values = np.where(self._is_active == 0, self._sum, 0.0)
        best = np.argsort(-values, kind="stable")[:variables]
        best = best[values[best] > 0.0]
        for variable in best:
            self._activate_edges(self.activate(variable))
        self._activate_best_edges(edges)
        return len(best)

    def local_search(self, labeling):
        """Flip the variable that raises the score most, until no flip raises the score.

        Parameters
        ----------
        labeling : array-like of shape (n_variables,)
            Initial labeling.

        Returns
        -------
        labeling : ndarray of shape (n_variables,), int32
            A labeling that no flip improves.
        """
        states = np.array(labeling, dtype=np.int32)
        self.flip(states, self.unary.copy())
        return states

    def value(self):
        """Return the objective of the LP relaxation at the current marginals.

        The marginals x_i and y_f may be inconsistent before convergence.

        Returns
        -------
        value : float
            Constant + sum_i c_i x_i + sum_f c_f y_f(1, 1).
        """
        # inactive edges have y_f(1, 1) = 0
        active = self.edges.number[: self.n_active]
        joint = self.edges.joint[: self.n_active]
        return float(
            self.constant
            + np.dot(self.unary, self.x)
            + np.dot(self.pair[active], joint)
        )
