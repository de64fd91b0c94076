"""Losses: surrogates, which turn scores of labelings and a task loss into an objective.

`_base.py` has the base classes; task losses are `_hamming.py`, `_boundaries.py` and
`_wrong_segments.py`, surrogates `_hinge.py`, `_smoothed.py` and `_likelihood.py`, and
losses of single labels in sets `_labels.py`. The registries below (`_registry.py`) are
the one list of the losses' names; estimators read them, and annotate parameters by
`LossName` and `LabelLossName`.
"""

from functools import partial
from typing import Literal

from sksstruct.losses._base import (
    NeighborLoss,
    PositionLoss,
    Surrogate,
    TaskLoss,
)
from sksstruct.losses._boundaries import Boundaries
from sksstruct.losses._hamming import Hamming
from sksstruct.losses._hinge import Hinge
from sksstruct.losses._labels import (
    LabelHinge,
    LabelLogistic,
    LabelLoss,
    LabelSquaredHinge,
)
from sksstruct.losses._likelihood import LogLikelihood
from sksstruct.losses._registry import Registry
from sksstruct.losses._smoothed import SmoothedHinge
from sksstruct.losses._wrong_segments import WrongSegments

LossName = Literal["hinge", "log", "smoothed_hinge"]
LabelLossName = Literal["squared_hinge", "hinge", "log", "structured_hinge"]
#: Makers of the task losses that the `cost` of a surrogate knows by name.
COSTS = Registry(
    {"hamming": Hamming, "boundaries": Boundaries, "segments": WrongSegments},
    (TaskLoss,),
    "cost",
)
#: Makers of the surrogates that estimators know by name.
LOSSES = Registry(
    {
        "hinge": Hinge,
        "log": LogLikelihood,
        "smoothed_hinge": partial(SmoothedHinge, "auto"),
    },
    (Surrogate,),
    "loss",
)
resolve_loss = LOSSES.resolve
#: Makers of the losses of single labels in sets of labels.
LABEL_LOSSES = Registry(
    {
        "hinge": LabelHinge,
        "squared_hinge": LabelSquaredHinge,
        "log": LabelLogistic,
        "structured_hinge": Hinge,
    },
    (LabelLoss, Hinge),
    "loss",
)


def task_loss_of(loss):
    """The task loss that a surrogate names or has; None for the model's own loss."""
    return None if loss.cost is None else COSTS.resolve(loss.cost)


__all__ = [
    "COSTS",
    "LABEL_LOSSES",
    "LOSSES",
    "Boundaries",
    "Hamming",
    "Hinge",
    "LabelHinge",
    "LabelLogistic",
    "LabelLoss",
    "LabelSquaredHinge",
    "LogLikelihood",
    "NeighborLoss",
    "PositionLoss",
    "SmoothedHinge",
    "Surrogate",
    "TaskLoss",
    "WrongSegments",
]
