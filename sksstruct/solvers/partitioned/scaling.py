"""sigma' of CoCoA+: how cautious blocks are that do not see each other's changes.

The dual is sum_b l_b - alpha g(v), g convex: |v|^2 / 2, or what truncation makes of it.
In a round from v, block b raises its local problem

    G_b = (change of l_b) - alpha/sigma' (g(v + sigma' dv_b) - g(v))

With sigma' = B the dual rises by at least sum_b G_b, as v + sum_b dv_b is the mean of
the v + B dv_b and g is convex (Ma et al., 2015, Lemmas 3 and 4). For |v|^2 / 2 the same
proof needs no more than

    ratio = |sum_b dv_b|^2 / sum_b |dv_b|^2  <=  sigma'

where the ratio is at most B, and far less where blocks have few features in common.
So sigma' follows the ratios of the rounds before. The dual value is known exactly after
each round: if it did not rise by a share of what was promised, a lower limit of
sigma' is doubled. It ends at B, where all rounds keep their promise; so there are at
most log2 B + 1 such rounds, and the convergence is that of CoCoA+.

C. Ma, V. Smith, M. Jaggi, M. Jordan, P. Richtarik and M. Takac, "Adding vs. averaging
in distributed primal-dual optimization", ICML 2015.
V. Smith, S. Forte, C. Ma, M. Takac, M. Jordan and M. Jaggi, "CoCoA: a general framework
for communication-efficient distributed optimization", JMLR 18, 2018.
"""

# sigma' is so many times the largest ratio of the last rounds.
_FACTOR = 1.1
# Rounds whose ratios count.
_ROUNDS = 3
# The share of the promised gain that a round must make.
_LEAST_GAIN = 0.1


class Scaling:
    """sigma' of the next round.

    Parameters
    ----------
    n_blocks : int
        Number of blocks B.
    adaptive : bool
        Whether to go by the ratios of earlier rounds; otherwise sigma' is B.

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
        """Choose sigma' from what the last round did.

        Parameters
        ----------
        squares : float
            sum_b |dv_b|^2.
        of_sum : float
            |sum_b dv_b|^2.
        gain : float
            By how much the dual rose.
        promised : float
            sum_b G_b.
        """
        if not self.adaptive:
            return
        if squares > 0.0:
            self.ratios = [*self.ratios, of_sum / squares][-_ROUNDS:]
        if gain < _LEAST_GAIN * promised:
            self.floor = min(2.0 * max(self.floor, self.value), self.n_blocks)
        wanted = _FACTOR * max(self.ratios, default=self.n_blocks)
        self.value = float(min(max(wanted, self.floor), self.n_blocks))

    def state(self):
        """What `resume` needs."""
        return {"value": self.value, "floor": self.floor, "ratios": self.ratios}

    def resume(self, entries):
        """Go on from a state."""
        most = float(self.n_blocks)
        self.value = entries.real("value", 1.0, most)
        self.floor = entries.real("floor", 1.0, most)
        self.ratios = entries.reals("ratios", 0.0)
