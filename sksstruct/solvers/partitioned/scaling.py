"""sigma' of CoCoA+: the scaling of steps, as blocks do not see changes of other blocks.

The dual is sum_b l_b - alpha g(v), where g is convex: |v|^2 / 2, or its counterpart
after truncation. In a round from v, block b raises its local problem by

    G_b = (change of l_b) - alpha/sigma' (g(v + sigma' dv_b) - g(v))

With sigma' = B the dual rises by at least sum_b G_b, as v + sum_b dv_b is the mean of
the v + B dv_b and g is convex (Ma et al., 2015, Lemmas 3 and 4). For |v|^2 / 2 the same
proof only needs

    ratio = |sum_b dv_b|^2 / sum_b |dv_b|^2  <=  sigma'

where the ratio is at most B, and far smaller if blocks have few features in common.
Hence sigma' follows the ratios of the last rounds. The dual value is known exactly
after each round: if it rose by less than a fraction of sum_b G_b, a lower bound of
sigma' is doubled. At sigma' = B no round falls short, so that there are at most log2 B
+ 1 such rounds, and the convergence is that of CoCoA+.

C. Ma, V. Smith, M. Jaggi, M. Jordan, P. Richtarik and M. Takac, "Adding vs. averaging
in distributed primal-dual optimization", ICML 2015.
V. Smith, S. Forte, C. Ma, M. Takac, M. Jordan and M. Jaggi, "CoCoA: a general framework
for communication-efficient distributed optimization", JMLR 18, 2018.
"""

# sigma' is this factor times the largest ratio |sum_b dv_b|^2 / sum_b |dv_b|^2 of the
# last rounds.
_FACTOR = 1.1
# Number of last rounds whose ratios are used.
_ROUNDS = 3
# Smallest fraction of the promised gain sum_b G_b that a round must make.
_LEAST_GAIN = 0.1


class Scaling:
    """Choice of sigma' for the next round.

    Parameters
    ----------
    n_blocks : int
        Number of blocks B.
    adaptive : bool
        Whether sigma' follows the ratios of earlier rounds; otherwise sigma' is B.

    Attributes
    ----------
    value : float
        sigma'.
    """

    def __init__(self, n_blocks, adaptive):
        self.n_blocks, self.adaptive = n_blocks, adaptive
        self.value, self.floor = float(n_blocks), 1.0
        self.ratios = []

    def update(self, squares, of_sum, gain, promised):
        """Choose sigma' from the changes and gains of the last round.

        Parameters
        ----------
        squares : float
            sum_b |dv_b|^2.
        of_sum : float
            |sum_b dv_b|^2.
        gain : float
            Increase of the dual.
        promised : float
            sum_b G_b.
        """
        if not self.adaptive:
            return
        if squares > 0.0:
            self.ratios = [*self.ratios, of_sum / squares][-_ROUNDS:]
        if gain < _LEAST_GAIN * promised:
            self.floor = min(2.0 * max(self.floor, self.value), self.n_blocks)
        target = _FACTOR * max(self.ratios, default=self.n_blocks)
        self.value = float(min(max(target, self.floor), self.n_blocks))

    def state(self):
        """Return the state that `resume` needs."""
        return {"value": self.value, "floor": self.floor, "ratios": self.ratios}

    def resume(self, entries):
        """Continue from a state."""
        most = float(self.n_blocks)
        self.value = entries.real("value", 1.0, most)
        self.floor = entries.real("floor", 1.0, most)
        self.ratios = entries.reals("ratios", 0.0)
