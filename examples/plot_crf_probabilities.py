"""
================================================
Probabilities, k-best labelings and known labels
================================================

This example trains a conditional random field that reads handwritten years. It computes
the probability of every digit and the five best readings, and uses known digits to
improve the prediction of the others.
"""

# %%
# The data are strings of four digits made from scikit-learn's images. To train on
# the likelihood instead of the structured hinge, set one parameter.
import matplotlib.pyplot as plt
import numpy as np

from sksstruct import ChainCRF
from sksstruct.datasets import load_digit_strings

data = load_digit_strings(n_train=200)
crf = ChainCRF(alpha=0.001, loss="log").fit(data.X_train, data.y_train)
print(
    f"{crf.n_iter_} iterations, objective {crf.objective_:.4f}, "
    f"duality gap {crf.dual_gap_:.1e}"
)

# %%
# Compute the marginal probabilities of the predicted labels. In a calibrated model,
# labels with probability p are correct with frequency p.
read = np.stack(crf.predict(data.X_test))
probabilities = np.stack(crf.predict_proba(data.X_test))
sure = np.take_along_axis(probabilities, read[:, :, None], axis=2)[:, :, 0]
right = read == data.y_test
print(f"digit error {100 * (1 - right.mean()):.2f} %")

# %%
# Print the five best readings of the year with the least confident prediction, and
# their scores.
doubtful = int(sure.min(axis=1).argmin())
labelings, scores = crf.predict_topk(data.X_test[doubtful : doubtful + 1], 5)
for labels, score in zip(labelings[0], scores[0], strict=True):
    print("".join(map(str, labels)), f"{score:.2f}")

# %%
# Suppose that the last digit of each year is known, and that each year begins with 1
# or 2. Pass this information to ``predict``.
known = [[None, None, None, int(row[-1])] for row in data.y_test]
rules = [(None, digit) for digit in (0, 3, 4, 5, 6, 7, 8, 9)]
helped = np.stack(crf.predict(data.X_test, known=known, forbidden_transitions=rules))
for name, labels in (("alone", read), ("with hints", helped)):
    wrong = (labels != data.y_test)[:, :3]
    print(f"error of the first three digits, {name}: {100 * wrong.mean():.2f} %")

# %%
figure, axes = plt.subplot_mosaic(
    [["strings", "strings"], ["probabilities", "calibration"]],
    figsize=(5.4, 4.8),
    height_ratios=[1, 2.5],
    layout="constrained",
)
strings, middle, right_axis = axes.values()
strings.imshow(np.hstack(data.X_test[doubtful].reshape(-1, 8, 8)), cmap="gray_r")
strings.set_axis_off()
strings.set_title("least sure of: " + "".join(map(str, data.y_test[doubtful])))
middle.imshow(probabilities[doubtful].T, cmap="Blues", vmin=0, vmax=1)
middle.set(title="probabilities", xlabel="position", ylabel="digit")
middle.set_yticks(range(10), crf.classes_)
edges = np.quantile(sure, np.linspace(0, 1, 9))
bins = np.digitize(sure, edges[1:-1])
means = [(sure[bins == b].mean(), right[bins == b].mean()) for b in range(8)]
right_axis.plot([0.4, 1], [0.4, 1], "--", color="gray")
right_axis.plot(*np.transpose(means), "o-")
right_axis.set(title="calibration", xlabel="said", ylabel="came true")
plt.show()
