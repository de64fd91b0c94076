"""Graphs with cycles in training, through the relaxation."""

import itertools

import numpy as np
import pytest
from enumeration import Enumeration

from sksstruct import SSVMClassifier
from sksstruct.inference import Exhaustive
from sksstruct.models import Graph, GraphModel, RelaxedGraphModel, check_model
from sksstruct.solvers import GDMM


def grids(n_graphs=6, size=3, seed=0, features=False):
    rng = np.random.default_rng(seed)
    edges = [
        (size * i + j, size * i + j + 1) for i in range(size) for j in range(size - 1)
    ]
    edges += [(size * i + j, size * i + j + size)
              for i in range(size - 1) for j in range(size)]  # fmt: skip
    X, y = [], []
    for _ in range(n_graphs):
        labels = rng.integers(0, 3, size * size)
        nodes = np.eye(3)[labels] + rng.normal(size=(size * size, 3))
        x = (
            (nodes, edges, rng.normal(size=(len(edges), 2)))
            if features
            else (nodes, edges)
        )
        X.append(x)
        y.append(["abc"[k] for k in labels])
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_objective_bounds_the_hinge(pairwise, features):
    X, y = grids(3, features=features)
    model = RelaxedGraphModel(pairwise)
    classifier = SSVMClassifier(model, alpha=1.0, random_state=0, tol=1e-3).fit(X, y)
    assert classifier.dual_gap_ <= 1.001e-3
    fitted, w = classifier.model_, classifier.weights_
    fractional = hinge = relaxed = 0.0
    for x, y_true in zip(X, y, strict=True):
        score = fitted.joint_feature(x, y_true) @ w
        answer = fitted.loss_augmented_decode(x, y_true, w)
        fractional += isinstance(answer, dict)
        value = fitted.loss(y_true, answer) + fitted.joint_feature(x, answer) @ w
        relaxed += value - score
        # the best labeling is never above the best fractional one
        graph = fitted._graph(x, w, (1.0 - fitted._marginals(y_true)) / 9)
        best = Enumeration().solve(graph).score
        assert value >= best - 1e-6
        hinge += best - score
    objective = 0.5 * w @ w + relaxed / len(X)
    assert classifier.objective_ == pytest.approx(objective, abs=1e-6)
    assert relaxed >= hinge - 1e-6


def test_fractional_answers_are_met():
    """Labels that all repel on a triangle: the relaxation is not tight."""
    X = [(np.zeros((3, 1)), [(0, 1), (1, 2), (2, 0)])]
    model = RelaxedGraphModel("potts")
    model.prepare(X, [["a", "b", "a"]])
    w = np.zeros(model.n_weights_)
    w[-1] = -10.0
    answer = model.loss_augmented_decode(X[0], ["a", "b", "a"], w)
    np.testing.assert_allclose(answer["nodes"], 0.5, atol=1e-6)
    assert model.joint_feature(X[0], answer)[-1] == pytest.approx(0.0, abs=1e-6)
    assert model.loss(["a", "b", "a"], answer) == pytest.approx(0.5)
    assert len(set(model.decode(X[0], w))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_trees_are_the_structured_svm(pairwise):
    X, y = grids(3)
    X = [(x[0], [(v, v + 1) for v in range(8)]) for x in X]
    relaxed, exact = (
        SSVMClassifier(model, alpha=1.0, random_state=0, tol=3e-4).fit(X, y)
        for model in (RelaxedGraphModel(pairwise), GraphModel(pairwise))
    )
    assert relaxed.objective_ == pytest.approx(exact.objective_, abs=6.1e-4)
    # alpha/2 |w - w'|^2 is at most the gap
    for name in ("classes_", "coef_", "intercept_", "edge_coef_"):
        mine, other = getattr(relaxed, name), getattr(exact, name)
        assert mine.shape == other.shape
        if name != "classes_":
            np.testing.assert_allclose(mine, other, atol=0.05)
    assert not hasattr(relaxed, "clique_coef_")


@pytest.mark.slow
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_topk_of_small_graphs(pairwise):
    """Against enumeration: cycles, trees, single nodes, and ties at zero weights."""
    rng = np.random.RandomState(0)
    for _ in range(30):
        n = rng.randint(1, 5)
        edges = [(u, v) for v in range(n) for u in range(v) if rng.rand() < 0.6]
        edges = np.array(edges, dtype=int).reshape(-1, 2)
        x = (
            rng.randint(-2, 3, size=(n, 2)) / 2,
            edges,
            rng.normal(size=(len(edges), 1)),
        )
        other = (np.zeros((3, 2)), [(0, 1)], np.zeros((1, 1)))
        model = RelaxedGraphModel(pairwise)
        model.prepare([x, other], [["a"] * n, list("abc")])
        w, k = (
            rng.choice([0, 1]) * rng.normal(size=model.n_weights_),
            rng.randint(1, 12),
        )
        outputs = model.decode_topk(x, w, k)
        every = itertools.product("abc", repeat=n)
        scores = [model.joint_feature(x, list(y)) @ w for y in every]
        found = [model.joint_feature(x, y) @ w for y in outputs]
        assert len({tuple(y) for y in outputs}) == len(outputs)
        np.testing.assert_allclose(found, sorted(scores)[::-1][:k], atol=1e-8)


def test_topk_of_a_classifier():
    X, y = grids(3)
    classifier = SSVMClassifier(RelaxedGraphModel("potts"), alpha=0.5, tol=0.1)
    outputs, scores = classifier.fit(X, y).predict_topk(X, 3)
    assert [some[0] for some in outputs] == classifier.predict(X)
    for x, some, values in zip(X, outputs, scores, strict=True):
        graph = classifier.model_._graph(x, classifier.weights_)
        unaries = graph.unaries.reshape(9, 3)
        table = graph.tables[0].dense()
        tables = [weight * table for weight in graph.edge_weights]
        best = Exhaustive(unaries, graph.edges, tables).topk(3)[1]
        np.testing.assert_allclose(values, best, atol=1e-8)
        assert len({tuple(one) for one in some}) == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_as_a_model():
    X, y = grids(3)
    # on trees, where decoding is the oracle of training: elsewhere a fractional answer
    # may be above every labeling
    trees = [(x[0], [(v, v + 1) for v in range(8)]) for x in X]
    check_model(RelaxedGraphModel(), trees, y)
    classifier = SSVMClassifier(
        RelaxedGraphModel("potts"), alpha=0.1, max_iter=20, tol=0.5
    )
    predicted = classifier.fit(X, y).predict(X)
    assert all(set(p) <= set("abc") and len(p) == 9 for p in predicted)
    assert 0.0 <= classifier.score(X, y) <= 1.0


def test_labels_that_training_has_not_seen():
    X, y = grids(2)
    classifier = SSVMClassifier(RelaxedGraphModel(), max_iter=2, tol=1.0).fit(X, y)
    predicted = classifier.predict(X)
    # such a label is one that is missed
    expected = 1.0 - (2 / 9 + 0.0) / 2
    unseen = [["z", "z", *predicted[0][2:]], predicted[1]]
    assert classifier.score(X, unseen) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"y\[0\] is 'z', which is not a label"):
        classifier.model_.joint_feature(X[0], unseen[0])


def test_the_mean_size_is_that_of_the_weighted_graphs():
    small, large = grids(1, size=2), grids(1, size=3)
    X, y = small[0] + large[0], small[1] + large[1]
    model = RelaxedGraphModel(loss_normalization="mean")
    classifier = SSVMClassifier(model, max_iter=2, tol=1.0)
    classifier.fit(X, y, sample_weight=[3.0, 1.0])
    assert classifier.model_.mean_size_ == (3 * 4 + 9) / 4


def test_bad_input():
    X, y = grids(2)
    with pytest.raises(ValueError, match="y has 1 label"):
        SSVMClassifier(RelaxedGraphModel()).fit(X, [["a"] * 9] * 2)
    with pytest.raises(ValueError, match="must be a tuple"):
        SSVMClassifier(RelaxedGraphModel()).fit([X[0][0]] * 2, y)
    with pytest.raises(ValueError, match="solver must be"):
        SSVMClassifier(RelaxedGraphModel(solver="simplex")).fit(X, y)
    mixed = [X[0], (*X[1], np.ones((12, 2)))]
    with pytest.raises(ValueError, match="edge features"):
        SSVMClassifier(RelaxedGraphModel()).fit(mixed, y)
    classifier = SSVMClassifier(RelaxedGraphModel(), max_iter=2, tol=1.0).fit(X, y)
    with pytest.raises(ValueError, match="features"):
        classifier.predict([(np.zeros((2, 5)), [(0, 1)])])


# ---- cliques ----


def clique_graphs(n_graphs=5, seed=0, loopy=False):
    """Graphs with a clique of three nodes and one of four, of which they share one."""
    rng = np.random.default_rng(seed)
    cliques = [[(1, 0, 2)], [(2, 3, 4, 5)]]
    edges = np.zeros((0, 2), dtype=int)
    if loopy:
        cliques = [[(0, 1, 2), (2, 1, 3), (5, 0, 3)], np.zeros((0, 4), dtype=int)]
        edges = np.array([(0, 4), (4, 2), (2, 0)])
    X, y = [], []
    for _ in range(n_graphs):
        labels = rng.integers(0, 2, 6)
        nodes = np.eye(2)[labels] + rng.normal(size=(6, 2))
        X.append(Graph(nodes, edges, cliques=cliques))
        y.append(labels.tolist())
    return X, y


def test_features_of_cliques():
    X, y = clique_graphs(loopy=True)
    model = RelaxedGraphModel(normalize=True)
    fitted = SSVMClassifier(model, alpha=0.3, random_state=0).fit(X, y).model_
    rng = np.random.default_rng(0)
    w = rng.normal(size=fitted.n_weights_)
    tables = w[6 + 4 :][:8].reshape(2, 2, 2), w[-16:].reshape(2, 2, 2, 2)
    assert fitted.n_weights_ == 6 + 4 + 8 + 16
    for x in X:
        for labels in itertools.product(range(2), repeat=6):
            expected = sum(
                table[tuple(labels[v] for v in scope)]
                for table, scopes in zip(tables, x.cliques, strict=True)
                for scope in scopes
            )
            nodes = x.node_features[range(6)] @ w[:4].reshape(2, 2) + w[4:6]
            expected += sum(nodes[v, labels[v]] for v in range(6))
            edge_table = w[6:10].reshape(2, 2)
            expected += sum(edge_table[labels[u], labels[v]] for u, v in x.edges)
            found = fitted.joint_feature(x, list(labels)) @ w
            assert found == pytest.approx(expected / 6)
            graph = fitted._graph(x, w)
            assert graph.score(labels) == pytest.approx(expected / 6)


@pytest.mark.slow
@pytest.mark.parametrize("loopy", [False, True])
def test_oracles_of_cliques(loopy):
    X, y = clique_graphs(3, loopy=loopy)
    classifier = SSVMClassifier(
        RelaxedGraphModel(), alpha=0.3, random_state=0, tol=1e-3
    ).fit(X, y)
    fitted, w = classifier.model_, classifier.weights_
    assert classifier.dual_gap_ <= 1.001e-3
    tables = classifier.clique_coef_
    np.testing.assert_array_equal(
        np.concatenate([table.ravel() for table in tables]),
        w[-sum(table.size for table in tables) :],
    )
    assert [table.ndim for table in tables] == fitted.orders_
    # at the solution, and where the relaxation of cycles is not tight
    rng = np.random.default_rng(1)
    strong = rng.normal(size=len(w))
    # a triangle of edges that repel equal labels
    if loopy:
        strong[:6], strong[6:10] = 0.0, [-5.0, 0.0, 0.0, -5.0]
    for weights in (w, strong):
        hinge = relaxed = 0.0
        fractional = 0
        for x, y_true in zip(X, y, strict=True):
            scores = {
                labels: weights @ fitted.joint_feature(x, list(labels))
                for labels in itertools.product(range(2), repeat=6)
            }
            decoded = tuple(fitted.decode(x, weights))
            assert scores[decoded] == pytest.approx(max(scores.values()))
            topk = fitted.decode_topk(x, weights, 3)
            np.testing.assert_allclose(
                [scores[tuple(labels)] for labels in topk],
                sorted(scores.values())[::-1][:3],
            )
            best = max(
                score + fitted.loss(y_true, list(labels))
                for labels, score in scores.items()
            )
            answer = fitted.loss_augmented_decode(x, y_true, weights)
            fractional += isinstance(answer, dict)
            value = fitted.loss(y_true, answer)
            value += weights @ fitted.joint_feature(x, answer)
            assert value >= best - 1e-6
            if not isinstance(answer, dict) or not loopy:
                # cliques that meet in single nodes, without cycles, leave no slack
                assert value == pytest.approx(best)
            hinge += best - scores[tuple(y_true)]
            relaxed += value - scores[tuple(y_true)]
        if weights is w:
            expected = 0.15 * w @ w + relaxed / len(X)
            assert classifier.objective_ == pytest.approx(expected, abs=1e-6)
        elif loopy:
            assert fractional and relaxed > hinge + 1e-3


def test_cliques_learn_what_edges_cannot():
    """Of three labels the last is the parity of the others, which no pair tells."""
    triples = [(a, b, a ^ b) for a in range(2) for b in range(2)]
    X, y = [], list(map(list, triples))
    for a, b, _ in triples:
        nodes = [[2.0 * a - 1, 0.0], [2.0 * b - 1, 0.0], [0.0, 1.0]]
        X.append(Graph(nodes, [(0, 1), (1, 2), (2, 0)], cliques=[[(0, 1, 2)]]))
    plain = [x[:2] for x in X]
    options = {"alpha": 0.02, "tol": 0.05, "random_state": 0}
    fit = SSVMClassifier(RelaxedGraphModel(), **options).fit
    assert fit(X, y).predict(X) == y
    assert fit(plain, y).predict(plain) != y


def test_bad_cliques():
    X, y = clique_graphs()
    x, fit = X[0], SSVMClassifier(RelaxedGraphModel(), max_iter=1, tol=3.0).fit
    for cliques, text in (
        ((0, 1, 2), r"cliques\[0\] must be an array of shape"),
        ([[(0, 1)]], "of order 3 or more, got shape"),
        ([[(0, 1, 6)]], r"cliques\[0\]\[0\] has node 6, there are 6"),
        ([[(0, 1, 2), (1, 2, 1)]], r"cliques\[0\]\[1\] has a node twice: \[1, 2, 1\]"),
        ([[(0.5, 1, 2)]], "must be nodes, which are integers"),
        (np.zeros((1, 3), dtype=int), "must be a list with an array for each kind"),
    ):
        with pytest.raises(ValueError, match=text):
            fit([x._replace(cliques=cliques)], y[:1])
    with pytest.raises(ValueError, match=r"X\[1\] has cliques of the orders \[3\]"):
        fit([x, x._replace(cliques=x.cliques[:1])], y[:2])
    with pytest.raises(ValueError, match=r"cliques of the orders \[\], \[3, 4\] were"):
        fit(X, y).predict([x._replace(cliques=None)])
    with pytest.raises(ValueError, match="has cliques, which RelaxedGraphModel takes"):
        SSVMClassifier("graph").fit(X, y)
    with pytest.raises(ValueError, match="'afw' takes pairs of variables"):
        SSVMClassifier(RelaxedGraphModel(), solver=GDMM(update="afw")).fit(X, y)
