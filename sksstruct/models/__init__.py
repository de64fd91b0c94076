"""Linear maps between weights and potentials, without any optimization.

A model has these parts. To find where a line of code belongs, read one file of each:

    tables/_blocks, _feature_rows   rows of features, blocks of weights: theta_i = A_i w
    tables/_change, _gram           a change d of one example, its norm, w += s A_i^T d
    multiclass/_multiclass          a structure: labelings and the best one, given theta
    multiclass/multiclass           its spec: checks data, names weights, binds both
    protocols/_bound_model          spec and data, bound: what solvers call
    roles                           losses, duals and factors, by the type of the model

`sksstruct.losses` has task losses, which structures add to their potentials, and
surrogates, which solvers minimize. `train` in `estimators/_train.py` connects them.
Other folders are structures like multiclass; `chain` has its own kernel on the same
rows and changes, and `python` and `scores` wrap code of users.

`MODELS` is the one list of their names, which `sksstruct.SSVMClassifier`, the
documentation and the tests read.
"""

from sklearn.base import clone

from sksstruct.models.candidates.candidates import CandidatesModel
from sksstruct.models.check import check_model
from sksstruct.models.dependencies.dependencies import DependencyModel
from sksstruct.models.graph.graph import GraphModel
from sksstruct.models.graph.grid import grid_graph
from sksstruct.models.graph.inputs import Graph
from sksstruct.models.graph.relaxed import RelaxedGraphModel
from sksstruct.models.matching.matching import MatchingModel
from sksstruct.models.multiclass.multiclass import MulticlassModel
from sksstruct.models.parts.parts import PartsModel
from sksstruct.models.scores.jax_score import JAXScore
from sksstruct.models.scores.score import ELUScore, ScoreFunction
from sksstruct.models.scores.torch_score import TorchScore
from sksstruct.models.segments.segments import SegmentModel
from sksstruct.models.structured import StructuredModel

#: Classes of the models that :class:`~sksstruct.SSVMClassifier` accepts by name.
MODELS: dict[str, type[StructuredModel]] = {
    "multiclass": MulticlassModel,
    "graph": GraphModel,
    "matching": MatchingModel,
    "candidates": CandidatesModel,
    "segments": SegmentModel,
    "dependencies": DependencyModel,
}

__all__ = [
    "MODELS",
    "CandidatesModel",
    "DependencyModel",
    "ELUScore",
    "Graph",
    "GraphModel",
    "JAXScore",
    "MatchingModel",
    "MulticlassModel",
    "PartsModel",
    "RelaxedGraphModel",
    "ScoreFunction",
    "SegmentModel",
    "StructuredModel",
    "TorchScore",
    "check_model",
    "grid_graph",
    "resolve_model",
]


def resolve_model(model: str | StructuredModel) -> StructuredModel:
    """A new model for a name or an object.

    Parameters
    ----------
    model : str or StructuredModel
        A name, or an object that is copied.

    Returns
    -------
    model : StructuredModel
        A model that has not seen data.

    Raises
    ------
    ValueError
        If there is no model of that name.
    TypeError
        If it is neither a name nor a `StructuredModel`.

    Examples
    --------
    >>> from sksstruct.models import GraphModel, resolve_model
    >>> resolve_model("matching")
    MatchingModel()
    >>> resolve_model(GraphModel("potts"))
    GraphModel(pairwise='potts')
    """
    if isinstance(model, str):
        if model not in MODELS:
            raise ValueError(
                f"unknown model {model!r}; the names are {sorted(MODELS)}, or pass "
                "an object of sksstruct.models. Sequences are for ChainCRF, sets of "
                "labels for MultilabelPairwise"
            )
        return MODELS[model]()
    if not isinstance(model, StructuredModel):
        raise TypeError(f"model must be a name or a StructuredModel, got {model!r}")
    return clone(model)
