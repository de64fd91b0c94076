"""Handwritten digits in clutter: synthetic scenes for object localization."""

from typing import Literal

import numpy as np
from numpy.random import RandomState
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state


def make_digit_clutter(
    n_images: int = 200,
    *,
    size: int = 28,
    clutter: int = 25,
    noise: float = 0.1,
    part: Literal["all", "train", "test"] = "all",
    random_state: int | RandomState | None = None,
) -> Bunch:
    """Images of a handwritten digit among fragments of other digits.

    Each image is square and has one digit of `sklearn.datasets.load_digits`, 8 x 8
    pixels magnified to a height and width between 8 and 16. The rest is clutter: pieces
    of 4 x 4 pixels cut from random digits, and Gaussian pixel noise.

    Parameters
    ----------
    n_images : int, default=200
        Number of images.
    size : int, default=28
        Height and width of the images.
    clutter : int, default=25
        Number of pieces in each image.
    noise : float, default=0.1
        Standard deviation of the noise; digits are between 0 and 1.
    part : {"all", "train", "test"}, default="all"
        Digits that are used: all, the first 1200, or the remaining ones.
    random_state : int, RandomState instance or None, default=None
        Seed or source of random numbers.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``images``: array of shape (n_images, size, size); ``boxes``: integer array of
        shape (n_images, 4), the top, left, bottom and right of each digit, where bottom
        and right are exclusive; ``labels``: the digits.

    Examples
    --------
    >>> from sksstruct.datasets import make_digit_clutter
    >>> data = make_digit_clutter(3, random_state=0)
    >>> data.images.shape, data.boxes.shape, data.labels.shape
    ((3, 28, 28), (3, 4), (3,))
    """
    if part not in ("all", "train", "test"):
        raise ValueError(f"part must be 'all', 'train' or 'test', got {part!r}")
    if n_images < 1 or size < 16:
        raise ValueError(
            f"n_images must be at least 1 and size at least 16, got {n_images!r} and "
            f"{size!r}"
        )
    rng = check_random_state(random_state)
    digits = load_digits()
    used = {"all": slice(None), "train": slice(1200), "test": slice(1200, None)}[part]
    drawings, names = digits.images[used] / 16.0, digits.target[used]
    images = np.zeros((n_images, size, size))
    boxes = np.empty((n_images, 4), dtype=np.intp)
    labels = np.empty(n_images, dtype=names.dtype)
    for i, image in enumerate(images):
        for _ in range(clutter):
            row, column = rng.randint(5, size=2)
            digit = drawings[rng.randint(len(drawings))]
            piece = digit[row : row + 4, column : column + 4]
            top, left = rng.randint(size - 3, size=2)
            here = image[top : top + 4, left : left + 4]
            np.maximum(here, piece, out=here)
        k = rng.randint(len(drawings))
        height, width = rng.randint(8, 17, size=2)
        top, left = rng.randint(size - height + 1), rng.randint(size - width + 1)
        bottom, right = top + height, left + width
        rows, columns = np.arange(height) * 8 // height, np.arange(width) * 8 // width
        image[top:bottom, left:right] = drawings[k][np.ix_(rows, columns)]
        boxes[i] = top, left, bottom, right
        labels[i] = names[k]
    images += noise * rng.normal(size=images.shape)
    return Bunch(images=images, boxes=boxes, labels=labels)
