import numpy as np
from numpy.typing import ArrayLike

def dependency_tree(
    scores: ArrayLike, *, projective: bool = True, single_root: bool = True
) -> tuple[np.ndarray, float]: ...
def dependency_topk(
    scores: ArrayLike, k: int, *, projective: bool = True, single_root: bool = True
) -> tuple[np.ndarray, np.ndarray]: ...
def dependency_marginals(
    scores: ArrayLike,
    *,
    projective: bool = True,
    single_root: bool = True,
    scale: float = 1.0,
) -> tuple[float, np.ndarray]: ...
