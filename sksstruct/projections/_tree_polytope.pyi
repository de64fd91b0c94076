from typing import Any

import numpy as np
from numpy.typing import ArrayLike

def project_chain_polytope(m: ArrayLike) -> np.ndarray: ...
def __getattr__(name: str) -> Any: ...
