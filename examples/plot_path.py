"""
============================================
Choosing alpha along the regularization path
============================================

This example chooses the strength of the regularization. A grid search evaluates only
the values of the grid. The exact regularization path covers all values: for every
alpha, it gives weights whose objective is at most a share epsilon above the minimum. It
chooses the values at which it trains.
"""

# %%
# The data are strings of handwritten digits, read by a chain model.
import matplotlib.pyplot as plt
import numpy as np

from sksstruct import ChainCRF, SSVMPathCV, ssvm_path
from sksstruct.datasets import load_digit_strings
from sksstruct.plotting import PathDisplay

data = load_digit_strings(n_train=300)
X, y = list(data.X_train), list(data.y_train)

# %%
# Compute a path down to alpha = 1e-3. Each line is a breakpoint. Its weights are
# valid for all alphas of a segment.
path = ssvm_path(ChainCRF(random_state=0), X, y, alpha_min=1e-3, verbose=1)
print(
    f"{len(path)} segments, {path.oracle_calls[-1] / len(X):.0f} sweeps over the data"
)

# %%
# Get a tagger with the weights for any alpha, and compare it with one that was
# trained at this alpha.
tagger = path.estimator(0.02)
precise = ChainCRF(0.02, tol=1e-4, random_state=0).fit(X, y)
print(
    f"reads {100 * tagger.score(X, y):.1f} % of the training digits, trained at 0.02: "
    f"{100 * precise.score(X, y):.1f} %"
)

# %%
# Cross-validation along exact paths gives the held-out score for every alpha. The
# final model is trained on all data with the best alpha. Without ``method="exact"``,
# the search tries the values of a grid, for any loss.
search = SSVMPathCV(ChainCRF(random_state=0), method="exact", alpha_min=1e-3, cv=5)
search.fit(X, y)
errors = np.stack(search.predict(data.X_test)) != data.y_test
print(
    f"best alpha {search.alpha_:.3g}: held-out accuracy {search.best_score_:.3f}, "
    f"digit error on test strings {100 * errors.mean():.2f} %"
)

# %%
fig, axes = plt.subplots(3, 1, figsize=(5.4, 7.5), sharex=True, layout="constrained")
for ax, what in zip(axes, ("score", "gap", "oracle_calls"), strict=True):
    PathDisplay.from_estimator(search, y=what, ax=ax)
    ax.label_outer()
plt.show()
