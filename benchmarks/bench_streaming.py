"""Labels while positions arrive: microseconds for a position, and lag against accuracy.

Both tables are of `StreamingTagger`. Latency is that of chains with random weights, by
the number of labels, for positions that come one by one and in pieces of a thousand;
`predict` of the whole series stands beside it. Accuracy is that of taggers of gesture
phases and of generated series with known durations, with the probabilities for the most
probable label given as many further positions.

    python benchmarks/bench_streaming.py [--data-home folder]
"""

from _common import Clock, arguments, live_table  # isort: skip, sets the threads

import warnings

import numpy as np
from _default_sets import Reader
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksstruct import ChainCRF, StreamingTagger
from sksstruct.datasets import make_segments
from sksstruct.feature_extraction import RowTransformer, SeriesFeatures

LAGS = (0, 1, 2, 5, 10, 20, 50, None)


def random_tagger(n_labels, n_features=32, seed=0):
    """A tagger whose labels follow each other rarely, and a series of 20,000."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(20_000, n_features))
    crf = ChainCRF(loss="log", max_iter=1, tol=1e6, random_state=0)
    crf.fit([X[:n_labels]], [np.arange(n_labels)])
    crf.coef_ = 0.1 * rng.normal(size=crf.coef_.shape)
    crf.transitions_ = 3.0 * np.eye(n_labels)
    return crf, X


def latency_rows(labels=(2, 5, 20), lags=(0, 5, 50, None), n_single=2000):
    """Microseconds of CPU time for a position."""
    for n_labels in labels:
        crf, X = random_tagger(n_labels)
        with Clock() as whole:
            crf.predict([X])
        for lag in lags:
            row = {"labels": n_labels, "lag": lag}
            row["whole"] = round(1e6 * whole.seconds / len(X), 2)
            for method in ("predict", "predict_proba"):
                if lag is None and method == "predict_proba":
                    continue
                stream = StreamingTagger(crf, lag=lag, method=method)
                with Clock() as pieces:
                    for t in range(0, len(X), 1000):
                        stream.push(X[t : t + 1000])
                stream.reset()
                with Clock() as single:
                    for t in range(n_single):
                        stream.push(X[t : t + 1])
                row |= {
                    f"{method}, single": round(1e6 * single.seconds / n_single, 1),
                    f"{method}, pieces": round(1e6 * pieces.seconds / len(X), 2),
                }
            yield row


def streamed(tagger, X, **parameters):
    """Results for series whose positions come one by one, and the longest wait."""
    stream, found, longest = StreamingTagger(tagger, **parameters), [], 0
    for x in X:
        parts = []
        for t in range(len(x)):
            parts.append(stream.push(x[t : t + 1]))
            longest = max(longest, stream.n_pending_)
        found.append(np.concatenate([*parts, stream.flush()]))
    return np.concatenate(found), longest


def sets(home):
    """Names, training series and labels, test series and labels."""
    data = make_segments(60, random_state=0)
    yield "durations", (data.X[:30], data.y[:30], data.X[30:], data.y[30:])
    if home is not None:
        yield "gesture", Reader(home, 1000).gestures()


def accuracy_rows(home, lags=LAGS):
    """Percent of right labels, by the lag."""
    for name, (X, y, X_test, y_test) in sets(home):
        features = SeriesFeatures(windows=(15,), causal=True)
        features = make_pipeline(features, RowTransformer(StandardScaler())).fit(X)
        crf = ChainCRF(loss="log", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            crf.fit(features.transform(X), y)
        test, truth = features.transform(X_test), np.concatenate(y_test)
        for lag in lags:
            labels, wait = streamed(crf, test, lag=lag)
            rows, _ = streamed(crf, test, lag=lag, method="predict_proba")
            probable = crf.classes_[rows.argmax(axis=1)]
            yield {
                "data": name,
                "lag": lag,
                "best labeling": round(100 * np.mean(labels == truth), 1),
                "most probable": round(100 * np.mean(probable == truth), 1),
                "longest wait": wait,
            }


if __name__ == "__main__":
    home = arguments(__doc__).data_home
    live_table("microseconds of CPU time for a position", latency_rows())
    live_table("accuracy in percent, by the lag", accuracy_rows(home))
