"""Weizmann horses: images and masks."""

import numpy as np
from sklearn.utils import Bunch

from sksstruct.datasets._fetch import find_file
from sksstruct.utils.typing import PathLike


def load_weizmann_horses(*, data_home: PathLike | None = None) -> Bunch:
    """Images of horses and their masks, the longer side resized to 64 pixels.

    The data are 328 images, without an official split.

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder with ``weizmann_horses64.npz``; by default the environment variable
        ``SKSSTRUCT_DATA``, else ``~/sksstruct_data``.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``images``: list of arrays of shape (height, width, 3), float64 between 0 and 1;
        ``masks``: list of arrays of shape (height, width), 1 in the horse, 0 elsewhere.

    Raises
    ------
    OSError
        If the file is missing; it cannot be fetched.

    References
    ----------
    E. Borenstein and S. Ullman, "Class-specific, top-down segmentation", ECCV 2002.

    Examples
    --------
    >>> from sksstruct.datasets import load_weizmann_horses
    >>> data = load_weizmann_horses()  # doctest: +SKIP
    >>> len(data.images), data.images[0].shape, data.masks[0].shape  # doctest: +SKIP
    (328, (47, 64, 3), (47, 64))
    """
    path = find_file("weizmann_horses64.npz", data_home)
    with np.load(path, allow_pickle=False) as data:
        X, y, shapes, offsets = (data[name] for name in ("X", "y", "shape", "offsets"))
    spans = list(zip(offsets[:-1], offsets[1:], shapes, strict=True))
    return Bunch(
        images=[X[start:end].reshape(*shape, 3) / 255.0 for start, end, shape in spans],
        masks=[y[start:end].reshape(shape) for start, end, shape in spans],
    )
