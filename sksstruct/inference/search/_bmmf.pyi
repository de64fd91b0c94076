from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

def bmmf(
    max_marginals: Callable[..., Any],
    unary: np.ndarray | Sequence[ArrayLike],
    k: int,
    *,
    max_product: Callable[..., Any] | None = None,
) -> tuple[np.ndarray, np.ndarray]: ...
