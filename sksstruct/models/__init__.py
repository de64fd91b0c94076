"""Linear maps between weights and potentials; they know no optimisation."""

from sksstruct.models._registry import resolve_model
from sksstruct.models.candidates.candidates import CandidatesModel
from sksstruct.models.chain.score import ELUScore, ScoreFunction
from sksstruct.models.check import check_model
from sksstruct.models.graph.graph import GraphModel
from sksstruct.models.graph.relaxed import RelaxedGraphModel
from sksstruct.models.matching.matching import MatchingModel
from sksstruct.models.multiclass.multiclass import MulticlassModel
from sksstruct.models.parts.parts import PartsModel
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
