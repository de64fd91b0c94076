"""
=====================
Comparison of solvers
=====================

All solvers take the same kind of problem and report how far the result can be from the
optimum. In this example they train a tagger of handwritten years, a conditional random
field, a binary support vector machine, and a tagger whose scores are computed by a
small neural network.
"""

# %%
# Compare solvers of the structured hinge loss. A name selects a solver with its
# defaults. A solver object has its own parameters. All solvers stop at the same duality
# gap.
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from sksstruct import ChainCRF, LinearSSVC
from sksstruct.datasets import load_digit_strings
from sksstruct.models import ELUScore
from sksstruct.plotting import ConvergenceDisplay
from sksstruct.solvers import SSG, Casimir

data = load_digit_strings(n_train=100)
figure, (upper, lower) = plt.subplots(2, 1, figsize=(5.4, 7), layout="constrained")
warnings.simplefilter("ignore", ConvergenceWarning)
for solver in (
    "auto",
    "cutting_plane",
    "bmrm",
    SSG(max_iter=100),
    Casimir(max_iter=60, tol=1e-2),
):
    tagger = ChainCRF(alpha=0.01, solver=solver, max_iter=100, random_state=0)
    tagger.fit(data.X_train, data.y_train)
    for ax, x in ((upper, "seconds"), (lower, "oracle_calls")):
        ConvergenceDisplay.from_estimator(tagger, x=x, ax=ax)
        ax.set_xscale("log")
    error = 1 - tagger.score(data.X_test, data.y_test)
    print(
        f"{type(tagger.solver_).__name__:14} objective {tagger.objective_:.5f}  "
        f"gap {tagger.dual_gap_:.0e}  test error {100 * error:.1f} %"
    )

# %%
# Use cutting planes if oracle calls are expensive. If they are cheap, as in this
# example, use block-coordinate steps.
#
# For losses with a gradient there are other solvers: dual coordinate ascent, which is
# the counterpart of BCFW; L-BFGS; and variance-reduced stochastic gradients.
for solver in ("sdca", "lbfgs", "svrg", "casimir"):
    crf = ChainCRF(alpha=0.01, loss="log", solver=solver, random_state=0)
    crf.fit(data.X_train, data.y_train)
    print(f"{solver:8} {crf.n_iter_:3d} passes, objective {crf.objective_:.5f}")

# %%
# Use the same solvers for a classifier with two classes. Pragam can train with an
# unregularized bias.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y % 2, random_state=0)
for solver, penalize in (("auto", True), ("pragam", True), ("pragam", False)):
    svc = LinearSSVC(
        alpha=1e-3, solver=solver, penalize_intercept=penalize, random_state=0
    )
    svc.fit(X_train, y_train)
    print(
        f"{solver:7} objective {svc.objective_:.4f}  bias {svc.intercept_[0]:6.2f}  "
        f"test accuracy {svc.score(X_test, y_test):.3f}"
    )

# %%
# Scores can be nonlinear. The prox-linear method trains any score function that can
# multiply its Jacobian with vectors.
tagger = ChainCRF(
    alpha=0.01, score_function=ELUScore(12), max_iter=8, tol=0.05, random_state=0
)
tagger.fit(data.X_train, data.y_train)
error = 1 - tagger.score(data.X_test, data.y_test)
print(f"two layers: objective {tagger.objective_:.4f}, test error {100 * error:.1f} %")
plt.show()
