"""
====================
Write your own model
====================

A structured model has four methods: the features of an input and an output, a loss, and
two searches. This example writes your own model in Python, checks it, and trains it.

The task is to find an interval in a strip of handwritten digits. Most digits inside the
interval are high (5 to 9), and most digits outside are low (0 to 4). The output is the
interval.
"""

# %%
# The data are strips of twelve digits from scikit-learn. One digit in ten is of the
# wrong kind. An output is a pair ``(first, last)``, where ``last`` is the position
# after the interval.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sksstruct import SSVMClassifier
from sksstruct.models import StructuredModel, check_model

images, digits = load_digits(return_X_y=True)
images = images / 16.0


def strips(n, part, seed, length=12, wrong=0.1):
    rng = np.random.default_rng(seed)
    high = np.flatnonzero(digits[part] >= 5) + part.start
    low = np.flatnonzero(digits[part] < 5) + part.start
    X, y = [], []
    for _ in range(n):
        first = int(rng.integers(0, length - 2))
        last = int(rng.integers(first + 2, length + 1))
        inside = (np.arange(length) >= first) & (np.arange(length) < last)
        kind = inside ^ (rng.random(length) < wrong)
        chosen = [rng.choice(high if k else low) for k in kind]
        X.append(images[chosen])
        y.append((first, last))
    return X, y


X_train, y_train = strips(1000, slice(0, 1200), seed=0)
X_test, y_test = strips(500, slice(1200, 1797), seed=1)


# %%
# **The joint feature map.** The features of an output are the sum of the pixels of
# the digits inside the interval, and their number as a bias. The score of an output is
# therefore a sum over these digits.
#
# **The loss** is 1 minus the overlap of two intervals.
#
# **The searches.** One search must return an output that maximizes the score, and the
# other an output that maximizes the sum of loss and score. There are fewer than a
# hundred intervals in a strip, and cumulative sums give the scores of all of them at
# once.
class StretchModel(StructuredModel):
    """The best stretch of a strip."""

    def joint_feature(self, x, y):
        first, last = y
        return np.append(x[first:last].sum(axis=0), last - first)

    def loss(self, y, y_hat):
        return 1.0 - self._overlaps(y, *np.array(y_hat)[:, None])[0]

    def decode(self, x, w):
        first, last = np.triu_indices(len(x) + 1, k=1)
        return self._best(self._scores(x, w, first, last), first, last)

    def loss_augmented_decode(self, x, y, w):
        first, last = np.triu_indices(len(x) + 1, k=1)
        scores = self._scores(x, w, first, last)
        return self._best(scores + 1.0 - self._overlaps(y, first, last), first, last)

    # not required: lets `check_model` go through all outputs
    def labelings(self, x):
        return zip(*(k.tolist() for k in np.triu_indices(len(x) + 1, k=1)), strict=True)

    def _scores(self, x, w, first, last):
        sums = np.concatenate([[0.0], np.cumsum(x @ w[:-1] + w[-1])])
        return sums[last] - sums[first]

    def _overlaps(self, y, first, last):
        both = np.maximum(np.minimum(last, y[1]) - np.maximum(first, y[0]), 0)
        return both / (last - first + y[1] - y[0] - both)

    def _best(self, values, first, last):
        k = values.argmax()
        return int(first[k]), int(last[k])


# %%
# **The check.** `check_model` calls the methods on some data and reports errors.
# Here it compares the searches with all intervals.
check_model(
    StretchModel(), X_train[:10], y_train[:10], enumerate_outputs=True, random_state=0
)


# %%
# `check_model` finds mistakes that training would hide. The search below omits the
# loss of the observed output:
class Mistaken(StretchModel):
    def loss_augmented_decode(self, x, y, w):
        return self.decode(x, w)


try:
    check_model(Mistaken(), X_train[:10], y_train[:10], random_state=0)
except ValueError as error:
    print(error)

# %%
# **Training.** Any solver that needs only the max oracle can train the model, and
# reports a duality gap.
classifier = SSVMClassifier(StretchModel(), alpha=3e-3, tol=0.01, random_state=0)
classifier.fit(X_train, y_train)
print(
    f"objective {classifier.objective_:.4f}, duality gap {classifier.dual_gap_:.4f} "
    f"after {classifier.n_iter_} passes"
)

# %%
# **The baseline** classifies each digit separately, and returns the longest run of
# high digits.
single = LogisticRegression(max_iter=1000)
inside = [np.arange(len(x)) for x in X_train]
inside = [(k >= a) & (k < b) for k, (a, b) in zip(inside, y_train, strict=True)]
single.fit(np.concatenate(X_train), np.concatenate(inside))


def longest_run(x):
    best, first = (0, 1), None
    for k, high in enumerate([*single.predict(x), False]):
        if high and first is None:
            first = k
        elif not high and first is not None:
            if k - first > best[1] - best[0]:
                best = first, k
            first = None
    return best


model = StretchModel()
for name, found in (
    ("digit by digit", [longest_run(x) for x in X_test]),
    ("structured", classifier.predict(X_test)),
):
    losses = [model.loss(a, b) for a, b in zip(y_test, found, strict=True)]
    print(
        f"{name:15s} overlap {1 - np.mean(losses):.3f}   "
        f"exactly right {100 * np.mean(np.equal(losses, 0)):.1f} %"
    )

# %%
# Plot five strips of the test data. The upper line is the true interval, and the
# lower line is the predicted interval.
predicted = classifier.predict(X_test[:5])
figure, axes = plt.subplots(5, 1, figsize=(7, 4.5), layout="constrained")
for ax, x, true, found in zip(axes, X_test, y_test, predicted, strict=False):
    ax.imshow(np.hstack(x.reshape(-1, 8, 8)), cmap="gray_r")
    ax.hlines(-1.5, 8 * true[0], 8 * true[1] - 1, color="C0", linewidth=3)
    ax.hlines(8.5, 8 * found[0], 8 * found[1] - 1, color="C1", linewidth=3)
    ax.set_ylim(9.5, -2.5)
    ax.set_axis_off()
plt.show()
