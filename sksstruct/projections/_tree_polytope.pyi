from typing import Any

import numpy as np
from numpy.typing import ArrayLike

def project_chain_polytope(
    m: ArrayLike, *, d: ArrayLike | None = None
) -> np.ndarray: ...
def project_tree_polytope(
    m: ArrayLike, edges: ArrayLike, *, d: ArrayLike | None = None
) -> np.ndarray: ...
def __getattr__(name: str) -> Any: ...
