"""One of several classes: `multiclass.py` on `_multiclass.pyx`."""

from sksstruct.models.multiclass.multiclass import MulticlassModel

__all__ = ["MulticlassModel"]
