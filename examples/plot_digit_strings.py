"""
==========================
Tagging: handwritten years
==========================

This example compares a chain model with a linear SVM on strings of handwritten digits,
which are years between 1950 and 2029. The SVM classifies each image separately. The
chain model also learns which digits follow each other.
"""

# %%
# The strings are made from the images of digits in scikit-learn. Training and test
# strings have no images in common.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from sksstruct import ChainCRF
from sksstruct.datasets import load_digit_strings

data = load_digit_strings()
X_train, y_train, X_test, y_test = (
    data.X_train,
    data.y_train,
    data.X_test,
    data.y_test,
)
print(f"{len(X_train)} training strings, {len(X_test)} test strings of 4 digits")

# %%
# The SVM classifies one image at a time. Its parameter is chosen by
# cross-validation.
svc = GridSearchCV(LinearSVC(random_state=0), {"C": [0.01, 0.1, 1.0]}, cv=3)
svc.fit(X_train.reshape(-1, 64), y_train.ravel())
read_alone = svc.predict(X_test.reshape(-1, 64)).reshape(y_test.shape)

# %%
# The parameter of the chain model is chosen in the same way. Each string is an array
# of shape (4, 64). Strings of different lengths can be passed as a list of arrays.
search = GridSearchCV(
    ChainCRF(tol=1e-3, random_state=0), {"alpha": [0.003, 0.01, 0.03, 0.1]}, cv=3
)
search.fit(list(X_train), list(y_train))
tagger = search.best_estimator_
read = np.stack(tagger.predict(X_test))

# %%
# Compare the errors of both models per digit and per string, and print the duality
# gap. The objective is at most the duality gap above its minimum.
for name, labels in (("LinearSVC, image by image", read_alone), ("ChainCRF", read)):
    wrong = labels != y_test
    print(
        f"{name:26s} digit error {100 * wrong.mean():5.2f} %   "
        f"string error {100 * wrong.any(axis=1).mean():5.2f} %"
    )
print(
    f"ChainCRF(alpha={tagger.alpha}): objective {tagger.objective_:.5f}, "
    f"duality gap {tagger.dual_gap_:.2e} after {tagger.n_iter_} passes"
)

# %%
# Plot strings that only the chain model read correctly, the weights of the
# transitions, and the convergence of training.
figure = plt.figure(figsize=(5.8, 5.8), layout="constrained")
upper, lower = figure.subfigures(2, 1, height_ratios=[1.5, 1])
left, middle = upper.subfigures(1, 2, width_ratios=[1, 1.3])
fixed = np.flatnonzero(
    (read_alone != y_test).any(axis=1) & (read == y_test).all(axis=1)
)
axes = left.subplots(5, 1)
for ax, i in zip(axes, fixed[:5], strict=False):
    ax.imshow(np.hstack(X_test[i].reshape(-1, 8, 8)), cmap="gray_r")
    ax.set_axis_off()
    alone, chain = ("".join(map(str, row[i])) for row in (read_alone, read))
    ax.set_title(f"alone {alone}, chain {chain}", fontsize=9)
for ax in axes[len(fixed) :]:
    ax.set_axis_off()

ax = middle.subplots()
limit = np.abs(tagger.transitions_).max()
image = ax.imshow(tagger.transitions_, cmap="RdBu", vmin=-limit, vmax=limit)
ax.set(title="transitions_", xlabel="to", ylabel="from")
ax.set_xticks(range(10), tagger.classes_)
ax.set_yticks(range(10), tagger.classes_)
middle.colorbar(image, ax=ax, shrink=0.7)

ax = lower.subplots()
history = tagger.history_
ax.plot(history["pass"], history["primal"], label="primal")
ax.plot(history["pass"], history["dual"], label="dual")
ax.set(title="objective", xlabel="pass")
ax.legend()
plt.show()
