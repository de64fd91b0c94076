"""Bipartite matchings."""

from sksstruct.models.matching.matching import MatchingModel

__all__ = ["MatchingModel"]
