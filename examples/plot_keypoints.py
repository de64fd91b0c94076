"""
======================================
Keypoints: matching turning landmarks
======================================

Thirty landmarks of a toy house, seen in two frames of a sequence in which the camera
moves: which is which? The shapes around two landmarks tell, and training tells which
features of the shape to trust (Caetano et al., 2009).

The data are the CMU house sequence. The library cannot fetch them;
`sksstruct.datasets.load_cmu_house` says which file it reads, and from which folder.
"""

# %%
# A pair of landmarks is described by the squared differences of their shape contexts,
# 60 numbers. Training uses pairs of frames among the first 20, tests later ones.
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment

from sksstruct import SSVMClassifier
from sksstruct.datasets import load_cmu_house
from sksstruct.models import MatchingModel

house = load_cmu_house()
contexts = house.contexts / house.contexts.max()


def pair(first, second):
    """Features of all pairs of landmarks of two frames."""
    return -((contexts[first][:, None] - contexts[second][None]) ** 2)


for apart in (10, 50, 90):
    train = [pair(k, k + apart) for k in range(0, 20, 2)]
    test = [pair(k, k + apart) for k in range(20, 111 - apart, 1)] or [
        pair(k, k + apart) for k in range(1, 20, 2)
    ]
    truth = np.arange(30)
    model = MatchingModel(complete=True)
    classifier = SSVMClassifier(model, alpha=1e-4, tol=1e-3, random_state=0)
    classifier.fit(train, [truth] * len(train))
    learned = np.mean([found != truth for found in classifier.predict(test)])
    plain = [linear_sum_assignment(x.sum(axis=2), maximize=True)[1] for x in test]
    print(
        f"frames {apart:2d} apart: wrong by distance "
        f"{100 * np.mean(plain != truth):5.1f} %, learned {100 * learned:5.1f} %"
    )

# %%
# Two frames that are 90 apart and were not trained on, side by side. Lines join what
# the last classifier matched; a red one is wrong.
first, second = 11, 101
left = house.points[first]
right = house.points[second] + [1.4 * np.ptp(left[:, 0]), 0]
found = classifier.predict([pair(first, second)])[0]
fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for k, match in enumerate(found):
    color = "C0" if match == k else "C3"
    ax.plot(*zip(left[k], right[match], strict=True), color=color, linewidth=0.8)
ax.scatter(*np.concatenate([left, right]).T, s=15, color="black", zorder=2)
ax.invert_yaxis()
ax.set_aspect("equal")
ax.set_axis_off()
plt.show()
