"""The graph: what it scores, what it refuses, and that it does not change."""

import importlib.util
import itertools
import pickle

import numpy as np
import pytest
from enumeration import Enumeration
from map_graphs import enumerate_labelings, random_graph

from sksstruct import LPMAPPredictor
from sksstruct.factor_graphs import (
    DenseTable,
    FactorGraph,
    FactorGraphBuilder,
    Logic,
    Potts,
    TruncatedLinear,
    TruncatedQuadratic,
)
from sksstruct.inference.map import MAP_SOLVERS, Toulbar2

HAS_TOULBAR2 = importlib.util.find_spec("pytoulbar2") is not None


@pytest.mark.parametrize("seed", range(20))
def test_score_is_the_sum_of_the_tables(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(
        rng, weights=seed % 2, infinite=0.2 * (seed % 3 == 0), parametric=True,
        factors=3, logic=2 * (seed % 5 == 0), evidence=seed % 2,
    )  # fmt: skip
    labelings, scores = enumerate_labelings(graph)
    found = np.array([graph.score(x) for x in labelings])
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(scores))
    finite = np.isfinite(scores)
    np.testing.assert_allclose(found[finite], scores[finite], atol=1e-12)
    again = pickle.loads(pickle.dumps(graph))
    assert [again.score(x) for x in labelings[:20]] == found[:20].tolist()


@pytest.mark.parametrize("solver", ["auto", "highs", "branch_and_bound"])
def test_the_total_must_exceed(solver):
    # the best labeling is the one with states 1
    unaries, table = [[0.0, -1.0], [-9.0, 1.0]], [[0.0, -2.0], [-1.0, 0.5]]
    for bound in (-3.0, 0.49, 0.5, 1e9):
        graph = FactorGraph(unaries, [(0, 1)], table, must_exceed=bound)
        again = pickle.loads(pickle.dumps(graph.with_evidence({1: 1})))
        for same in (graph, again):
            scores = [same.score([a, 1]) for a in range(2)]
            assert scores == [x if x > bound else -np.inf for x in (-1.0, 0.5)]
            result = MAP_SOLVERS[solver]().solve(same, random_state=0)
            assert result.score == max(scores)
            status = "infeasible" if result.score == -np.inf else "optimal"
            assert result.status == status
    for wrong in (np.inf, np.nan, "0"):
        with pytest.raises(ValueError, match="must_exceed must be"):
            FactorGraph([[0.0]], must_exceed=wrong)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["auto", "highs", "branch_and_bound", "trws"])
def test_the_total_must_exceed_the_best(solver):
    # without edges every bound is as tight as sums of decimals are
    for seed in range(10):
        rng = np.random.default_rng(seed)
        unaries = [rng.integers(-50, 50, size=3) / (1 + 9 * (seed % 2))] * 4
        unaries += list(rng.normal(size=(2, 2)))
        check_the_best(solver, unaries)
    # whole numbers whose sum differs from the bound after the offset is taken off
    unaries = [[0.0, 34], [45, 34], [-37, 12, -48], [-22, -4], [-30]]
    check_the_best(solver, unaries)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("solver", ["auto", "highs"])
def test_the_total_must_exceed_the_best_with_edges(solver, seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, weights=seed % 2, infinite=0.05 * (seed % 8 == 1))
    tables = [table.dense() for table in graph.tables]
    check_the_best(
        solver, [graph.unary(v) for v in range(graph.n_variables)], graph.edges,
        tables or None, edge_tables=graph.edge_tables if tables else None,
        edge_weights=graph.edge_weights,
    )  # fmt: skip


def check_the_best(solver, *parts, **others):
    graph = FactorGraph(*parts, **others)
    scores = [graph.score(x) for x in enumerate_labelings(graph)[0]]
    assert max(scores) > -np.inf
    for limit, status in (
        (max(scores), "infeasible"),
        (np.nextafter(max(scores), np.inf), "infeasible"),
        (np.nextafter(max(scores), -np.inf), "optimal"),
    ):
        graph = FactorGraph(*parts, **others, must_exceed=limit)
        result = MAP_SOLVERS[solver]().solve(graph, random_state=0)
        assert result.status == status
        assert result.score == (-np.inf if status == "infeasible" else max(scores))
        assert result.bound >= result.score


def test_enumeration_of_scores_far_below_zero():
    """The numbers that replace -inf are below all others, however low these are."""
    table = np.full((2, 2, 2), -np.inf)
    table[1, 1, 1] = -3.0
    graph = FactorGraph([[-3.0, -3], [0, -4], [0, -1]], factors=[((0, 1, 2), table)])
    for solver in (Enumeration(), *([Toulbar2()] if HAS_TOULBAR2 else [])):
        result = solver.solve(graph)
        assert (result.status, result.score) == ("optimal", -11.0)


@pytest.mark.parametrize("condition", Logic.conditions)
def test_conditions(condition):
    def holds(on):
        *rest, last = on
        return {
            "xor": sum(on) == 1,
            "atmostone": sum(on) <= 1,
            "or": sum(on) >= 1,
            "orout": any(rest) == last,
            "xorout": sum(rest) == last,
            "budget": sum(on) <= 2,
        }[condition]

    negated = [False, True, False, True]
    table = Logic(condition, 4, negated, 2 if condition == "budget" else None)
    for x in itertools.product((0, 1), repeat=4):
        on = [bool(a) != b for a, b in zip(x, negated, strict=True)]
        assert table.scores(*x) == (0.0 if holds(on) else -np.inf)
        assert table.dense()[x] == table.scores(*x)
    assert pickle.loads(pickle.dumps(table)).dense().tolist() == table.dense().tolist()


def test_parametric_tables():
    assert Potts(3, 2.0, -1.0).dense().tolist() == [
        [2, -1, -1],
        [-1, 2, -1],
        [-1, -1, 2],
    ]
    assert TruncatedLinear(3, 2.0, 3.0).dense()[0].tolist() == [0, -2, -3]
    assert TruncatedQuadratic(4, 0.5, 3.0).dense()[1].tolist() == [-0.5, 0, -0.5, -2]
    with pytest.raises(ValueError, match=r"scale must be in \[0"):
        TruncatedLinear(3, -1.0)
    with pytest.raises(ValueError, match="limit must be an integer"):
        Logic("xor", 3, limit=2)


def test_tables_are_shared_and_transposed():
    table = np.arange(6.0).reshape(2, 3)
    graph = FactorGraph([[0, 0], [0, 0, 0], [0, 0]], [(0, 1), (2, 1)], table)
    assert len(graph.tables) == 1
    assert graph.score([1, 2, 0]) == table[1, 2] + table[0, 2]
    # an edge the other way uses the transpose
    flipped = FactorGraph([[0, 0], [0, 0, 0]], [(1, 0)], table.T)
    assert flipped.score([1, 2]) == table[1, 2]
    same = FactorGraph([[0, 0], [0, 0, 0], [0, 0]], [(0, 1), (2, 1)], [table, table])
    assert len(same.tables) == 1
    stack = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)], np.arange(8.0).reshape(2, 2, 2)
    )
    assert stack.score([1, 0, 1]) == 2.0 + 5.0
    chosen = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)], [np.eye(2), 3 * np.eye(2)],
        edge_tables=[1, 1], edge_weights=[1.0, -2.0],
    )  # fmt: skip
    assert chosen.score([0, 0, 0]) == -3.0
    assert pickle.loads(pickle.dumps(graph)).tables[0].values.flags.writeable is False


def test_graphs_do_not_change():
    graph = FactorGraph([[0, 1], [1, 0]], [(0, 1)], np.eye(2))
    for name in ("unaries", "edges", "n_states"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(graph, name)[...] = 0
    with pytest.raises(AttributeError, match="immutable"):
        graph.offset = 1.0
    other = graph.with_evidence({1: 1})
    assert graph.evidence.tolist() == [-1, -1]
    assert other.evidence.tolist() == [-1, 1]
    assert other.score([0, 0]) == -np.inf
    assert other.tables is graph.tables


def test_builder_makes_the_same_graph():
    rng = np.random.default_rng(3)
    unaries = [rng.normal(size=k) for k in (2, 3, 2)]
    table, cube = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 2))
    builder = FactorGraphBuilder()
    assert [builder.add_variable(row) for row in unaries] == [0, 1, 2]
    builder.add_factor([0, 1], table, 2.0)
    builder.add_factor([2, 1], table)
    builder.add_factor([0, 1, 2], cube)
    builder.add_factor([0], [1.0, 2.0])
    builder.add_factor([], 5.0)
    builder.observe(2, 1)
    graph = builder.build()
    assert graph.n_edges == 2
    assert len(graph.tables) == 2
    x = [1, 2, 1]
    expected = sum(row[k] for row, k in zip(unaries, x, strict=True)) + 7.0
    expected += 2 * table[1, 2] + table[1, 2] + cube[1, 2, 1]
    assert graph.score(x) == pytest.approx(expected)
    assert graph.score([1, 2, 0]) == -np.inf
    with pytest.raises(ValueError, match="weight must be 1 for a factor of 1"):
        builder.add_factor([0], [1.0, 2.0], 2.0)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: FactorGraph([[0, 1], []]), r"unaries\[1\] must have one dimension"),
        (lambda: FactorGraph([[0, np.nan]]), r"unaries\[0\] must be finite or -inf"),
        (lambda: FactorGraph([["a"]]), "unaries must be a sequence of arrays"),
        (
            lambda: FactorGraph([[0], [0]], [(0, 2)], np.eye(1)),
            r"edges\[0\] is \(0, 2\)",
        ),
        (lambda: FactorGraph([[0], [0]], [(1, 1)], np.eye(1)), "two different"),
        (lambda: FactorGraph([[0], [0]], [(0, 1)]), "tables must be given with edges"),
        (lambda: FactorGraph([[0], [0]], [(0.0, 1.5)], np.eye(1)), "pairs of integers"),
        (
            lambda: FactorGraph([[0, 1], [0, 1]], [(0, 1)], np.eye(3)),
            r"edges\[0\]: the table must have shape \(2, 2\), .* got \(3, 3\)",
        ),
        (
            lambda: FactorGraph([[0], [0]], [(0, 1)] * 2, [np.eye(1)]),
            "one for each of the 2 edges, got 1",
        ),
        (
            lambda: FactorGraph([[0], [0]], [(0, 1)], [np.eye(1)], edge_tables=[1]),
            r"edge_tables\[0\] must be in \[0, 1\).* got 1",
        ),
        (
            lambda: FactorGraph([[0], [0]], [(0, 1)], np.eye(1), edge_weights=[np.inf]),
            "edge_weights must be 1 finite",
        ),
        (
            lambda: FactorGraph(
                [[0, 0], [0]], [(0, 1)], [[0.0], [-np.inf]], edge_weights=[-1.0]
            ),
            "with -inf must be positive, edge 0 has -1",
        ),
        (
            lambda: FactorGraph([[0]], factors=[3]),
            r"factors\[0\] must be \(scope, table\)",
        ),
        (
            lambda: FactorGraph([[0]], factors=[((0, 0), np.eye(1))]),
            "must name different",
        ),
        (
            lambda: FactorGraph([[0]] * 3, factors=[((0, 1, 2), np.zeros((1, 1, 2)))]),
            r"factors\[0\]: the table must have shape",
        ),
        (
            lambda: FactorGraph([[0]], evidence={1: 0}),
            "evidence must be of variables .* got variable 1",
        ),
        (lambda: FactorGraph([[0]], evidence={0: 1}), "evidence has state 1"),
        (lambda: FactorGraph([[0]], offset=np.inf), "offset must be a finite"),
        (lambda: DenseTable([[np.inf]]), "NaN or \\+inf"),
        (lambda: FactorGraph([[0]]).score([1]), "state 1 at variable 0"),
        (lambda: FactorGraph([[0]]).score([0, 0]), r"must have shape \(1,\)"),
        (lambda: FactorGraph([[0]]).score([0.0]), "must be integers"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_huge_conditions_are_not_written_out():
    with pytest.raises(ValueError, match="too many for a dense array"):
        Logic("xor", 60).dense()
    graph = FactorGraph(np.zeros((60, 2)), factors=[(range(60), Logic("xor", 60))])
    assert graph.score([1] + [0] * 59) == 0.0
    assert graph.score([1, 1] + [0] * 58) == -np.inf


def test_arrays_of_the_caller_stay_the_callers():
    edges = np.array([[0, 1], [1, 2]], dtype=np.int32)
    table, weights = np.eye(2), np.ones(2)
    graph = FactorGraph(np.zeros((3, 2)), edges, table, edge_weights=weights)
    edges[0, 1] = 2
    weights[0] = 5.0
    table += 1.0
    assert graph.score([0, 0, 1]) == 1.0
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.edge_weights.tolist() == [1.0, 1.0]
    with pytest.raises(AttributeError, match="immutable"):
        del graph.offset
    with pytest.raises(AttributeError, match="immutable"):
        Potts(2).parameters = (1.0, 1.0)
    same = np.zeros((2, 2, 2))
    shared = FactorGraph(
        np.zeros((4, 2)), factors=[((0, 1, 2), same), ((1, 2, 3), same)]
    )
    assert len(shared.tables) == 1
    # a table is immutable: graphs share it
    table = DenseTable(same)
    for scope in ((0, 1, 2), (2, 0, 1)):
        assert FactorGraph(np.zeros((3, 2)), factors=[(scope, table)]).tables == (
            table,
        )


def reused(scores):
    """Yield the tables of a list in one array that is filled again and again."""
    buffer = np.empty(np.shape(scores[0]))
    for values in scores:
        buffer[...] = values
        yield buffer


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_buffer_that_is_used_again(order):
    rng = np.random.default_rng(order)
    tables = list(rng.normal(size=(4, *[2] * order)))
    tables.append(tables[1])
    scopes = [np.arange(start, start + order) for start in range(5)]
    unaries = rng.normal(size=(8, 2))
    expected = FactorGraph(
        unaries, factors=list(zip(scopes, tables, strict=True)), offset=1.0
    )
    builder = FactorGraphBuilder()
    for row in reused(unaries):
        builder.add_variable(row)
    builder.add_factor([], 1.0)
    for scope, table in zip(reused(scopes), reused(tables), strict=True):
        builder.add_factor(scope.astype(int), table)
    lazy = zip(reused(scopes), reused(tables), strict=True)
    lazy = ((scope.astype(int), table) for scope, table in lazy)
    graphs = [builder.build(), FactorGraph(reused(unaries), factors=lazy, offset=1.0)]
    if order == 2:
        graphs.append(FactorGraph(reused(unaries), scopes, reused(tables), offset=1.0))
    for graph in [*graphs, *pickle.loads(pickle.dumps(graphs))]:
        assert len(graph.tables) == len(expected.tables) == 4 * (order > 1)
        for labeling in itertools.product(range(2), repeat=8):
            assert graph.score(labeling) == expected.score(labeling)


def test_equal_arrays_are_one_table_of_a_builder():
    builder = FactorGraphBuilder()
    for _ in range(4):
        builder.add_variable([0.0, 0.0])
    for v in range(3):
        builder.add_factor([v, v + 1], [[v % 2, 0.0], [0.0, 1.0]])
        builder.add_factor([v, v + 1], Logic("or", 2))
    builder.add_factor([0, 1, 2], np.zeros((2, 2, 2)))
    builder.add_factor([1, 2, 3], np.zeros((2, 2, 2)))
    assert len(builder.build().tables) == 4
    with pytest.raises(ValueError, match="NaN"):
        builder.add_factor([0, 1], [[0.0, np.nan], [0.0, 0.0]])


def test_skops_round_trip():
    skops = pytest.importorskip("skops.io")
    graph = random_graph(np.random.default_rng(0), 5, 3)
    data = skops.dumps(graph)
    again = skops.loads(data, trusted=skops.get_untrusted_types(data=data))
    labeling = np.zeros(graph.n_variables, dtype=int)
    assert again.score(labeling) == graph.score(labeling)


def test_scores_that_cannot_be_added():
    graph = FactorGraph([[1e308, 0.0]] * 2)
    assert graph.score([0, 1]) == 1e308
    with pytest.raises(ValueError, match="a sum that is too large for float64"):
        graph.score([0, 0])
    with pytest.raises(ValueError, match="a sum that is too large for float64"):
        FactorGraph([[1e308, 0.0]], factors=[((0,), [1e308, 0.0])])
    with pytest.raises(ValueError, match="evidence must be a dict"):
        FactorGraph([[0.0, 1.0]], evidence=[0])
    with pytest.raises(ValueError, match="factors must be a sequence"):
        FactorGraph([[0.0, 1.0]], factors=5)


class TestNamesOfStates:
    def graph(self, **more):
        builder = FactorGraphBuilder()
        sky = builder.add_variable({"gray": 0.0, "blue": 1.0})
        size = builder.add_variable([0.0, 0.5, 0.25])
        sea = builder.add_variable({"blue": 0.0, "gray": 1.5, "green": 0.0})
        builder.add_factor([sky, sea], [[0.0, 2.0, 0.0], [2.0, 0.0, 0.0]])
        for variable, state in more.get("observe", {}).items():
            builder.observe(variable, state)
        return builder.build(), (sky, size, sea)

    def test_predictions_have_names(self):
        graph, _ = self.graph()
        assert graph.state_names == (("gray", "blue"), None, ("blue", "gray", "green"))
        predictor = LPMAPPredictor(random_state=0)
        (found,) = predictor.predict([graph])
        assert found.tolist() == ["gray", 1, "gray"] and found.dtype == object
        assert predictor.results_[0].labeling.tolist() == [0, 1, 1]
        assert graph.score(found) == graph.score([0, 1, 1]) == predictor.scores_[0]
        assert graph.named([1, 2, 2]).tolist() == ["blue", 2, "green"]
        assert predictor.score([graph], [["gray", 1, "blue"]]) == 2 / 3
        assert predictor.score([graph], [[0, 1, 0]]) == 2 / 3
        # graphs without names stay as they are, beside others
        plain = FactorGraph([[0.0, 1.0]])
        found = predictor.predict([plain, graph])
        assert found[0].dtype.kind == "i" and plain.named([1]).tolist() == [1]
        assert plain.state_names is None

    def test_evidence_by_name(self):
        graph, variables = self.graph(observe={0: "blue", 1: 2})
        assert graph.evidence.tolist() == [1, 2, -1]
        (found,) = LPMAPPredictor(random_state=0).predict([graph])
        assert found.tolist() == ["blue", 2, "blue"]
        other = graph.with_evidence({variables[2]: "green"})
        assert other.evidence.tolist() == [-1, -1, 2]
        assert other.state_names == graph.state_names
        again = pickle.loads(pickle.dumps(graph))
        assert again.state_names == graph.state_names
        assert again.evidence.tolist() == graph.evidence.tolist()
        assert "state_names" not in FactorGraph([[0.0]]).__getstate__()

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (
                [["a", "b"]],
                "state_names must have an entry for each of the 2 variables, got 1",
            ),
            ([["a", "b"], ["a"]], r"state_names\[1\] must be 3 different names"),
            ([["a", "a"], None], r"state_names\[0\] must be 2 different names"),
            ([["a", 1], None], r"state_names\[0\] must be strings"),
            (
                [None, "abc"],
                r"state_names\[1\] must be 3 different names, got \['abc'\]",
            ),
        ],
    )
    def test_errors_of_names(self, names, message):
        with pytest.raises(ValueError, match=message):
            FactorGraph([[0, 0], [0, 0, 0]], state_names=names)

    def test_errors_of_labelings(self):
        graph, _ = self.graph()
        wrong = {
            r"labeling has 'red' at variable 2, whose states are \['blue', 'gray'": (
                ["gray", 0, "red"]
            ),
            "labeling has 'gray' at variable 1, whose states have no names": (
                ["gray", "gray", "gray"]
            ),
            "labeling has state 5 at variable 1": ["gray", 5, "gray"],
            "labeling must be integers": ["gray", 0.5, "gray"],
        }
        for message, labeling in wrong.items():
            with pytest.raises(ValueError, match=message):
                graph.score(labeling)
        with pytest.raises(ValueError, match="evidence has 'red' at variable 0"):
            graph.with_evidence({0: "red"})
        with pytest.raises(ValueError, match="must be integers"):
            FactorGraph([[0, 0]]).score(["a"])
        with pytest.raises(ValueError, match="evidence must map int to int"):
            graph.with_evidence({"sky": "blue"})
