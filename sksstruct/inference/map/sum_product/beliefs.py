"""Set-up of belief propagation: arrays of the kernel, marginals and log Z."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.core._index import offsets
from sksstruct.inference.map.sum_product._beliefs import BeliefSweeps


class Beliefs(BeliefSweeps):
    """Messages and beliefs of belief propagation on a graph.

    Parameters
    ----------
    problem : MAPProblem
        The graph.
    shares : ndarray of shape (n_factors,)
        Share r_f of each factor (see `_beliefs`), edges before larger factors.

    Attributes
    ----------
    beliefs : ndarray of shape (n_states.sum(),)
        Beliefs psi_i: scores plus messages.
    damping : float
        Share of the old message in a new one; initially 0.
    residual : float
        Largest change of a message in the last sweep, before damping. The change is
        relative to the size of the message if this is above 1. inf if time ran out
        before the end of the sweep.
    """

    def __init__(self, problem, shares):
        self._graph = graph = problem.arrays
        first = graph.scope_first[: problem.n_factors]
        # sweeps update factors in the order of their variables, because variables with
        # close numbers are often neighbors
        order = np.lexsort([
            np.maximum.reduceat(graph.scope, first),
            np.minimum.reduceat(graph.scope, first),
        ])  # fmt: skip
        start = offsets(graph.states[graph.scope])
        self._first, self._start = graph.scope_first.tolist(), start.tolist()
        self.beliefs = graph.unary.copy()
        arrays = SimpleNamespace(
            share=shares, messages=np.zeros(start[-1]), start=start,
            order=order, beliefs=self.beliefs,
        )  # fmt: skip
        super().__init__(problem, arrays)

    def marginals(self):
        """Return the marginals of the variables.

        Returns
        -------
        marginals : ndarray of shape (n_states.sum(),)
            Distributions over the states of the variables.
        """
        out = np.empty(len(self.beliefs))
        self.normalize(out)
        return out

    def factor_scores(self, factor):
        """Return the scores a_i that are added to a factor's table in its marginals.

        Parameters
        ----------
        factor : int
            The factor.

        Returns
        -------
        scores : list of ndarrays of shape (n_states[i],)
            The a_i of the factor's variables.
        """
        places = range(self._first[factor], self._first[factor + 1])
        start, begin = self._start, self._start[places.start]
        out = np.empty(start[places.stop] - begin)
        self.gather(factor, out)
        return [out[start[p] - begin : start[p + 1] - begin] for p in places]

    def log_partition(self):
        """Return the Bethe estimate of log Z, or its reweighted kind, at a fixed point.

        Returns
        -------
        value : float
            sum_i (1 - sum_f r_f) log Z_i + sum_f r_f log Z_f, where Z_i and Z_f
            normalize the marginals.
        """
        return self.free_energy(np.ones(len(self._graph.states)))

    def forest_log_partition(self, factors, parents):
        """Return log Z of the graph with the factors of one forest only.

        Parameters
        ----------
        factors, parents : ndarrays of shape (n_members,), intp
            See `draw_forest`.

        Returns
        -------
        value : float
            log Z; inf if time ran out before the end.
        """
        is_root = np.ones(len(self._graph.states), dtype=np.int8)
        return self.sum_forest(factors, parents, self.beliefs.copy(), is_root)
