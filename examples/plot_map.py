"""
=====================================
MAP inference: denoising a photograph
=====================================

This example removes noise from a photograph. The factor graph has a variable for each
pixel, whose states are gray levels. Its edges prefer similar gray levels of neighbors.
The penalty is limited, so that contours stay sharp. ``LPMAPPredictor`` finds a labeling
of all pixels, and an upper bound on the score of every labeling.
"""

# %%
# The photograph comes with scikit-learn. It is reduced to 24 gray levels and 96 x
# 128 pixels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from sksstruct import LPMAPPredictor
from sksstruct.factor_graphs import FactorGraph, TruncatedQuadratic
from sksstruct.inference.map import MPLP, TRWS

LEVELS = 24
photo = load_sample_image("china.jpg").mean(axis=2)[40:424:4, 100:612:4]
photo = np.round(photo / 255 * (LEVELS - 1))
rng = np.random.default_rng(0)
noisy = np.clip(
    np.round(photo + rng.normal(scale=2.0, size=photo.shape)), 0, LEVELS - 1
)
salt = rng.integers(0, LEVELS, photo.shape)
noisy = np.where(rng.random(photo.shape) < 0.05, salt, noisy)

# %%
# The score of a gray level is minus its truncated squared distance to the observed
# level. All edges share one table, which is never written out. Messages through it are
# distance transforms, which take linear time in the number of levels.
levels = np.arange(LEVELS)
unaries = -np.minimum((levels - noisy.reshape(-1, 1)) ** 2, 30.0)
pixels = np.arange(photo.size).reshape(photo.shape)
edges = np.concatenate([
    np.column_stack([pixels[:, :-1].ravel(), pixels[:, 1:].ravel()]),
    np.column_stack([pixels[:-1].ravel(), pixels[1:].ravel()]),
])  # fmt: skip
graph = FactorGraph(unaries, edges, TruncatedQuadratic(LEVELS, scale=2.0, limit=20.0))
print(graph)

# %%
# Run the default solver with a time limit of five seconds, and two message passing
# solvers with shorter limits.
runs = {
    "auto": LPMAPPredictor(max_seconds=5.0, random_state=0),
    "TRW-S": LPMAPPredictor(TRWS(), max_seconds=2.0, random_state=0),
    "MPLP": LPMAPPredictor(MPLP(), max_seconds=2.0, random_state=0),
}
labelings = {}
for name, predictor in runs.items():
    labelings[name] = predictor.predict([graph])[0].reshape(photo.shape)
    print(
        f"{name:6s} score {predictor.scores_[0]:.1f}  "
        f"bound {predictor.bounds_[0]:.1f}  {predictor.status_[0]}, "
        f"{predictor.results_[0].trace['seconds'][-1]:.1f} s"
    )
print(f"the true photograph scores {graph.score(photo.astype(int).ravel()):.1f}")

# %%
# Scores rise and bounds fall over time. The best score lies between them. The final
# gap is less than a thousandth.
figure, axes = plt.subplots(2, 2, figsize=(6.6, 5.4))
for ax, image, title in zip(
    axes.ravel(), (noisy, labelings["auto"], photo), ("seen", "cleaned", "true"),
    strict=False,
):  # fmt: skip
    ax.imshow(image, cmap="gray", vmin=0, vmax=LEVELS - 1)
    error = np.abs(image - photo).mean()
    ax.set_title(f"{title}, mean error {error:.2f} levels")
    ax.axis("off")
for name, predictor in runs.items():
    trace = predictor.results_[0].trace
    color = axes[1, 1].plot(trace["seconds"], trace["bound"], label=name)[0].get_color()
    axes[1, 1].plot(trace["seconds"], trace["score"], color=color, linestyle="--")
axes[1, 1].set(
    xscale="log", xlabel="seconds", title="bounds (lines), scores (dashed)",
    ylim=(runs["auto"].bounds_[0] * 1.05, runs["auto"].bounds_[0] * 0.97),
)  # fmt: skip
axes[1, 1].legend()
figure.tight_layout()
plt.show()
