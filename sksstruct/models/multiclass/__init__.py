"""Multiclass classification: `multiclass.py` on `_multiclass.pyx`."""

from sksstruct.models.multiclass.multiclass import MulticlassModel

__all__ = ["MulticlassModel"]
