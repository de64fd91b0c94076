"""Smooth losses of every model: against enumeration and finite differences."""

import numpy as np
import pytest
from problems import PROBLEMS as OTHERS
from problems import SEGMENTS, random_tree
from sklearn.base import clone

from sksstruct import SSVMClassifier
from sksstruct.inference import sum_product
from sksstruct.losses import SmoothedHinge
from sksstruct.models import GraphModel, MulticlassModel
from sksstruct.models.protocols._weights import LazyWeights
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers.stochastic.iterates import VarianceReducedKernel

# instances of each kind
N_INSTANCES = 120

PROBLEMS = {**OTHERS, **SEGMENTS}


def bind(model, X, y, sample_weight=None, *, mu=1.0, likelihood=False):
    """A model that has seen data, bound to them, and its loss."""
    spec = clone(model)
    spec.check()
    table = spec._bind(spec._read(X, y, sample_weight, SSVMClassifier()))
    table.likelihood = likelihood
    return spec, table, SmoothedHinge("entropy", mu, 1)


def listed(spec, X, y):
    """Of each example: features and losses of all outputs, and observed features."""
    rows = []
    for x, observed in zip(X, y, strict=True):
        outputs = list(spec.labelings(x))
        phi = np.array([spec.joint_feature(x, z) for z in outputs])
        losses = np.array([spec.loss(observed, z) for z in outputs])
        rows.append((phi, losses, spec.joint_feature(x, observed)))
    return rows


def enumerated(rows, w, p, mu, likelihood):
    """Smooth loss, gradient and expected loss by their definition."""
    value, gradient, expected = 0.0, np.zeros(len(w)), 0.0
    for (phi, losses, true), weight in zip(rows, p, strict=True):
        losses = losses * (not likelihood)
        scores = (phi @ w + losses) / mu
        probability = np.exp(scores - scores.max())
        log_sum = scores.max() + np.log(probability.sum())
        probability /= probability.sum()
        value += weight * (mu * log_sum - true @ w)
        gradient += weight * (probability @ phi - true)
        expected += weight * (probability @ losses)
    return value, gradient, expected


SUMS = [
    name
    for name, (model, X, y, _) in PROBLEMS.items()
    if "exp" in bind(model, X, y)[1].oracles
]


def test_models_with_the_exp_oracle():
    summed = [n for n in PROBLEMS if "tree" in n or "multiclass" in n]
    assert set(summed) <= set(SUMS) and len(summed) >= 5
    assert not any(name.startswith("cut") for name in SUMS)


@pytest.mark.parametrize("likelihood", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_value_and_gradient(name, likelihood):
    """They are those of all outputs, at zero, small and large weights."""
    model, X, y, _ = PROBLEMS[name]
    rng = np.random.RandomState(0)
    p = rng.uniform(0.5, 2.0, size=len(X))
    rows = listed(bind(model, X, y, p)[0], X, y)
    for size, mu in ((0.0, 1.0), (0.3, 0.5), (1.0, 1.0), (3.0, 2.0), (2.0, 0.1)):
        mu = 1.0 if likelihood else mu
        _, table, smoothing = bind(model, X, y, p, mu=mu, likelihood=likelihood)
        w = size * rng.normal(size=table.n_weights) * real(table)
        loss, gradient = smooth_loss(table, smoothing), np.empty(table.n_weights)
        value = loss.value_and_gradient(w, gradient)
        want = enumerated(rows, w, p / p.sum(), mu, likelihood)
        assert value == pytest.approx(want[0], rel=1e-10, abs=1e-11)
        np.testing.assert_allclose(gradient, want[1], rtol=1e-9, atol=1e-10)
        expected = 0.0 if likelihood else want[2]
        assert loss.expected_loss == pytest.approx(expected, rel=1e-9, abs=1e-10)
        again = np.empty_like(gradient)
        assert loss.value_and_gradient(w, again, n_jobs=2) == value
        np.testing.assert_array_equal(gradient, again)


def real(table):
    """1 for weights that are in a view, and 0 for those that only pad rows."""
    flags = np.zeros(table.n_weights)
    for view in table.views(flags).values():
        view[...] = 1.0
    return flags


@pytest.mark.parametrize("name", SUMS)
def test_gradient_by_differences(name):
    model, X, y, _ = PROBLEMS[name]
    _, table, smoothing = bind(model, X, y, mu=0.7)
    rng = np.random.RandomState(1)
    w = rng.normal(size=table.n_weights) * real(table)
    loss, gradient = smooth_loss(table, smoothing), np.empty(table.n_weights)
    loss.value_and_gradient(w, gradient)
    scratch = np.empty_like(gradient)
    for k in np.flatnonzero(real(table)):
        step = np.zeros_like(w)
        step[k] = 1e-5
        change = loss.value_and_gradient(w + step, scratch)
        change -= loss.value_and_gradient(w - step, scratch)
        assert gradient[k] == pytest.approx(change / 2e-5, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize("name", SUMS)
def test_visits(name, anchored):
    """An epoch of visits takes the steps of its definition."""
    model, X, y, _ = PROBLEMS[name]
    rng = np.random.RandomState(2)
    p = rng.uniform(0.5, 2.0, size=len(X))
    spec, table, smoothing = bind(model, X, y, p, mu=0.7)
    rows, loss = listed(spec, X, y), smooth_loss(table, smoothing)
    start = 0.5 * rng.normal(size=table.n_weights) * real(table)
    weights, gradient = LazyWeights(table.n_weights), np.empty(table.n_weights)
    weights.w[:] = start
    loss.keep_anchors = anchored
    loss.value_and_gradient(start, gradient)
    linear = rng.normal(size=len(start)) * real(table)
    direction = linear + gradient if anchored else linear
    order = rng.randint(len(X), size=6)
    ratios, rate, ridge = rng.uniform(0.5, 2.0, size=6), 0.1, 0.3

    def of(i, w):
        return enumerated([rows[i]], w, [1.0], 0.7, False)[1]

    want = start.copy()
    for i, ratio in zip(order, ratios, strict=True):
        step = of(i, want) - (of(i, start) if anchored else 0.0)
        want = want - rate * (ratio * step + direction + ridge * want)
    kernel = VarianceReducedKernel(loss, weights)
    kernel.epoch(order, ratios, direction, rate, ridge, anchored)
    np.testing.assert_allclose(weights.w, want, rtol=1e-9, atol=1e-11)


def test_visits_need_an_anchor():
    model, X, y, _ = PROBLEMS["multiclass"]
    _, table, smoothing = bind(model, X, y)
    with pytest.raises(ValueError, match="no anchor"):
        smooth_loss(table, smoothing).start_visits(True)


# ---- single examples, whose scores may be anything ----


def brute(scores):
    """Log-partition function and probabilities of labelings with given scores."""
    scores = np.asarray(scores, dtype=float)
    if np.isneginf(scores.max()):
        return -np.inf, np.zeros(len(scores))
    probability = np.exp(scores - scores.max())
    total = probability.sum()
    return scores.max() + np.log(total), probability / total


def some_scores(rng, shape):
    """Scores: ties, zeros, large ones, and now and then -inf."""
    kind = rng.randint(4)
    scores = rng.randint(-2, 3, size=shape) / 2.0
    if kind == 1:
        scores = rng.normal(size=shape)
    elif kind == 2:
        scores = 400.0 * rng.normal(size=shape)
    if rng.randint(3) == 0:
        scores = np.where(rng.uniform(size=shape) < 0.2, -np.inf, scores)
    return scores


def test_any_scores_of_classes():
    rng = np.random.RandomState(3)
    for _ in range(N_INSTANCES):
        n = rng.randint(2, 11)
        _, table, _ = bind(
            MulticlassModel(), np.ones((n, 1)), np.arange(n), likelihood=True
        )
        workspace = table.workspace(np.zeros(table.n_weights))
        mu = rng.choice([0.3, 1.0, 2.0])
        workspace.theta[:n] = scores = some_scores(rng, n)
        means, value = table.expectation(workspace, 0, mu, load=False)
        log_sum, probability = brute(scores / mu)
        assert value == pytest.approx(mu * log_sum, rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(means[:n], probability, rtol=1e-11, atol=1e-14)
        assert not means[n:].any()


def test_any_scores_of_forests():
    """Marginals of nodes and pairs, with tables that are shared or not."""
    rng = np.random.RandomState(4)
    for _ in range(N_INSTANCES):
        n_labels, n_nodes = rng.randint(2, 4), rng.randint(1, 6)
        pairwise = rng.choice(["full", "potts"])
        edges, shared = random_tree(rng, n_nodes), bool(rng.randint(2))
        edges = edges[rng.permutation(len(edges))]
        table = bind_forest(pairwise, edges, n_nodes, n_labels, shared)
        check_forest(rng, table, pairwise, edges, n_nodes, n_labels, shared)


def bind_forest(pairwise, edges, n_nodes, n_labels, shared):
    """A model of a forest, without scores."""
    x = (np.zeros((n_nodes, 1)), edges)
    other = (np.zeros((n_labels, 1)), np.zeros((0, 2), int))
    if not shared:
        x, other = (*x, np.zeros((len(edges), 1))), (*other, np.zeros((0, 1)))
    y = [np.zeros(n_nodes, int), np.arange(n_labels)]
    return bind(GraphModel(pairwise), [x, other], y, likelihood=True)[1]


def check_forest(rng, table, pairwise, edges, n_nodes, n_labels, shared):
    """Compare the oracle with all labelings at random scores."""
    workspace, mu = table.workspace(np.zeros(table.n_weights)), rng.choice([0.4, 1.0])
    unary, _, _ = table.structure.potentials_of(0, workspace.theta)
    unary[...] = some_scores(rng, unary.shape)
    n_tables = 1 if shared else len(edges)
    start = n_nodes * table.structure.ld
    size = 1 if pairwise == "potts" else n_labels * table.structure.ld
    step = 1 if pairwise == "potts" else -(-size // 8) * 8
    tables = np.zeros((n_tables, n_labels, n_labels))
    for e in range(n_tables):
        block = workspace.theta[start + e * step :][:size]
        if pairwise == "potts":
            block[0] = some_scores(rng, 1)[0]
            tables[e] = np.where(np.eye(n_labels, dtype=bool), block[0], 0.0)
        else:
            tables[e] = some_scores(rng, (n_labels, n_labels))
            block.reshape(n_labels, table.structure.ld)[:, :n_labels] = tables[e]
    labelings = np.array(list(np.ndindex(*[n_labels] * n_nodes)))
    scores = unary[np.arange(n_nodes), labelings].sum(axis=1)
    for e, (u, v) in enumerate(edges):
        scores = scores + tables[0 if shared else e][labelings[:, u], labelings[:, v]]
    means, value = table.expectation(workspace, 0, mu, load=False)
    log_sum, probability = brute(scores / mu)
    assert value == pytest.approx(mu * log_sum, rel=1e-12, abs=1e-11)
    nodes = means[:start].reshape(n_nodes, table.structure.ld)
    want = np.array([
        [probability[labelings[:, v] == k].sum() for k in range(n_labels)]
        for v in range(n_nodes)
    ])  # fmt: skip
    np.testing.assert_allclose(nodes[:, :n_labels], want, rtol=1e-9, atol=1e-12)
    got, want = np.zeros((2, n_tables, n_labels, n_labels))
    for e, (u, v) in enumerate(edges):
        np.add.at(
            want[0 if shared else e], (labelings[:, u], labelings[:, v]), probability
        )
    for e in range(n_tables):
        block = means[start + e * step :][:size]
        if pairwise == "potts":
            assert block[0] == pytest.approx(np.trace(want[e]), rel=1e-9, abs=1e-12)
        else:
            got[e] = block.reshape(n_labels, table.structure.ld)[:, :n_labels]
            np.testing.assert_allclose(got[e], want[e], rtol=1e-9, atol=1e-12)


def tree_edges(rng, kind, n):
    """Edges, in either direction, of a path, a star, paths that meet, or a forest."""
    if kind == "forest":
        return random_tree(rng, n)
    step = {"path": 1, "star": n, "spider": 5}[kind]
    edges = [(max(v - step, 0), v) for v in range(1, n)]
    edges = [e if rng.uniform() < 0.5 else e[::-1] for e in edges]
    return np.array(edges, dtype=int).reshape(-1, 2)


@pytest.mark.parametrize("forbidden", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("scale", [1.0, 20.0, 100.0, 1000.0])
@pytest.mark.parametrize("kind", ["path", "star", "spider", "forest"])
def test_scores_of_large_forests(kind, scale, forbidden):
    """Sums in which scaled messages could underflow, and others in which they do not.

    The oracles of `inference` have logarithms as messages.
    """
    rng = np.random.RandomState(5)
    for _ in range(24):
        n_labels, n = rng.choice([2, 3, 5, 9]), rng.choice([1, 2, 12, 80])
        shared, edges = bool(rng.randint(2)), tree_edges(rng, kind, n)
        bound = bind_forest("full", edges, n, n_labels, shared)
        unary = scale * rng.normal(size=(n, n_labels))
        n_tables = 1 if shared else len(edges)
        # one label may be all but impossible wherever it is
        tables = scale * rng.normal(size=(n_tables, n_labels, n_labels))
        unary[:, 0] -= scale * rng.choice([0.0, 3.0])
        tables[..., 0] -= scale * rng.choice([0.0, 3.0])
        unary[rng.uniform(size=unary.shape) < forbidden] = -np.inf
        tables[rng.uniform(size=tables.shape) < forbidden] = -np.inf
        check_large_forest(bound, unary, tables, edges, shared)


@pytest.mark.parametrize("scale", [3.0, 10.0, 30.0, 100.0])
@pytest.mark.parametrize("kind", ["path", "star", "spider"])
def test_equal_labels_of_large_forests(kind, scale):
    """All labels are equal, and the best two impossible, each because of one node.

    What is left may be far below what the messages of other nodes say.
    """
    rng = np.random.RandomState(6)
    for _ in range(40):
        n_labels, n = rng.randint(3, 6), rng.choice([12, 40, 80])
        shared, edges = bool(rng.randint(2)), tree_edges(rng, kind, n)
        bound = bind_forest("full", edges, n, n_labels, shared)
        unary = scale * rng.normal(size=(n, n_labels))
        unary += scale * rng.normal(size=n_labels)
        tables = np.full((1 if shared else len(edges), n_labels, n_labels), -np.inf)
        each = np.arange(n_labels)
        # steep tables, too: one step may go from what is far above zero to nothing
        steep = rng.choice([1.0, 6.0]) * scale
        tables[:, each, each] = steep * rng.normal(size=tables.shape[:2])
        total = unary.sum(axis=0) + tables[:, each, each].sum(axis=0) * (
            len(edges) if shared else 1
        )
        for label in np.argsort(total)[-2:]:
            unary[rng.randint(n), label] = -np.inf
        check_large_forest(bound, unary, tables, edges, shared)


def check_large_forest(bound, unary, tables, edges, shared):
    """Compare an oracle with that of `inference`."""
    (n, n_labels), ld = unary.shape, bound.structure.ld
    workspace, start = bound.workspace(np.zeros(bound.n_weights)), n * ld
    step = -(-n_labels * ld // 8) * 8

    def parts(values):
        """The entries of nodes and of tables."""
        cells = [
            values[start + e * step :][: n_labels * ld].reshape(n_labels, ld)
            for e in range(len(tables))
        ]
        return values[:start].reshape(n, ld), cells

    rows, cells = parts(workspace.theta)
    rows[:, :n_labels] = unary
    for cell, table in zip(cells, tables, strict=True):
        cell[:, :n_labels] = table
    means, value = bound.expectation(workspace, 0, load=False)
    every = np.repeat(tables, len(edges), axis=0) if shared else tables
    try:
        log_partition, nodes, pairs = sum_product(list(unary), edges, list(every))
    except ValueError:
        assert value == -np.inf and not means.any()
        return
    assert value == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
    rows, cells = parts(means)
    np.testing.assert_allclose(rows[:, :n_labels], nodes, rtol=1e-9, atol=1e-12)
    pairs = np.reshape(pairs, (-1, n_labels, n_labels))
    pairs = pairs.sum(axis=0, keepdims=True) if shared else pairs
    for cell, pair in zip(cells, pairs, strict=True):
        np.testing.assert_allclose(cell[:, :n_labels], pair, rtol=1e-9, atol=1e-12)
    # padding stays zero
    assert not rows[:, n_labels:].any()
    assert not any(cell[:, n_labels:].any() for cell in cells)


# ---- random problems, from features to gradients ----


def random_problem(rng):
    """A small model, inputs and outputs: one node, ties and zeros are among them."""
    n_labels = rng.randint(2, 4)
    labels = np.array(list("abc"))[:n_labels]
    if rng.randint(2):
        n, n_features = rng.randint(n_labels, 6), rng.randint(1, 4)
        costs = None
        if rng.randint(2):
            costs = rng.randint(0, 3, size=(n_labels, n_labels)) / 2.0
            np.fill_diagonal(costs, 0.0)
        X = rng.randint(-2, 3, size=(n, n_features)) / 2.0
        y = np.concatenate([labels, labels[rng.randint(n_labels, size=n - n_labels)]])
        model = MulticlassModel(costs, fit_intercept=bool(rng.randint(2)))
        return model, X, y
    pairwise, features = rng.choice(["full", "potts"]), bool(rng.randint(2))
    X, y = [], []
    for n in (n_labels, rng.randint(1, 5)):
        edges = random_tree(rng, n)
        x = (rng.randint(-2, 3, size=(n, 2)) / 2.0, edges)
        X.append((*x, rng.normal(size=(len(edges), 2))) if features else x)
        y.append(labels[rng.randint(n_labels, size=n)])
    y[0] = labels
    weight = rng.choice(["balanced", "none"])
    return (
        GraphModel(
            pairwise,
            class_weight=None if weight == "none" else weight,
            loss_normalization=rng.choice(["example", "mean", None]),
            fit_intercept=bool(rng.randint(2)),
        ),
        X,
        y,
    )


@pytest.mark.slow
def test_random_problems():
    """Values, gradients and the k best of random problems, against enumeration."""
    rng = np.random.RandomState(5)
    for _ in range(N_INSTANCES):
        model, X, y = random_problem(rng)
        likelihood, mu = bool(rng.randint(2)), rng.choice([0.2, 1.0])
        p = rng.uniform(0.5, 2.0, size=len(X))
        spec, table, smoothing = bind(model, X, y, p, mu=mu, likelihood=likelihood)
        w = rng.choice([0.0, 1.0, 5.0]) * rng.normal(size=table.n_weights) * real(table)
        gradient = np.empty(table.n_weights)
        value = smooth_loss(table, smoothing).value_and_gradient(w, gradient)
        want = enumerated(listed(spec, X, y), w, p / p.sum(), mu, likelihood)
        assert value == pytest.approx(want[0], rel=1e-10, abs=1e-11)
        np.testing.assert_allclose(gradient, want[1], rtol=1e-9, atol=1e-10)
        check_topk(spec, table, X[0], y[0], w, likelihood)


def check_topk(spec, table, x, observed, w, likelihood):
    """Compare the k best labelings of the first example with all of them."""
    scores = [
        spec.joint_feature(x, z) @ w + (0.0 if likelihood else spec.loss(observed, z))
        for z in spec.labelings(x)
    ]
    for k in (1, 3, len(scores) + 2):
        rows, values = table.topk(table.workspace(w), 0, k)
        assert len({tuple(row) for row in rows.tolist()}) == min(k, len(scores))
        want = np.sort(scores)[::-1][:k]
        np.testing.assert_allclose(values, want, rtol=1e-9, atol=1e-10)
