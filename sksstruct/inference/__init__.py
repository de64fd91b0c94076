"""Inference: from the potentials of a structure to labelings, marginals and bounds.

The functions and kernels of this folder take arrays of scores, which
`sksstruct.models` forms from weights and features. Exact oracles are in a folder for
each structure: `chains`, `segments`, `trees`, `assignment`, `cuts`, `dependencies` and
`parts`. `search` has oracles for any structure, and `map` solvers of the MAP problem on
factor graphs. `_checks` validates scores for all oracles, and `_batch` calls an oracle
on many problems.
"""

from typing import TYPE_CHECKING

from sksstruct.utils._lazy import lazy_names

__all__ = [
    "Exhaustive",
    "Matching",
    "MinCut",
    "PartsMarginals",
    "Placement",
    "SearchResult",
    "SegmentMarginals",
    "SmoothedMax",
    "batch",
    "best_boxes",
    "best_first",
    "bmmf",
    "branch_and_bound",
    "dependency_marginals",
    "dependency_topk",
    "dependency_tree",
    "forward_backward",
    "matching",
    "matching_max_marginals",
    "max_marginals",
    "max_product",
    "max_product_topk",
    "min_cut",
    "min_cut_max_marginals",
    "parts_max_marginals",
    "parts_max_product",
    "parts_sum_product",
    "scheme_transitions",
    "segment_sum_product",
    "segment_topk",
    "segment_viterbi",
    "smoothed_max_product",
    "sum_product",
    "viterbi",
    "viterbi_topk",
]

if TYPE_CHECKING:
    from sksstruct.inference._batch import batch
    from sksstruct.inference.assignment._matching import (
        Matching,
        matching,
        matching_max_marginals,
    )
    from sksstruct.inference.chains._oracles import (
        forward_backward,
        viterbi,
        viterbi_topk,
    )
    from sksstruct.inference.chains._schemes import scheme_transitions
    from sksstruct.inference.chains._smoothing import SmoothedMax, smoothed_max_product
    from sksstruct.inference.cuts._solver import MinCut, min_cut, min_cut_max_marginals
    from sksstruct.inference.dependencies._oracles import (
        dependency_marginals,
        dependency_topk,
        dependency_tree,
    )
    from sksstruct.inference.parts._oracles import (
        PartsMarginals,
        Placement,
        parts_max_marginals,
        parts_max_product,
        parts_sum_product,
    )
    from sksstruct.inference.search._a_star import best_first
    from sksstruct.inference.search._branch_and_bound import (
        SearchResult,
        branch_and_bound,
    )
    from sksstruct.inference.search._exhaustive import Exhaustive
    from sksstruct.inference.search._image_boxes import best_boxes
    from sksstruct.inference.search._max_marginals import bmmf
    from sksstruct.inference.segments._oracles import (
        SegmentMarginals,
        segment_sum_product,
        segment_topk,
        segment_viterbi,
    )
    from sksstruct.inference.trees._trees import (
        max_marginals,
        max_product,
        max_product_topk,
        sum_product,
    )
else:
    # Oracles are imported on first access: kernels import this package, too, and do not
    # need them.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_batch": ["batch"],
            "assignment._matching": ["Matching", "matching", "matching_max_marginals"],
            "chains._oracles": ["forward_backward", "viterbi", "viterbi_topk"],
            "chains._schemes": ["scheme_transitions"],
            "chains._smoothing": ["SmoothedMax", "smoothed_max_product"],
            "cuts._solver": ["MinCut", "min_cut", "min_cut_max_marginals"],
            "dependencies._oracles": [
                "dependency_marginals",
                "dependency_topk",
                "dependency_tree",
            ],
            "parts._oracles": [
                "PartsMarginals",
                "Placement",
                "parts_max_marginals",
                "parts_max_product",
                "parts_sum_product",
            ],
            "search._a_star": ["best_first"],
            "search._branch_and_bound": ["SearchResult", "branch_and_bound"],
            "search._exhaustive": ["Exhaustive"],
            "search._image_boxes": ["best_boxes"],
            "search._max_marginals": ["bmmf"],
            "segments._oracles": [
                "SegmentMarginals",
                "segment_sum_product",
                "segment_topk",
                "segment_viterbi",
            ],
            "trees._trees": [
                "max_marginals",
                "max_product",
                "max_product_topk",
                "sum_product",
            ],
        },
    )
