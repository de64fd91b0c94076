"""scikit-learn-compatible estimators for structured prediction."""

from typing import TYPE_CHECKING

from sksstruct.utils._lazy import lazy_names
from sksstruct.utils.version import __version__

__all__ = [
    "CalibratedTagger",
    "ChainCRF",
    "FactorGraph",
    "LPMAPPredictor",
    "LinearSSVC",
    "MultilabelPairwise",
    "SSVMClassifier",
    "SSVMPath",
    "SSVMPathCV",
    "SegmentCRF",
    "StreamingTagger",
    "Tagger",
    "__version__",
    "crfsuite_parameters",
    "cross_val_proba",
    "make_tagger",
    "ssvm_path",
]

# Public names that `sksstruct.estimators` does not define.
_OTHERS = "FactorGraph", "__version__"

if TYPE_CHECKING:
    from sksstruct import commands as commands
    from sksstruct import crfsuite as crfsuite
    from sksstruct import dask as dask
    from sksstruct import datasets as datasets
    from sksstruct import estimators as estimators
    from sksstruct import factor_graphs as factor_graphs
    from sksstruct import feature_extraction as feature_extraction
    from sksstruct import inference as inference
    from sksstruct import losses as losses
    from sksstruct import metrics as metrics
    from sksstruct import models as models
    from sksstruct import plotting as plotting
    from sksstruct import projections as projections
    from sksstruct import solvers as solvers
    from sksstruct import utils as utils
    from sksstruct.estimators import (
        CalibratedTagger,
        ChainCRF,
        LinearSSVC,
        LPMAPPredictor,
        MultilabelPairwise,
        SegmentCRF,
        SSVMClassifier,
        SSVMPath,
        SSVMPathCV,
        StreamingTagger,
        Tagger,
        crfsuite_parameters,
        cross_val_proba,
        make_tagger,
        ssvm_path,
    )
    from sksstruct.factor_graphs import FactorGraph
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "estimators": [each for each in __all__ if each not in _OTHERS],
            "factor_graphs": ["FactorGraph"],
        },
    )
