"""Batch solvers of a support vector machine, and the bound of Pragam."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from sksstruct import LinearSSVC
from sksstruct.solvers import BMRM, DCD, Pragam

ALPHA = 0.01
X, y = load_digits(return_X_y=True)
X, y = X / 16, y % 2
radius = np.linalg.norm(X, axis=1).max()
lipschitz = np.linalg.norm(X, 2) ** 2 / ALPHA
warnings.simplefilter("ignore", ConvergenceWarning)
printed = Pragam(500, 1e-6, lipschitz=lipschitz, restart=False, check_every=1)
solvers = {
    "BMRM, line search": BMRM(500, 1e-6, inner="line_search"),
    "BMRM": BMRM(500, 1e-6),
    "Pragam without restarts": printed,
    "Pragam": Pragam(500, 1e-6, check_every=1),
    "DCD": DCD(100, 1e-6, check_every=1),
}
figure, ax = plt.subplots()
for label, solver in solvers.items():
    svc = LinearSSVC(ALPHA, fit_intercept=False, solver=solver, random_state=0)
    history = svc.fit(X, y).history_
    ax.plot(history["pass"], history["gap"], label=label)
passes = np.arange(1, 501)
bound = 2 * radius**2 / (ALPHA * (passes + 1) * (passes + 2))
ax.plot(passes, bound, "k:", label="bound (26)")
ax.set(
    title="Odd or even digits, alpha = 0.01",
    xlabel="passes over the data",
    ylabel="duality gap",
    xscale="log",
    yscale="log",
    xlim=(1, 500),
    ylim=(1e-8, 3),
)
ax.legend(loc="lower left")
