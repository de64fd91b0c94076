"""GDMM on a chain of many labels: gap, infeasibility, and scores looked at."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse import eye_array
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.solvers import GDMM

N_LABELS = 200
rng = np.random.default_rng(0)
next_label = rng.integers(0, N_LABELS, (N_LABELS, 3))  # three likely successors each
X, y = [], []
for _ in range(150):
    labels = [rng.integers(N_LABELS)]
    for _ in range(7):
        labels.append(rng.choice(next_label[labels[-1]]))
    y.append(np.array(labels))
    # a quarter of the words are those of another label
    words = np.where(rng.random(8) < 0.25, rng.integers(0, N_LABELS, 8), labels)
    X.append(eye_array(N_LABELS, format="csr")[words])

warnings.simplefilter("ignore", ConvergenceWarning)  # it ends after 60 passes
solver = GDMM(max_iter=60, tol=1e-4, check_every=1)
tagger = ChainCRF(alpha=0.1, solver=solver, random_state=0).fit(X, y)
history = tagger.history_
passes = history["pass"][1:]
scores = len(X) * (8 * N_LABELS + 7 * N_LABELS**2)  # of all labels and pairs
looked = np.diff(history["elements"]) / np.diff(history["pass"]) / scores

figure, ax = plt.subplots()
ax.plot(passes, history["gap"][1:], label="duality gap")
ax.plot(passes, history["infeasibility"][1:], "--", label="infeasibility")
ax.plot(passes, looked, ":", label="share of scores looked at")
ax.set(
    title=f"GDMM: {N_LABELS} labels, 150 sequences",
    xlabel="passes",
    yscale="log",
)
ax.legend()
