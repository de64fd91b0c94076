"""
========================
Matching: word alignment
========================

This example aligns the words of English and French sentences. Every word is linked to
at most one word of the other language, so an alignment is a matching. The scores of
pairs of words are learned from 100 sentences with known links.

The example imports
:download:`_alignment_features.py <../../examples/_alignment_features.py>`;
put this file into the same folder.

The data are the Hansards of the Canadian parliament, as prepared for a shared task in
2003. The library cannot download them. The documentation of
`sksstruct.datasets.load_hansards` names the files and the folder.
"""

# %%
# Use 100 pairs of sentences for training and 347 for testing. The co-occurrences of
# words are counted in all sentences, including 2383 sentences without links.
import matplotlib.pyplot as plt
import numpy as np
from _alignment_features import dice_counts, pair_features
from scipy.optimize import linear_sum_assignment

from sksstruct import SSVMClassifier
from sksstruct.datasets import load_hansards
from sksstruct.metrics import alignment_error_rate
from sksstruct.models import MatchingModel

data = load_hansards()
dice = dice_counts([*data.trial, *data.test, *data.unaligned])
train, test = data.test[:100], data.test[100:]
X_train, X_test = ([pair_features(p, dice) for p in part] for part in (train, test))
y_train, y_test = ([p.links for p in part] for part in (train, test))


# %%
# The baseline is the best matching by Dice's coefficient, without the pairs below a
# threshold. The threshold is the best one on the training sentences.
def match_by_dice(pair, threshold):
    worth = np.maximum(dice(pair) - threshold, 0.0)
    columns = np.full(len(pair.english), -1)
    rows, best = linear_sum_assignment(worth, maximize=True)
    columns[rows] = np.where(worth[rows, best] > 0, best, -1)
    return columns


thresholds = np.arange(0.0, 0.5, 0.02)
rates = [
    alignment_error_rate(y_train, [match_by_dice(p, t) for p in train])
    for t in thresholds
]
best = thresholds[int(np.argmin(rates))]
rate = alignment_error_rate(y_test, [match_by_dice(p, best) for p in test])
print(f"matching by Dice's coefficient     AER {100 * rate:5.1f} %")

# %%
# The model has six features for each pair, and a bias. A missed link costs three times
# as much as a wrong link, because there are more wrong pairs. Possible links have no
# cost.
model = MatchingModel(false_cost=1.0, miss_cost=3.0)
classifier = SSVMClassifier(model, alpha=0.01, tol=1e-3, random_state=0)
classifier.fit(X_train, y_train)
found = classifier.predict(X_test)
rate = alignment_error_rate(y_test, found)
print(
    f"SSVMClassifier(MatchingModel())    AER {100 * rate:5.1f} %   duality gap "
    f"{classifier.dual_gap_:.4f} after {classifier.n_iter_} passes"
)
names = "Dice", "place", "prefix", "best of row", "best of column", "diagonal", "bias"
weights = [*classifier.coef_, *classifier.intercept_]
for name, weight in zip(names, weights, strict=True):
    print(f"  {name:15s} {weight:6.2f}")

# %%
# Plot one sentence. Large squares are sure links, small squares are possible links,
# and dots are predicted links.
k = next(i for i, p in enumerate(test) if 12 <= len(p.english) <= 14)
pair, columns = test[k], found[k]
fig, ax = plt.subplots(figsize=(6, 5.2))
for value, size in ((1, 200), (-1, 50)):
    rows, where = np.nonzero(pair.links == value)
    ax.scatter(where, rows, s=size, marker="s", facecolor="none", edgecolor="C0")
rows = np.flatnonzero(columns >= 0)
ax.scatter(columns[rows], rows, s=30, color="C1")
ax.set_xticks(range(len(pair.french)), pair.french, rotation=90)
ax.set_yticks(range(len(pair.english)), pair.english)
ax.invert_yaxis()
fig.tight_layout()
plt.show()
