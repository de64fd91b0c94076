"""GDMM on graphs: the factors' oracles, the bound of the objective, and the optimum."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from sksstruct import SSVMClassifier
from sksstruct.estimators._train import prepare
from sksstruct.inference.map.highs import solve_relaxation
from sksstruct.models import Graph, GraphModel, RelaxedGraphModel
from sksstruct.models.graph import labeled
from sksstruct.models.graph.factors import (
    EdgeRowFactors,
    PottsFactors,
    TableFactors,
)
from sksstruct.models.protocols._cliques import Cliques
from sksstruct.models.roles import factor_model
from sksstruct.solvers import GDMM, SoftBCFW
from sksstruct.solvers.dual_decomposition._clique_state import CliqueGDMMState
from sksstruct.solvers.dual_decomposition._multipliers import scaled_multipliers
from sksstruct.solvers.dual_decomposition._state import GDMMState
from sksstruct.solvers.dual_decomposition.restart import export_cliques

# kinds of features of edges: none, one of several, any
KINDS = [None, "types", "any"]
ALPHA = 0.1


def edge_rows(rng, n, kind):
    if kind is None:
        return None
    if kind == "any":
        return rng.normal(size=(n, 2))
    # one feature is not zero, or none at all
    return np.vstack([np.eye(2), np.zeros(2)])[rng.integers(3, size=n)] * 1.5


def graphs(seed=0, kind=None, tree=False, n_labels=3, n_graphs=6):
    """Graphs of several sizes, some with isolated nodes, one of a single node."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for i in range(n_graphs):
        n = 1 if i == 1 else int(rng.integers(3, 7))
        edges = list(itertools.combinations(range(n), 2))
        keep = rng.random(len(edges)) < 0.6
        edges = [e for e, k in zip(edges, keep, strict=True) if k]
        if tree:
            edges = [(int(rng.integers(v)), v) for v in range(1, n) if v != 2]
        # ends in either order
        edges = [e if rng.random() < 0.5 else e[::-1] for e in edges]
        labels = rng.integers(n_labels, size=n)
        nodes = np.eye(n_labels)[labels] + rng.normal(size=(n, n_labels))
        edges = np.array(edges, dtype=int).reshape(-1, 2)
        X.append(Graph(nodes, edges, edge_rows(rng, len(edges), kind)))
        y.append(labels.tolist())
    y[0][:3] = range(3)
    return X, y


def with_cliques(X, seed=0):
    """The same graphs with cliques of three nodes, and some of four, in any order."""
    rng = np.random.default_rng(seed)
    out = []
    for x in X:
        n = len(x.node_features)
        cliques = []
        for order, most in ((3, 2), (4, 1)):
            count = rng.integers(most + 1) if n >= order else 0
            rows = [rng.permutation(n)[:order] for _ in range(count)]
            cliques.append(np.array(rows, dtype=int).reshape(-1, order))
        out.append(x._replace(cliques=cliques))
    return out


def fit(model, X, y, weight=None, *, solver, alpha=ALPHA, tol=1e-4):
    classifier = SSVMClassifier(
        model, alpha=alpha, solver=solver, tol=tol, max_iter=1000, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return classifier.fit(X, y, weight)


def factors_of(model, X, y):
    classifier = SSVMClassifier(model, alpha=ALPHA, solver="gdmm")
    return factor_model(prepare(classifier, X, y).model)


def some_passes(factors, n_passes=6):
    """A state after some passes, so that weights and multipliers are not zero."""
    state_type = GDMMState if factors.cliques is None else CliqueGDMMState
    state = state_type(factors, ALPHA, 0.3)
    everything = -np.ones(factors.n_variables)
    for _ in range(n_passes):
        state.visit(np.arange(factors.n_examples), everything, False)
        state.update(1.0)
    return state


def relaxed_answer(model, x, graph):
    """A solution of the linear program, as marginals that the model takes."""
    nodes, edges, factors = solve_relaxation(graph)
    best = {"nodes": nodes, "edges": edges}
    if model.orders_:
        K, tables = len(model.classes_), iter(factors)
        best["cliques"] = [
            sum((next(tables) for _ in rows), np.zeros(K**order))
            for rows, order in zip(x.cliques, model.orders_, strict=True)
        ]
    return best


def exact_objective(classifier, X, y, weight=None):
    """The relaxed objective at the weights, by linear programs."""
    model, w = classifier.model_, classifier.weights_
    total = []
    for x, y_true in zip(X, y, strict=True):
        costs, divided_by = model._weights(len(y_true), x.node_weights)
        off = (1.0 - np.eye(len(model.classes_))[model._labels(y_true)]) / divided_by
        graph = model._graph(x, w, off * costs[:, None])
        best = relaxed_answer(model, x, graph)
        difference = model.joint_feature(x, best) - model.joint_feature(x, y_true)
        total.append(model._loss_at(x, y_true, best) + w @ difference)
    return ALPHA / 2 * w @ w + np.average(total, weights=weight)


@pytest.fixture
def many_labels(monkeypatch):
    """Three labels are many, so that tables are ordered."""
    monkeypatch.setattr(labeled, "FEW_LABELS", 2)


# ---- oracles ----


def check_oracles(factors, tables, seed=0):
    rng = np.random.default_rng(seed)
    K = factors.n_labels
    for pair in range(factors.n_pairs):
        found = [
            [factors.outcome_score(pair, a, b) for b in range(K)] for a in range(K)
        ]
        np.testing.assert_allclose(found, tables[pair], atol=1e-12)
        for n in range(12):
            # ties in some rounds: messages that are equal, or none at all
            told = [rng.permutation(K)[: rng.integers(K + 1)] for _ in range(2)]
            scale = 0.0 if n % 4 == 0 else np.abs(tables[pair]).max() + 0.1
            values = [scale * rng.normal(size=len(some)).round(1) for some in told]
            expected = tables[pair].copy()
            expected[told[0]] += values[0][:, None]
            expected[:, told[1]] += values[1]
            best = expected.max()
            for linear in (False, True):
                options = {"linear": linear}
                a, b, value = factors.maximum(pair, told, values, **options)
                assert value == pytest.approx(best, abs=1e-12)
                assert expected[a, b] == pytest.approx(best, abs=1e-12)
                above = factors.maximum(
                    pair, told, values, floor=best + 1e-9, **options
                )
                assert above is None
                below = factors.maximum(
                    pair, told, values, floor=best - 1e-6, **options
                )
                assert below is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "normalize"), [(None, True), ("types", False), ("any", True)]
)
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_oracles_of_edges(pairwise, kind, normalize):
    X, y = graphs(kind=kind)
    factors = factors_of(RelaxedGraphModel(pairwise, normalize=normalize), X, y)
    assert isinstance(factors, PottsFactors if pairwise == "potts" else EdgeRowFactors)
    check_tables(factors, pairwise)


@pytest.mark.parametrize("kind", [None, "types"])
def test_oracles_of_ordered_tables(kind, many_labels):
    X, y = graphs(kind=kind)
    factors = factors_of(RelaxedGraphModel(normalize=kind is None), X, y)
    assert isinstance(factors, TableFactors)
    check_tables(factors, "full")


def check_tables(factors, pairwise):
    assert factors.n_pairs > 10
    for n_passes in (0, 6):
        factors.start()
        some_passes(factors, n_passes)
        rows, weights = np.asarray(factors.edge_rows), factors.edge_weights()
        assert weights.any() == (n_passes > 0)
        if pairwise == "potts":
            tables = (rows @ weights)[:, None, None] * np.eye(3)
        else:
            tables = np.einsum("ed,dab->eab", rows, weights)
        check_oracles(factors, tables)


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [5, 9, 40])
def test_oracles_of_padded_tables(n_labels):
    """Labels that are no whole vectors, in tables that edges form by themselves."""
    X, y = graphs(kind="any", n_labels=n_labels, n_graphs=12)
    factors = factors_of(RelaxedGraphModel(), X, y)
    some_passes(factors)
    rows, weights = np.asarray(factors.edge_rows), factors.edge_weights()
    check_oracles(factors, np.einsum("ed,dab->eab", rows, weights))


def test_weights_and_squares():
    """Flat weights are those of the model, and changes of outcomes change them."""
    rng = np.random.default_rng(0)
    for pairwise, kind in itertools.product(["full", "potts"], KINDS):
        X, y = graphs(kind=kind)
        model = RelaxedGraphModel(pairwise)
        bound = prepare(SSVMClassifier(model, alpha=ALPHA, solver="gdmm"), X, y).model
        factors = factor_model(bound)
        some_passes(factors)
        w, spec, n = factors.weights(), bound.spec, 40
        _, _, edges = spec._blocks(w)
        np.testing.assert_array_equal(edges, factors.edge_weights())
        pairs = rng.integers(factors.n_pairs, size=n)
        left, right = rng.integers(3, size=(2, n)).astype(np.int32)
        amounts = rng.normal(size=n)
        changed = w.copy()
        _, _, edges = spec._blocks(changed)
        for e, a, b, amount in zip(pairs, left, right, amounts, strict=True):
            row = np.asarray(factors.edge_rows)[e]
            if pairwise == "full":
                edges[:, a, b] += amount * row
            elif a == b:
                edges += amount * row
        square = factors.square_with(pairs, left, right, amounts)
        assert square == pytest.approx(changed @ changed)


# ---- the bound ----


def relaxed_value(model, X, y, w):
    values = []
    for x, y_true in zip(X, y, strict=True):
        off = (1.0 - np.eye(3)[model._labels(y_true)]) / len(y_true)
        best = relaxed_answer(model, x, model._graph(x, w, off))
        difference = model.joint_feature(x, best) - model.joint_feature(x, y_true)
        values.append(model.loss(y_true, best) + w @ difference)
    return np.mean(values)


def dual_value(factors, model, X, y, w, multipliers):
    """The bound (8) that multipliers give, before any sweep."""
    first, labels, values, cliques = multipliers
    total, pair, at = 0.0, 0, 0
    for x, y_true in zip(X, y, strict=True):
        off = (1.0 - np.eye(3)[model._labels(y_true)]) / len(y_true)
        graph = model._graph(x, w, off)
        nodes = graph.unaries.reshape(-1, 3).copy()
        score = graph.score(model._labels(y_true))
        for u, v in x.edges:
            # all edges share a table
            table = graph.tables[0].dense().copy()
            for side, node in enumerate((u, v)):
                part = slice(first[2 * pair + side], first[2 * pair + side + 1])
                told = np.zeros(3)
                told[labels[part]] = values[part]
                nodes[node] += told
                table -= told[:, None] if side == 0 else told
            total += table.max()
            pair += 1
        for scope, t in zip(graph.factor_scopes, graph.factor_tables, strict=True):
            table = graph.tables[t].dense().copy()
            for axis, node in enumerate(scope):
                told, at = cliques[at : at + 3], at + 3
                nodes[node] += told
                table -= told.reshape(
                    [-1 if j == axis else 1 for j in range(table.ndim)]
                )
            total += table.max()
        total += nodes.max(axis=1).sum() - score
    assert pair == factors.n_pairs
    assert cliques is None or at == len(cliques)
    return total / len(X)


@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_bound_lies_between_the_relaxation_and_the_multipliers(seed, cliques):
    X, y = graphs(seed)
    X = with_cliques(X, seed) if cliques else X
    bound = prepare(SSVMClassifier(RelaxedGraphModel(), alpha=0.05), X, y).model
    factors, model = factor_model(bound), bound.spec
    for n_passes in (0, 2, 20):
        factors.start()
        state = some_passes(factors, n_passes)
        w = factors.weights()
        if n_passes == 20:
            # edges that all disagree make the relaxation loose
            w = w + np.random.default_rng(seed).normal(size=len(w))
        exact = relaxed_value(model, X, y, w)
        multipliers = scaled_multipliers(state)
        found = factors.maxima(w, None, lambda told=multipliers: told)
        limit = dual_value(factors, model, X, y, w, multipliers)
        assert exact - 1e-7 <= found <= limit + 1e-9
        assert exact - 1e-7 <= factors.maxima(w)
        assert factors.maxima(w, 2) == factors.maxima(w)


@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_the_bound_is_exact_on_trees(pairwise):
    X, y = graphs(tree=True)
    bound = prepare(SSVMClassifier(RelaxedGraphModel(pairwise), alpha=0.05), X, y).model
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.1, 10.0):
        w = scale * rng.normal(size=bound.n_weights)
        expected = []
        for x, y_true in zip(X, y, strict=True):
            spec = bound.spec
            best = spec.loss_augmented_decode(x, y_true, w)
            score = w @ (spec.joint_feature(x, best) - spec.joint_feature(x, y_true))
            expected.append(spec.loss(y_true, best) + score)
        assert factor_model(bound).maxima(w) == pytest.approx(
            np.mean(expected), abs=1e-9
        )


# ---- the optimum ----


def check_optimum(model, X, y, weight=None, gap=1e-3):
    """The certificate, and another solver's."""
    first = fit(model, X, y, weight, solver=GDMM(10000, 1e-4, check_every=50))
    second = fit(model, X, y, weight, solver="cutting_plane", tol=1e-3)
    assert first.dual_gap_ <= gap
    assert first.objective_ - first.dual_gap_ <= second.objective_ + 1e-7
    assert second.objective_ - second.dual_gap_ <= first.objective_ + 1e-7
    # the objective is an upper bound of the true one, which the gap allows for
    exact = exact_objective(first, X, y, weight)
    assert exact - 1e-6 <= first.objective_ <= exact + first.dual_gap_ + 1e-6
    return first


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_optimum_of_graphs_with_cycles(pairwise, kind):
    X, y = graphs(kind=kind)
    check_optimum(RelaxedGraphModel(pairwise), X, y)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"normalize": True}, {"fit_intercept": False}, {"loss_normalization": None}],
    ids=str,
)
def test_optimum_with_options(options):
    X, y = graphs(seed=1)
    check_optimum(RelaxedGraphModel(**options), X, y, np.arange(6) % 3)


def test_optimum_of_ordered_tables(many_labels):
    X, y = graphs(seed=2, kind="types")
    check_optimum(RelaxedGraphModel(), X, y)


@pytest.mark.slow
def test_optimum_with_node_weights_and_sparse_features():
    X, y = graphs(seed=3, kind="any")
    rng = np.random.default_rng(0)
    X = [x._replace(node_weights=rng.integers(1, 4, len(x.node_features))) for x in X]
    model = RelaxedGraphModel()
    dense = check_optimum(model, X, y)
    rows = [
        x._replace(
            node_features=sparse.csr_array(x.node_features),
            edge_features=sparse.csr_array(x.edge_features),
        )
        for x in X
    ]
    again = fit(model, rows, y, solver=GDMM(10000, 1e-4, check_every=50))
    assert again.objective_ == pytest.approx(dense.objective_, abs=2e-4)


def test_graphs_without_edges():
    X, y = graphs(n_graphs=3)
    X = [Graph(x.node_features, np.zeros((0, 2), dtype=int)) for x in X]
    check_optimum(RelaxedGraphModel(), X, y, gap=1.01e-4)
    check_optimum(RelaxedGraphModel("potts"), X, y, gap=1.01e-4)


@pytest.mark.slow
@pytest.mark.parametrize("update", ["afw", "bgcd"])
@pytest.mark.parametrize("pairwise", ["full", "potts"])
def test_other_updates(pairwise, update):
    X, y = graphs(n_graphs=3)
    solver = GDMM(20000, 3e-3, update=update, check_every=100)
    first = fit(RelaxedGraphModel(pairwise), X, y, solver=solver)
    second = fit(RelaxedGraphModel(pairwise), X, y, solver="cutting_plane", tol=1e-3)
    assert first.dual_gap_ <= 3.01e-3
    assert first.objective_ == pytest.approx(second.objective_, abs=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairwise", "kind", "normalize"),
    [
        ("full", None, True),
        ("full", "any", False),
        ("potts", None, False),
        ("potts", "any", True),
    ],
)
def test_forests_are_the_structured_svm(pairwise, kind, normalize):
    X, y = graphs(kind=kind, tree=True)
    model = GraphModel(pairwise, normalize=normalize, class_weight={0: 2.0, 1: 0.5})
    weight = [1.0, 2.0, 0.0, 1.0, 3.0, 1.0]
    first = fit(model, X, y, weight, solver=GDMM(20000, 1e-5, check_every=100))
    second = fit(model, X, y, weight, solver="auto", tol=1e-5)
    assert first.dual_gap_ <= 2e-4
    # the passes of the second may end before its tolerance
    assert first.objective_ <= second.objective_ + 2e-4
    assert first.objective_ >= second.objective_ - second.dual_gap_ - 1e-9
    assert first.objective_ - first.dual_gap_ <= second.objective_ + 1e-9
    # attributes have the layout that the model reads
    assert first.edge_coef_.shape == second.edge_coef_.shape
    np.testing.assert_allclose(first.coef_, second.coef_, atol=0.1)
    relaxed = RelaxedGraphModel(pairwise, normalize=normalize)
    third = fit(relaxed, X, y, weight, solver=GDMM(20000, 1e-5, check_every=100))
    plain = GraphModel(pairwise, normalize=normalize)
    fourth = fit(plain, X, y, weight, solver="auto", tol=1e-5)
    assert third.objective_ <= fourth.objective_ + 2e-4
    assert third.objective_ >= fourth.objective_ - fourth.dual_gap_ - 1e-9


@pytest.mark.parametrize("change", ["nothing", "alpha", "features", "labels"])
@pytest.mark.parametrize(
    "model",
    [
        RelaxedGraphModel(),
        RelaxedGraphModel("potts", normalize=True),
        GraphModel(),
        RelaxedGraphModel(loss_normalization="mean"),
    ],
    ids=["cycles", "potts", "forests", "cliques"],
)
def test_warm_start(model, change):
    """It goes on from distributions and multipliers, and ends at the same optimum."""
    X, y = graphs(kind="any", tree=isinstance(model, GraphModel), n_graphs=4)
    X = with_cliques(X) if model.loss_normalization == "mean" else X
    solver = GDMM(5000, 1e-3, check_every=5)
    options = {"solver": solver, "random_state": 0}
    warm = SSVMClassifier(model, alpha=ALPHA, warm_start=True, **options).fit(X, y)
    first, passes = warm.objective_, warm.n_iter_
    if change == "alpha":
        warm.set_params(alpha=0.9 * ALPHA)
    elif change == "features":
        X = [
            x._replace(node_features=x.node_features + 0.01 * np.cos(x.node_features))
            for x in X
        ]
    elif change == "labels":
        y = [y[0][::-1], *y[1:]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warm.fit(X, y)
    if change == "nothing":
        # summed in another order, and the best objective and dual value that a gap is
        # made of may be those of two passes
        assert warm.n_iter_ <= max(5, passes // 4), passes
        assert warm.objective_ == pytest.approx(first, abs=warm.dual_gap_)
        return
    cold = SSVMClassifier(model, alpha=warm.alpha, **options).fit(X, y)
    certificates = warm.dual_gap_, cold.dual_gap_
    assert max(certificates) < 1.01e-3
    assert warm.objective_ == pytest.approx(cold.objective_, abs=max(certificates))
    if change != "labels":
        assert warm.n_iter_ < cold.n_iter_
        # they are feasible for any features and alpha, and nearly as good
        assert warm.history_["dual"][0] > 0.95 * cold.objective_


# ---- cliques ----


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_oracle_of_cliques(n_labels):
    rng = np.random.default_rng(n_labels)
    kinds = [np.array([[0, 1, 2], [4, 2, 3]]), np.array([[3, 0, 1, 2]])]
    examples = [np.array([0, 1]), np.array([0])]
    cliques = Cliques(kinds, examples, np.array([0.5, 2.0]), n_labels)
    # all kinds of the first example, then the second
    shapes = [(n_labels,) * order for order in (3, 4, 3)]
    assert cliques.first_clique.tolist() == [0, 2, 3]
    assert cliques.scopes[:10].tolist() == [0, 1, 2, 3, 0, 1, 2, 4, 2, 3]
    sizes = n_labels**3, n_labels**4
    assert len(cliques.weights) == sum(sizes)
    for n in range(30):
        # zero weights, then ties
        cliques.weights[:] = n and rng.normal(size=sum(sizes)).round(n % 3)
        three, four = np.split(cliques.weights, sizes[:1])
        for c, (shape, scale) in enumerate(zip(shapes, (0.5, 0.5, 2.0), strict=True)):
            told = rng.normal(size=(len(shape), n_labels)).round(1) * (n % 4 > 0)
            expected = scale * (four if len(shape) == 4 else three).reshape(shape)
            for labels in itertools.product(range(n_labels), repeat=len(shape)):
                expected[labels] += sum(told[j, k] for j, k in enumerate(labels))
            entry, value = cliques.maximum(c, told)
            assert value == pytest.approx(expected.max(), abs=1e-12)
            assert expected.flat[entry] == pytest.approx(value, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"normalize": True}, {"pairwise": "potts", "loss_normalization": None}],
    ids=str,
)
def test_optimum_with_cliques(options, edges):
    X, y = graphs(seed=4, kind="any" if options else None, n_graphs=4)
    if not edges:
        X = [x._replace(edges=x.edges[:0], edge_features=np.ones((0, 1))) for x in X]
    weight = [1.0, 2.0, 0.0, 1.0] if options else None
    model = RelaxedGraphModel(**options)
    fitted = check_optimum(model, with_cliques(X, 4), y, weight)
    tables = fitted.model_._clique_tables(fitted.weights_)
    assert all(table.any() for table in tables)


@pytest.mark.slow
@pytest.mark.parametrize("edges", [False, True])
@pytest.mark.parametrize("kind", [GDMM, SoftBCFW])
def test_greedy_coordinates_with_cliques(kind, edges):
    """Algorithm 3 ends at the optimum of Algorithm 4."""
    X, y = graphs(n_graphs=3)
    X = with_cliques(X)
    if not edges:
        X = [x._replace(edges=x.edges[:0], edge_features=np.ones((0, 1))) for x in X]
    first, second = (
        fit(RelaxedGraphModel(), X, y, solver=kind(20000, 1e-4, update=update))
        for update in ("bgcd", "bcfw")
    )
    assert first.objective_ == pytest.approx(second.objective_, abs=2e-3)
    tables = first.model_._clique_tables(first.weights_)
    assert all(table.any() for table in tables)


def test_greedy_coordinates_go_on_from_cliques_that_have_moved():
    X, y = graphs(n_graphs=3)
    model = SSVMClassifier(
        RelaxedGraphModel(), alpha=ALPHA, warm_start=True, random_state=0,
        solver=GDMM(5000, 1e-4, update="bgcd", check_every=5),
    )  # fmt: skip
    first = model.fit(with_cliques(X), y).n_iter_
    assert first > 20
    assert model.fit(with_cliques(X), y).n_iter_ < 5


def test_each_pass_activates_one_factor_of_each_example():
    X, y = graphs(n_graphs=3)
    X = with_cliques([x._replace(edges=x.edges[:0]) for x in X])
    factors = factors_of(RelaxedGraphModel(), X, y)
    first = {}
    for greedy in True, False:
        state, moved = CliqueGDMMState(factors, ALPHA, 1.0), []
        parts = np.full(factors.n_variables, -1.0)
        for n_passes in range(1, 30):
            state.visit(np.arange(3), parts, False, greedy)
            state.update(1.0)
            moved.append((export_cliques(state)["counts"] > 1).sum())
            assert not greedy or moved[-1] <= 3 * n_passes
        assert moved[-1] > 0
        first[greedy] = moved[0]
    # variables come first, and others visit all factors
    assert first[True] == 0 < first[False]


@pytest.mark.slow
def test_dual_values_with_cliques_are_below_the_optimum():
    """Those of the first passes, where factors and variables do not agree."""
    X, y = graphs(seed=1)
    X = [x._replace(edges=x.edges[:0]) for x in with_cliques(X, 1)]
    best = fit(RelaxedGraphModel(), X, y, solver="cutting_plane", tol=1e-4)
    for rho, solver in itertools.product((0.01, 0.1, 1.0), (GDMM, SoftBCFW)):
        solver = solver(40, 0.0, rho=rho, check_every=1)
        history = fit(RelaxedGraphModel(), X, y, solver=solver).history_
        assert history["infeasibility"].max() > 1e-3
        assert history["dual"].max() <= best.objective_ + 1e-9
        assert history["primal"].min() >= best.objective_ - best.dual_gap_ - 1e-9
        if solver.eta and rho > 0.01:
            assert history["dual"].max() > 0.5 * best.objective_


def test_cliques_that_meet_in_single_nodes_are_the_structured_svm():
    """Where the relaxation is tight, its objective is that of all labelings."""
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(5):
        labels = rng.integers(2, size=6)
        nodes = np.eye(2)[labels] + rng.normal(size=(6, 2))
        cliques = [[(1, 0, 2)], [(2, 5, 3, 4)]]
        X.append(Graph(nodes, np.zeros((0, 2), dtype=int), cliques=cliques))
        y.append(labels.tolist())
    first = fit(RelaxedGraphModel(), X, y, solver=GDMM(5000, 1e-5, check_every=20))
    model, w = first.model_, first.weights_
    assert first.dual_gap_ <= 1.01e-5
    hinge = 0.0
    for x, y_true in zip(X, y, strict=True):
        observed = w @ model.joint_feature(x, y_true)
        hinge += (
            max(
                model.loss(y_true, list(other))
                + w @ model.joint_feature(x, list(other))
                for other in itertools.product(range(2), repeat=6)
            )
            - observed
        )
    assert first.objective_ == pytest.approx(ALPHA / 2 * w @ w + hinge / 5, abs=1e-7)


def test_states_of_other_cliques_are_not_used():
    X, y = graphs()
    X = with_cliques(X)
    first = SSVMClassifier(
        RelaxedGraphModel(), alpha=ALPHA, warm_start=True, solver=GDMM(500, 0.05)
    ).fit(X, y)
    other = with_cliques(graphs()[0], 1)
    makers = (X, True), (other, False), (graphs()[0], False)
    for inputs, accepted in makers:
        bound = prepare(SSVMClassifier(RelaxedGraphModel()), inputs, y).model
        assert GDMM().accepts(first._warm[1], bound) == accepted


def test_minimum_cuts_are_refused():
    """Their weights have to stay in a box."""
    X = [(np.zeros((3, 1)), [(0, 1), (1, 2), (2, 0)])]
    with pytest.raises(ValueError, match="GDMM"):
        SSVMClassifier(GraphModel("potts"), solver="gdmm").fit(X, [[0, 1, 0]])


def test_repeatable():
    X, y = graphs()
    first, second = (
        fit(RelaxedGraphModel(), X, y, solver=GDMM(20, 0.0)) for _ in range(2)
    )
    np.testing.assert_array_equal(first.weights_, second.weights_)
    assert first.history_["elements"][-1] > 0
