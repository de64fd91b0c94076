"""Euclidean projections."""

from sksstruct.projections._box_equality import project_box_equality
from sksstruct.projections._polytopes import (
    project_chain_polytope,
    project_tree_polytope,
)
from sksstruct.projections._probabilities import project_simplex

__all__ = [
    "project_box_equality",
    "project_chain_polytope",
    "project_simplex",
    "project_tree_polytope",
]
