"""Euclidean projections."""

from sksstruct.projections._simplex import project_simplex

__all__ = ["project_simplex"]
