"""Handwritten years without a download: strings of scikit-learn's digits."""

import numpy as np
from numpy.random import RandomState
from sklearn.datasets import load_digits
from sklearn.utils import Bunch, check_random_state


def load_digit_strings(
    n_train: int = 400,
    n_test: int = 1000,
    *,
    random_state: int | RandomState | None = 0,
) -> Bunch:
    """Years in real handwriting: strings of four digits, 1950 to 2029.

    Every year is equally likely; each of its digits is drawn from the images of
    `sklearn.datasets.load_digits`. The images of training and test strings come from
    different halves of that data set. Neighboring digits are related: a year begins
    with 1 or 2, the 1 is followed by a 9 and the 2 by a 0.

    Parameters
    ----------
    n_train, n_test : int, default=400, 1000
        Number of strings.
    random_state : int, RandomState instance or None, default=0
        Seed or source of random numbers for years and images.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``X_train``, ``X_test``: arrays of shape (n_strings, 4, 64), pixels between 0
        and 1; ``y_train``, ``y_test``: arrays of digits of shape (n_strings, 4).

    Examples
    --------
    >>> from sksstruct.datasets import load_digit_strings
    >>> data = load_digit_strings(n_train=2, n_test=1)
    >>> data.X_train.shape, data.y_train.shape
    ((2, 4, 64), (2, 4))
    """
    if n_train < 1 or n_test < 1:
        raise ValueError(
            f"n_train and n_test must be at least 1, got {n_train!r} and {n_test!r}"
        )
    rng = check_random_state(random_state)
    images, digits = load_digits(return_X_y=True)
    half = len(digits) // 2
    out = Bunch()
    for name, n, part in (
        ("train", n_train, slice(0, half)),
        ("test", n_test, slice(half, None)),
    ):
        pool = [np.flatnonzero(digits[part] == digit) for digit in range(10)]
        years = rng.randint(1950, 2030, size=n)
        labels = np.array([[int(c) for c in str(year)] for year in years])
        chosen = np.array([[rng.choice(pool[c]) for c in row] for row in labels])
        out["X_" + name] = images[part][chosen] / 16.0
        out["y_" + name] = labels
    return out
