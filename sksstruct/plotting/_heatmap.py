"""Base class of the displays of tables, and names of features of pipelines."""

from typing import Any, Self

import numpy as np
from sklearn.pipeline import Pipeline

from sksstruct.plotting._axes import TEXTS, Axes, Colormap, Display
from sksstruct.utils._doc import fill_doc


@fill_doc(TEXTS)
class HeatMap(Display):
    """Base class of the displays of scores of pairs of labels with the names `names`.

    Class attributes
    ----------------
    _captions : tuple of str
        Captions of the columns, of the rows and of the color bar.
    """

    def plot(
        self,
        ax: Axes | None = None,
        *,
        cmap: str | Colormap = "RdBu_r",
        colorbar: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the heat map.

        Parameters
        ----------
        %(ax)s
        cmap : str or matplotlib Colormap, default="RdBu_r"
            Color map. Its center stands for zero.
        colorbar : bool, default=True
            Whether to draw a color bar.
        %(imshow)s

        Returns
        -------
        display : object of this class
            The display itself.
        """
        ax, values = self._axes(ax), self._scores()
        finite = np.where(np.isfinite(values), values, np.nan)
        limit = np.nanmax(np.abs(finite), initial=0.0) or 1.0
        options = {"cmap": cmap, "vmin": -limit, "vmax": limit, **kwargs}
        self.image_ = ax.imshow(finite, **options)
        columns, rows, scale = self._captions
        if self.names is not None:
            places = np.arange(len(self.names))
            ax.set_yticks(places, self.names)
            ax.set_xticks(places, self.names, rotation=90)
        if colorbar:
            ax.figure.colorbar(self.image_, ax=ax, label=scale)
        ax.set(xlabel=columns, ylabel=rows)
        return self

    def _scores(self):
        """Return the table of scores; NaN and infinite entries stay white."""
        raise NotImplementedError


def last_step(estimator):
    """Return the estimator itself, or the last step of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def feature_names(estimator, n_features, names=None):
    """Return the names of the features of an estimator, or of a pipeline's last step.

    Parameters
    ----------
    estimator : estimator
        A pipeline, or an estimator.
    n_features : int
        Number of the features.
    names : array-like of str, default=None
        The names. None: the names that the steps before give, or those of the data.

    Returns
    -------
    names : list of str
        A name for each feature.
    """
    if names is None and isinstance(estimator, Pipeline) and len(estimator) > 1:
        names = estimator[:-1].get_feature_names_out()
    if names is None:
        names = getattr(last_step(estimator), "feature_names_in_", None)
    if names is None:
        return [f"feature {k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(
            f"names must have a name for each of the {n_features} features, got "
            f"{len(names)}"
        )
    return [str(name) for name in names]
