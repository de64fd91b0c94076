"""Euclidean projections."""

from sksstruct.projections._box import project_box_equality
from sksstruct.projections._simplex import project_simplex
from sksstruct.projections._tree_polytope import (
    project_chain_polytope,
    project_tree_polytope,
)

__all__ = [
    "project_box_equality",
    "project_chain_polytope",
    "project_simplex",
    "project_tree_polytope",
]
