"""Entities with costs of wrong boundaries, beside the Hamming loss: chunk F1, time."""

import warnings

from _common import Clock, arguments, table

from _entities import entity_data  # isort: skip
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.losses import Boundaries, Hamming, Hinge
from sksstruct.metrics import iter_chunks

args = arguments(__doc__, quick="AnEM alone")
warnings.simplefilter("ignore", ConvergenceWarning)

SETS = {
    "AnEM": ("anem", "ner"),
    "WNUT17": ("wnut17", "ner"),
    "BTC": ("btc", "ner"),
    "NCBI disease": ("ncbi_disease_iobes", "bio"),
}
# Costs, and what the default alpha is multiplied by: a larger loss at the same alpha is
# less regularization, which is not what is compared.
CASES = [
    *((Hamming(), factor) for factor in (1.0, 0.25, 4.0)),
    *((Boundaries(cost), 1.0) for cost in (0.25, 0.5, 1.0, 2.0, 4.0)),
    *((Boundaries(0.5), factor) for factor in (0.25, 4.0)),
]
# As many samples of the test sentences say how sure a difference is.
N_SAMPLES = 1000


def counts(labels, found):
    """Chunks that are right, predicted and true, for each sentence."""
    rows = []
    for pair in zip(labels, found, strict=True):
        true, predicted = (set(iter_chunks(list(each))) for each in pair)
        rows.append((len(true & predicted), len(predicted), len(true)))
    return np.array(rows)


def f1(totals):
    """F1 in percent."""
    return 200.0 * totals[..., 0] / (totals[..., 1] + totals[..., 2])


def rows(name):
    """A row for each cost."""
    file, folder = SETS[name]
    features, labels = entity_data(file, "train", args.data_home, folder)
    vectorizer = SequenceVectorizer()
    X = vectorizer.fit_transform(features)
    features, test_labels = entity_data(file, "test", args.data_home, folder)
    X_test = vectorizer.transform(features)
    draws = np.random.RandomState(0).multinomial(
        len(X_test), np.full(len(X_test), 1.0 / len(X_test)), size=N_SAMPLES
    )
    plain = alpha = scaling = None
    for cost, factor in CASES:
        tagger = ChainCRF(loss=Hinge(cost), random_state=0)
        if factor != 1.0:
            # as "auto" reads the data, but for the number
            tagger.set_params(alpha=factor * alpha, intercept_scaling=scaling)
        with Clock() as clock:
            tagger.fit(X, labels)
        found = counts(test_labels, tagger.predict(X_test))
        if plain is None:
            plain, alpha, scaling = found, tagger.alpha_, tagger.intercept_scaling_
        right, predicted, true = found.sum(axis=0)
        error = np.std(f1(draws @ found) - f1(draws @ plain))
        yield [
            f"{cost!r}",
            f"default * {factor:g}",
            f"{clock.seconds:.1f}",
            tagger.n_iter_,
            f"{100 * right / predicted:.1f}",
            f"{100 * right / true:.1f}",
            f"{f1(found.sum(axis=0)):.2f}",
            f"{f1(found.sum(axis=0)) - f1(plain.sum(axis=0)):+.2f}",
            f"{error:.2f}",
            f"{100 * tagger.score(X_test, test_labels):.2f}",
        ]


for name in list(SETS)[:1] if args.quick else SETS:
    table(
        f"{name}: training, and the test set",
        [
            "cost",
            "alpha",
            "CPU s",
            "passes",
            "precision",
            "recall",
            "F1",
            "beside Hamming",
            "its error",
            "accuracy",
        ],
        rows(name),
    )
