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
#: Constructors of the task losses, by the name that `cost` of a surrogate accepts.
COSTS = Registry(
    {"hamming": Hamming, "boundaries": Boundaries, "segments": WrongSegments},
    (TaskLoss,),
    "cost",
)
#: Constructors of the surrogates, by the name that `loss` of an estimator accepts.
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
#: Constructors of the losses of single labels in sets of labels, by name.
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
    """Return the task loss of a surrogate's `cost`; None for the model's own loss."""
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
