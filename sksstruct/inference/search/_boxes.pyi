from typing import Any

from numpy.typing import ArrayLike

from sksstruct.inference.search._branch_and_bound import SearchResult

def best_boxes(
    weights: ArrayLike,
    k: int = 1,
    *,
    observed: ArrayLike | None = None,
    loss_weight: float = 1.0,
    max_nodes: int | None = None,
) -> SearchResult: ...
def __getattr__(name: str) -> Any: ...
