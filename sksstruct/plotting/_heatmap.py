"""What displays of tables, and of fitted pipelines, share."""

import numpy as np
from sklearn.pipeline import Pipeline


def heat_map(ax, values, names, *, cmap, colorbar, label, **options):
    """Draw a table of scores, its colors being symmetric about zero.

    Parameters
    ----------
    ax : matplotlib Axes
        Axes to draw on.
    values : ndarray of shape (n_rows, n_columns)
        The table; nan and infinite entries stay white.
    names : tuple of list of str or None
        Names of the rows and of the columns.
    cmap : str or matplotlib Colormap
        Colors; the middle one stands for zero.
    colorbar : bool
        Whether to draw a scale beside the heat map.
    label : str
        What the scale shows.
    **options : dict
        Passed to ``imshow``.

    Returns
    -------
    image : matplotlib AxesImage
        The heat map.
    """
    finite = np.where(np.isfinite(values), values, np.nan)
    limit = np.nanmax(np.abs(finite), initial=0.0) or 1.0
    image = ax.imshow(
        finite, **{"cmap": cmap, "vmin": -limit, "vmax": limit, **options}
    )
    rows, columns = names
    if rows is not None:
        ax.set_yticks(np.arange(len(rows)), rows)
    if columns is not None:
        ax.set_xticks(np.arange(len(columns)), columns, rotation=90)
    if colorbar:
        ax.figure.colorbar(image, ax=ax, label=label)
    return image


def last_step(estimator):
    """The estimator itself, or the last step of a pipeline."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def feature_names(estimator, n_features, names=None):
    """Names of the features of a fitted estimator, or of the last step of a pipeline.

    Parameters
    ----------
    estimator : estimator
        A pipeline, or an estimator.
    n_features : int
        How many there are.
    names : array-like of str, default=None
        The names. None: those that the steps before, or the data, had.

    Returns
    -------
    names : list of str
        One for each feature.
    """
    if names is None and isinstance(estimator, Pipeline) and len(estimator) > 1:
        names = estimator[:-1].get_feature_names_out()
    if names is None:
        names = getattr(last_step(estimator), "feature_names_in_", None)
    if names is None:
        return [f"feature {k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"names has {len(names)} entries, {n_features} are needed")
    return [str(name) for name in names]
