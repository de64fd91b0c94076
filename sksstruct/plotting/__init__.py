"""Displays in the style of scikit-learn's, drawn with matplotlib.

_axes     base class of all displays: axes, colors, texts of docstrings
_heatmap  base class of tables of scores, and names of features
others    one display each; the file is named after what the display draws
"""

from sksstruct.plotting._confusion import ConfusionByTimeDisplay
from sksstruct.plotting._convergence import ConvergenceDisplay
from sksstruct.plotting._interactions import InteractionsDisplay
from sksstruct.plotting._map import MAPDisplay
from sksstruct.plotting._path import PathDisplay
from sksstruct.plotting._runs import RunLengthsDisplay
from sksstruct.plotting._sequence import SequenceDisplay
from sksstruct.plotting._series import SeriesDisplay
from sksstruct.plotting._transitions import TransitionsDisplay
from sksstruct.plotting._weights import WeightsDisplay

__all__ = [
    "ConfusionByTimeDisplay",
    "ConvergenceDisplay",
    "InteractionsDisplay",
    "MAPDisplay",
    "PathDisplay",
    "RunLengthsDisplay",
    "SequenceDisplay",
    "SeriesDisplay",
    "TransitionsDisplay",
    "WeightsDisplay",
]
