"""
================================
Localization: a digit in clutter
================================

This example finds a digit in an image and recognizes it. All boxes of a few sizes are
candidates, and each candidate can contain any digit. The loss is 1 minus the overlap
with the true box if the digit is right. The baseline is a classifier of cut-out digits
that evaluates all boxes and returns its most confident prediction.

The images are synthetic, and made from the handwritten digits of scikit-learn; see
`sksstruct.datasets.make_digit_clutter`. The example imports
:download:`_clutter_features.py <../../examples/_clutter_features.py>`;
put this file into the same folder.
"""

# %%
# The candidates are boxes of nine sizes, at every other row and column. The features
# of a box are its content, scaled to 8 x 8 pixels, and the brightness of the strips
# around it (``_clutter_features.py``).
import matplotlib.pyplot as plt
import numpy as np
from _clutter_features import boxes_of, describe, overlap
from sklearn.svm import LinearSVC

from sksstruct import SSVMClassifier
from sksstruct.datasets import make_digit_clutter
from sksstruct.models import CandidatesModel

train = make_digit_clutter(250, part="train", random_state=0)
test = make_digit_clutter(200, part="test", random_state=1)
boxes = boxes_of(train.images.shape[1])
F_train, F_test = ([describe(i, boxes) for i in d.images] for d in (train, test))
print(f"{len(boxes)} boxes in an image")


def report(name, found):
    """Overlap with the right box, and how often both box and digit are right."""
    overlaps, right = [], []
    for (box, label), truth, digit in zip(found, test.boxes, test.labels, strict=True):
        overlaps.append(overlap(np.array(box)[None], truth)[0])
        right.append(overlaps[-1] >= 0.5 and label == digit)
    print(
        f"{name:28s} overlap {np.mean(overlaps):.3f}   box and digit right "
        f"{100 * np.mean(right):.1f} %"
    )


# %%
# The baseline is trained on the true boxes, and on five wrong boxes of each image
# with the label "no digit".
rng = np.random.default_rng(0)
rows, labels = [], []
for features, box, digit in zip(F_train, train.boxes, train.labels, strict=True):
    near = overlap(boxes, box)
    rows.append(features[near.argmax()])
    rows.extend(features[rng.choice(np.flatnonzero(near < 0.3), 5, replace=False)])
    labels += [digit] + 5 * [-1]
svc = LinearSVC(C=1.0, random_state=0).fit(rows, labels)
found = []
for features in F_test:
    scores = svc.decision_function(features)[:, 1:]
    index, digit = np.unravel_index(scores.argmax(), scores.shape)
    found.append((boxes[index], digit))
report("LinearSVC on cut-out boxes", found)

# %%
# The structured model is trained on all boxes at once. The true box must have a
# higher score than every other box, with a larger margin for boxes with less overlap.
X_train, X_test = ([(f, boxes) for f in F] for F in (F_train, F_test))
y_train = list(zip(train.boxes.tolist(), train.labels, strict=True))
model = CandidatesModel(overlap="iou")
classifier = SSVMClassifier(model, alpha=1e-3, tol=0.01, random_state=0)
classifier.fit(X_train, y_train)
found = classifier.predict(X_test)
report("SSVMClassifier", found)
print(f"duality gap {classifier.dual_gap_:.4f} after {classifier.n_iter_} passes")

# %%
# Plot some test images with the predicted boxes.
fig, axes = plt.subplots(2, 5, figsize=(6, 3))
for k, ax in enumerate(axes.ravel()):
    (top, left, bottom, right), label = found[k]
    ax.imshow(test.images[k], cmap="gray")
    place = np.array([left, left, right, right, left]) - 0.5
    ax.plot(place, np.array([top, bottom, bottom, top, top]) - 0.5, color="C1")
    ax.set(title=f"{label} (is {test.labels[k]})", xticks=[], yticks=[])
fig.tight_layout()
plt.show()
