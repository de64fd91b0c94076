from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

def project_box_equality(
    z: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    a: ArrayLike,
    c: float,
    *,
    d: ArrayLike | None = None,
    method: Literal["median", "sort"] = "median",
) -> np.ndarray: ...
