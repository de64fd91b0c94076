"""Linear maps between weights and potentials; they know no optimisation."""

from sksstruct.models._registry import resolve_model
from sksstruct.models.candidates import CandidatesModel
from sksstruct.models.check import check_model
from sksstruct.models.graph import GraphModel
from sksstruct.models.matching import MatchingModel
from sksstruct.models.multiclass import MulticlassModel
from sksstruct.models.parts import PartsModel
from sksstruct.models.relaxed_graph import RelaxedGraphModel
from sksstruct.models.score import ELUScore, ScoreFunction
from sksstruct.models.structured import StructuredModel

__all__ = [
    "CandidatesModel",
    "ELUScore",
    "GraphModel",
    "MatchingModel",
    "MulticlassModel",
    "PartsModel",
    "RelaxedGraphModel",
    "ScoreFunction",
    "StructuredModel",
    "check_model",
    "resolve_model",
]
