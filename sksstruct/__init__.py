"""scikit-learn-compatible estimators for structured prediction."""

from sksstruct.estimators import (
    ChainCRF,
    LinearSSVC,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPath,
    SSVMPathCV,
    Tagger,
    crfsuite_parameters,
    make_tagger,
    ssvm_path,
)
from sksstruct.factor_graphs import FactorGraph

__version__ = "0.1.0.dev0"

__all__ = [
    "ChainCRF",
    "FactorGraph",
    "LPMAPPredictor",
    "LinearSSVC",
    "MultilabelPairwise",
    "SSVMClassifier",
    "SSVMPath",
    "SSVMPathCV",
    "Tagger",
    "__version__",
    "crfsuite_parameters",
    "make_tagger",
    "ssvm_path",
]
