"""Linear maps between weights and potentials; they know no optimisation."""

from sksstruct.models._registry import resolve_model
from sksstruct.models.multiclass import MulticlassModel
from sksstruct.models.score import ELUScore, ScoreFunction
from sksstruct.models.structured import StructuredModel

__all__ = [
    "ELUScore",
    "MulticlassModel",
    "ScoreFunction",
    "StructuredModel",
    "resolve_model",
]
