"""The parts of GDMM: searches, steps, multipliers."""

import itertools

import numpy as np
import pytest
from map_graphs import random_graph
from scipy.optimize import minimize

from sksstruct.factor_graphs import FactorGraph, Potts, TruncatedLinear
from sksstruct.inference.map import MAPGDMM, MAPBinaryGDMM
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.rounding import round_marginals
from sksstruct.inference.map.gdmm._binary_state import edge_marginals
from sksstruct.inference.map.gdmm._toplists import Lists
from sksstruct.inference.map.gdmm.binary_state import MAPBinaryGDMMState
from sksstruct.inference.map.gdmm.state import MAPGDMMState
from sksstruct.projections import project_simplex


def large_graph(rng, kind="dense", K=60, weights=None):
    edges = [(0, 1), (1, 2), (2, 0), (3, 1)]
    table = {
        "dense": lambda: rng.normal(size=(4, K, K)),
        "shared": lambda: rng.normal(size=(K, K)),
        "ties": lambda: rng.integers(0, 2, (K, K)),
        "potts": lambda: Potts(K, 1.0),
        "repel": lambda: Potts(K, -1.0),
        "linear": lambda: TruncatedLinear(K, 0.1, 2.0),
    }[kind]()
    return FactorGraph(rng.normal(size=(4, K)), edges, table, edge_weights=weights)


def dual_value(graph, state):
    """The Lagrangian's maximum at the multipliers, term by term."""
    weights = np.ones(4) if graph.edge_weights is None else graph.edge_weights
    rows = [np.array(graph.unary(v)) for v in range(4)]
    total = 0.0
    for e, (u, v) in enumerate(graph.edges):
        mu, mv = state.multipliers(e)
        rows[u] += mu
        rows[v] += mv
        table = weights[e] * graph.tables[graph.edge_tables[e]].dense()
        total += (table - mu[:, None] - mv).max()
    return total + sum(row.max() for row in rows)


@pytest.mark.parametrize(
    "weights", [None, [1.0, 0.5, 2.0, 0.0], [1.0, -1.0, 0.3, -2.0]]
)
@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(
    "kind", ["dense", "shared", "ties", "potts", "repel", "linear"]
)
def test_searches_find_the_best_entry(kind, lists, weights):
    """The bound is made of searches: it is the dual value written out."""
    for seed in range(4):
        for K in (3, 60):
            graph = large_graph(np.random.default_rng(seed), kind, K, weights)
            problem = MAPProblem(graph)
            found = Lists(problem, lists)
            state = MAPGDMMState(problem, found, 0.3)
            for _ in range(12):
                state.sweep()
                assert state.bound() == pytest.approx(dual_value(graph, state))
            assert found.visited == 0 or (lists and K == 60)


@pytest.mark.parametrize("logic", [0, 4])
def test_searches_in_larger_factors(logic):
    """The bound once more: tables by their lists, conditions by their gains."""
    for seed in range(12):
        graph = random_graph(
            np.random.default_rng(seed), n=7, m=4, factors=0 if logic else 5, order=4,
            logic=logic, states=(2, 4), integers=seed % 2 == 0,
        )  # fmt: skip
        problem = MAPProblem(graph)
        state = MAPGDMMState(problem, Lists(problem), 0.3)
        for _ in range(12):
            state.sweep()
            rows = [np.array(graph.unary(v)) for v in range(7)]
            total = 0.0
            for k, scope in enumerate([*graph.edges, *graph.factor_scopes]):
                t = np.concatenate([graph.edge_tables, graph.factor_tables])[k]
                table = graph.tables[int(t)].dense()
                for axis, (v, mu) in enumerate(
                    zip(scope, state.multipliers(k), strict=True)
                ):
                    rows[v] += mu
                    shape = [1] * len(scope)
                    shape[axis] = -1
                    table = table - mu.reshape(shape)
                total += table.max()
            total += sum(row.max() for row in rows)
            assert state.bound() == pytest.approx(total)


def state_after_sweeps(order):
    """The state of a graph with factors of an order, and multipliers that are not 0."""
    graph = large_graph(np.random.default_rng(1), "dense", 12)
    if order > 2:
        graph = random_graph(
            np.random.default_rng(1), 4, 3, (3, 3), factors=5, order=order
        )
    state = MAPGDMMState(MAPProblem(graph), Lists(MAPProblem(graph)), 0.5)
    for _ in range(5):
        state.sweep()
    return state


@pytest.mark.parametrize("order", [2, 4])
def test_sweeps_lower_the_lagrangian(order):
    """With fixed multipliers, blocks descend: (6) and (4) of the paper."""
    state = state_after_sweeps(order)
    values = [state.lagrangian()]
    for _ in range(20):
        state.sweep(steps=2, multipliers=False)
        values.append(state.lagrangian())
    assert (np.diff(values) <= 1e-10).all()
    # the marginals stay distributions, and agree with the edges' once converged
    for row in np.split(state.flat_marginals(), 4):
        assert row.min() >= 0
        assert row.sum() == pytest.approx(1.0)


def is_linear(values):
    """The distance to the last value falls geometrically."""
    distance = values - values[-1]
    marks = [np.argmax(distance <= distance[0] * s) for s in (1e-3, 1e-5, 1e-7)]
    assert 0 < marks[0] < marks[1] < marks[2] < len(values) // 2
    # a hundred times as long at a rate of 1 / t, ten times as long at 1 / t^2
    assert marks[2] - marks[1] < 6 * (marks[1] - marks[0])


@pytest.mark.parametrize("order", [2, 4])
def test_a_sweep_closes_a_share_of_the_distance(order):
    """Lemma 5, multipliers fixed."""
    state = state_after_sweeps(order)
    values = [state.lagrangian()]
    for _ in range(400):
        state.sweep(multipliers=False)
        values.append(state.lagrangian())
    is_linear(np.array(values))


@pytest.mark.parametrize("exact", [True, False])
def test_an_iteration_closes_a_share_of_the_distance(exact):
    """Lemma 6, for binary variables and multipliers of zero."""
    rng = np.random.default_rng(0)
    edges = [(u, v) for v in range(8) for u in range(v)]
    graph = FactorGraph(
        np.column_stack([np.zeros(8), rng.normal(size=8)]),
        edges,
        [[0.0, 0.0], [0.0, 1.0]],
        edge_weights=rng.normal(size=len(edges)),
    )
    rho = 0.6
    state = MAPBinaryGDMMState(MAPProblem(graph), rho, 0.0, exact=exact)
    values = []
    for _ in range(400):
        state.grow(100, 100)
        state.iterate()
        values.append(rho / 2 * state.primal_residual**2 - state.value())
    assert (np.diff(values) <= 1e-10).all()
    is_linear(np.array(values))


class PrintedAlgorithm1:
    """Algorithm 1 for edges, by dense arrays; slips of (4) and (8) are corrected."""

    def __init__(self, graph, rho, eta):
        self.edges = graph.edges
        self.theta = [np.array(graph.unary(v)) for v in range(graph.n_variables)]
        self.tables = [graph.tables[t].dense() for t in graph.edge_tables]
        self.rho, self.eta = rho, eta
        self.x = [np.eye(len(row))[row.argmax()] for row in self.theta]
        self.active = [{row.argmax()} for row in self.theta]
        self.y = [np.zeros(table.shape) for table in self.tables]
        self.active_entries = [[] for _ in self.tables]
        self.mu = [[np.zeros(n) for n in table.shape] for table in self.tables]

    def marginals(self, f):
        return self.y[f].sum(axis=1), self.y[f].sum(axis=0)

    def gradient(self, f):
        first, second = (
            self.rho * (says - self.x[v]) + mu
            for says, v, mu in zip(
                self.marginals(f), self.edges[f], self.mu[f], strict=True
            )
        )
        return first[:, None] + second - self.tables[f]

    def update_factor(self, f):
        y, entries = self.y[f], self.active_entries[f]
        best = np.unravel_index(self.gradient(f).argmin(), y.shape)  # (8)
        for v, state in zip(self.edges[f], best, strict=True):
            self.active[v].add(state)
        if not entries:
            y[best] = 1.0
        if best not in entries:
            entries.append(best)
        if len(entries) == 1:
            return
        places, Q = tuple(np.array(entries).T), 2.0 * self.rho
        while True:  # (6), where Q is doubled until it is above the curvature
            step = np.zeros_like(y)
            moved = project_simplex(y[places] - self.gradient(f)[places] / Q)
            step[places] = moved - y[places]
            bent = sum((step.sum(axis=a) ** 2).sum() for a in (0, 1))
            if self.rho * bent <= Q * (step**2).sum() * (1 + 1e-9):
                break
            Q *= 2.0
        y += step
        self.active_entries[f] = [entry for entry in entries if y[entry] > 0.0]

    def update_variable(self, v):
        ends = [(f, e.tolist().index(v)) for f, e in enumerate(self.edges) if v in e]
        z = self.theta[v] / self.rho
        for f, end in ends:
            z = z + self.marginals(f)[end] + self.mu[f][end] / self.rho
        rest = [s for s in range(len(z)) if s not in self.active[v]]
        if rest:  # (7)
            self.active[v].add(max(rest, key=lambda s: self.theta[v][s]))
        places = sorted(self.active[v])
        self.x[v] = np.zeros(len(z))
        self.x[v][places] = project_simplex(z[places] / len(ends))  # (4)
        # one that the projection leaves at zero is not active after all
        if rest and self.x[v][places].min() == 0.0:
            self.active[v] -= {s for s in rest if self.x[v][s] == 0.0}

    def iterate(self, S):
        for _ in range(S):
            for f in range(len(self.edges)):
                self.update_factor(f)
            for v in range(len(self.x)):
                self.update_variable(v)
        for f, ends in enumerate(self.edges):
            for end, v in enumerate(ends):  # (9)
                difference = self.marginals(f)[end] - self.x[v]
                self.mu[f][end] += self.eta * self.rho * difference


@pytest.mark.slow
@pytest.mark.parametrize(("eta", "S"), [(1.0, 1), (0.1, 1), (0.5, 3)])
def test_iterations_are_those_printed(eta, S):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph = FactorGraph(
            rng.normal(size=(4, 5)), [(0, 1), (1, 2), (2, 0), (3, 1)],
            rng.normal(size=(4, 5, 5)), edge_tables=range(4),
        )  # fmt: skip
        problem = MAPProblem(graph)
        state = MAPGDMMState(problem, Lists(problem), 0.5, eta)
        printed, iterates = PrintedAlgorithm1(graph, 0.5, eta), []
        for _ in range(15):
            for s in range(S):
                state.sweep(multipliers=s == S - 1)
            printed.iterate(S)
            x = np.concatenate(printed.x)
            iterates.append(x)
            np.testing.assert_allclose(state.flat_marginals(), x, atol=1e-9)
            for f in range(4):
                for mu, expected in zip(
                    state.multipliers(f), printed.mu[f], strict=True
                ):
                    np.testing.assert_allclose(mu, expected, atol=1e-9)
        result = MAPGDMM(15, 0.0, rho=0.5, eta=eta, sweeps=S).solve(graph)
        x = iterates[result.n_iter - 1]
        np.testing.assert_allclose(np.concatenate(result.marginals), x, atol=1e-9)


@pytest.mark.parametrize("eta", [1.0, 0.1])
def test_steps_of_binary_edges_are_those_printed(eta):
    """(4), (6) and (9) over both states of the variables and four entries."""
    M = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])
    edges = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (4, 0)])
    for seed in range(5):
        rng = np.random.default_rng(seed)
        # all variables are on by themselves, so that all are active from the beginning
        theta = np.column_stack([np.zeros(5), rng.uniform(0.1, 1.0, 5)])
        pair = rng.normal(-0.5, 1.0, 6)
        graph = FactorGraph(theta, edges, [[0.0, 0.0], [0.0, 1.0]], edge_weights=pair)
        state = MAPBinaryGDMMState(MAPProblem(graph), 0.6, eta, exact=False)
        # a rho for each state of a variable
        rho, degree = 0.3, np.bincount(edges.ravel())
        x = np.column_stack([np.zeros(5), np.ones(5)])
        y, mu = np.tile([0.0, 0.0, 0.0, 1.0], (6, 1)), np.zeros((6, 4))
        Q = rho * np.linalg.norm(M, 2) ** 2
        for _ in range(20):
            z = theta / rho
            for f, e in enumerate(edges):
                z[e] += (M @ y[f] + mu[f] / rho).reshape(2, 2)
            x = np.array(list(map(project_simplex, z / degree[:, None])))
            for f, e in enumerate(edges):
                slope = M.T @ (mu[f] + rho * (M @ y[f] - x[e].ravel()))
                slope[3] -= pair[f]
                y[f] = project_simplex(y[f] - slope / Q)
                mu[f] += eta * rho * (M @ y[f] - x[e].ravel())
            state.iterate()
            np.testing.assert_allclose(state.x, x[:, 1], atol=1e-9)
            value = theta[:, 1] @ x[:, 1] + pair @ y[:, 3]
            assert state.value() == pytest.approx(value, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"edge_step": "gradient"},
        {"eta": 0.1},
        {"edge_step": "gradient", "eta": 0.5, "activations": 1, "rho": 0.5},
    ],
    ids=str,
)
def test_options_of_binary_edges_on_trees(options):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        edges = [(rng.integers(v), v) for v in range(1, 8)]
        graph = FactorGraph(
            rng.normal(size=(8, 2)), edges, rng.normal(size=(7, 2, 2)),
            edge_tables=range(7),
        )  # fmt: skip
        result = MAPBinaryGDMM(20_000, 1e-6, **options).solve(graph)
        best = max(map(graph.score, itertools.product((0, 1), repeat=8)))
        assert result.score == pytest.approx(best)
        assert result.bound == pytest.approx(best, abs=1e-4)


def test_one_variable_at_a_time():
    """All variables gain by being on, but only together."""
    n = 20
    u, v = np.triu_indices(n, 1)
    graph = FactorGraph(
        [[0.0, -1.0]] * n, np.column_stack([u, v]), [[0.0, 0.0], [0.0, 1.0]]
    )
    found = [MAPBinaryGDMM(8, activations=k).solve(graph) for k in (1, 4, "auto")]
    on = [int((np.array(each.marginals)[:, 1] > 0).sum()) for each in found]
    assert on[0] < on[1] < on[2]


@pytest.mark.parametrize("solver", [MAPGDMM(eta=0.0), MAPGDMM(sweeps=0),
    MAPBinaryGDMM(eta=-1.0), MAPBinaryGDMM(edge_step="newton"),
    MAPBinaryGDMM(activations=0)], ids=str)  # fmt: skip
def test_bad_parameters(solver):
    with pytest.raises(ValueError, match="parameter of MAP"):
        solver.check()


def test_lists_are_as_deep_as_needed():
    rng = np.random.default_rng(0)
    K = 400
    graph = FactorGraph(
        5 * rng.normal(size=(6, K)), [(v, v + 1) for v in range(5)],
        rng.normal(size=(K, K)),
    )  # fmt: skip
    problem = MAPProblem(graph)
    lists = Lists(problem)
    state = MAPGDMMState(problem, lists, 0.3)
    for _ in range(100):
        state.sweep()
    assert lists.stored < K * K / 10
    assert state.n_slots < 6 * K / 4


def test_rho_is_adapted():
    """From starts that differ by four decades the relaxation is solved alike."""
    graph = random_graph(np.random.default_rng(4), n=7, m=14, states=(3, 3))
    results = [MAPGDMM(tol=1e-5).solve(graph, random_state=0)]
    for scale in (1e-3, 1e3):
        scaled = FactorGraph(
            [scale * graph.unary(v) for v in range(7)], graph.edges, graph.tables,
            edge_tables=graph.edge_tables, edge_weights=[scale] * graph.n_edges,
        )  # fmt: skip
        found = MAPGDMM(tol=1e-5).solve(scaled, random_state=0)
        assert found.score / scale == pytest.approx(
            results[0].score - graph.offset, rel=1e-6
        )


@pytest.mark.slow
def test_edges_of_binary_variables():
    """The exact step of Algorithm 2 against a quadratic program."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = rng.normal(0.5, 1.0, 2)
        c = rng.normal()
        u, v, joint = edge_marginals(a, b, c)
        assert max(0.0, u + v - 1.0) - 1e-12 <= joint <= min(u, v) + 1e-12

        def value(z, a=a, b=b, c=c):
            return 0.5 * (z[0] - a) ** 2 + 0.5 * (z[1] - b) ** 2 - c * z[2]

        best = min(
            (
                minimize(
                    value, start, bounds=[(0, 1)] * 3, method="SLSQP",
                    constraints=[
                        {"type": "ineq", "fun": lambda z: z[0] - z[2]},
                        {"type": "ineq", "fun": lambda z: z[1] - z[2]},
                        {"type": "ineq", "fun": lambda z: z[2] + 1 - z[0] - z[1]},
                    ], options={"ftol": 1e-14},
                )
                for start in ([0.5, 0.5, 0.25], [0.1, 0.9, 0.05])
            ),
            key=lambda found: found.fun,
        )  # fmt: skip
        assert value((u, v, joint)) <= best.fun + 1e-7


def test_binary_graphs_in_terms_of_pairs():
    rng = np.random.default_rng(2)
    graph = random_graph(rng, n=5, m=8, states=(2, 2), weights=True)
    state = MAPBinaryGDMMState(MAPProblem(graph), 1.0)
    for x in itertools.product((0, 1), repeat=5):
        total = state.constant + np.dot(state.unary, x)
        total += sum(
            w * x[u] * x[v] for w, (u, v) in zip(state.pair, graph.edges, strict=True)
        )
        assert total + graph.offset == pytest.approx(graph.score(x))


def test_active_sets_stay_small():
    """Labels that nothing speaks for take no part."""
    n = 200
    u, v = np.triu_indices(n, 1)
    unaries = np.zeros((n, 2))
    unaries[:, 1] = -5.0
    unaries[:5, 1] = 1.0
    weights = np.where((u < 5) & (v < 8), 3.0, -0.1)
    table = np.array([[0.0, 0.0], [0.0, 1.0]])
    graph = FactorGraph(unaries, np.column_stack([u, v]), table, edge_weights=weights)
    state = MAPBinaryGDMMState(MAPProblem(graph), 1.0)
    for _ in range(50):
        state.grow(8, 8)
        state.iterate()
    assert state.n_variables == 8
    assert state.n_active < 100
    assert (state.x > 0.5).nonzero()[0].tolist() == list(range(8))


def test_rounding():
    graph = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)], np.array([[-1.0, 1.0], [1.0, -1.0]])
    )
    marginals = np.array([0.9, 0.1, 0.51, 0.49, 0.5, 0.5])
    rounded, conditional = round_marginals(MAPProblem(graph), marginals)
    assert rounded.tolist() == [0, 0, 0]
    # given the first, the others alternate
    assert graph.score(conditional) == 2.0
    assert graph.score(rounded) == -2.0


def test_conditional_rounding_is_never_below_expectation():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, n=6, m=9, parametric=True, weights=True)
        rows = [rng.dirichlet(np.ones(k)) for k in graph.n_states]
        _, x = round_marginals(MAPProblem(graph), np.concatenate(rows))
        expected = graph.offset
        for v, row in enumerate(rows):
            expected += row @ graph.unary(v)
        for e, (u, v) in enumerate(graph.edges):
            table = graph.tables[graph.edge_tables[e]].dense()
            expected += graph.edge_weights[e] * (rows[u] @ table @ rows[v])
        assert graph.score(x) >= expected - 1e-9


def test_lists_with_many_ties():
    """Deeper lists may order equal entries otherwise, which must not lose any."""
    rng = np.random.default_rng(0)
    graph = FactorGraph(
        rng.integers(0, 2, (4, 60)), [(0, 1), (1, 2), (2, 0), (3, 1)],
        rng.integers(0, 2, (60, 60)),
    )  # fmt: skip
    problem = MAPProblem(graph)
    lists = Lists(problem)
    values = graph.tables[0].dense()
    for line in range(60):
        for column in (False, True):
            scores = values[:, line] if column else values[line]
            taken = np.full(60, -1, dtype=np.int32)
            for k in range(60):
                state = lists.best_outside(0, line, taken, column)
                assert taken[state] < 0
                assert scores[state] == scores[taken < 0].max()
                # any of the states goes, not the best
                taken[rng.choice(np.flatnonzero(taken < 0))] = k
            assert lists.best_outside(0, line, taken, column) == -1


def test_all_attracting_edges_come_in():
    n = 120
    u, v = np.triu_indices(n, 1)
    unaries = np.zeros((n, 2))
    unaries[:, 1] = -1e6
    graph = FactorGraph(unaries, np.column_stack([u, v]), Potts(2, 0.5, 0.0))
    state = MAPBinaryGDMMState(MAPProblem(graph), 1.0)
    for _ in range(1000):
        state.grow(0, 8)
    assert state.n_active == len(u)


def test_flips_end_where_none_gains():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, n=9, m=20, states=(2, 2), weights=True)
        problem = MAPProblem(graph)
        state = MAPBinaryGDMMState(problem, 1.0)
        start = rng.integers(0, 2, 9)
        x = state.local_search(start)
        assert graph.score(x) >= graph.score(start)
        for v in range(9):
            other = x.copy()
            other[v] = 1 - other[v]
            assert graph.score(other) <= graph.score(x) + 1e-9
