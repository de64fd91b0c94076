"""Sets of labels: the splits of Mulan, and generated ones of other shapes."""

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler, normalize

from sksstruct.datasets import load_multilabel

MULAN = ("emotions", "scene", "yeast", "medical", "rcv1sub1", "bibtex", "corel5k")
# Samples to train on and to test, features, labels, labels and words of a sample, share
# of words that tell nothing.
MADE = {
    "like enron": (1123, 579, 1001, 53, 3.4, 40, 0.7),
    "like delicious": (12920, 3185, 500, 983, 19.0, 18, 0.3),
    "4000 labels": (15000, 3000, 5000, 4000, 5.0, 60, 0.5),
}
SETS = (*MULAN, *MADE)


def load(name, data_home=None, unit=False):
    """Train and test parts, if wanted with rows, or dense columns, of unit length."""
    if name in MADE:
        return made(*MADE[name])
    parts = (load_multilabel(name, part, data_home=data_home)
             for part in ("train", "test"))  # fmt: skip
    (X, Y), (X_test, Y_test) = ((part.X, part.y) for part in parts)
    if name in ("emotions", "yeast"):
        X, X_test = X.toarray(), X_test.toarray()
        if unit or name == "emotions":
            scaler = StandardScaler().fit(X)
            X, X_test = (scaler.transform(Z) for Z in (X, X_test))
        if unit:
            X, X_test = (Z / Z.shape[1] ** 0.5 for Z in (X, X_test))
    elif unit:
        X, X_test = normalize(X), normalize(X_test)
    return X, Y, X_test, Y_test


def made(n, n_test, n_features, n_labels, n_on, n_words, noise, n_topics=50):
    """Binary words of topics and of labels, whose frequencies are a power law."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(n_features, 0.05), n_topics)
    common = rng.dirichlet(np.full(n_features, 0.3))
    own = rng.integers(n_features, size=(n_labels, 4))
    liked = rng.gamma(0.1, size=(n_topics, n_labels)) + 1e-4
    liked *= (2.0 + np.arange(n_labels)) ** -1.0
    X, Y = [], []
    for start in range(0, n + n_test, 1000):
        many = min(1000, n + n_test - start)
        # a topic for the most part, and another one
        mixed = np.zeros((many, n_topics))
        for share in 0.2, 0.8:
            mixed[np.arange(many), rng.integers(n_topics, size=many)] = share
        sizes = 1 + rng.poisson(n_on - 1, many)
        on = _drawn(rng, mixed @ liked, sizes)
        of_labels = np.zeros((many, n_features))
        samples, labels = np.nonzero(on)
        for word in own[labels].T:
            np.add.at(of_labels, (samples, word), 1.0 / (4 * sizes[samples]))
        told = 0.5 * of_labels + 0.5 * mixed @ topics
        words = noise * common + (1.0 - noise) * told + 1e-12
        lengths = np.minimum(1 + rng.poisson(n_words - 1, many), n_features)
        X.append(sparse.csr_array(_drawn(rng, words, lengths).astype(np.float64)))
        # scikit-learn counts labels in this type
        Y.append(on.astype(np.int16))
    X, Y = sparse.csr_array(sparse.vstack(X)), np.concatenate(Y)
    return X[:n], Y[:n], X[n:], Y[n:]


def _drawn(rng, shares, sizes):
    """So many columns of each row, drawn without replacement (by Gumbel variables)."""
    keys = np.log(shares) + rng.gumbel(size=shares.shape)
    ordered = -np.sort(-keys, axis=1)
    return keys >= ordered[np.arange(len(keys)), sizes - 1][:, None]
