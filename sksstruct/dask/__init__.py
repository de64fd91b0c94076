"""Training and prediction on data that are spread over a Dask cluster."""

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
