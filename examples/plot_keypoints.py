"""
=================================
Matching: landmarks in two images
=================================

This example matches thirty landmarks of a toy house between two frames of a sequence in
which the camera moves. Landmarks are compared by the shapes around them. Training
learns which features of the shapes are useful (Caetano et al., 2009).

The data are the CMU house sequence. The library cannot download them. The documentation
of `sksstruct.datasets.load_cmu_house` names the file and the folder.
"""

# %%
# The features of a pair of landmarks are the 60 squared differences of their shape
# contexts. Training uses pairs of frames among the first 20, and testing uses later
# frames.
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
# Plot two test frames that are 90 frames apart. Lines connect the landmarks that the
# last classifier matched. Red lines are errors.
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
