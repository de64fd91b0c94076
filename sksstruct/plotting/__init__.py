"""Displays in the style of scikit-learn's; they need matplotlib."""

from sksstruct.plotting._convergence import ConvergenceDisplay
from sksstruct.plotting._interactions import InteractionsDisplay
from sksstruct.plotting._map import MAPDisplay
from sksstruct.plotting._path import PathDisplay
from sksstruct.plotting._sequence import SequenceDisplay
from sksstruct.plotting._transitions import TransitionsDisplay
from sksstruct.plotting._weights import WeightsDisplay

__all__ = [
    "ConvergenceDisplay",
    "InteractionsDisplay",
    "MAPDisplay",
    "PathDisplay",
    "SequenceDisplay",
    "TransitionsDisplay",
    "WeightsDisplay",
]
