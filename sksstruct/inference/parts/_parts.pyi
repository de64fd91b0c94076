from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

class Placement(NamedTuple):
    labeling: np.ndarray
    score: float

def parts_max_product(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> Placement: ...
def parts_max_marginals(
    unary: ArrayLike,
    edges: ArrayLike,
    offsets: ArrayLike,
    quadratic: ArrayLike,
    linear: ArrayLike | None = None,
) -> np.ndarray: ...
