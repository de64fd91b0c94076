"""Bipartite matchings: `matching.py` on `_matching.pyx`."""

from sksstruct.models.matching.matching import MatchingModel

__all__ = ["MatchingModel"]
