"""Euclidean projections.

`_box_equality.py` and `_box.pyx` project onto a box with an equality, by medians of
`_select.pyx`; `_probabilities.py` and `_simplex.pyx` onto the probability simplex;
`_polytopes.py` onto local polytopes of trees, by Newton's method (`_newton.pyx`) on the
dual (`_multipliers.pyx`) of each tree (`_tree_polytope.pyx`).
"""

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
