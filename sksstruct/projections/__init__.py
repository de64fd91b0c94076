"""Euclidean projections.

`_box_equality.py` and `_box.pyx` project onto a box with an equality, by medians of
`_select.pyx`; `_probabilities.py` and `_simplex.pyx` onto the probability simplex;
`_polytopes.py` onto local polytopes of trees, by Newton's method (`_newton.pyx`) on the
dual (`_multipliers.pyx`) of each tree (`_tree_polytope.pyx`).
"""

from typing import TYPE_CHECKING

from sksstruct.utils._lazy import lazy_names

__all__ = [
    "project_box_equality",
    "project_chain_polytope",
    "project_simplex",
    "project_tree_polytope",
]

if TYPE_CHECKING:
    from sksstruct.projections._box_equality import project_box_equality
    from sksstruct.projections._polytopes import (
        project_chain_polytope,
        project_tree_polytope,
    )
    from sksstruct.projections._probabilities import project_simplex
else:
    # Names are imported when needed: kernels of MAP solvers need no polytopes.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_box_equality": ["project_box_equality"],
            "_polytopes": ["project_chain_polytope", "project_tree_polytope"],
            "_probabilities": ["project_simplex"],
        },
    )
