"""Training and prediction on data that are spread over a Dask cluster.

`_estimators.py` has the estimators, whose data `_parts.py` reads in parts. `_train.py`
merges facts of all parts, such as labels, and turns each part into a block of
`sksstruct.solvers.Partitioned`. `_executor.py`, on the client, sends calls to the
blocks; `_host.py`, on the workers, answers them. `_lazy.py` applies fitted estimators.
"""

try:
    import dask  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError(
        "sksstruct.dask needs dask and distributed: pip install 'sksstruct[dask]'"
    ) from error

from sksstruct.dask._estimators import (
    DaskChainCRF,
    DaskMultilabelPairwise,
    DaskSegmentCRF,
    DaskSSVMClassifier,
)
from sksstruct.dask._executor import DaskExecutor
from sksstruct.dask._lazy import apply
from sksstruct.dask._parts import Shards
from sksstruct.dask._vectorizer import DaskSequenceVectorizer

__all__ = [
    "DaskChainCRF",
    "DaskExecutor",
    "DaskMultilabelPairwise",
    "DaskSSVMClassifier",
    "DaskSegmentCRF",
    "DaskSequenceVectorizer",
    "Shards",
    "apply",
]
