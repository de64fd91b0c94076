"""Axes and labels of lines, and their description, for all displays."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from sksstruct.estimators.path import SSVMPath
    from sksstruct.inference.lp.core.result import MAPResult
else:
    # imported only when something is drawn
    Axes = Colormap = Figure = SSVMPath = MAPResult = Any

# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    "ax": """
ax : matplotlib Axes, default=None
    Axes to draw on. None: new axes.
""",
    "name": """
name : str, default=None
    Label of the line.
""",
    "kwargs": """
**kwargs : dict
    Passed to matplotlib's ``plot``.
""",
}


def axes_for(display, ax):
    """The axes to draw a display on, new ones if None; the display keeps them."""
    # imported only when something is drawn
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots()
    display.ax_, display.figure_ = ax, ax.figure
    return ax


def line_options(display, name, options):
    """Options of lines, labeled with the given name or the name of the display."""
    return {"label": display.name if name is None else name, **options}
