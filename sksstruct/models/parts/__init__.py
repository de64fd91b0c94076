"""Parts on a grid."""

from sksstruct.models.parts.parts import PartsModel

__all__ = ["PartsModel"]
