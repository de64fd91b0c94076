"""
Superpixels of horses and their features
========================================

What the example on horses computes from an image: superpixels, their features, and the
features of the pairs of neighbors; Osokin et al. (2016), I.3, in small.
"""

import numpy as np
from scipy import sparse
from scipy.ndimage import gaussian_filter, uniform_filter
from sklearn.cluster import KMeans

from sksstruct.models import Graph


def opponent_colors(image):
    """Brightness and two differences of colors."""
    r, g, b = np.moveaxis(image, -1, 0)
    return np.stack([(r + g + b) / 3, r - g, (r + g) / 2 - b], axis=-1)


def superpixels(image, step=4, scale=0.06, n_iter=5):
    """Numbers of about (height / step) x (width / step) superpixels, by SLIC."""
    h, w = image.shape[:2]
    y, x = np.mgrid[:h, :w]
    place = np.stack([y, x], axis=-1) / step
    points = np.concatenate([opponent_colors(image) / scale, place], axis=-1)
    points = points.reshape(h * w, -1)
    rows, columns = len(range(step // 2, h, step)), len(range(step // 2, w, step))
    i = np.minimum(y // step, rows - 1).ravel()
    j = np.minimum(x // step, columns - 1).ravel()
    number = i * columns + j
    for _ in range(n_iter):
        n = np.bincount(number, minlength=rows * columns)
        sums = [np.bincount(number, v, rows * columns) for v in points.T]
        center = np.stack(sums, axis=1) / np.maximum(n, 1)[:, None]
        best = np.full(h * w, np.inf)
        for a in (-1, 0, 1):  # each pixel chooses among the nine seeds around it
            for b in (-1, 0, 1):
                k = np.clip(i + a, 0, rows - 1) * columns
                k = k + np.clip(j + b, 0, columns - 1)
                distance = ((points - center[k]) ** 2).sum(axis=1)
                distance[n[k] == 0] = np.inf
                number = np.where(distance < best, k, number)
                best = np.minimum(distance, best)
    return np.unique(number, return_inverse=True)[1].reshape(h, w)


def block_means(values):
    """Means over blocks of 2 x 2 pixels."""
    h, w = values.shape[:2]
    values = np.pad(values, ((0, h % 2), (0, w % 2), (0, 0)), mode="edge")
    return values.reshape((h + 1) // 2, 2, (w + 1) // 2, 2, -1).mean(axis=(1, 3))


def gradients(image, bins=6):
    """Orientations of gradients in 3 x 3 cells around each block."""
    gy, gx = np.gradient(gaussian_filter(image.mean(axis=-1), 0.5, mode="nearest"))
    turn = np.arctan2(gy, gx) / np.pi * bins
    away = (turn[..., None] - np.arange(bins) + bins / 2) % bins - bins / 2
    votes = np.maximum(0, 1 - np.abs(away)) * np.hypot(gx, gy)[..., None]
    cells = uniform_filter(block_means(votes), (2, 2, 0), mode="nearest")
    h, w = cells.shape[:2]
    cells = np.pad(cells, ((2, 2), (2, 2), (0, 0)), mode="edge")
    near = [cells[i : i + h, j : j + w] for i in (0, 2, 4) for j in (0, 2, 4)]
    near = np.concatenate(near, axis=-1)
    return near / np.sqrt((near**2).sum(axis=-1, keepdims=True) + 0.01)


def codebooks(images, n_words=32):
    """Centers of clusters of colors and of gradients; of training images only."""
    rng = np.random.default_rng(0)
    books = []
    for describe in (lambda image: block_means(opponent_colors(image)), gradients):
        rows = [describe(image) for image in images]
        rows = np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows])
        some = rows[rng.choice(len(rows), min(8000, len(rows)), replace=False)]
        book = KMeans(n_words, n_init=1, max_iter=30, random_state=0).fit(some)
        books.append(book.cluster_centers_)
    return books


def words(values, centers):
    """One-hot numbers of the nearest centers."""
    distance = (centers**2).sum(axis=1) - 2 * values @ centers.T
    return np.eye(len(centers))[distance.argmin(axis=-1)]


def contrast(code, y, x):
    """Logarithm of how common a color is in the middle, against the border."""
    border = np.minimum(np.minimum(y, 1 - y), np.minimum(x, 1 - x)) < 0.1
    middle = np.exp(-((y - 0.5) ** 2 + (x - 0.5) ** 2) / 0.08)
    outside = code[border].mean(axis=0) + 0.01
    inside = (code * middle[..., None]).sum(axis=(0, 1)) / middle.sum() + 0.01
    return (code @ np.log(inside / outside))[..., None]


def soft_bins(t, n):
    """Weights of n places along an axis from 0 to 1."""
    center = (np.arange(n) + 0.5) / n
    t = np.clip(t, center[0], center[-1])[..., None]
    return np.maximum(0, 1 - n * np.abs(t - center))


def graph(image, books, windows=(1, 3, 7), grid=8, sigmas=(0.03, 0.1, 0.3)):
    """Superpixels of an image as nodes with features, and pairs of neighbors.

    Features of a node are sums over its pixels, in units of the mean size of a
    superpixel; those of a pair are similarities of color, times the length of its
    border in units of such a kind. The weight of a node is the number of its pixels.
    """
    code = words(block_means(opponent_colors(image)), books[0])
    edges_of_image = words(gradients(image), books[1])
    h, w = code.shape[:2]
    y, x = (np.indices((h, w)) + 0.5) / np.array([h, w])[:, None, None]
    place = soft_bins(y, grid)[..., None] * soft_bins(x, grid)[..., None, :]
    local = np.concatenate([contrast(code, y, x), code, edges_of_image], axis=-1)
    local = [uniform_filter(local, (k, k, 0), mode="nearest") for k in windows]
    blocks = np.concatenate([place.reshape(h, w, -1), *local], axis=-1)
    number = superpixels(image)
    n_pixels, n = number.size, number.max() + 1
    i, j = np.indices(number.shape) // 2
    share = sparse.csr_array(
        (np.full(n_pixels, n / n_pixels), (number.ravel(), (i * w + j).ravel())),
        shape=(n, h * w),
    )
    nodes = share @ blocks.reshape(h * w, -1)
    beside = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    below = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    pairs = np.sort(np.concatenate([beside, below]), axis=1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    edges, length = np.unique(pairs, axis=0, return_counts=True)
    color = opponent_colors(image).reshape(-1, 3).T
    color = np.stack([np.bincount(number.ravel(), c) for c in color], axis=1)
    area = np.bincount(number.ravel())
    color /= area[:, None]
    squared = ((color[edges[:, 0]] - color[edges[:, 1]]) ** 2).sum(axis=1)
    alike = [np.exp(-squared / (2 * s * s)) for s in sigmas]
    alike = np.stack([np.ones(len(edges)), *alike], axis=1)
    alike *= n * (length / length.sum())[:, None]
    return Graph(nodes, edges, alike, node_weights=area), number


def majority(number, mask):
    """Labels of superpixels: 1 where at least half of the pixels are."""
    area = np.bincount(number.ravel())
    return (2 * np.bincount(number.ravel(), mask.ravel()) >= area).astype(int)
