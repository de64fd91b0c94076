"""The duality gap of four kinds of block steps, against calls of the max oracle."""

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.datasets import load_digit_strings
from sksstruct.solvers import BCFW

data = load_digit_strings(n_train=300, n_test=1)
X, y = data.X_train, data.y_train
solvers = {
    "Algorithm 1: uniform sampling": {"sampling": "uniform"},
    "Algorithm 2: gap sampling": {"sampling": "gap"},
    "with pairwise steps (Algorithm 3)": {"sampling": "gap", "step": "pairwise"},
    "and a cache (Algorithm 5)": {"sampling": "gap", "step": "pairwise", "cache": True},
}
warnings.simplefilter("ignore", ConvergenceWarning)  # they end after 100 passes

figure, ax = plt.subplots()
for (label, options), style in zip(
    solvers.items(), (":", "--", "-.", "-"), strict=True
):
    solver = BCFW.as_published(
        max_iter=100, tol=1e-5, check_every=5, averaging=False, **options
    )
    tagger = ChainCRF(alpha=0.01, solver=solver, random_state=0).fit(X, y)
    history = tagger.history_
    ax.plot(history["oracle_calls"] / len(X), history["gap"], style, label=label)
ax.set(
    title="300 strings of digits, alpha = 0.01",
    xlabel="calls of the max oracle for each example",
    ylabel="duality gap",
    yscale="log",
)
ax.legend()
