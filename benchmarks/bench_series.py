"""Long sequences and time series.

Few long sequences by loss and solver; taggers of series, beside single frames and
hmmlearn (if it is installed), also of series that are cut out of longer ones; labels
that are given out late; and what an iteration of the likelihood of segments takes
beside that of the chain.

    python benchmarks/bench_series.py [--data-home folder] [--only section ...]
"""

from _common import Clock, live_table  # isort: skip, sets the threads

import argparse
import importlib.util
import itertools
import warnings

import numpy as np
from _default_sets import Reader
from _series_peers import Frames, HiddenMarkov
from bench_streaming import accuracy_rows, latency_rows
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.solvers import LBFGS


def generated(n_sequences, size, n_labels, longest, seed=0):
    """Series of four measurements, whose runs have any length up to the longest."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_labels, 4))
    X, y = [], []
    for _ in range(n_sequences):
        labels: list[int] = []
        while len(labels) < size:
            others = [k for k in range(n_labels) if labels[-1:] != [k]]
            labels += [int(rng.choice(others))] * int(rng.integers(1, longest + 1))
        # of each label a run of the largest length may be cut at the end
        y.append(labels[:size])
        X.append(means[y[-1]] + rng.normal(size=(size, 4)))
    return X, y


def seconds_of(estimator, X, y):
    """CPU seconds of a fit."""
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, y)
    return clock.seconds


def per_position(estimator, X, y, few=2, many=12):
    """CPU microseconds of an iteration of L-BFGS for each position."""
    times = []
    for n in few, many:
        estimator.set_params(solver=LBFGS(n, tol=0.0))
        times.append(min(seconds_of(estimator, X, y) for _ in range(3)))
    return 1e6 * (times[1] - times[0]) / (many - few) / sum(map(len, y))


def iterations(home):
    """An iteration of the likelihood: lengths and labels, beside the chain."""
    print("CPU microseconds of an L-BFGS iteration, for each position")
    print(f"{'labels':>6} {'lengths':>7} {'chain':>7} {'segments':>8} {'ratio':>6}")
    for n_labels, longest in itertools.product((2, 5, 20), (8, 50, 200)):
        X, y = generated(8, 2500, n_labels, longest)
        chain = ChainCRF(loss="log")
        segments = SegmentCRF(loss="log", length_features=longest)
        first, second = (per_position(each, X, y) for each in (chain, segments))
        ratio = second / first
        row = f"{n_labels:6} {longest:7} {first:7.2f} {second:8.2f} {ratio:6.1f}"
        print(row, flush=True)


def runs_of(labels):
    """Start, stop and label of every run of equal labels."""
    labels = np.asarray(labels)
    cuts = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    bounds = np.r_[0, cuts, len(labels)]
    return [(a, b, labels[a]) for a, b in itertools.pairwise(bounds)]


def run_f1(true, predicted):
    """F1 of runs: a run is right if a true one of its label covers half of both."""
    right = n_true = n_found = 0
    for one, other in zip(true, predicted, strict=True):
        one, other = runs_of(one), runs_of(other)
        n_true, n_found, free = n_true + len(one), n_found + len(other), set(one)
        for start, stop, label in other:
            for run in sorted(free):
                shared = min(stop, run[1]) - max(start, run[0])
                union = max(stop, run[1]) - min(start, run[0])
                if run[2] == label and 2 * shared >= union:
                    free.discard(run)
                    right += 1
                    break
    return 2.0 * right / (n_true + n_found)


def stages(law, n=20, size=300, seed=0):
    """Noisy series of two columns and three stages, whose durations follow a law."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])
    X, y = [], []
    for _ in range(2 * n):
        labels: list[int] = []
        while len(labels) < size:
            others = [k for k in range(3) if labels[-1:] != [k]]
            labels += [int(rng.choice(others))] * law(rng)
        y.append(np.array(labels[:size]))
        X.append(means[y[-1]] + rng.normal(size=(size, 2)))
    return X[:n], y[:n], X[n:], y[n:]


def series_sets(home):
    """Names of data sets of series, and training and test data."""
    yield "geometric", stages(lambda rng: int(rng.geometric(1 / 25)))
    yield "near 25", stages(lambda rng: 1 + int(rng.poisson(24)))
    if home is not None:
        yield "gesture", Reader(home, 1000).gestures()


def taggers(y):
    """Names of taggers, and new ones."""
    longest = max(b - a for each in y for a, b, _ in runs_of(each))
    yield "frames", Frames()
    if importlib.util.find_spec("hmmlearn"):
        yield "hmmlearn", HiddenMarkov()
        yield "hmmlearn, Erlang", HiddenMarkov(most_states=20)
    yield "chain, hinge", ChainCRF(random_state=0)
    yield "chain, log", ChainCRF(loss="log", random_state=0)
    segments = {"random_state": 0, "max_length": longest}
    yield "segments, hinge", SegmentCRF(max_seconds=120, **segments)
    yield "segments, log", SegmentCRF(loss="log", **segments)


def accuracy(home):
    """Accuracy, F1 of runs at half overlap, and CPU seconds of a fit, of each."""

    def rows():
        for name, (X, y, X_test, y_test) in series_sets(home):
            for kind, tagger in taggers(y):
                seconds = seconds_of(tagger, X, y)
                found = tagger.predict(X_test)
                right = np.concatenate(found) == np.concatenate(y_test)
                yield {
                    "data": name,
                    "tagger": kind,
                    "seconds": round(seconds, 2),
                    "accuracy": round(100 * right.mean(), 1),
                    "run F1": round(100 * run_f1(y_test, found), 1),
                }

    live_table("taggers of series, on one thread", rows())


def cut_series(n=20, size=3000, seed=0):
    """Noisy series out of the middle of longer ones, with runs of 50 to 1,000 steps."""
    rng = np.random.default_rng(seed)
    means = 0.5 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    X, y = [], []
    for _ in range(2 * n):
        first = int(rng.integers(1000, 2000))
        labels: list[int] = []
        while len(labels) < first + size:
            others = [k for k in range(3) if labels[-1:] != [k]]
            labels += [int(rng.choice(others))] * int(rng.integers(50, 1001))
        y.append(np.array(labels[first : first + size]))
        X.append(means[y[-1]] + rng.normal(size=(size, 2)))
    return X[:n], y[:n], X[n:], y[n:]


def cut(home):
    """Taggers of series that begin and end within runs, and set no limit to them."""
    X, y, X_test, y_test = cut_series()
    options = {"max_length": None, "length_features": 20, "random_state": 0}
    tagged = {"frames": Frames()}
    if importlib.util.find_spec("hmmlearn"):
        tagged["hmmlearn"] = HiddenMarkov()
        tagged["hmmlearn, Erlang"] = HiddenMarkov(most_states=20)
    tagged["chain, hinge"] = ChainCRF(random_state=0)
    tagged["chain, log"] = ChainCRF(loss="log", random_state=0)
    for kind in "same", "own", "none":
        tagged[f"segments, log, {kind}"] = SegmentCRF(
            loss="log", boundary_lengths=kind, **options
        )
    tagged["segments, hinge, own"] = SegmentCRF(
        boundary_lengths="own", max_seconds=120, **options
    )

    def rows():
        for kind, tagger in tagged.items():
            seconds = seconds_of(tagger, X, y)
            with Clock() as clock:
                found = tagger.predict(X_test)
            right = np.concatenate(found) == np.concatenate(y_test)
            yield {
                "tagger": kind.ljust(20),
                "seconds": round(seconds, 2),
                "us a step": round(1e6 * clock.seconds / sum(map(len, y_test)), 2),
                "accuracy": round(100 * right.mean(), 2),
                "run F1": round(100 * run_f1(y_test, found), 1),
            }

    live_table("series that are cut out of longer ones, runs of up to 1,000", rows())


def tokens(size, n=3000):
    """The same tokens in sequences of a size: words that tell their tag, or not."""
    rng = np.random.default_rng(0)
    tags = rng.integers(8, size=n)
    words = [
        [f"w{k}_{rng.integers(40)}" if rng.random() < 0.8 else f"n{rng.integers(300)}"]
        for k in tags
    ]
    X = [words[i : i + size] for i in range(0, n, size)]
    return SequenceVectorizer().fit_transform(X), np.split(tags, range(size, n, size))


def long_sets(home):
    """Names of sets of few long sequences, and training and test data."""
    for size in 20, 500, 3000:
        X, y = tokens(size)
        yield f"tokens, {len(y)} x {size}", (X, y, X, y)
    yield "three stages", stages(lambda rng: 1 + int(rng.poisson(24)))
    if home is None:
        return
    yield "gesture", Reader(home, 1000).gestures()
    X, y, X_test, y_test = Reader(home, 1000).characters()
    vectorizer = SequenceVectorizer()
    X, X_test = vectorizer.fit_transform(X), vectorizer.transform(X_test)
    yield "Thai characters", (X, y, X_test, y_test)


def words_f1(true, found):
    """F1 of words, from labels of characters of which "B" begins a word."""
    spans = [
        {(i, *span) for i, each in enumerate(labels) for span in spans_of(each)}
        for labels in (true, found)
    ]
    return 2.0 * len(spans[0] & spans[1]) / sum(map(len, spans))


def spans_of(labels):
    """Start and stop of every word."""
    starts = np.flatnonzero(np.asarray(labels) == "B")
    return itertools.pairwise([*starts.tolist(), len(labels)])


def training(home):
    """Time, certificate and score of taggers by loss and solver."""

    def rows():
        for name, (X, y, X_test, y_test) in long_sets(home):
            for loss, solver in (("hinge", "auto"), ("hinge", "bcfw"), ("log", "auto")):
                tagger = ChainCRF(
                    loss=loss, solver=solver, random_state=0, max_seconds=60
                )
                seconds = seconds_of(tagger, X, y)
                found = tagger.predict(X_test)
                score = np.mean(np.concatenate(found) == np.concatenate(y_test))
                if name.startswith("Thai"):
                    score = words_f1(y_test, found)
                yield {
                    "data": name.ljust(18),
                    "loss": loss,
                    "solver": type(tagger.solver_).__name__.ljust(12),
                    "seconds": round(seconds, 2),
                    "passes": tagger.n_iter_,
                    "gap, %": round(100 * tagger.dual_gap_ / tagger.objective_, 2),
                    "score": round(100 * score, 1),
                }

    live_table(
        "few long sequences, on one thread: CPU seconds to the default gap", rows()
    )


def streaming(home):
    """Latency of labels, and how late they have to be."""
    live_table("microseconds of CPU time for a position", latency_rows())
    live_table("accuracy in percent, by the lag", accuracy_rows(home))


SECTIONS = {
    each.__name__: each for each in (training, accuracy, cut, streaming, iterations)
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=list(SECTIONS))
    chosen = parser.parse_args()
    for name in chosen.only:
        SECTIONS[name](chosen.data_home)
