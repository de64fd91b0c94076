"""Exp and top-K oracles of single examples of any scores, against enumeration."""

from itertools import product

import numpy as np
import pytest
from graphs import enumerate_matchings
from problems import PROBLEMS
from scipy.optimize import Bounds, linear_sum_assignment, minimize
from scipy.special import logsumexp, softmax

from sksstruct import SSVMClassifier
from sksstruct.losses import SmoothedHinge
from sksstruct.models import (
    CandidatesModel,
    DependencyModel,
    GraphModel,
    MatchingModel,
    PartsModel,
)

# instances of each kind
N_INSTANCES = 500


def some_scores(rng, shape, forbid=True):
    """Scores: zeros, few values that repeat, any, large ones; -inf among them."""
    kind = rng.randint(4)
    scores = [
        np.zeros(shape),
        rng.randint(-2, 3, size=shape) / 2.0,
        rng.normal(size=shape),
        400.0 * rng.normal(size=shape),
    ][kind]
    if forbid and rng.randint(3) == 0:
        scores = np.where(rng.uniform(size=shape) < 0.2, -np.inf, scores)
    return scores


def bind(model, X, y):
    """The first of some examples, bound for prediction, and a workspace."""
    model.prepare(X, y)
    bound = model._bound([model._input(X[0], "x")], None, None)
    return bound, bound.workspace(np.zeros(bound.n_weights))


def check_sums(bound, workspace, keys, scores, mu):
    """Means of the tables and smoothed maximum; returns means and probabilities.

    `keys` has the entries of the tables that each labeling picks.
    """
    means, value = bound.expectation(workspace, 0, mu, load=False)
    high = scores.max()
    if high == -np.inf:
        assert value == -np.inf and not means.any()
        return means, np.zeros(len(scores))
    probability = np.exp((scores - high) / mu)
    total = high + mu * np.log(probability.sum())
    assert value == pytest.approx(total, rel=1e-12, abs=1e-11)
    probability /= probability.sum()
    want = np.zeros(len(means) - bound.n_other)
    for some, p in zip(keys, probability, strict=True):
        want[some] += p
    np.testing.assert_allclose(means[: len(want)], want, rtol=1e-9, atol=1e-12)
    return means, probability


def check_topk(bound, workspace, k, score_of):
    """The k best allowed labelings: all different, each with its own score."""
    rows, _ = bound.topk(workspace, 0, k, load=False)
    found = [tuple(y) for y in rows.tolist()]
    best = sorted((s for s in score_of.values() if s > -np.inf), reverse=True)[:k]
    assert len(set(found)) == len(found) == len(best)
    np.testing.assert_allclose(
        [score_of[y] for y in found], best, rtol=1e-12, atol=1e-9
    )


def test_candidates():
    rng = np.random.RandomState(0)
    for _ in range(N_INSTANCES):
        n, n_labels = rng.randint(1, 7), rng.randint(1, 4)
        labeled = n_labels > 1 or rng.randint(2)
        y = [(0, label) if labeled else 0 for label in "abc"[:n_labels]]
        X = [np.zeros((n, 1))] + [np.zeros((1, 1))] * (n_labels - 1)
        bound, workspace = bind(CandidatesModel(), X, y)
        mu, k = rng.choice([0.3, 1.0, 2.0]), rng.randint(1, 9)
        table = workspace.theta[: n * bound.structure.ld].reshape(
            n, bound.structure.ld
        )[:, :n_labels]
        table[...] = some_scores(rng, table.shape)
        pairs = list(np.ndindex(*table.shape))
        keys = [[c * bound.structure.ld + label] for c, label in pairs]
        check_sums(bound, workspace, keys, table.ravel(), mu)
        table[...] = some_scores(rng, table.shape, forbid=False)
        check_topk(bound, workspace, k, dict(zip(pairs, table.ravel(), strict=True)))


def random_parts(rng):
    """Parts with features of nothing: tables are set, and springs are weights."""
    n_parts, height, width = rng.randint(1, 4), *rng.randint(1, 4, size=2)
    edges = [(rng.randint(v), v) for v in range(1, n_parts) if rng.rand() < 0.8]
    edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
    X = [np.zeros((height, width, 1)) for _ in range(3)]
    y = [
        np.column_stack([rng.randint(size, size=n_parts) for size in (height, width)])
        for _ in X
    ]
    model = PartsModel(edges)
    bound, _ = bind(model, X, y)
    w = np.zeros(bound.n_weights)
    views = bound.views(w)
    views["linear"][...] = some_scores(rng, (len(edges), 2), forbid=False)
    # sums need no cost that is positive, and the best placements do
    views["quadratic"][...] = some_scores(rng, (len(edges), 2), forbid=False)
    return model, bound, w, views, (height, width)


def parts_features(model, shape):
    """All labelings as positions, and d and -d^2 of each edge."""
    places = np.array(list(np.ndindex(*shape)))
    rows = np.array(list(product(range(len(places)), repeat=model.n_parts_)))
    at = places[rows]
    moves = at[:, model.edges_[:, 1]] - at[:, model.edges_[:, 0]] - model.offsets_
    moves = moves / model.scales_
    return rows, np.stack([moves, -(moves**2)], axis=2)


@pytest.mark.slow
def test_parts():
    rng = np.random.RandomState(1)
    for _ in range(N_INSTANCES):
        model, bound, w, views, shape = random_parts(rng)
        n_cells, ld, n_parts = shape[0] * shape[1], bound.structure.ld, model.n_parts_
        rows, features = parts_features(model, shape)
        workspace = bound.workspace(w)
        table = workspace.theta[: n_cells * ld].reshape(n_cells, ld)[:, :n_parts]
        table[...] = some_scores(rng, table.shape)
        mu = rng.choice([0.3, 1.0, 2.0])

        def score(rows=rows, table=table, features=features, views=views):
            springs = np.stack([views["linear"], views["quadratic"]], axis=1)
            of_parts = table[rows, np.arange(rows.shape[1])].sum(axis=1)
            return of_parts + (features * springs).sum(axis=(1, 2, 3))

        keys = rows * ld + np.arange(n_parts)
        means, probability = check_sums(bound, workspace, keys, score(), mu)
        expected = np.tensordot(probability, features, 1).ravel()
        np.testing.assert_allclose(
            means[n_cells * ld :], expected, rtol=1e-8, atol=1e-10
        )
        # rounding must not matter for the best: scores are added up in many orders
        views["quadratic"][...] = np.abs(views["quadratic"])
        score_of = dict(zip(map(tuple, rows.tolist()), score(), strict=True))
        check_topk(bound, workspace, rng.randint(1, 9), score_of)


def test_best_matchings_are_those_of_scipy():
    """Also among equal ones, and where one side is longer."""
    rng = np.random.RandomState(5)
    for _ in range(N_INSTANCES):
        n, m = rng.randint(1, 8, size=2)
        complete = bool(rng.randint(2)) and n <= m
        scores = some_scores(rng, (n, m), forbid=False)
        links = np.arange(n) if complete else np.full(n, -1)
        model = MatchingModel(complete=complete, fit_intercept=False)
        model.prepare([scores[:, :, None]], [links])
        worth = scores if complete else np.maximum(scores, 0.0)
        rows, columns = linear_sum_assignment(worth, maximize=True)
        expected = np.full(n, -1)
        expected[rows] = columns
        if not complete:
            expected[rows[scores[rows, columns] <= 0]] = -1
        weights = np.eye(1, model._empty().n_weights)[0]
        found = model.decode(scores[:, :, None], weights)
        assert found.tolist() == expected.tolist()


def test_matchings():
    rng = np.random.RandomState(2)
    for _ in range(N_INSTANCES):
        n, m = rng.randint(1, 5), rng.randint(1, 5)
        complete = bool(rng.randint(2)) and n <= m
        links = np.arange(n) if complete else np.full(n, -1)
        bound, workspace = bind(
            MatchingModel(complete=complete), [np.zeros((n, m, 1))], [links]
        )
        table = workspace.theta[: n * m].reshape(n, m)
        table[...] = some_scores(rng, table.shape)
        score_of = dict(enumerate_matchings(table, None if complete else 0.0))
        if complete:
            score_of = {y: s for y, s in score_of.items() if -1 not in y}
        check_topk(bound, workspace, rng.randint(1, 9), score_of)


def nearly_equal_scores(rng, shape):
    """Scores whose sums are equal for many labelings, but for rounding."""
    rows = rng.normal(size=(shape[0], 1))
    return [
        rows + rng.normal(size=shape[1:]),
        0.1 * rng.randint(-5, 6, size=shape),
        rng.choice([0.1, 0.2, 0.3, 1e6 + 0.1, -1e6, 1 / 3], size=shape),
        rng.choice([1e280, 1e290, -1e290], size=shape),
    ][rng.randint(4)]


def check_nearly_equal(bound, workspace, k, score_of, size):
    """As `check_topk`, with errors relative to the size of the scores."""
    rows, _ = bound.topk(workspace, 0, k, load=False)
    found = [tuple(y) for y in rows.tolist()]
    best = sorted(score_of.values(), reverse=True)[:k]
    assert len(set(found)) == len(found) == len(best)
    scores = np.array([score_of[y] for y in found])
    np.testing.assert_allclose(scores / size, np.array(best) / size, atol=1e-11)


@pytest.mark.slow
def test_matchings_that_are_nearly_equal():
    """None is lost, and the search ends, if what is lost is all rounding."""
    rng = np.random.RandomState(7)
    for _ in range(N_INSTANCES):
        n, m = rng.randint(1, 6), rng.randint(1, 6)
        complete = bool(rng.randint(2)) and n <= m
        links = np.arange(n) if complete else np.full(n, -1)
        bound, workspace = bind(
            MatchingModel(complete=complete), [np.zeros((n, m, 1))], [links]
        )
        table = workspace.theta[: n * m].reshape(n, m)
        table[...] = nearly_equal_scores(rng, table.shape)
        score_of = dict(enumerate_matchings(table, None if complete else 0.0))
        if complete:
            score_of = {y: s for y, s in score_of.items() if -1 not in y}
        k, size = rng.choice([2, 5, 17, 2000]), max(np.abs(table).max(), 1e-3)
        check_nearly_equal(bound, workspace, k, score_of, size)


@pytest.mark.slow
@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("single_root", [True, False])
def test_dependency_trees(projective, single_root):
    rng = np.random.RandomState(6)
    for _ in range(N_INSTANCES // 4):
        n = rng.randint(1, 5)
        model = DependencyModel(projective, single_root)
        bound, workspace = bind(model, [np.zeros(((n + 1) * n, 1))], [np.arange(n)])
        table = workspace.theta[: (n + 1) * n].reshape(n + 1, n)
        table[...] = some_scores(rng, table.shape)
        trees = np.array(list(model.labelings(np.zeros(((n + 1) * n, 1)))))
        scores = table[trees, np.arange(n)].sum(axis=1)
        mu, k = rng.choice([0.3, 1.0, 2.0]), rng.randint(1, 9)
        check_sums(bound, workspace, trees * n + np.arange(n), scores, mu)
        score_of = dict(zip(map(tuple, trees.tolist()), scores, strict=True))
        check_topk(bound, workspace, k, score_of)


@pytest.mark.slow
@pytest.mark.parametrize("pairwise", ["full", "potts"])
@pytest.mark.parametrize("edge_features", [False, True])
def test_forests(pairwise, edge_features):
    rng = np.random.RandomState(4)
    for _ in range(N_INSTANCES // 4):
        n, n_labels = rng.randint(1, 6), rng.randint(2, 4)
        edges = [(rng.randint(v), v) for v in range(1, n) if rng.rand() < 0.85]
        edges = rng.permutation(n)[np.array(edges, dtype=int).reshape(-1, 2)]
        x = (np.zeros((n, 1)), edges)
        other = (np.zeros((n_labels, 1)), np.zeros((0, 2), dtype=int))
        if edge_features:
            x, other = (*x, np.zeros((len(edges), 1))), (*other, np.zeros((0, 1)))
        bound, workspace = bind(
            GraphModel(pairwise, inference="tree"),
            [x, other],
            [[0] * n, list(range(n_labels))],
        )
        # the same workspace again, with what was there before
        for _ in range(2):
            scores = workspace.theta[n * bound.structure.ld :]
            scores[...] = some_scores(rng, scores.shape, forbid=pairwise == "full")
            unary, _, tables = bound.structure.potentials_of(0, workspace.theta)
            unary[...] = some_scores(rng, unary.shape)
            if not edge_features:
                tables = [tables] * len(edges)
            score_of = {
                y: sum(row[a] for row, a in zip(unary, y, strict=True))
                + sum(t[y[u], y[v]] for t, (u, v) in zip(tables, edges, strict=True))
                for y in product(range(n_labels), repeat=n)
            }
            check_topk(bound, workspace, rng.choice([1, 2, 5, 9, 300]), score_of)


@pytest.mark.slow
def test_cuts():
    rng = np.random.RandomState(3)
    for _ in range(N_INSTANCES):
        n = rng.randint(1, 6)
        pairs = np.array([(u, v) for u in range(n) for v in range(n) if u != v])
        edges = np.zeros((0, 2), dtype=int)
        if n > 1:
            edges = pairs[rng.randint(len(pairs), size=rng.randint(9))]
        x = (np.zeros((n, 1)), edges, np.zeros((len(edges), 1)))
        other = (np.zeros((2, 1)), np.zeros((0, 2), dtype=int), np.zeros((0, 1)))
        bound, workspace = bind(
            GraphModel("potts", inference="cut"), [x, other], [["a"] * n, ["a", "b"]]
        )
        unary, _, _ = bound.structure.potentials_of(0, workspace.theta)
        unary[...] = some_scores(rng, unary.shape)
        agree = np.abs(some_scores(rng, len(edges), forbid=False))
        # single columns are not padded
        workspace.theta[n * bound.structure.ld :][: len(edges)] = agree
        score_of = {
            y: unary[np.arange(n), list(y)].sum()
            + sum(a for a, (u, v) in zip(agree, edges, strict=True) if y[u] == y[v])
            for y in product(range(2), repeat=n)
        }
        # the flow of the first search is what the second starts from
        for _ in range(2):
            check_topk(bound, workspace, rng.randint(1, 9), score_of)


@pytest.mark.slow
def test_cuts_that_are_nearly_equal():
    rng = np.random.RandomState(8)
    for _ in range(N_INSTANCES):
        n = rng.randint(2, 7)
        pairs = np.array([(u, v) for u in range(n) for v in range(n) if u != v])
        edges = pairs[rng.randint(len(pairs), size=rng.randint(1, 12))]
        x = (np.zeros((n, 1)), edges, np.zeros((len(edges), 1)))
        other = (np.zeros((2, 1)), np.zeros((0, 2), dtype=int), np.zeros((0, 1)))
        bound, workspace = bind(
            GraphModel("potts", inference="cut"), [x, other], [["a"] * n, ["a", "b"]]
        )
        unary, _, _ = bound.structure.potentials_of(0, workspace.theta)
        unary[...] = nearly_equal_scores(rng, unary.shape)
        agree = np.abs(nearly_equal_scores(rng, (len(edges), 1))[:, 0])
        workspace.theta[n * bound.structure.ld :][: len(edges)] = agree
        score_of = {
            y: unary[np.arange(n), list(y)].sum()
            + sum(a for a, (u, v) in zip(agree, edges, strict=True) if y[u] == y[v])
            for y in product(range(2), repeat=n)
        }
        k, size = rng.choice([2, 5, 17, 2000]), max(np.abs(unary).max(), agree.max())
        check_nearly_equal(bound, workspace, k, score_of, max(size, 1e-3))


CONFINED = [name for name in PROBLEMS if name.startswith(("cut", "parts"))]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CONFINED, "matching", "candidates"])
def test_topk_with_the_loss(name):
    """At weights of zero, where losses repeat, and at others inside the box."""
    model, X, y, _ = PROBLEMS[name]
    model.prepare(X, y)
    inputs = [model._input(x, "x") for x in X]
    outputs = [model._output(x, z, "y") for x, z in zip(inputs, y, strict=True)]
    bound = model._bound(inputs, outputs, None)
    rng = np.random.RandomState(0)
    for size in (0.0, 0.5, 2.0):
        w = size * rng.normal(size=bound.n_weights)
        box = bound.box()
        w = w if box is None else np.clip(w, *box)
        workspace = bound.workspace(w)
        for i, (x, observed) in enumerate(zip(X, y, strict=True)):
            every = [
                model.loss(observed, z) + model.joint_feature(x, z) @ w
                for z in model.labelings(x)
            ]
            for k in (1, 2, 7, 1000):
                rows, values = bound.topk(workspace, i, k)
                assert len(np.unique(rows, axis=0)) == len(rows)
                best = np.sort(every)[::-1][:k]
                np.testing.assert_allclose(values, best, rtol=1e-9, atol=1e-9)


def test_marginals_of_parts_and_candidates():
    """Probabilities of outputs, added up over those that have a part."""
    for name in ("parts", "parts in two trees", "candidates", "labeled candidates"):
        model, X, y, _ = PROBLEMS[name]
        classifier = SSVMClassifier(model, loss="log", alpha=0.1, solver="lbfgs")
        found = classifier.fit(X, y).predict_marginals(X)
        for x, marginals in zip(X, found, strict=True):
            want = np.zeros_like(marginals)
            outputs = list(classifier.model_.labelings(x))
            scores = [
                classifier.model_.joint_feature(x, z) @ classifier.weights_
                for z in outputs
            ]
            probability = np.exp(scores) / np.exp(scores).sum()
            for z, p in zip(outputs, probability, strict=True):
                want[place_of(z, classifier)] += p
            np.testing.assert_allclose(marginals, want, rtol=1e-9, atol=1e-12)


def place_of(y, classifier):
    """Index of the parts of an output in its marginals."""
    if isinstance(y, np.ndarray):
        return (np.arange(len(y)), *y.T)
    if isinstance(y, tuple):
        return y[0], list(classifier.classes_).index(y[1])
    return y


@pytest.mark.slow
@pytest.mark.parametrize("name", ["parts", "parts in two trees"])
@pytest.mark.parametrize("loss", ["log", SmoothedHinge("entropy", 0.3)])
def test_optimum_in_a_box(name, loss):
    """L-BFGS ends at the optimum of a general solver, and its gap certifies it."""
    model, X, y, _ = PROBLEMS[name]
    binding = 0
    for alpha in (0.01, 0.3):
        classifier = SSVMClassifier(model, alpha=alpha, loss=loss, tol=1e-7)
        fitted = classifier.fit(X, y).model_
        w, (lower, upper) = classifier.weights_, fitted_box(fitted, X)
        mu, costs = (1.0, 0.0) if loss == "log" else (0.3, 1.0)
        every = [
            (
                np.array([fitted.joint_feature(x, z) for z in fitted.labelings(x)]),
                costs * np.array([fitted.loss(true, z) for z in fitted.labelings(x)]),
                fitted.joint_feature(x, true),
            )
            for x, true in zip(X, y, strict=True)
        ]

        def objective(w, every=every, alpha=alpha, mu=mu):
            total, gradient = alpha / 2 * (w @ w), alpha * w
            for phi, losses, true in every:
                scores = (phi @ w + losses) / mu
                total += (mu * logsumexp(scores) - true @ w) / len(every)
                gradient = gradient + (softmax(scores) @ phi - true) / len(every)
            return total, gradient

        best = minimize(
            objective, np.zeros(len(w)), jac=True, method="TNC",
            bounds=Bounds(lower, upper), options={"maxfun": 10_000, "ftol": 1e-14},
        ).fun  # fmt: skip
        assert (w >= lower).all() and (w <= upper).all()
        assert classifier.objective_ == pytest.approx(objective(w)[0], rel=1e-9)
        assert -1e-9 < classifier.objective_ - best <= classifier.dual_gap_ + 1e-9
        assert classifier.dual_gap_ <= 1e-7 * classifier.objective_
        binding += int((w[np.isfinite(lower)] == 0).sum())
    # else the box would not have been tested
    assert binding


def fitted_box(model, X):
    return model._bound([model._input(X[0], "x")], None, None).box()


@pytest.mark.parametrize("loss", ["log", SmoothedHinge("entropy", 0.5)])
def test_matchings_have_no_sums(loss):
    model, X, y, _ = PROBLEMS["matching"]
    with pytest.raises(ValueError, match="permanent"):
        SSVMClassifier(model, loss=loss).fit(X, y)
    classifier = SSVMClassifier(model, loss="smoothed_hinge", alpha=0.1).fit(X, y)
    assert classifier.dual_gap_ < 0.01 * classifier.objective_
    assert not hasattr(classifier, "predict_marginals")
