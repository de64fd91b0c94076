from typing import Any

import numpy as np

class BestPlacements:
    def __init__(self, *problem: Any) -> None: ...
    def find(self, k: int, with_types: bool = ...) -> np.ndarray: ...
