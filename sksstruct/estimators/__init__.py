"""scikit-learn's contract: parameters, wiring and attributes; no algorithm."""

from sksstruct.estimators.chain_crf import ChainCRF

__all__ = ["ChainCRF"]
