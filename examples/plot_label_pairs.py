"""
==============================================
Multilabel classification with pairs of labels
==============================================

This example predicts properties of digits: whether a digit is even, is prime, is at
least five, has a loop, is drawn without a curve, and is a square. Separate classifiers
predict combinations of properties that no digit has. A classifier with scores for pairs
of labels learns which properties occur together.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import f1_score, hamming_loss
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.plotting import InteractionsDisplay

names = ["even", "prime", "5 or more", "loop", "no curve", "square"]
members = [
    {0, 2, 4, 6, 8},
    {2, 3, 5, 7},
    {5, 6, 7, 8, 9},
    {0, 6, 8, 9},
    {1, 4, 7},
    {0, 1, 4, 9},
]
X, digits = load_digits(return_X_y=True)
X = normalize(X)
Y = np.array([[digit in member for member in members] for digit in digits]).astype(int)
X, X_test, Y, Y_test = train_test_split(X, Y, train_size=300, random_state=0)

# %%
# Use the same loss and regularization for both. Without pairs, the two classifiers
# would be equal.
C = 10.0
alone = OneVsRestClassifier(LinearSVC(C=C, max_iter=50000)).fit(X, Y)
pairs = MultilabelPairwise(1 / (len(X) * C), target="subset", random_state=0).fit(X, Y)
possible = {tuple(row) for row in Y}
for name, classifier in (("one-vs-rest", alone), ("with pairs", pairs)):
    predicted = classifier.predict(X_test)
    no_digit = np.mean([tuple(row) not in possible for row in predicted])
    print(
        f"{name:12s} wrong labels {hamming_loss(Y_test, predicted):.3f}, "
        f"F1 {f1_score(Y_test, predicted, average='samples', zero_division=1):.3f}, "
        f"all labels right {classifier.score(X_test, Y_test):.3f}, "
        f"sets that no digit has {no_digit:.3f}"
    )

# %%
# Plot the interactions. Red pairs attract each other, and blue pairs exclude each
# other.
InteractionsDisplay.from_estimator(pairs, names=names)
plt.tight_layout()
plt.show()
