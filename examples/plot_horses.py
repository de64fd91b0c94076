"""
===============================================
Segmentation of superpixels with cuts and trees
===============================================

This example divides images into superpixels, and labels each superpixel as horse or
background. A graph model uses the neighbors of each superpixel and their similarity. It
is compared with a tree of neighbors, and with a model that labels each superpixel
separately.

The example imports
:download:`_horse_features.py <../../examples/_horse_features.py>`;
put this file into the same folder.

The data are the Weizmann horses, 64 pixels wide. The library cannot download them. The
documentation of `sksstruct.datasets.load_weizmann_horses` names the file and the
folder.
"""

# %%
# Use 200 images for training and 128 for testing. ``_horse_features.py`` computes the
# features. Superpixels are described by visual words of color and texture and by their
# position, and pairs by color similarities.
import matplotlib.pyplot as plt
import numpy as np
from _horse_features import codebooks, graph, majority
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree

from sksstruct import SSVMClassifier
from sksstruct.datasets import load_weizmann_horses
from sksstruct.metrics import mask_iou_score
from sksstruct.models import GraphModel

data = load_weizmann_horses()
order = np.random.default_rng(0).permutation(len(data.images))
train, test = order[:200], order[200:]
books = codebooks([data.images[i] for i in train])
X, numbers = zip(*(graph(image, books) for image in data.images), strict=True)
y = [majority(n, mask) for n, mask in zip(numbers, data.masks, strict=True)]
print(f"{np.mean([len(z) for z in y]):.0f} superpixels in an image on average")

# %%
# Neighbors with the same label get a score that depends on their similarity. Its
# weights are not negative, so the best labeling is a minimum cut. The loss gives a
# higher weight to errors on the horse, the smaller class. It weights superpixels by
# their areas, which are the node weights.
cuts = GraphModel("potts", inference="cut", class_weight="balanced")

# %%
# The tree consists of the most similar pairs of neighbors that do not close a cycle.
# The scores of its edges can be any table, and max-product finds the best labeling.
# Features are divided by the number of nodes, as for cuts.
tables = GraphModel("full", inference="tree", class_weight="balanced", normalize=True)


def spanning_tree(x):
    edges, features = x.edges, x.edge_features
    n = len(x.node_features)
    length = 1.0 + (features[:, 0] - features[:, 1:].sum(axis=1)) / n
    chosen = minimum_spanning_tree(csr_array((length, edges.T), shape=(n, n)))
    kept = np.isin(edges @ [n, 1], np.array(chosen.nonzero()).T @ [n, 1])
    return x._replace(edges=edges[kept], edge_features=features[kept])


# %%
# The baseline has the same features, loss and training, but no edges.
def alone(x):
    return x._replace(edges=np.zeros((0, 2), int), edge_features=np.zeros((0, 4)))


results = {}
for name, model, form in (
    ("superpixels alone", tables, alone),
    ("tree", tables, spanning_tree),
    ("minimum cuts", cuts, lambda x: x),
):
    classifier = SSVMClassifier(model, alpha=3e-4, tol=0.01, random_state=0)
    inputs = [form(x) for x in X]
    classifier.fit([inputs[i] for i in train], [y[i] for i in train])
    found = classifier.predict([inputs[i] for i in test])
    pixels = [f[numbers[i]] for f, i in zip(found, test, strict=True)]
    masks = [data.masks[i] for i in test]
    iou = mask_iou_score(masks, pixels, labels=[1], per="image")
    results[name] = found
    print(
        f"{name:18s} intersection over union {iou:.3f}   "
        f"duality gap {classifier.dual_gap_:.4f} after {classifier.n_iter_} passes"
    )

# %%
# Plot the predictions of the three models for six test images.
fig, axes = plt.subplots(4, 6, figsize=(6.4, 4.4))
for column, k in zip(axes.T, range(0, 60, 10), strict=True):
    i = test[k]
    column[0].imshow(data.images[i])
    for ax, labels in zip(column[1:], results.values(), strict=True):
        ax.imshow(labels[k][numbers[i]], cmap="gray", vmin=0, vmax=1)
for ax, name in zip(axes[:, 0], ["image", *results], strict=True):
    ax.set_ylabel(name, fontsize="small")
for ax in axes.ravel():
    ax.set(xticks=[], yticks=[])
fig.tight_layout()
plt.show()
