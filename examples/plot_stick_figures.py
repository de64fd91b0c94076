"""
==================================================
Stick figures: parts on a grid, held by springs
==================================================

Where are the joints of a figure? Looked at one by one, elbows, hands, knees and feet
are hard to tell apart, and stray strokes look like limbs. Springs between the joints
know where a hand may be when the elbow is here.

The images are synthetic: `sksstruct.datasets.make_stick_figures` says how they are
drawn. The example imports
:download:`figure_features.py <../../examples/figure_features.py>`;
put it into the same folder.
"""

# %%
# What a position is worth to a joint is a linear function of the pixels around it,
# which ``figure_features.py`` collects. Half of the arms are raised.
import matplotlib.pyplot as plt
import numpy as np
from figure_features import patches

from sksstruct import SSVMClassifier
from sksstruct.datasets import make_stick_figures
from sksstruct.models import PartsModel

figures = {"wobble": 0.12, "raised": 0.5}
train = make_stick_figures(100, **figures, random_state=0)
test = make_stick_figures(100, **figures, random_state=1)
X_train, X_test = ([patches(image) for image in d.images] for d in (train, test))

# %%
# Without springs, with springs, and with two types of springs for each bone: arms that
# hang down and arms that are raised become types by themselves, and which of them an
# arm is of, the image at both ends tells. The loss of a joint grows with the squared
# distance, to 1 at a distance of 5 pixels (a truncated quadratic loss).
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
# Four test images: what was drawn, and what was found.
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
