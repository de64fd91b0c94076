"""Graphs as inputs: weights of nodes, scales, masks, and graphs of images."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from sksstruct import SSVMClassifier
from sksstruct.models import (
    Graph,
    GraphModel,
    RelaxedGraphModel,
    check_model,
    grid_graph,
)

MODELS = [GraphModel, RelaxedGraphModel]


def test_the_text_of_a_graph_is_short():
    image = grid_graph(np.zeros((12, 12)))
    text = "Graph(node_features=<144 x 1>, edges=<264 x 2>, edge_features=<264 x 2>"
    assert repr(image) == f"{text}, shape=(12, 12))"
    graph = Graph([[1.0], [0.0]], [(0, 1)], cliques=[[(0, 1, 1)]])
    assert (
        repr(graph) == "Graph(node_features=<2 x 1>, edges=<1 x 2>, cliques=<kinds: 1>)"
    )
    assert "node_features=<list>" in repr(Graph([[1.0], [1.0, 2.0]], [(0, 1)]))


def some_graphs(rng, n_graphs=3, n_labels=2, weights=True):
    """Paths of different sizes, with features that have ties."""
    X, y = [], []
    for n in 2 + np.arange(n_graphs):
        nodes = rng.randint(-2, 3, size=(n, 2)) / 2.0
        edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
        node_weights = rng.randint(1, 5, size=n) / 2.0 if weights else None
        X.append(Graph(nodes, edges, rng.rand(n - 1, 2), node_weights))
        y.append([int(k) for k in np.arange(n) % n_labels])
    return X, y


def disk(size, rng, noise=0.5):
    """An image of a disk, and its mask."""
    rows, columns = np.indices((size, size + 1))
    mask = (rows - size / 2) ** 2 + (columns - size / 2) ** 2 < (size / 3) ** 2
    return mask + noise * rng.normal(size=mask.shape), mask.astype(int)


# ---- weights of nodes ----


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("normalization", ["mean", "example", None])
def test_weighted_loss(model, normalization):
    X, y = some_graphs(np.random.RandomState(0))
    model = model(loss_normalization=normalization)
    model.prepare(X, y)
    totals = [np.sum(x.node_weights) for x in X]
    assert model.mean_size_ == pytest.approx(np.mean(totals))
    by = {"mean": [np.mean(totals)] * 3, "example": totals, None: [1.0] * 3}
    for x, labels, divisor in zip(X, y, by[normalization], strict=True):
        other = labels.copy()
        other[0] = 1 - other[0]
        for loss in (model.loss(labels, other, x.node_weights),
                     model._loss_at(x, labels, other)):  # fmt: skip
            assert loss == pytest.approx(x.node_weights[0] / divisor)
        assert model.loss(labels, labels, x.node_weights) == 0.0


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.sampled_from(MODELS),
    st.booleans(),
    st.sampled_from(["mean", "example", None]),
    st.sampled_from(["full", "potts"]),
)
def test_oracles_with_weights(seed, model, normalize, normalization, pairwise):
    rng = np.random.RandomState(seed)
    X, y = some_graphs(rng, n_labels=1 + rng.randint(1, 3))
    # zeros among the weights, and a graph without any
    X[1].node_weights[0] = 0.0
    X[2] = X[2]._replace(node_weights=None)
    model = model(pairwise, normalize=normalize, loss_normalization=normalization)
    exhaustive = isinstance(model, GraphModel)
    check_model(model, X, y, enumerate_outputs=exhaustive, random_state=seed)


@pytest.mark.parametrize("model", MODELS)
def test_whole_weights_are_copies_of_nodes(model):
    """A node of weight 2 is two nodes that never differ."""
    rng = np.random.RandomState(3)
    nodes = [rng.normal(size=(3, 2)) for _ in range(4)]
    y = [[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]]
    none = np.zeros((0, 2), dtype=int)
    weighted = [Graph(x, none, node_weights=[1.0, 2.0, 1.0]) for x in nodes]
    # features are shared out
    share = np.array([1.0, 0.5, 1.0, 0.5])[:, None]
    copied = [Graph(share * x[[0, 1, 2, 1]], none) for x in nodes]
    tied = [[*z, z[1]] for z in y]
    spec = model("potts", fit_intercept=False)
    one, two = (
        SSVMClassifier(spec, alpha=0.3, tol=1e-7, random_state=0).fit(X, z)
        for X, z in ((weighted, y), (copied, tied))
    )
    # without edges copies get the same label, or tie
    assert one.objective_ == pytest.approx(two.objective_, abs=1e-6)
    np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_score_counts_weights(model):
    X, y = some_graphs(np.random.RandomState(1))
    classifier = SSVMClassifier(model(), alpha=10.0, random_state=0).fit(X, y)
    predicted = classifier.predict(X)
    losses = [
        np.average(np.not_equal(a, b), weights=x.node_weights)
        for x, a, b in zip(X, y, predicted, strict=True)
    ]
    assert max(losses) > 0
    assert classifier.score(X, y) == pytest.approx(1 - np.mean(losses))
    plain = [x._replace(node_weights=None) for x in X]
    # predictions do not depend on them
    for a, b in zip(classifier.predict(plain), predicted, strict=True):
        assert list(a) == list(b)


def test_balanced_costs_count_weights():
    X = [Graph(np.eye(3), [(0, 1)], node_weights=[4.0, 1.0, 1.0])]
    model = GraphModel(class_weight="balanced")
    model.prepare(X, [["a", "b", "b"]])
    np.testing.assert_allclose(model.costs_, [6 / (2 * 4), 6 / (2 * 2)])


BAD_WEIGHTS = {
    "a node_weight for each of its 3 nodes, got 2": [1.0, 1.0],
    r"node_weights\[1\] is negative": [1.0, -1.0, 1.0],
    "sum that is finite and not 0": [0.0, 0.0, 0.0],
    "NaN or infinite": [1.0, np.nan, 1.0],
    "must be 1-D": np.ones((3, 1)),
    "array of numbers": ["a", "b", "c"],
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("message", BAD_WEIGHTS)
def test_bad_weights(model, message):
    x = Graph(np.eye(3), [(0, 1)], None, BAD_WEIGHTS[message])
    with pytest.raises(ValueError, match=message) as error:
        SSVMClassifier(model()).fit([x], [[0, 1, 1]])
    assert "X[0]" in str(error.value)


# ---- scales ----


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_normalized_features(model, form, fit_intercept):
    """The same as features that are divided beforehand, and a constant one."""
    X, y = some_graphs(np.random.RandomState(2))
    inside = [x._replace(node_features=form(x.node_features)) for x in X]
    outside = []
    for x in X:
        n = len(x.node_features)
        nodes = np.hstack([x.node_features, np.ones((n, int(fit_intercept)))])
        outside.append(x._replace(node_features=form(nodes / n),
                                  edge_features=x.edge_features / n))  # fmt: skip
    one = SSVMClassifier(
        model(normalize=True, fit_intercept=fit_intercept),
        alpha=0.05, tol=1e-8, random_state=0,
    ).fit(inside, y)  # fmt: skip
    two = SSVMClassifier(
        model(normalize=False, fit_intercept=False),
        alpha=0.05, tol=1e-8, random_state=0,
    ).fit(outside, y)  # fmt: skip
    assert one.objective_ == pytest.approx(two.objective_, abs=1e-7)
    np.testing.assert_allclose(
        one.decision_function(inside), two.decision_function(outside), atol=1e-3
    )
    # in prediction too, for graphs of another size
    n = 9
    more = Graph(form(np.random.RandomState(0).normal(size=(n, 2))),
                 [(v, v + 1) for v in range(n - 1)], np.ones((n - 1, 2)))  # fmt: skip
    label = one.predict([more])[0]
    phi = one.model_.joint_feature(more, label)
    assert one.decision_function([more])[0] == pytest.approx(phi @ one.weights_)
    raw = type(one.model_)(normalize=False, fit_intercept=fit_intercept)
    raw.prepare(inside, y)
    np.testing.assert_allclose(n * phi, raw.joint_feature(more, label))


def test_likelihood_with_a_scale():
    """The sums over labelings read the same scaled features."""
    X, y = some_graphs(np.random.RandomState(4), n_graphs=5)
    inside = [x._replace(node_weights=None) for x in X]
    outside = []
    for x in inside:
        n = len(x.node_features)
        nodes = np.hstack([x.node_features, np.ones((n, 1))]) / n
        edge_features = x.edge_features / n
        outside.append(x._replace(node_features=nodes, edge_features=edge_features))
    one, two = (
        SSVMClassifier(model, alpha=1e-3, loss="log", tol=1e-9).fit(data, y)
        for model, data in (
            (GraphModel(normalize=True), inside),
            (GraphModel(fit_intercept=False), outside),
        )
    )
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-7)
    for a, b in zip(
        one.predict_marginals(inside), two.predict_marginals(outside), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scale_is_automatic_for_cuts():
    rng = np.random.RandomState(0)
    images, masks = zip(*(disk(5, rng) for _ in range(4)), strict=True)
    X = [grid_graph(image) for image in images]
    cut = SSVMClassifier(GraphModel("potts"), random_state=0, max_iter=300)
    cut.fit(X, masks)
    assert cut.model_.normalize_
    assert cut.intercept_.shape == (2,)
    assert cut.coef_.shape == (2, 1)
    trees = [(x[0], [(v, v + 1) for v in range(29)]) for x in X]
    tree = SSVMClassifier("graph", alpha=1.0).fit(trees, [m.ravel() for m in masks])
    assert not tree.model_.normalize_


def test_scales_keep_their_inputs():
    X, y = some_graphs(np.random.RandomState(0))
    before = [[np.copy(part) for part in x[:4]] for x in X]
    SSVMClassifier(GraphModel(normalize=True), alpha=1.0).fit(X, y)
    for x, parts in zip(X, before, strict=True):
        for a, b in zip(x[:4], parts, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_noisy_images_take_few_passes():
    """Without a scale these take more than a thousand."""
    rng = np.random.RandomState(0)
    images, masks = zip(*(disk(20, rng, 1.0) for _ in range(20)), strict=True)
    X = [grid_graph(image, edge_features=None) for image in images]
    classifier = SSVMClassifier(GraphModel("potts"), alpha=1e-3, random_state=0)
    classifier.fit(X, masks)
    assert classifier.n_iter_ < 100
    assert classifier.score(X, masks) > 0.9 > 1 - np.mean(masks) + 0.1


# ---- masks and images ----


@pytest.mark.slow
@pytest.mark.parametrize("model", [GraphModel("potts"), RelaxedGraphModel("potts")])
@pytest.mark.parametrize("kind", [int, bool, str])
def test_masks(model, kind):
    rng = np.random.RandomState(0)
    images, masks = zip(*(disk(k, rng) for k in (3, 4, 3)), strict=True)
    masks = [mask.astype(kind) for mask in masks]
    X = [grid_graph(image) for image in images]
    classifier = SSVMClassifier(model, alpha=0.1, random_state=0, tol=0.1)
    predicted = classifier.fit(X, masks).predict(X)
    assert [z.shape for z in predicted] == [m.shape for m in masks]
    assert classifier.model_.classes_.dtype.kind == masks[0].dtype.kind
    assert predicted[0].dtype.kind == masks[0].dtype.kind
    # in rows the same
    flat = [mask.ravel() for mask in masks]
    assert classifier.score(X, flat) == classifier.score(X, masks)
    lists = [mask.tolist() for mask in masks]
    again = SSVMClassifier(model, alpha=0.1, random_state=0, tol=0.1)
    again.fit(X, lists)
    np.testing.assert_array_equal(again.weights_, classifier.weights_)
    assert again.score(X, lists) == classifier.score(X, masks)
    if isinstance(model, GraphModel):
        outputs, _ = classifier.predict_topk(X, 3)
        assert {z.shape for z in outputs[1]} == {masks[1].shape}


@pytest.mark.parametrize("model", MODELS)
def test_bad_shapes(model):
    rng = np.random.RandomState(0)
    image, mask = disk(3, rng)
    x = grid_graph(image, edge_features=None)
    for y, message in (
        (mask.T, r"y\[0\] has shape \(4, 3\)"),
        (mask.ravel()[:-1], r"y\[0\] has 11 labels"),
    ):
        with pytest.raises(ValueError, match=message):
            SSVMClassifier(model("potts")).fit([x], [y])
    for shape, message in (
        ((3, 5), "12 nodes, and shape"),
        ((-3, -4), "12 nodes, and shape"),
        ("ab", "tuple of int"),
        (3, "tuple of int"),
    ):
        with pytest.raises(ValueError, match=rf"X\[0\].*{message}"):
            SSVMClassifier(model("potts")).fit([x._replace(shape=shape)], [mask])
    with pytest.raises(ValueError, match=r"y\[0\] is 2-D"):
        SSVMClassifier(model("potts")).fit([x._replace(shape=None)], [mask])
    with pytest.raises(ValueError, match="must be a tuple"):
        SSVMClassifier(model("potts")).fit([(*x, 1)], [mask])


@pytest.mark.slow
@settings(max_examples=100)
@given(
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 3),
    st.sampled_from([4, 8]),
    st.sampled_from([None, 0.7]),
)
def test_grid_graph(height, width, n_channels, connectivity, sigma):
    rng = np.random.RandomState(height + 7 * width)
    shape = (height, width, n_channels) if n_channels else (height, width)
    image = rng.normal(size=shape)
    graph = grid_graph(image, connectivity=connectivity, sigma=sigma)
    assert graph.shape == (height, width)
    assert graph.node_weights is None
    pixels = image.reshape(height * width, -1)
    np.testing.assert_array_equal(graph.node_features, pixels)
    near = {}
    for u in range(height * width):
        for v in range(height * width):
            apart = np.subtract(divmod(u, width), divmod(v, width))
            if u < v and np.abs(apart).max() == 1:
                if connectivity == 8 or np.abs(apart).sum() == 1:
                    near[u, v] = np.linalg.norm(apart)
    edges = [tuple(sorted(edge)) for edge in graph.edges.tolist()]
    assert len(edges) == len(set(edges))
    assert set(edges) == set(near)
    squared = [((pixels[u] - pixels[v]) ** 2).sum() for u, v in edges]
    variance = sigma**2 if sigma else np.mean(squared) if edges else 1.0
    distance = np.array([near[edge] for edge in edges])
    expected = np.stack(
        [np.ones(len(edges)), np.exp(-np.array(squared) / 2 / variance)]
    )
    np.testing.assert_allclose(graph.edge_features, (expected / distance).T)
    bare = grid_graph(image, connectivity=connectivity, edge_features=None)
    assert bare.edge_features is None
    np.testing.assert_array_equal(bare.edges, graph.edges)


def test_guide_of_the_contrast():
    rng = np.random.RandomState(0)
    features, guide = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 4))
    np.testing.assert_array_equal(
        grid_graph(features, guide=guide).edge_features,
        grid_graph(guide).edge_features,
    )
    # an image of one color is alike everywhere
    assert (grid_graph(np.ones((2, 3))).edge_features == 1.0).all()


BAD_IMAGES = {
    r"shape \(height, width\)": (np.ones(3), {}),
    r"got shape \(0, 3\)": (np.ones((0, 3)), {}),
    "NaN": ([[np.nan, 1.0]], {}),
    "connectivity": (np.ones((2, 2)), {"connectivity": 6}),
    "edge_features": (np.ones((2, 2)), {"edge_features": "gradient"}),
    "sigma": (np.ones((2, 2)), {"sigma": 0.0}),
    "guide has shape": (np.ones((2, 2)), {"guide": np.ones((2, 3))}),
}


@pytest.mark.parametrize("message", BAD_IMAGES)
def test_bad_images(message):
    image, parameters = BAD_IMAGES[message]
    with pytest.raises(ValueError, match=message):
        grid_graph(image, **parameters)


def test_mean_size_counts_examples_by_weight():
    X = [(np.zeros((1, 2)), []), (np.ones((5, 2)), [(0, 1), (3, 4)])]
    model = GraphModel(loss_normalization="mean")
    classifier = SSVMClassifier(model, max_iter=50, tol=1.0)
    classifier.fit(X, [[0], [0, 1, 1, 0, 1]], sample_weight=[1.0, 3.0])
    assert classifier.model_.mean_size_ == pytest.approx(4.0)


@pytest.mark.parametrize("model", MODELS)
def test_errors_speak_of_graphs(model):
    X, y = [(np.eye(2), [(0, 1)])] * 2, [["a", "b"]] * 2
    for bad, error, match in (
        ([y[0], np.float64(3)], TypeError, r"y\[1\] is 3.0: the labels of a graph"),
        ([y[0], None], TypeError, r"y\[1\] is None: the labels of a graph"),
        ([y[0], np.ones((2, 1))], ValueError, r"y\[1\] is 2-D: the labels of a graph"),
        ([["a"], y[0]], ValueError, r"y\[0\] has 1 labels, but X\[0\] has 2 nodes"),
        ([y[0]], ValueError, "y has 1 graphs, but X has 2 graphs|2 examples"),
    ):
        with pytest.raises(error, match=match):
            SSVMClassifier(model()).fit(X, bad)
    classifier = SSVMClassifier(model(), random_state=0).fit(X, y)
    with pytest.raises(TypeError, match=r"labels of a graph must be .* got 3\.0"):
        classifier.score(X, [y[0], np.float64(3)])


def test_class_weight_leads_to_what_models_of_graphs_have():
    X, y = [(np.eye(2), [(0, 1)])], [["a", "b"]]
    for model, match in (
        (GraphModel(), r"GraphModel\(class_weight=...\)"),
        (RelaxedGraphModel(), r"RelaxedGraphModel\(class_weight=...\)"),
    ):
        with pytest.raises(ValueError, match=match):
            SSVMClassifier(model, class_weight="balanced").fit(X, y)


@pytest.mark.parametrize("connectivity", [4, 8])
def test_directions_of_edges(connectivity):
    """By the steps from one end of each edge to the other."""
    height, width = 3, 4
    graph = grid_graph(
        np.zeros((height, width)), connectivity=connectivity, edge_features="direction"
    )
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: connectivity // 2]
    assert graph.edge_features.shape == (len(graph.edges), len(steps))
    for (a, b), row in zip(graph.edges.tolist(), graph.edge_features, strict=True):
        step = b // width - a // width, b % width - a % width
        assert row.tolist() == [float(step == each) for each in steps]
    assert (graph.edge_features.sum(axis=0) > 0).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_directions_tell_the_ends_of_a_slope():
    """The label rises downwards as often as it falls to the right."""
    rows, columns = np.indices((5, 5))
    masks = [(rows - columns > t).astype(int) for t in (-2, -1, 0, 1) for _ in range(3)]
    corners = np.zeros((5, 5, 1))
    corners[0, -1] = corners[-1, 0] = 1.0
    right = {}
    for kind in ("direction", None):
        X = [grid_graph(corners, edge_features=kind) for _ in masks]
        model = RelaxedGraphModel("full")
        classifier = SSVMClassifier(model, alpha=0.01, max_iter=100, random_state=0)
        found = classifier.fit(X, masks).predict(X)
        right[kind] = np.mean([z[0, -1] == 0 and z[-1, 0] == 1 for z in found])
    assert right["direction"] == 1.0
    assert right[None] == 0.0
