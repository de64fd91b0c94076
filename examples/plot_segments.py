"""
==============================
Segments: stages that do last
==============================

This example labels time series whose stages last for a while: the phases of sleep, of
a gesture, or of a machine. `ChainCRF` knows which label follows which, but not for how
long: it misses short stages, or changes the label for a moment. `SegmentCRF` learns how
long the segments of each label are.
"""

# %%
# Generate series. Stages of each label have a length of at least 8, and a mean between
# 14 and 26. The noise drifts, so that a few positions may look like another label.
import matplotlib.pyplot as plt
import numpy as np

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.datasets import make_segments

data = make_segments(30, random_state=0)
X, y, X_test, y_test = data.X[:15], data.y[:15], data.X[15:], data.y[15:]

# %%
# Train both on the likelihood. Outputs are labels of positions, and a run of equal
# labels is a segment.
taggers = {
    "ChainCRF": ChainCRF(loss="log", random_state=0),
    "SegmentCRF": SegmentCRF(loss="log", random_state=0),
}


def n_runs(labelings):
    return sum(np.count_nonzero(np.diff(labels)) + 1 for labels in labelings)


print(f"{n_runs(y_test)} stages in the test series")
predicted = {}
for name, tagger in taggers.items():
    predicted[name] = tagger.fit(X, y).predict(X_test)
    error = 100 * (1 - tagger.score(X_test, y_test))
    print(f"{name}: {error:.1f} % wrong, {n_runs(predicted[name])} stages")

# %%
# The learned weights of lengths: those of label 0, whose stages are short, fall sooner
# than those of label 3.
segmenter = taggers["SegmentCRF"]
lengths = np.arange(1, len(segmenter.length_coef_) + 1)
fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(9, 5.5), height_ratios=(3, 2), layout="constrained"
)
for k in (0, 3):
    top.plot(lengths, segmenter.length_coef_[:, k], ".-", label=f"label {k}")
top.set(xlabel="length of a segment", ylabel="weight", title="Learned durations")
top.legend()

# Where the two differ most
wrong = [
    np.mean(a != t) - np.mean(b != t)
    for a, b, t in zip(*predicted.values(), y_test, strict=True)
]
i = int(np.argmax(wrong))
rows = [y_test[i], *(labels[i] for labels in predicted.values())]
bottom.imshow(np.array(rows), aspect="auto", cmap="Set2", interpolation="nearest")
bottom.set_yticks(range(3), ["observed", *predicted])
bottom.set(xlabel="position", title="A test series")

# %%
# The probability of a predicted segment is exact: it is that of all labelings that have
# a segment with this label and these ends. Where ends are not certain, it is small.
for start, stop, label, probability in segmenter.predict_segments(X_test[i : i + 1])[0]:
    print(f"{start:4d} to {stop:4d}  label {label}  probability {probability:.2f}")

plt.show()
