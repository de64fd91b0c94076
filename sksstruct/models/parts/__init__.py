"""Parts on a grid: `parts.py` on the structure `placements.py` and `_parts.pyx`."""

from sksstruct.models.parts.parts import PartsModel

__all__ = ["PartsModel"]
