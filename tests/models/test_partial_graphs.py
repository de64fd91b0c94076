"""Labels of nodes of which only a part was observed, in the training data of graphs."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from sksstruct import SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import (
    ELUScore,
    Graph,
    GraphModel,
    RelaxedGraphModel,
    grid_graph,
)
from sksstruct.models.roles import smooth_loss

MODELS = [GraphModel, RelaxedGraphModel]


def forests(n, labels="abc", seed=0, edge_features=False, longest=5):
    """Random forests, whose features tell something of the labels."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        size = rng.randint(2, longest + 1)
        codes = rng.randint(len(labels), size=size)
        edges = [(rng.randint(k), k) for k in range(1, size) if rng.rand() < 0.8]
        edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
        nodes = np.eye(len(labels))[codes] + 0.6 * rng.normal(size=(size, len(labels)))
        rows = rng.normal(size=(len(edges), 2)) if edge_features else None
        X.append(Graph(nodes, edges, rows))
        y.append([labels[code] for code in codes])
    return X, y


def grids(n, seed=0, shape=(2, 3)):
    rng = np.random.RandomState(seed)
    masks = rng.rand(n, *shape) < 0.5
    images = masks + 0.3 * rng.normal(size=masks.shape)
    return [grid_graph(image) for image in images], list(masks.astype(int))


def vague(y, seed=0, missing=0.25, sets=0.25):
    """Some labels but the first are missing, and some are in a set with another one."""
    rng = np.random.RandomState(seed)
    every, out = sorted({label for row in y for label in row}), []
    following = dict(zip(every, every[1:] + every[:1], strict=True))
    for row in y:
        draws = rng.rand(len(row))
        draws[0] = 1.0
        out.append(
            [
                None
                if u < missing
                else {label, following[label]}
                if u < missing + sets
                else label
                for label, u in zip(row, draws, strict=True)
            ]
        )
    return out


def hidden(masks, seed=0, share=0.5):
    """Masks, some of whose pixels are not known."""
    rng, out = np.random.RandomState(seed), []
    for mask in masks:
        draws, mask = rng.rand(*mask.shape), mask.astype(object)
        draws[0, 0] = 1.0
        mask[draws < share] = None
        out.append(mask)
    return out


def agrees(y, partly):
    """Whether labels are among those that were observed."""
    pairs = zip(np.ravel(y).tolist(), np.ravel(partly).tolist(), strict=True)
    return all(
        known is None or label == known or (isinstance(known, set) and label in known)
        for label, known in pairs
    )


def bound(spec, X, y):
    """A model that has seen data, and the same bound to them."""
    return spec._bind(spec._read(X, y, None, None))


def labelings(spec, x):
    """All labelings of a graph."""
    n = len(Graph(*x).node_features)
    for labels in itertools.product(spec.classes_.tolist(), repeat=n):
        yield np.array(labels).reshape(Graph(*x).shape or n).tolist()


@pytest.mark.parametrize("pairwise", ["full", "potts"])
@pytest.mark.parametrize("edge_features", [False, True])
def test_likelihood_is_that_of_all_labelings_that_agree(pairwise, edge_features):
    X, y = forests(6, edge_features=edge_features)
    spec, partly = GraphModel(pairwise), vague(y)
    model = bound(spec, X, partly)
    model.likelihood = True
    loss = smooth_loss(model, SmoothedHinge("entropy", 1.0, 1))
    w = np.random.RandomState(1).normal(size=model.n_weights)
    gradient = np.zeros_like(w)

    def value(w):
        total = 0.0
        for x, row in zip(X, partly, strict=True):
            scores = {
                tuple(each): spec.joint_feature(x, each) @ w
                for each in labelings(spec, x)
            }
            some = [score for each, score in scores.items() if agrees(each, row)]
            total += logsumexp(list(scores.values())) - logsumexp(some)
        return total / len(X)

    assert loss.value_and_gradient(w, gradient) == pytest.approx(value(w), abs=1e-10)
    assert not loss.convex
    for k in np.flatnonzero(spec.joint_feature(X[0], y[0]) != 0):
        step = np.zeros_like(w)
        step[k] = 1e-6
        slope = (value(w + step) - value(w - step)) / 2e-6
        assert gradient[k] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize(
    "case", ["full", "potts", "edges", "cut", "relaxed", "relaxed_grid"]
)
def test_completion_is_the_best_labeling_that_agrees(case):
    if case in ("cut", "relaxed_grid"):
        X, y = grids(5)
        partly = hidden(y)
        partly[1][1, :] = [None, {0, 1}, {1}]
        spec = (GraphModel if case == "cut" else RelaxedGraphModel)("potts")
    else:
        X, y = forests(8, edge_features=case == "edges")
        partly = vague(y)
        spec = RelaxedGraphModel() if case == "relaxed" else GraphModel()
        spec.set_params(pairwise="potts" if case == "potts" else "full")
    model = bound(spec, X, partly)
    w = np.random.RandomState(1).normal(size=model.n_weights)
    if spec.pairwise == "potts":
        # cuts need edges that attract
        w[-model.views(w)["edge_coef"].size if case == "cut" else -2 :] = [0.4, 0.3]
        w = w if case != "potts" else np.abs(w)
    codes = model.completion.complete(w)
    starts = np.cumsum([0, *(len(x.node_features) for x in X)])
    completed = [spec.classes_[codes[a:b]] for a, b in itertools.pairwise(starts)]
    for x, row, found in zip(X, partly, completed, strict=True):
        found = found.reshape(x.shape or -1).tolist()
        assert agrees(found, row)
        best = max(
            spec.joint_feature(x, each) @ w
            for each in labelings(spec, x)
            if agrees(each, row)
        )
        assert spec.joint_feature(x, found) @ w == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
def test_sets_of_one_and_of_all_labels(loss):
    X, y = forests(10)
    options = {"model": "graph", "loss": loss, "alpha": 0.01, "random_state": 0}
    single = [[{label} for label in row] for row in y]
    fits = [SSVMClassifier(**options).fit(X, each) for each in (y, single)]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    assert np.isfinite(fits[1].dual_gap_)
    missing = vague(y, sets=0.0)
    every = [[set("abc") if k is None else k for k in row] for row in missing]
    fits = [SSVMClassifier(**options).fit(X, each) for each in (missing, every)]
    np.testing.assert_array_equal(fits[0].weights_, fits[1].weights_)
    assert fits[0].dual_gap_ == np.inf


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("normalization", ["mean", "example", None])
def test_nodes_without_a_label_have_no_loss(model, normalization):
    X, y = forests(8)
    X[1] = X[1]._replace(node_weights=np.arange(1.0, 1.0 + len(y[1])))
    partly = vague(y)
    spec = model(loss_normalization=normalization)
    completed = bound(spec, X, partly).completion
    labels = completed.complete(np.zeros(spec.n_weights_))
    trained = completed.with_labels(labels)
    known = [[isinstance(k, str) for k in row] for row in partly]
    weights = [
        (1.0 if x.node_weights is None else x.node_weights) * np.array(some)
        for x, some in zip(X, known, strict=True)
    ]
    totals = [each.sum() for each in weights]
    assert spec.mean_size_ == pytest.approx(np.mean(totals))
    divided_by = {"mean": np.mean(totals), None: 1.0}
    starts = np.cumsum([0, *map(len, y)])
    hinges = np.zeros(len(X))
    # without scores the largest loss: every node is wrong
    trained.hinge(trained.workspace(np.zeros(spec.n_weights_)), 0, len(X), hinges)
    for i, (row, weight) in enumerate(zip(partly, weights, strict=True)):
        codes = labels[starts[i] : starts[i + 1]]
        other = (codes + 1) % 3
        missed = weight.sum() / divided_by.get(normalization, totals[i])
        assert hinges[i] == pytest.approx(missed)
        # scores leave out the same nodes
        predicted = spec.classes_[other].tolist()
        single = [k if isinstance(k, str) else None for k in row]
        found = spec.loss(single, predicted, X[i].node_weights)
        right = [a == b for a, b in zip(single, predicted, strict=True)]
        wrong = (weight * ~np.array(right)).sum()
        assert found == pytest.approx(wrong / divided_by.get(normalization, totals[i]))


@pytest.mark.parametrize("model", MODELS)
def test_grids_of_objects_and_of_lists(model):
    X, masks = grids(6, shape=(3, 4))
    partly = hidden(masks)
    lists = [mask.tolist() for mask in partly]
    rows = [mask.ravel().tolist() for mask in partly]
    flat = [x._replace(shape=None) for x in X]
    fits = [
        SSVMClassifier(model("potts"), alpha=1e-3, random_state=0).fit(*data)
        for data in ((X, partly), (X, lists), (flat, rows))
    ]
    for classifier in fits[1:]:
        np.testing.assert_array_equal(classifier.weights_, fits[0].weights_)
    assert fits[0].predict(X)[0].shape == (3, 4)
    assert fits[0].score(X, partly) == pytest.approx(fits[0].score(X, lists))
    assert fits[0].score(X, masks) > 0.8


@pytest.mark.parametrize("model", MODELS)
def test_scores_leave_out_what_is_not_known(model):
    X, y = forests(10)
    classifier = SSVMClassifier(model(), max_iter=20, tol=0.1, random_state=0).fit(X, y)
    predicted = [list(row) for row in classifier.predict(X)]
    met = [[None, *({label, "a"} for label in row[1:])] for row in predicted]
    assert classifier.score(X, met) == 1.0
    others = [["c" if k != "c" else "a" for k in row] for row in predicted]
    assert classifier.score(X, others) == 0.0
    # graphs of which nothing is known are left out
    partly = [others[0], predicted[1], *([None] * len(row) for row in y[2:])]
    assert classifier.score(X, partly) == 0.5
    with pytest.raises(ValueError, match="y has no known label"):
        classifier.score(X, [[None] * len(row) for row in y])


def test_class_counts_are_those_of_known_labels():
    X, y = forests(10)
    partly = vague(y)
    spec = GraphModel(class_weight="balanced")
    bound(spec, X, partly)
    flat = [k for row in partly for k in row if isinstance(k, str)]
    shares = np.array([flat.count(label) for label in "abc"]) / len(flat)
    np.testing.assert_allclose(spec.costs_, 1.0 / (3.0 * shares))


def test_labels_that_only_sets_name():
    X, y = forests(12)
    partly = [[{"b", "c"} if k == "c" else k for k in row] for row in y]
    for loss in ("log", "hinge"):
        classifier = SSVMClassifier("graph", loss=loss, alpha=0.01, random_state=0)
        assert classifier.fit(X, partly).classes_.tolist() == ["a", "b", "c"]
        assert classifier.score(X, partly) > 0.7
    # of sets alone forests learn, too: from the likelihood
    alone = [[{k, "a"} if k != "a" else {"b", "a"} for k in row] for row in y]
    classifier = SSVMClassifier("graph", alpha=0.01, random_state=0).fit(X, alone)
    assert np.isfinite(classifier.weights_).all()


def test_what_is_known_helps():
    X, y = forests(150, longest=8)
    test_X, test_y = forests(100, seed=1, longest=8)
    partly = vague(y, missing=0.5, sets=0.2)
    for loss in ("log", "hinge"):
        options = {"loss": loss, "alpha": 0.01, "random_state": 0}
        classifier = SSVMClassifier("graph", **options).fit(X, partly)
        every = SSVMClassifier("graph", **options).fit(X, y)
        assert classifier.score(test_X, test_y) > every.score(test_X, test_y) - 0.05


@pytest.mark.parametrize("likelihood", [False, True])
def test_data_in_parts(likelihood):
    X, y = forests(8)
    partly = vague(y)
    whole, parts = GraphModel(), GraphModel()
    model = bound(whole, X, partly)
    halves = [slice(None, 4), slice(4, None)]
    facts = [parts._facts(X[k], partly[k], None, i) for i, k in enumerate(halves)]
    parts._learn_facts(facts[0].merge(facts[1]))
    assert parts.mean_size_ == pytest.approx(whole.mean_size_)
    for label, count in whole._counts_.items():
        assert parts._counts_[label] == pytest.approx(8.0 * count)
    w = np.random.RandomState(1).normal(size=model.n_weights)
    gradients = np.zeros((3, len(w)))
    bounds = [model]
    bounds += [parts._bind(parts._read_part(X[k], partly[k], None)) for k in halves]
    if likelihood:
        values = []
        for each, gradient in zip(bounds, gradients, strict=True):
            each.likelihood = True
            loss = smooth_loss(each, SmoothedHinge("entropy", 1.0, 1))
            values.append(loss.value_and_gradient(w, gradient))
        assert values[0] == pytest.approx(values[1] + values[2])
        np.testing.assert_allclose(gradients[0], gradients[1] + gradients[2])
    else:
        assert all("completion" in each.oracles for each in bounds)


ERRORS = {
    r"y\[1\] has a missing label: None, at every node": [None, None],
    r"y\[1\] has a missing label: nan, at node 1": ["a", np.nan],
    r"y\[1\] has the set set\(\) at node 1": ["a", set()],
    r"y\[1\] has the set .*None.* at node 1": ["a", {"a", None}],
    r"y\[1\] has a label that is not hashable: \['a'\], at node 1": ["a", ["a"]],
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("message", ERRORS)
def test_errors_name_the_graph_and_the_node(model, message):
    X = [(np.eye(2), [(0, 1)])] * 2
    with pytest.raises((ValueError, TypeError), match=message):
        SSVMClassifier(model()).fit(X, [["a", "b"], ERRORS[message]])


def test_what_cannot_be_completed():
    X, y = forests(4)
    partly = vague(y, missing=0.5)
    for solver, loss in (("sdca", "log"), ("partitioned", "hinge")):
        with pytest.raises(ValueError, match="missing labels"):
            SSVMClassifier("graph", loss=loss, solver=solver).fit(X, partly)
    with pytest.raises(ValueError, match="every label of y to be known"):
        SSVMClassifier("graph", loss="log", score_function=ELUScore(2)).fit(X, partly)
    X, masks = grids(2)
    either = [np.full(mask.shape, None) for mask in masks]
    for mask in either:
        mask[...] = [[{0, 1}] * 3] * 2
    with pytest.raises(ValueError, match="y has no node with a single label"):
        SSVMClassifier(GraphModel("potts")).fit(X, either)
    with pytest.raises(ValueError, match=r"y\[0\] has no node with a single label"):
        SSVMClassifier(RelaxedGraphModel()).fit(X, either)
