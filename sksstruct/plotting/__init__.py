"""Displays in the style of scikit-learn's; they need matplotlib."""

from sksstruct.plotting._convergence import ConvergenceDisplay
from sksstruct.plotting._interactions import InteractionsDisplay
from sksstruct.plotting._path import PathDisplay

__all__ = ["ConvergenceDisplay", "InteractionsDisplay", "PathDisplay"]
