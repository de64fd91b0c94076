"""
=============================
Segmentation: masks of images
=============================

This example segments blobs in images with two channels. The first channel marks the
blobs, but has more noise than signal. The second channel shows the blobs clearly, but
with a different shade in every image, so the shade of a single pixel is not
informative. Neighboring pixels usually have the same label, except where the shade
changes. The weights of these features are learned from images and masks.
"""

# %%
# Generate images of blobs, and masks of the same shape.
import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from sksstruct import SSVMClassifier
from sksstruct.models import GraphModel, grid_graph


def blobs(n_images, rng, size=32):
    images, masks = [], []
    for _ in range(n_images):
        mask = gaussian_filter(rng.normal(size=(size, size)), 4) > 0
        shade = np.where(mask, *rng.uniform(size=2))
        noise = rng.normal(size=(size, size, 2)) * [1.5, 0.1]
        images.append(np.stack([mask, shade], axis=-1) + noise)
        masks.append(mask)
    return images, masks


rng = np.random.default_rng(0)
images, masks = blobs(30, rng)
test_images, test_masks = blobs(30, rng)

# %%
# Every pixel is a node with four neighbors. Pairs of neighbors have two features: a
# constant, and their similarity in the second channel, the guide. With two labels that
# attract each other, a minimum cut finds the best labeling. Predictions are masks.
X = [grid_graph(image[..., 0], guide=image[..., 1]) for image in images]
segmenter = SSVMClassifier(GraphModel("potts"), random_state=0).fit(X, masks)
cuts = segmenter.predict(
    [grid_graph(image[..., 0], guide=image[..., 1]) for image in test_images]
)


# %%
# For comparison, train the same model without the guide, and without edges.
def alike(image):
    return grid_graph(image[..., 0], edge_features=None)


def alone(image):
    return alike(image)._replace(edges=[])


found = {}
for name, form in (("pixels", alone), ("pairs alike", alike)):
    model = GraphModel("potts", inference="cut")
    classifier = SSVMClassifier(model, random_state=0)
    classifier.fit([form(image) for image in images], masks)
    found[name] = classifier.predict([form(image) for image in test_images])
found["shades"] = cuts
for name, predicted in found.items():
    wrong = np.mean([p != m for p, m in zip(predicted, test_masks, strict=True)])
    print(f"{name:12s} wrong: {100 * wrong:.1f} % of the pixels")
print(f"weights of the pairs: {segmenter.edge_coef_.round(2)}")

# %%
# Plot three test images.
fig, axes = plt.subplots(3, 6, figsize=(6.6, 3.6), layout="constrained")
for k, row in enumerate(axes):
    pictures = [*np.moveaxis(test_images[k], -1, 0), *(z[k] for z in found.values())]
    for ax, picture in zip(row, [*pictures, test_masks[k]], strict=True):
        ax.imshow(picture, cmap="gray")
        ax.set(xticks=[], yticks=[])
for ax, name in zip(axes[0], ["noise", "shade", *found, "mask"], strict=True):
    ax.set_title(name)
plt.show()
