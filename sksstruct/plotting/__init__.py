"""Displays, in scikit-learn's manner; they need matplotlib."""

from sksstruct.plotting._convergence import ConvergenceDisplay

__all__ = ["ConvergenceDisplay"]
