"""Synthetic sequences."""

import numpy as np
from numpy.random import RandomState
from scipy import sparse
from sklearn.utils import Bunch, check_random_state


def make_chain(
    n_sequences: int = 100,
    *,
    n_features: int = 10,
    n_classes: int = 3,
    min_length: int = 1,
    max_length: int = 10,
    noise: float = 1.0,
    persistence: float = 0.7,
    density: float | None = None,
    random_state: int | RandomState | None = None,
) -> Bunch:
    """Sequences from a hidden Markov chain with Gaussian features.

    Parameters
    ----------
    n_sequences : int, default=100
        Number of sequences.
    n_features : int, default=10
        Number of features.
    n_classes : int, default=3
        Number of labels, 0 to ``n_classes - 1``.
    min_length, max_length : int, default=1, 10
        Lengths are drawn uniformly between these, both included.
    noise : float, default=1.0
        Standard deviation of the features around the mean of their label.
    persistence : float, default=0.7
        Probability that a label is followed by the next one, cyclically; otherwise any
        label follows with equal probability.
    density : float, default=None
        Share of the features that are kept, in which case the result is CSR. None:
        dense arrays with all features.
    random_state : int, RandomState instance or None, default=None
        Seed or source of random numbers.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``X``: list of arrays or CSR arrays of shape (n_positions, n_features); ``y``:
        list of arrays of labels.

    Examples
    --------
    >>> from sksstruct.datasets import make_chain
    >>> data = make_chain(2, min_length=3, max_length=3, random_state=0)
    >>> [x.shape for x in data.X]
    [(3, 10), (3, 10)]
    """
    if not 1 <= min_length <= max_length:
        raise ValueError("lengths must satisfy 1 <= min_length <= max_length")
    if min(n_sequences, n_features, n_classes) < 1:
        raise ValueError("n_sequences, n_features and n_classes must be at least 1")
    rng = check_random_state(random_state)
    means = rng.normal(size=(n_classes, n_features))
    X, y = [], []
    for _ in range(n_sequences):
        length = rng.randint(min_length, max_length + 1)
        labels = np.empty(length, dtype=np.int64)
        labels[0] = rng.randint(n_classes)
        for t in range(1, length):
            if rng.uniform() < persistence:
                labels[t] = (labels[t - 1] + 1) % n_classes
            else:
                labels[t] = rng.randint(n_classes)
        rows = means[labels] + noise * rng.normal(size=(length, n_features))
        if density is not None:
            rows = sparse.csr_array(rows * (rng.uniform(size=rows.shape) < density))
        X.append(rows)
        y.append(labels)
    return Bunch(X=X, y=y)
