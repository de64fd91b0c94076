"""scikit-learn-compatible estimators for structured prediction."""

from sksstruct.estimators import ChainCRF

__version__ = "0.1.0.dev0"

__all__ = ["ChainCRF", "__version__"]
