"""Surrogate losses, which turn scores of labelings into an objective."""

from sksstruct.losses._smoothed import SmoothedHinge

__all__ = ["SmoothedHinge"]
