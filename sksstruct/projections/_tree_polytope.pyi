from typing import Any

import numpy as np
from numpy.typing import ArrayLike

def project_tree_polytope(m: ArrayLike, edges: ArrayLike) -> np.ndarray: ...
def __getattr__(name: str) -> Any: ...
