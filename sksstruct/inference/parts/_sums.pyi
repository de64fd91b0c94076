from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

class PartsMarginals(NamedTuple):
    log_partition: float
    marginals: np.ndarray
    displacements: np.ndarray
    squares: np.ndarray

def parts_sum_product(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> PartsMarginals: ...
