import numpy as np
from numpy.typing import ArrayLike

def forward_backward(
    unary: ArrayLike, pairwise: ArrayLike
) -> tuple[float, np.ndarray, np.ndarray]: ...
