"""
=================================
A model of your own, from nothing
=================================

A structured model is four methods: features of an input and an output, a loss, and two
searches. This example writes one in Python, has it checked, and trains it.

The task: a strip of handwritten digits has one stretch of high digits, 5 to 9, among
low ones, 0 to 4; but a few digits inside are low, and a few outside high. Where does
the stretch begin and end?
"""

# %%
# The data: strips of twelve digits from scikit-learn, one in ten of the wrong kind. An
# output is a pair ``(first, last)``, the last one outside.
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
# **The joint feature map.** A digit inside the stretch counts by its pixels, and 1 for
# a bias: the features of an output are sums over the digits inside. Scores are then
# sums of numbers, one for each digit.
#
# **The loss** is 1 minus the overlap of two stretches.
#
# **The searches.** There are fewer than a hundred stretches in a strip; cumulative sums
# give the scores of all of them at once. What they must return is an output that
# maximizes the score, or the sum of loss and score.
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
# **The check.** `check_model` calls the methods on some data and says what is wrong, if
# anything: here against the best of all stretches.
check_model(
    StretchModel(), X_train[:10], y_train[:10], enumerate_outputs=True, random_state=0
)


# %%
# It finds mistakes that training would hide. This search forgets the loss of the output
# itself:
class Mistaken(StretchModel):
    def loss_augmented_decode(self, x, y, w):
        return self.decode(x, w)


try:
    check_model(Mistaken(), X_train[:10], y_train[:10], random_state=0)
except ValueError as error:
    print(error)

# %%
# **Training.** Any solver that needs the max oracle only can do it, with a duality gap
# as certificate.
classifier = SSVMClassifier(StretchModel(), alpha=3e-3, tol=0.01, random_state=0)
classifier.fit(X_train, y_train)
print(
    f"objective {classifier.objective_:.4f}, duality gap {classifier.dual_gap_:.4f} "
    f"after {classifier.n_iter_} passes"
)

# %%
# **The baseline** classifies every digit by itself and takes the longest run of high
# ones.
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
# Five strips of the test data. The upper line is the true stretch, the lower line the
# one that was found.
predicted = classifier.predict(X_test[:5])
figure, axes = plt.subplots(5, 1, figsize=(7, 4.5), layout="constrained")
for ax, x, true, found in zip(axes, X_test, y_test, predicted, strict=False):
    ax.imshow(np.hstack(x.reshape(-1, 8, 8)), cmap="gray_r")
    ax.hlines(-1.5, 8 * true[0], 8 * true[1] - 1, color="C0", linewidth=3)
    ax.hlines(8.5, 8 * found[0], 8 * found[1] - 1, color="C1", linewidth=3)
    ax.set_ylim(9.5, -2.5)
    ax.set_axis_off()
plt.show()
