"""
==================================================
Stick figures: parts on a grid, held by springs
==================================================

Where are the joints of a figure? Looked at one by one, elbows, hands, knees and feet
are hard to tell apart, and stray strokes look like limbs. Springs between the joints
know where a hand may be when the elbow is here.

The images are synthetic: `sksstruct.datasets.make_stick_figures` says how they are
drawn.
"""

# %%
# What a position is worth to a joint is a linear function of the pixels around it.
import matplotlib.pyplot as plt
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sksstruct import SSVMClassifier
from sksstruct.datasets import make_stick_figures
from sksstruct.metrics import pck_score
from sksstruct.models import PartsModel


def patches(image, reach=3):
    """Pixels around each position, and their squares' mean."""
    padded = np.pad(image, reach, mode="edge")
    windows = sliding_window_view(padded, (2 * reach + 1,) * 2)
    windows = windows.reshape(*image.shape, -1)
    power = (windows**2).mean(axis=2, keepdims=True)
    return np.concatenate([windows, power], axis=2) / 7


train = make_stick_figures(50, random_state=0)
test = make_stick_figures(80, random_state=1)
X_train, X_test = ([patches(image) for image in d.images] for d in (train, test))

# %%
# With and without springs. The loss of a joint grows with the squared distance, to 1 at
# a distance of 5 pixels (a truncated quadratic loss).
found = {}
for name, edges in (("joints alone", []), ("joints with springs", train.bones)):
    model = PartsModel(edges, unit=5.0)
    classifier = SSVMClassifier(model, alpha=0.01, tol=0.03, random_state=0)
    classifier.fit(X_train, list(train.joints))
    found[name] = np.array(classifier.predict(X_test))
    near = pck_score(test.joints, found[name], threshold=3)
    print(
        f"{name:20s} loss {1 - classifier.score(X_test, list(test.joints)):.3f}   "
        f"within 3 pixels {100 * near:.1f} %   "
        f"duality gap {classifier.dual_gap_:.3f} after {classifier.n_iter_} passes"
    )

# %%
# Four test images: what was drawn, and what was found.
fig, axes = plt.subplots(3, 4, figsize=(8, 7.5))
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
