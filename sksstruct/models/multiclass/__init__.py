"""Classes."""

from sksstruct.models.multiclass.multiclass import MulticlassModel

__all__ = ["MulticlassModel"]
