import numpy as np
from numpy.typing import ArrayLike

def viterbi_topk(
    unary: ArrayLike, pairwise: ArrayLike, k: int
) -> tuple[np.ndarray, np.ndarray]: ...
