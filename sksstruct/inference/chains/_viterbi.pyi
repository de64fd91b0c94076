import numpy as np
from numpy.typing import ArrayLike

from sksstruct.utils.typing import MatrixLike

def viterbi(unary: ArrayLike, pairwise: MatrixLike) -> tuple[np.ndarray, float]: ...
