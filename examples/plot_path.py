"""
==========================================
Choosing alpha along the whole path
==========================================

How much regularization is best? A grid of values answers for these values. The
regularization path answers for all: it says, for every alpha, weights whose objective
is at most epsilon above the minimum, and it finds out by itself where to train.
"""

# %%
# Strings of handwritten digits, read by a chain model.
import matplotlib.pyplot as plt
import numpy as np

from sksstruct import ChainCRF, SSVMPathCV, ssvm_path
from sksstruct.datasets import load_digit_strings
from sksstruct.plotting import PathDisplay

data = load_digit_strings(n_train=300)
X, y = list(data.X_train), list(data.y_train)

# %%
# One path, down to alpha = 1e-5. Each line is a breakpoint; its weights are good for
# the alphas of a whole segment.
path = ssvm_path(ChainCRF(random_state=0), X, y, epsilon=0.02, verbose=1)
print(
    f"{len(path)} segments, {path.oracle_calls[-1] / len(X):.0f} sweeps over the data"
)

# %%
# A tagger with the weights of any alpha. The guarantee can be looked at: its objective
# is at most epsilon above a lower bound that training at this alpha gives.
tagger = path.estimator(0.02)
precise = ChainCRF(0.02, tol=1e-4, random_state=0).fit(X, y)
print(
    f"reads {100 * tagger.score(X, y):.1f} % of the training digits, trained at 0.02: "
    f"{100 * precise.score(X, y):.1f} %"
)

# %%
# With cross-validation the held-out score is known for every alpha, and the best one is
# trained on all data.
search = SSVMPathCV(ChainCRF(tol=1e-3, random_state=0), epsilon=0.02, cv=5)
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
