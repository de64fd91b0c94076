"""What smoothing costs and gains: fixed strengths, and one that decreases."""

import warnings

import matplotlib.pyplot as plt
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.datasets import load_digit_strings
from sksstruct.solvers import Casimir

ALPHA = 0.02
data = load_digit_strings(n_train=200, n_test=1)
X, y = data.X_train, data.y_train
optimum = ChainCRF(ALPHA, tol=1e-5, random_state=0).fit(X, y).objective_
solvers = {
    "fixed, mu = 1": {"schedule": "constant", "mu": 1.0},
    "fixed, mu = 0.1": {"schedule": "constant", "mu": 0.1},
    "adaptive": {},
}
warnings.simplefilter("ignore", ConvergenceWarning)  # they end after 100 passes

figure, ax = plt.subplots()
for (label, options), style in zip(solvers.items(), (":", "--", "-"), strict=True):
    solver = Casimir(max_iter=100, tol=1e-5, **options)
    history = ChainCRF(ALPHA, solver=solver, random_state=0).fit(X, y).history_
    ax.plot(history["pass"], history["primal"] - optimum, style, label=label)
ax.set(
    title="Casimir: 200 strings of digits, alpha = 0.02",
    xlabel="passes",
    ylabel="objective above its minimum",
    yscale="log",
)
ax.legend()
