"""Small problems of every model, with joint feature maps written out in NumPy."""

import itertools
import math

import numpy as np

from sksstruct.models import (
    CandidatesModel,
    DependencyModel,
    Graph,
    GraphModel,
    MatchingModel,
    MulticlassModel,
    PartsModel,
    ScoreFunction,
    SegmentModel,
    grid_graph,
)


def random_tree(rng, n):
    """Edges of a random forest, in either direction."""
    edges = [(rng.randint(v), v) for v in range(1, n) if rng.uniform() < 0.9]
    edges = [e if rng.uniform() < 0.5 else e[::-1] for e in edges]
    return np.array(edges, dtype=int).reshape(-1, 2)


def some(rng, shape):
    """Features with ties and zeros."""
    return rng.randint(-2, 3, size=shape) / 2.0


def graph(rng, pairwise, edge_features, n_labels=3, cyclic=False):
    X, y = [], []
    for n in (1, 3, 4, 3):
        edges = random_tree(rng, n)
        if cyclic and n > 2:
            edges = np.array([(v, (v + 1) % n) for v in range(n)] + [(0, 1)])
        x = (some(rng, (n, 2)), edges)
        if edge_features:
            x += (np.abs(some(rng, (len(edges), 2))),)
        X.append(x)
        y.append(np.array(list("abc"))[rng.randint(n_labels, size=n)])
    y[2] = np.array(list("abca"[: len(y[2])])) if n_labels == 3 else np.array(
        list("abba")
    )  # fmt: skip
    inference = "cut" if cyclic else "auto"
    return GraphModel(pairwise, inference=inference, normalize=False), X, y


def weighted_problems():
    """Graphs with weights of nodes, which their losses take, and images with masks."""
    rng = np.random.RandomState(1)
    _, X, y = graph(rng, "full", True)
    X = [Graph(*x, node_weights=rng.randint(3, size=len(x[0])) + 0.5) for x in X]
    model = GraphModel("full", class_weight={"a": 2.0, "c": 0.5}, normalize=True)
    yield "weights of nodes", model, X, y, graph_feature
    # 2 x 2 and 2 x 1 pixels; one of them does not count
    X = [grid_graph(some(rng, (2, k, 2)), connectivity=8) for k in (2, 1, 2)]
    X[0] = X[0]._replace(node_weights=[1.0, 0.0, 2.0, 0.5])
    y = [np.array(mask) for mask in ([[1, 1], [0, 1]], [[1], [0]], [[0, 1], [0, 0]])]
    yield "masks", GraphModel("potts", inference="cut"), X, y, graph_feature


def graph_feature(model, x, y):
    """Blocks of node and edge features, in the order of the fitted attributes."""
    K = len(model.classes_)
    labels = [list(model.classes_).index(label) for label in np.ravel(y)]
    coef, bias = np.zeros((K, x[0].shape[1])), np.zeros(K)
    for row, label in zip(x[0], labels, strict=True):
        coef[label] += row
        bias[label] += 1
    given = len(x) > 2 and x[2] is not None
    rows = x[2] if given else np.ones((len(x[1]), 1))
    shape = (K, K) if model.pairwise == "full" else ()
    edge = np.zeros((rows.shape[1], *shape))
    for (u, v), row in zip(x[1], rows, strict=True):
        if model.pairwise == "full":
            edge[:, labels[u], labels[v]] += row
        elif labels[u] == labels[v]:
            edge += row
    blocks = {"coef_": coef, "intercept_": bias, "edge_coef_": edge}
    scale = 1 / len(x[0]) if model.normalize_ else 1
    return {name: scale * block for name, block in blocks.items()}


def matching_feature(model, x, y):
    pairs = [(r, c) for r, c in enumerate(y) if c >= 0]
    return {
        "coef_": sum((x[r, c] for r, c in pairs), np.zeros(x.shape[2])),
        "intercept_": 0 if model.complete else len(pairs),
    }


def candidate_feature(model, x, y):
    features = x if model.overlap == "none" else x[0]
    value, label = y if isinstance(y, tuple) and len(y) == 2 else (y, None)
    k = 0 if label is None else list(model.classes_).index(label)
    if model.overlap == "iou":
        value = [tuple(box) for box in x[1].tolist()].index(tuple(value))
    K = 1 if label is None else len(model.classes_)
    coef, bias = np.zeros((K, features.shape[1])), np.zeros(K)
    coef[k] = features[value]
    bias[k] = label is not None
    return {"coef_": coef, "intercept_": bias}


def parts_feature(model, x, y):
    out = {
        "coef_": np.array([x[r, c] for r, c in y]),
        "intercept_": np.ones(len(y)),
    }
    moves = [y[v] - y[u] for u, v in model.edges_]
    d = (np.array(moves).reshape(-1, 2) - model.offsets_) / model.scales_
    return {**out, "linear_": d, "quadratic_": -(d**2)}


def segment_feature(model, x, y):
    """Of runs of labels, or of listed segments: then what is between is outside."""
    features, spans, of_spans = x if isinstance(x, tuple) else (x, (), None)
    n, listed, names = len(features), model.outside_, list(model.classes_)
    if listed:
        inside = {t for start, stop, _ in y for t in range(start, stop)}
        rest = [(t, t + 1, None) for t in range(n) if t not in inside]
        y, names = sorted([*y, *rest]), [None, *names]
    else:
        starts = [t for t in range(n) if not t or y[t] != y[t - 1]]
        stops = [*starts[1:], n]
        y = [(a, b, y[a]) for a, b in zip(starts, stops, strict=True)]
    K, limit = len(names), model.length_features
    limit = 8 if limit == "auto" else limit
    ranges = [
        length - 1
        if length <= limit
        else limit - 1 + math.ceil(math.log2(length / limit))
        for length in range(1, model.longest_.max() + 1)
    ]
    out = {
        "coef_": np.zeros((4 if listed else 1, K, features.shape[1])),
        "intercept_": np.zeros((4 if listed else 1, K)),
        "length_coef_": np.zeros((ranges[-1] + 1, K)),
        "transitions_": np.zeros((K, K)),
        "start_": np.eye(K)[names.index(y[0][2])],
        "end_": np.eye(K)[names.index(y[-1][2])],
    }
    if of_spans is not None:
        out["span_coef_"] = np.zeros((K, of_spans.shape[1]))
    for start, stop, label in y:
        k = names.index(label)
        for t in range(start, stop):
            role = 3 if stop - start == 1 else 0 if t == start else 1 + (t == stop - 1)
            out["coef_"][role if listed else 0, k] += features[t]
            out["intercept_"][role if listed else 0, k] += 1
        out["length_coef_"][ranges[stop - start - 1], k] += 1
        for span, row in zip(spans, of_spans if len(spans) else (), strict=True):
            if tuple(span) == (start, stop):
                out["span_coef_"][k] += row
    for (*_, a), (*_, b) in itertools.pairwise(y):
        out["transitions_"][names.index(a), names.index(b)] += 1
    return out


def typed_feature(model, x, y):
    """Positions and types; types of observed positions are those of clusters."""
    if not isinstance(y, tuple):
        moves = np.array([np.subtract(y[v], y[u]) for u, v in model.edges_])
        squared = ((moves[:, None] - model.offsets_) ** 2).sum(axis=2)
        y = y, squared.argmin(axis=1)
    z, types = y
    n_edges, T = model.offsets_.shape[:2]
    linear, bias = np.zeros((n_edges, T, 2)), np.zeros((n_edges, T))
    quadratic, ends = np.zeros_like(linear), np.zeros((n_edges, T, 2, x.shape[2]))
    for e, ((u, v), t) in enumerate(zip(model.edges_, types, strict=True)):
        d = (z[v] - z[u] - model.offsets_[e, t]) / model.scales_[e]
        linear[e, t], quadratic[e, t], bias[e, t] = d, -(d**2), 1
        ends[e, t] = x[tuple(z[u])], x[tuple(z[v])]
    out = {
        "coef_": np.array([x[r, c] for r, c in z]),
        "intercept_": np.ones(len(z)),
        "linear_": linear,
        "quadratic_": quadratic,
        "type_intercept_": bias,
    }
    return {**out, "type_coef_": ends} if model.type_features else out


def typed_problems():
    """Parts whose springs are of several types, which outputs of oracles have."""
    rng = np.random.RandomState(2)
    X = [some(rng, shape) for shape in ((2, 3, 2), (2, 2, 2), (1, 4, 2))]
    y = [
        np.array([[0, 0], [1, 1], [1, 0]]),
        np.array([[0, 1], [1, 1], [0, 0]]),
        np.array([[0, 3], [0, 0], [0, 1]]),
    ]
    for type_features in (False, True):
        model = PartsModel(
            [(0, 1), (2, 1)], unit=1.5, n_types=2, type_features=type_features
        )
        yield f"typed parts, features: {type_features}", model, X, y, typed_feature
    model = PartsModel([(2, 0)], unit=(0, 1), n_types=3)
    yield "typed parts in two trees", model, X, y, typed_feature


def multiclass_feature(model, x, y):
    coef, bias = np.zeros((len(model.classes_), len(x))), np.zeros(len(model.classes_))
    k = list(model.classes_).index(y)
    coef[k], bias[k] = x, 1
    return {"coef_": coef, "intercept_": bias}


def dependency_feature(model, x, y):
    n = len(y)
    return {"coef_": sum(x[head * n + k] for k, head in enumerate(y))}


def problems():
    """Name, model, inputs, outputs, and joint feature map as blocks."""
    rng = np.random.RandomState(0)
    for pairwise in ("full", "potts"):
        for edge_features in (False, True):
            yield (
                f"{pairwise} tree, edge features: {edge_features}",
                *graph(rng, pairwise, edge_features),
                graph_feature,
            )
    for edge_features in (False, True):
        yield (
            f"cut, edge features: {edge_features}",
            *graph(rng, "potts", edge_features, n_labels=2, cyclic=True),
            graph_feature,
        )
    model, X, y = graph(rng, "full", True)
    weighted = GraphModel("full", class_weight={"a": 2.0, "b": 0.5})
    yield "costs of labels", weighted, X, y, graph_feature
    X = [some(rng, (3, 4, 2)), some(rng, (2, 2, 2)), some(rng, (1, 3, 2))]
    yield (
        "matching",
        MatchingModel(false_cost=0.25, miss_cost=1.0),
        X,
        [np.array([-1, 2, 0]), np.array([1, -1]), np.array([-1])],
        matching_feature,
    )
    yield (
        "complete matching",
        MatchingModel(complete=True),
        X,
        [np.array([3, 2, 0]), np.array([1, 0]), np.array([1])],
        matching_feature,
    )
    X = [some(rng, (n, 3)) for n in (4, 1, 5)]
    yield "candidates", CandidatesModel(), X, [3, 0, 1], candidate_feature
    labels = [(3, "a"), (0, "b"), (1, "c")]
    yield "labeled candidates", CandidatesModel(), X, labels, candidate_feature
    corners = [np.array([[0, 1], [2, 0], [1, 1], [3, 3], [2, 2]])[: len(x)] for x in X]
    boxes = [np.hstack([c, c + rng.randint(1, 5, size=c.shape)]) for c in corners]
    X = [(x, b.astype(float)) for x, b in zip(X, boxes, strict=True)]
    y = [tuple(b[0].tolist()) for b in boxes]
    yield "boxes", CandidatesModel("iou"), X, y, candidate_feature
    labels = [(box, k) for k, box in enumerate(y)]
    yield "labeled boxes", CandidatesModel("iou"), X, labels, candidate_feature
    X = [some(rng, (3, 2, 2)), some(rng, (2, 2, 2)), some(rng, (1, 4, 2))]
    y = [
        np.array([[0, 0], [2, 1], [1, 0]]),
        np.array([[0, 1], [1, 1], [0, 0]]),
        np.array([[0, 3], [0, 0], [0, 1]]),
    ]
    model = PartsModel([(0, 1), (2, 1)], unit=1.5)
    yield "parts", model, X, y, parts_feature
    model = PartsModel([(2, 0)], unit=(0, 1), fit_intercept=True)
    yield "parts in two trees", model, X, y, parts_feature
    X, y = some(rng, (6, 3)), np.array(list("abcabc"))
    costs = [[0, 1, 2], [3, 0, 1], [0.5, 1, 0]]
    yield "multiclass", MulticlassModel(costs), X, y, multiclass_feature
    X = [some(rng, ((n + 1) * n, 3)) for n in (3, 1, 4)]
    y = [np.array([2, 0, 2]), np.array([0]), np.array([2, 0, 4, 2])]
    yield "projective trees", DependencyModel(), X, y, dependency_feature
    # divided by powers of two, losses tie however they are added up
    X, y = [X[2], X[1], X[0][:6]], [np.array([3, 4, 0, 0]), y[1], np.array([2, 0])]
    model = DependencyModel(False, False, loss_normalization="example")
    yield "nonprojective trees", model, X, y, dependency_feature


def segment_problems():
    """Name, model, inputs, outputs, joint feature map; no score functions."""
    rng = np.random.RandomState(2)
    X = [some(rng, (n, 2)) for n in (3, 2, 4)]
    y = [list("aab"), list("bb"), list("bacc")]
    yield "runs", SegmentModel(length_features=1), X, y, segment_feature
    spans = [[(0, 1), (1, 3)], [(0, 2)], [(1, 2), (0, 2), (1, 3)]]
    X = [
        (x, np.array(each), some(rng, (len(each), 2)))
        for x, each in zip(X, spans, strict=True)
    ]
    y = [[(0, 1, "a"), (1, 3, "b")], [(0, 1, "a")], [(1, 3, "b")]]
    model = SegmentModel(loss_unit="segment", loss_normalization=None)
    yield "segments", model, X, y, segment_feature


PROBLEMS = {name: rest for name, *rest in problems()}
SEGMENTS = {name: rest for name, *rest in segment_problems()}
# the loss of an output depends on the input
WEIGHTED = {name: rest for name, *rest in weighted_problems()}
# outputs of oracles have more than observed ones
TYPED = {name: rest for name, *rest in typed_problems()}


class LinearScore(ScoreFunction):
    """Scores that are linear after all: the problem is convex."""

    def initialize(self, n_features, n_labels, random_state):
        return random_state.normal(size=n_features * n_labels)

    def value(self, w, X, n_labels):
        return X @ w.reshape(-1, n_labels)

    def jvp(self, w, X, n_labels, direction):
        return X @ direction.reshape(-1, n_labels)

    def vjp(self, w, X, n_labels, cotangent):
        return (X.T @ cotangent).ravel()
