"""How far the weights of a breakpoint are good: two certificates, and the truth."""

import matplotlib.pyplot as plt
import numpy as np

from sksstruct import ChainCRF, ssvm_path
from sksstruct.datasets import load_digit_strings

EPSILON = 0.05
data = load_digit_strings(n_train=100, n_test=1)
X, y = data.X_train, data.y_train
path = ssvm_path(ChainCRF(random_state=0), X, y, epsilon=EPSILON, relative=False)

# the breakpoint next to alpha = 1: weights, gap, and what follows from them
k = int(np.argmin(np.abs(np.log(path.alphas))))
alpha, gap = path.alphas[k], path.gaps[k]
weights = path.weights(alpha)
square = weights @ weights
risk = path.objectives[k] - alpha / 2 * square
loss = path.objectives[k] - gap + alpha / 2 * square  # the linear term of the duals


def objective(other):
    return other / 2 * square + risk


def paper(other):
    """Proposition 1: a share other / alpha of the duals, for smaller alphas."""
    share = other / alpha
    return gap + (1 - share) * (loss - alpha * square)


def best(other):
    share = np.minimum(1, other * loss / (alpha**2 * square))
    return objective(other) - share * loss + (share * alpha) ** 2 * square / (2 * other)


alphas = alpha * np.geomspace(0.3, 2.4, 100)
smaller = np.append(alphas[alphas < alpha], alpha)
some = alphas[::7]
trained = [ChainCRF(other, tol=3e-4, random_state=0).fit(X, y) for other in some]
figure, ax = plt.subplots()
ax.axhline(EPSILON, color="gray", linestyle=":", label="epsilon")
ax.plot(smaller, paper(smaller), "--", label="certified by Proposition 1")
ax.plot(alphas, best(alphas), label="certified by the best share")
ax.plot(some, objective(some) - [t.objective_ for t in trained], ".", label="true")
ax.axvline(alpha, color="black", linewidth=0.8)
ax.text(1.02 * alpha, 1.4 * EPSILON, "trained here")
ax.set(
    title="100 strings of digits, weights of one breakpoint",
    xlabel="alpha",
    ylabel="above the minimum",
    xlim=(0.1, 2.7),
    ylim=(0, 1.5 * EPSILON),
)
ax.legend(loc="lower right")
