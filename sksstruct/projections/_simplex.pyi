from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

def project_simplex(
    z: ArrayLike, *, method: Literal["partition", "drop", "sort"] = "partition"
) -> np.ndarray: ...
def __getattr__(name: str) -> Any: ...
