"""Models by name."""

from sklearn.base import clone

from sksstruct.models.candidates.candidates import CandidatesModel
from sksstruct.models.graph.graph import GraphModel
from sksstruct.models.matching.matching import MatchingModel
from sksstruct.models.multiclass.multiclass import MulticlassModel
from sksstruct.models.structured import StructuredModel

_BY_NAME = {
    "multiclass": MulticlassModel,
    "graph": GraphModel,
    "matching": MatchingModel,
    "candidates": CandidatesModel,
}


def resolve_model(model):
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
    """
    if isinstance(model, str):
        if model not in _BY_NAME:
            raise ValueError(
                f"unknown model {model!r}; the names are {sorted(_BY_NAME)}, or pass "
                "an object of sksstruct.models"
            )
        return _BY_NAME[model]()
    if not isinstance(model, StructuredModel):
        raise TypeError(f"model must be a name or a StructuredModel, got {model!r}")
    return clone(model)
