"""A loss in which rare labels cost more."""

from dataclasses import dataclass

import numpy as np

from sksstruct.losses import PositionLoss


@dataclass(eq=False, repr=False)
class RareLabels(PositionLoss):
    """Wrong positions, which cost the more the rarer the observed label is.

    Parameters
    ----------
    power : float, default=0.5
        A label that is a share s of the positions costs ``s ** -power``, times a
        number such that the mean cost of all positions is 1.
    """

    power: float = 0.5

    def label_costs(self, classes, counts):
        # a label of the stream may not have been seen yet
        shares = np.maximum(counts, 1.0) / max(counts.sum(), 1.0)
        costs = shares**-self.power
        return costs / (shares @ costs)
