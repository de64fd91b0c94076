"""Base class of the displays, colors of labels, and texts of their docstrings."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

    from sksstruct.estimators.path import SSVMPath
    from sksstruct.inference.map.core.result import MAPResult
else:
    # matplotlib is imported only when something is drawn
    Axes = Colormap = Figure = SSVMPath = MAPResult = Any

# Texts for `sksstruct.utils._doc.fill_doc`.
TEXTS = {
    "axes": """
ax_ : matplotlib Axes
    Axes with the picture.
figure_ : matplotlib Figure
    Figure with the axes.
""",
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
    "imshow": """
**kwargs : dict
    Passed to matplotlib's ``imshow``.
""",
    "options": """
**kwargs : dict
    Passed to `plot`.
""",
}


# Colors that color-blind people can tell apart: Okabe and Ito, "Color universal
# design", 2008, without black, which marks errors.
_PALETTE = (
    "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#0072b2", "#d55e00", "#f0e442",
)  # fmt: skip


def palette(n):
    """Return a list of colors for n labels."""
    if n <= len(_PALETTE):
        return list(_PALETTE[:n])
    # more labels than colors in the palette: a color map from dark to light, which
    # color-blind people can read, too
    import matplotlib as mpl

    cividis = mpl.colormaps["cividis"]
    return [cividis(k / (n - 1)) for k in range(n)]


class Display:
    """Base class of the displays, which are dataclasses of the data that they draw."""

    ax_: Axes
    figure_: Figure

    def _axes(self, ax):
        """Store and return the axes to draw on; with None, new axes."""
        # matplotlib is imported only when something is drawn
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots()
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _line_options(self, name, options):
        """Return options of a line, labeled `name`, or the display's name if None."""
        return {"label": self.name if name is None else name, **options}
