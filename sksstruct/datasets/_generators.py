"""Generators of synthetic sequences."""

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
        Smallest and largest length of a sequence; lengths are uniform between them.
    noise : float, default=1.0
        Standard deviation of the features around the mean of their label.
    persistence : float, default=0.7
        With this probability, label k is followed by label k + 1, cyclically; otherwise
        any label, including k + 1, follows with equal probability.
    density : float, default=None
        Share of the features that are kept, in CSR arrays. None: dense arrays with all
        features.
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
        raise ValueError(
            f"lengths must satisfy 1 <= min_length <= max_length, got {min_length!r} "
            f"and {max_length!r}"
        )
    if min(n_sequences, n_features, n_classes) < 1:
        raise ValueError(
            "n_sequences, n_features and n_classes must be at least 1, got "
            f"{n_sequences!r}, {n_features!r} and {n_classes!r}"
        )
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


def make_segments(
    n_sequences: int = 100,
    *,
    n_segments: int = 10,
    n_features: int = 3,
    n_classes: int = 4,
    min_length: int = 8,
    mean_length: float = 20.0,
    noise: float = 0.8,
    correlation: float = 0.8,
    random_state: int | RandomState | None = None,
) -> Bunch:
    """Time series of segments with known distributions of lengths.

    The length of a segment is `min_length` plus a Poisson random number, whose mean
    depends on the label. The next segment has a different label, by a random table of
    probabilities. The features are a mean for each label plus Gaussian noise, which is
    correlated along the sequence: for a few positions, features may look like those of
    another label.

    Parameters
    ----------
    n_sequences : int, default=100
        Number of sequences.
    n_segments : int, default=10
        Number of segments of each sequence.
    n_features : int, default=3
        Number of features.
    n_classes : int, default=4
        Number of labels, 0 to ``n_classes - 1``.
    min_length : int, default=8
        Smallest length of a segment.
    mean_length : float, default=20.0
        Mean length of segments, averaged over the labels. The mean of the Poisson
        number grows linearly from 0.5 to 1.5 times ``mean_length - min_length``, from
        the first label to the last.
    noise : float, default=0.8
        Standard deviation of the noise; that of the means is 1.
    correlation : float, default=0.8
        Correlation of the noise at consecutive positions.
    random_state : int, RandomState instance or None, default=None
        Seed or source of random numbers.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``X``: list of arrays of shape (n_positions, n_features); ``y``: list of arrays
        of labels; ``mean_lengths``: array of shape (n_classes,); ``transitions``: array
        of shape (n_classes, n_classes), the probabilities of the next label.

    Examples
    --------
    >>> from sksstruct.datasets import make_segments
    >>> data = make_segments(2, n_segments=3, random_state=0)
    >>> data.mean_lengths.tolist()
    [14.0, 18.0, 22.0, 26.0]
    >>> all(x.shape == (len(labels), 3) for x, labels in zip(data.X, data.y))
    True
    """
    if min(n_sequences, n_segments, n_features, min_length) < 1 or n_classes < 2:
        raise ValueError(
            "n_sequences, n_segments, n_features and min_length must be at least 1, "
            f"and n_classes at least 2, got {n_sequences!r}, {n_segments!r}, "
            f"{n_features!r}, {min_length!r} and {n_classes!r}"
        )
    if mean_length < min_length or not 0 <= correlation < 1:
        raise ValueError(
            f"mean_length must be at least min_length={min_length!r}, and correlation "
            f"in [0, 1), got {mean_length!r} and {correlation!r}"
        )
    rng = check_random_state(random_state)
    means = rng.normal(size=(n_classes, n_features))
    extra = (mean_length - min_length) * np.linspace(0.5, 1.5, n_classes)
    transitions = np.zeros((n_classes, n_classes))
    others = ~np.eye(n_classes, dtype=bool)
    transitions[others] = rng.dirichlet(np.ones(n_classes - 1), n_classes).ravel()
    X, y = [], []
    for _ in range(n_sequences):
        stages = [rng.randint(n_classes)]
        while len(stages) < n_segments:
            stages.append(rng.choice(n_classes, p=transitions[stages[-1]]))
        labels = np.repeat(stages, min_length + rng.poisson(extra[stages]))
        drift = rng.normal(size=(len(labels), n_features))
        drift[1:] *= np.sqrt(1 - correlation**2)
        for t in range(1, len(labels)):
            drift[t] += correlation * drift[t - 1]
        X.append(means[labels] + noise * drift)
        y.append(labels)
    return Bunch(X=X, y=y, mean_lengths=min_length + extra, transitions=transitions)
