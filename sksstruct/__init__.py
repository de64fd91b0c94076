"""scikit-learn-compatible estimators for structured prediction."""

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
from sksstruct.utils.state import __version__

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
