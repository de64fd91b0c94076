"""Graphs of images: pixels are nodes, and edges join neighboring pixels."""

from numbers import Integral, Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from sksstruct.models.graph.inputs import Graph
from sksstruct.utils._param_validation import (
    Interval,
    Options,
    StrOptions,
    validate_parameter_constraints,
)

_CONSTRAINTS = {
    "connectivity": [Options(Integral, {4, 8})],
    "edge_features": [StrOptions({"contrast", "direction"}), None],
    "sigma": [Interval(Real, 0.0, None, closed="neither"), None],
}


def grid_graph(
    image: ArrayLike,
    *,
    connectivity: Literal[4, 8] = 4,
    edge_features: Literal["contrast", "direction"] | None = "contrast",
    sigma: float | None = None,
    guide: ArrayLike | None = None,
) -> Graph:
    """The graph of an image, an input of `GraphModel` and `RelaxedGraphModel`.

    Nodes are pixels, row by row. Outputs may be masks, which are arrays of shape
    (height, width). Predictions are masks.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, n_features)
        Features of each pixel.
    connectivity : {4, 8}, default=4
        Number of neighbors of a pixel. 8 includes the diagonal neighbors.
    edge_features : {"contrast", "direction"} or None, default="contrast"
        "contrast": a constant feature, and the similarity of the two pixels,
        ``exp(-|difference|^2 / (2 sigma^2))``. Both are divided by the distance of the
        two pixels, 1 or the square root of 2. "direction": a column for each of the
        directions to the right, down, and, with 8 neighbors, down to the right and down
        to the left, with 1 for the edges of this direction. Each direction then has its
        own weights, which distinguish above from below. None: no features, so all edges
        are equal.
    sigma : float, default=None
        Scale of the differences. None: the root mean squared difference of all
        neighbors in the image.
    guide : array-like of shape (height, width) or (height, width, n_channels), \
default=None
        Image from which differences are computed. None: `image`.

    Returns
    -------
    graph : Graph
        Edges point to the right, then down, and, with 8 neighbors, then down to the
        right and down to the left.

    See Also
    --------
    sklearn.feature_extraction.image.img_to_graph : Adjacency matrix of gradients, for
        clustering.

    Notes
    -----
    `GraphModel` takes a list of pairs, with any number of features each. Adjacency
    matrices of scikit-learn hold one number for each pair, twice, and another for each
    pixel, so that they are no inputs.

    References
    ----------
    Y. Boykov and M.-P. Jolly, "Interactive graph cuts for optimal boundary and region
    segmentation of objects in N-D images", ICCV 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from sksstruct import SSVMClassifier
    >>> from sksstruct.models import GraphModel, grid_graph
    >>> images = np.array([[[0.1, 0.9, 0.8], [0.2, 0.8, 0.7]]])
    >>> masks = np.array([[[0, 1, 1], [0, 1, 1]]])
    >>> X = [grid_graph(image) for image in images]
    >>> classifier = SSVMClassifier(GraphModel("potts"), random_state=0)
    >>> classifier.fit(X, masks).predict(X)[0]
    array([[0, 1, 1],
           [0, 1, 1]])
    """
    validate_parameter_constraints(
        _CONSTRAINTS,
        {
            "connectivity": connectivity,
            "edge_features": edge_features,
            "sigma": sigma,
        },
        "grid_graph",
    )
    pixels = _pixels("image", image)
    height, width = pixels.shape[:2]
    numbers = np.arange(height * width).reshape(height, width)
    pairs = [(numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])]
    if connectivity == 8:
        pairs += [
            (numbers[:-1, :-1], numbers[1:, 1:]),
            (numbers[:-1, 1:], numbers[1:, :-1]),
        ]
    edges = [np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs]
    lengths = [1.0, 1.0, 2**0.5, 2**0.5][: len(edges)]
    counts = [len(rows_of_direction) for rows_of_direction in edges]
    distances = np.repeat(lengths, counts)
    edges, rows = np.concatenate(edges), None
    if edge_features == "direction":
        rows = np.repeat(np.eye(len(counts)), counts, axis=0)
    elif edge_features is not None:
        channels = pixels if guide is None else _pixels("guide", guide)
        if channels.shape[:2] != (height, width):
            raise ValueError(
                f"guide has shape {channels.shape}, image has shape {pixels.shape}"
            )
        alike = _contrast(channels.reshape(height * width, -1), edges, sigma)
        rows = np.stack([np.ones(len(edges)), alike], axis=1) / distances[:, None]
    nodes = pixels.reshape(height * width, -1)
    return Graph(nodes, edges, rows, shape=(height, width))


def _pixels(name, image):
    """Float features of pixels, as a 3-D array."""
    image = check_array(
        image,
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_min_samples=0,
        ensure_min_features=0,
        input_name=name,
    )
    if image.ndim not in (2, 3) or not image.size:
        raise ValueError(
            f"{name} must be of shape (height, width) or (height, width, n_features), "
            f"got shape {image.shape}"
        )
    return np.ascontiguousarray(image.reshape(*image.shape[:2], -1))


def _contrast(channels, edges, sigma):
    """Similarity of the two ends of each edge, between 0 and 1."""
    squared = ((channels[edges[:, 0]] - channels[edges[:, 1]]) ** 2).sum(axis=1)
    if sigma is not None:
        variance = sigma**2
    else:
        variance = squared.mean() if len(squared) else 0.0
    # an image of one color has no contrast
    if not variance > 0:
        return np.ones(len(squared))
    return np.exp(-squared / (2.0 * variance))
