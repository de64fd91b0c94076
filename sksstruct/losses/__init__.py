"""Surrogate losses: what stands between scores of labelings and the objective."""

from sksstruct.losses._smoothed import SmoothedHinge

__all__ = ["SmoothedHinge"]
