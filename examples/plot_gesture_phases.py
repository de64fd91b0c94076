"""
===================================
Recordings: the phases of a gesture
===================================

This example labels each frame of a recording: whether the hands of a speaker rest,
prepare a gesture, make it, hold it, or draw back. Four recordings with some thousand
frames are for training, and three for testing. The page :doc:`/how_to/time_series`
explains the choices.

The data are the processed files of Gesture Phase Segmentation, from the UCI repository,
with 32 velocities and accelerations of hands and wrists in each frame. The library
cannot download them. Put them into the data folder as ``gesture/a1.csv.gz`` and so on,
without the line of names. The data folder is ``~/sksstruct_data``, or that in the
environment variable ``SKSSTRUCT_DATA``. If the files are not there, the example
generates recordings with eight columns.
"""

# %%
# Load the recordings: arrays with a row for each frame, and a label for each frame.
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksstruct import ChainCRF, SegmentCRF, StreamingTagger
from sksstruct.datasets import make_segments
from sksstruct.feature_extraction import RowTransformer, SeriesFeatures
from sksstruct.plotting import (
    ConfusionByTimeDisplay,
    RunLengthsDisplay,
    SeriesDisplay,
)

phases = {"D": "rest", "P": "prepare", "S": "stroke", "H": "hold", "R": "retract"}
folder = Path(os.environ.get("SKSSTRUCT_DATA", "~/sksstruct_data")).expanduser()
if (folder / "gesture").is_dir():
    X, y = [], []
    for name in ("a1", "a2", "b1", "c1", "a3", "b3", "c3"):
        path = folder / "gesture" / f"{name}.csv.gz"
        table = np.loadtxt(path, dtype=str, delimiter=",")
        X.append(table[:, :-1].astype(float))
        y.append(np.array([phases[label] for label in table[:, -1]]))
    shown = [24, 25]  # speeds of the left and the right hand
else:
    data = make_segments(
        7,
        n_segments=25,
        n_features=8,
        n_classes=5,
        mean_length=60,
        noise=2.5,
        random_state=0,
    )
    shown = [0, 1]
    X, y = data.X, [np.array(list(phases.values()))[labels] for labels in data.y]
X, y, X_test, y_test = X[:4], y[:4], X[4:], y[4:]
print("frames to train on:", *map(len, y), "and to test on:", *map(len, y_test))


# %%
# Compare four taggers. Columns are scaled by the frames of training.
#
# * A `ChainCRF` with its default loss, the hinge. For few long series, training uses
#   the solver `Continuation`. With ``tol=0.01`` it ends when the objective is at most
#   0.01 above the optimum.
# * The same with the likelihood, ``loss="log"``, which trains sooner, and has
#   probabilities.
# * With further columns from `SeriesFeatures`: the means of 31 frames. They help on
#   the gestures. The noise of the generated recordings drifts, and is not less in the
#   mean.
# * A `SegmentCRF`, which learns how long phases last. ``max_length=None`` sets no
#   limit: beyond 50 frames, each further one has the same weight.
def scaled(tagger, *before):
    return make_pipeline(*before, RowTransformer(StandardScaler()), tagger)


means = SeriesFeatures(differences=(), windows=(31,), statistics=("mean",))
segments = SegmentCRF(loss="log", max_length=None, length_features=50, random_state=0)
taggers = {
    "chain, hinge": scaled(ChainCRF(tol=0.01, random_state=0)),
    "chain, log": scaled(ChainCRF(loss="log", random_state=0)),
    "chain, log, means": scaled(ChainCRF(loss="log", random_state=0), means),
    "segments, log": scaled(segments),
}


def n_runs(labelings):
    return sum(np.count_nonzero(a[1:] != a[:-1]) + 1 for a in labelings)


def accuracy(found):
    return 100 * np.mean(np.concatenate(found) == np.concatenate(y_test))


print(f"{n_runs(y_test)} phases in the test recordings")
for name, tagger in taggers.items():
    begin = time.process_time()
    tagger.fit(X, y)
    seconds = time.process_time() - begin
    found = tagger.predict(X_test)
    print(
        f"{name:18s} {accuracy(found):.1f} % right, {n_runs(found):3d} phases, "
        f"{seconds:4.1f} s, solver {type(tagger[-1].solver_).__name__}"
    )

# %%
# A part of a test recording: true and predicted phases, two of the columns, and the
# probabilities of the phases.
best = taggers["segments, log"]
predicted, probabilities = best.predict(X_test), best.predict_proba(X_test[:1])
fig, ax = plt.subplots(figsize=(9, 5), layout="constrained")
SeriesDisplay.from_predictions(
    y_test[0],
    predicted[0],
    x=X_test[0][:, shown],
    probabilities=probabilities[0],
    classes=best.classes_,
    start=200,
    stop=700,
    ax=ax,
)

# %%
# Are the predicted phases too short? And which is taken for which, and where in a
# recording?
fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for name, ax in zip(("chain, hinge", "segments, log"), axes[:2], strict=True):
    RunLengthsDisplay.from_estimator(taggers[name], X_test, y_test, ax=ax)
    ax.set_title(name)
ConfusionByTimeDisplay.from_predictions(
    y_test, predicted, bins=15, n_pairs=4, relative=True, ax=axes[2]
)

# %%
# Label the frames while they arrive, 30 at a time. The features of a frame need those
# around it: ``context`` says how many. A label is given out at the latest when ``lag``
# further frames have features. Streams need a chain: the score of a segment depends on
# all of its frames.
chain = taggers["chain, log, means"]
for lag in (0, 10, 30, None):
    stream = StreamingTagger(chain, lag=lag, context=chain[0].context_)
    found = []
    for x in X_test:
        parts = [stream.push(x[t : t + 30]) for t in range(0, len(x), 30)]
        found.append(np.concatenate([*parts, stream.flush()]))
    print(f"lag {lag}: {accuracy(found):.1f} % right")
same = zip(found, chain.predict(X_test), strict=True)
print("without a lag as predict:", all(np.array_equal(a, b) for a, b in same))

plt.show()
