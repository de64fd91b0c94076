"""
=============================
Parts: poses of stick figures
=============================

This example finds the joints of stick figures. Single elbows, hands, knees and feet
look similar, and stray strokes look like limbs. The model adds springs between joints,
which score the position of each joint relative to its neighbor.

The images are synthetic; see `sksstruct.datasets.make_stick_figures`. The example
imports :download:`_figure_features.py <../../examples/_figure_features.py>`; put this
file into the same folder.
"""

# %%
# The score of a position for a joint is a linear function of the pixels around it,
# which ``_figure_features.py`` extracts. Half of the arms are raised.
import matplotlib.pyplot as plt
import numpy as np
from _figure_features import patches

from sksstruct import SSVMClassifier
from sksstruct.datasets import make_stick_figures
from sksstruct.models import PartsModel

figures = {"wobble": 0.12, "raised": 0.5}
train = make_stick_figures(100, **figures, random_state=0)
test = make_stick_figures(100, **figures, random_state=1)
X_train, X_test = ([patches(image) for image in d.images] for d in (train, test))

# %%
# Train a model without springs, a model with springs, and a model with two types of
# springs for each bone. Training learns separate types for lowered and raised arms. The
# image at both ends of an arm determines its type. The loss of a joint is a truncated
# quadratic function of the distance, which reaches 1 at 5 pixels.
found = {}
for name, edges, n_types in (
    ("joints alone", [], 1),
    ("springs", train.bones, 1),
    ("types of springs", train.bones, 2),
):
    model = PartsModel(edges, unit=5.0, n_types=n_types)
    classifier = SSVMClassifier(model, alpha=0.01, tol=0.03, random_state=0)
    classifier.fit(X_train, list(train.joints))
    found[name] = np.array(classifier.predict(X_test))
    distance = np.linalg.norm(found[name] - test.joints, axis=2)
    print(
        f"{name:16s} loss {1 - classifier.score(X_test, list(test.joints)):.3f}   "
        f"within 3 pixels {100 * (distance < 3).mean():.1f} %, "
        f"of the arms {100 * (distance[:, 3:7] < 3).mean():.1f} %   "
        f"duality gap {classifier.dual_gap_:.3f} after {classifier.n_iter_} passes"
    )

# %%
# Plot the true and the predicted joints of four test images.
fig, axes = plt.subplots(4, 4, figsize=(5.2, 6.8))
for k, column in enumerate(axes.T):
    for ax, joints in zip(column, [test.joints, *found.values()], strict=True):
        ax.imshow(test.images[k], cmap="gray")
        for u, v in test.bones:
            ax.plot(*joints[k][[u, v]].T[::-1], color="C1")
        ax.set(xticks=[], yticks=[])
for ax, name in zip(axes[:, 0], ["drawn", *found], strict=True):
    ax.set_ylabel(name)
fig.tight_layout()
plt.show()
