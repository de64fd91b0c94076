"""Rows of embeddings, alone and beside sparse attributes.

First ChainCRF() and scikit-learn's classifier of single tokens, on embeddings alone.

The rows are made: 20 labels follow each other in sentences of about 20 tokens, each
with at most five likely successors. A row is the mean of its label plus Gaussian noise
whose spread falls from the first direction to the last; its norm is about 20.

Then ChainCRF() on CoNLL-2000: ten indicators of a token, its word and tag and those up
to two tokens away, beside vectors of 50 numbers, sums of random vectors of the
neighbors of a word. Each in a process of its own: the indicators alone; all features in
one CSR matrix, by scipy.sparse.hstack; and side by side.
"""

import multiprocessing
import resource
import tempfile
import time

# before _common, which leaves one thread to a BLAS that is loaded after it
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from _common import Clock, arguments, table  # isort: skip

from sksstruct import ChainCRF
from sksstruct.datasets import fetch_conll2000
from sksstruct.feature_extraction import (
    SequenceVectorizer,
    WordVectors,
    window_features,
)
from sksstruct.utils.packed import PackedSequences

args = arguments(__doc__, quick="a tenth of the tokens")
N_TOKENS, N_FEATURES, N_LABELS, NORM = 200_000, 384, 20, 20.0


def embeddings(n_tokens, means, transitions, rng):
    """Sentences of about 20 tokens, and their labels."""
    lengths = rng.randint(10, 31, n_tokens // 20)
    labels = np.zeros(lengths.sum(), dtype=int)
    sums = transitions.cumsum(axis=1)
    draws, starts = rng.random_sample(len(labels)), np.cumsum(lengths) - lengths
    first = np.zeros(len(labels), dtype=bool)
    first[starts] = True
    for t, draw in enumerate(draws):
        if first[t]:
            labels[t] = int(draw * N_LABELS)
        else:
            labels[t] = min(np.searchsorted(sums[labels[t - 1]], draw), N_LABELS - 1)
    spread = np.arange(1, N_FEATURES + 1) ** -0.25
    rows = means[labels] + spread * rng.standard_normal((len(labels), N_FEATURES))
    rows *= NORM / np.sqrt((rows**2).sum(axis=1).mean())
    X = PackedSequences.from_lengths(rows.astype(np.float32), lengths)
    return X, np.split(labels, np.cumsum(lengths)[:-1])


def word_vectors(sentences, rng):
    """Words in lower case, and sums of random vectors of their neighbors."""
    rows = {}
    tokens = [
        rows.setdefault(word.lower(), len(rows))
        for words in sentences
        for word in words
    ]
    random, sums = rng.standard_normal((len(rows), 50)), np.zeros((len(rows), 50))
    np.add.at(sums, tokens[1:], random[tokens[:-1]])
    np.add.at(sums, tokens[:-1], random[tokens[1:]])
    return list(rows), sums / np.sqrt((sums**2).sum(axis=1, keepdims=True))


def beside(form, path):
    """A row of the second table."""
    X, y = PackedSequences.open(f"{path}/words", mmap=False, labels=True)
    vectors = PackedSequences.open(f"{path}/vectors", mmap=False)
    with Clock() as joining:
        if form == "scipy.sparse.hstack":
            both = sparse.hstack([X.values, sparse.csr_array(vectors.values)], "csr")
            X = PackedSequences(both, X.offsets)
        elif form == "PackedSequences.hstack":
            X = PackedSequences.hstack([X, vectors])
    with Clock() as clock:
        tagger = ChainCRF(random_state=0).fit(X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = f"{joining.seconds:.2f}", f"{clock.seconds:.2f}"
    return form, *seconds, f"{peak / 1024:.0f}", tagger.n_iter_, f"{tagger.alpha_:.3f}"


def table_beside(rng):
    """Print the second table."""
    data = fetch_conll2000("train", data_home=args.data_home)
    templates = [[(name, k)] for name in ("w", "pos") for k in range(-2, 3)]
    pairs = zip(data.words, data.tags, strict=True)
    rows = [window_features({"w": w, "pos": tags}, templates) for w, tags in pairs]
    words = SequenceVectorizer().fit_transform(rows)
    vectors = WordVectors(word_vectors(data.words, rng)).fit_transform(data.words)
    forms = "indicators alone", "scipy.sparse.hstack", "PackedSequences.hstack"
    found = []
    with tempfile.TemporaryDirectory() as path:
        words.save(f"{path}/words", data.labels)
        vectors.save(f"{path}/vectors")
        for form in forms:
            # memory is that of a process
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found.append(pool.apply(beside, (form, path)))
    title = f"{words.offsets[-1]} tokens, {words.n_features} indicators, 50 numbers"
    table(title, ["", "join s", "fit s", "MB", "passes", "alpha"], found)


def main():
    rng = np.random.RandomState(0)
    means = rng.standard_normal((N_LABELS, N_FEATURES))
    means *= 0.8 / np.sqrt((means**2).sum(axis=1, keepdims=True))
    transitions = np.zeros((N_LABELS, N_LABELS))
    for row in transitions:
        row[rng.choice(N_LABELS, 5, replace=False)] = rng.dirichlet(np.ones(5))
    transitions = 0.9 * transitions + 0.1 / N_LABELS
    n = N_TOKENS // 10 if args.quick else N_TOKENS
    X, y = embeddings(n, means, transitions, rng)
    X_test, y_test = embeddings(n // 5, means, transitions, rng)
    tokens, tokens_test = X.values, X_test.values
    flat, flat_test = np.concatenate(y), np.concatenate(y_test)
    print(X, f"mean squared norm {(tokens.astype(float) ** 2).sum() / len(tokens):.1f}")
    taggers = {
        "LogisticRegression(), tokens": (LogisticRegression(), tokens, flat),
        "ChainCRF()": (ChainCRF(random_state=0), X, y),
        'ChainCRF(loss="log")': (ChainCRF(loss="log", random_state=0), X, y),
    }
    rows = []
    for name, (tagger, inputs, labels) in taggers.items():
        start = time.perf_counter()
        with Clock() as clock:
            tagger.fit(inputs, labels)
        seconds = time.perf_counter() - start
        chains = isinstance(tagger, ChainCRF)
        test = (X_test, y_test) if chains else (tokens_test, flat_test)
        rows.append(
            [
                name,
                f"{seconds:.1f}",
                f"{clock.seconds:.1f}",
                f"{100 * tagger.score(*test):.2f}",
                tagger.n_iter_ if chains else tagger.n_iter_[0],
                f"{tagger.alpha_:.3g}" if chains else "",
            ]
        )
    title = f"{len(tokens)} tokens, {N_FEATURES} features, {N_LABELS} labels"
    table(title, ["", "s", "CPU s", "accuracy", "passes", "alpha"], rows)
    table_beside(rng)


if __name__ == "__main__":
    main()
