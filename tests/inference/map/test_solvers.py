"""Every solver against enumeration and the linear program."""

from functools import cache

import numpy as np
import pytest
from enumeration import Enumeration
from map_graphs import best_score, random_graph, slow_score

from sksstruct.factor_graphs import FactorGraph, Logic, Potts
from sksstruct.inference.map import (
    AD3,
    MAP_SOLVERS,
    MAPGDMM,
    MPLP,
    TRWS,
    Auto,
    BeliefPropagation,
    BranchAndBound,
    HiGHS,
    MAPBinaryGDMM,
    Tightened,
    resolve_map_solver,
)

GENERAL = [
    Auto(), TRWS(), MPLP(), MAPGDMM(), AD3(max_iter=300), HiGHS(relaxed=True), HiGHS(),
    BranchAndBound(), Enumeration(), Tightened(),
]  # fmt: skip
BINARY = [*GENERAL, MAPBinaryGDMM()]
CASES = {
    "ties": dict(integers=True),
    "weights": dict(weights=True, parametric=True),
    "infinite": dict(infinite=0.15),
    "evidence": dict(evidence=2, parametric=True),
    "one state": dict(states=(1, 2)),
    "no edges": dict(m=0),
    "one variable": dict(n=1),
    "parallel": dict(n=3, m=9),
    "binary": dict(states=(2, 2), weights=True),
}


def name(solver):
    return type(solver).__name__ + ("-relaxed" if getattr(solver, "relaxed", 0) else "")


def check(solver, graph, optimum, lp=None):
    result = solver.solve(graph, random_state=0)
    assert graph.score(result.labeling) == pytest.approx(result.score, abs=1e-8)
    assert slow_score(graph, result.labeling) == pytest.approx(result.score, abs=1e-8)
    tol = 1e-6 * max(1.0, abs(optimum)) if optimum > -np.inf else 0.0
    assert result.score <= optimum + 1e-9
    if optimum == -np.inf:
        assert result.status in ("infeasible", "not_found")
        return result
    assert result.bound >= optimum - tol
    # clusters are there to be below the relaxation
    if lp is not None and result.status != "optimal" and name(solver) != "Tightened":
        assert result.bound >= lp - tol
    if result.status == "optimal":
        assert result.score >= optimum - 2 * tol
    if result.marginals is not None:
        assert len(result.marginals) == graph.n_variables
        for n, x in zip(graph.n_states, result.marginals, strict=True):
            assert x.shape == (n,)
            assert x.min() >= 0
            assert x.sum() == pytest.approx(1.0)
    return result


@cache
def solved(seed, **kind):
    """A graph, its best score, and the value of its relaxation."""
    graph = random_graph(np.random.default_rng(seed), **kind)
    found = HiGHS(relaxed=True).solve(graph, random_state=0)
    lp = found.bound if found.status in ("optimal", "fractional") else None
    return graph, best_score(graph), lp


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("solver", GENERAL, ids=name)
def test_pairwise(solver, case):
    for seed in range(6):
        check(solver, *solved(seed, **CASES[case]))


@pytest.mark.parametrize("solver", GENERAL, ids=name)
@pytest.mark.parametrize("logic", [0, 3])
def test_larger_factors(solver, logic):
    for seed in range(8):
        check(solver, *solved(
            seed, m=4, factors=3, order=4, logic=logic,
            infinite=0.1 * (seed % 3 == 0 and not logic), integers=seed % 4 == 0,
            evidence=seed % 2,
        ))  # fmt: skip


@pytest.mark.parametrize("solver", BINARY, ids=name)
def test_binary(solver):
    for seed in range(6):
        check(solver, *solved(seed, n=8, m=14, states=(2, 2)))


@pytest.mark.parametrize("solver", [TRWS(), MPLP(), MAPGDMM(), AD3(), Auto()], ids=name)
def test_trees_are_solved(solver):
    rng = np.random.default_rng(1)
    for states in (2, 5, 60):
        n = 9
        edges = [(v, int(rng.integers(v))) for v in range(1, n)]
        graph = FactorGraph(
            rng.normal(size=(n, states)),
            edges,
            rng.normal(size=(n - 1, states, states)),
        )
        exact = HiGHS().solve(graph) if states < 10 else Auto().solve(graph)
        result = solver.solve(graph, random_state=0)
        assert result.status == "optimal"
        assert result.score == pytest.approx(exact.score, abs=1e-5)
        # by bounds, not only by elimination: the relaxation is tight on trees
        assert result.bound == pytest.approx(exact.score, abs=2e-5 * abs(exact.score))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [{"n": 7, "m": 14}, {"n": 7, "m": 3, "factors": 9, "order": 4}], ids=str
)
@pytest.mark.parametrize("solver", [MAPGDMM(tol=1e-5), AD3(tol=1e-5)], ids=name)
def test_multipliers_solve_the_relaxation(solver, kind):
    """Where it is fractional: the value of the marginals is that of the program."""
    seen = 0
    for seed in range(12):
        graph = random_graph(np.random.default_rng(seed), states=(3, 3), **kind)
        lp = HiGHS(relaxed=True).solve(graph, random_state=0)
        result = solver.solve(graph, random_state=0)
        assert result.bound >= lp.bound - 1e-6
        if lp.status == "fractional" and result.status == "fractional":
            seen += 1
            assert result.bound == pytest.approx(lp.bound, rel=1e-3)
    assert seen >= 3


def test_binary_gdmm_solves_the_relaxation():
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, n=8, m=20, states=(2, 2))
        lp = HiGHS(relaxed=True).solve(graph, random_state=0)
        solver = MAPBinaryGDMM(max_iter=20_000, patience=20_000, tol=1e-5)
        result = solver.solve(graph, random_state=0)
        assert result.status in ("optimal", "fractional")
        if result.status == "fractional":
            seen += 1
            assert result.bound == pytest.approx(lp.bound, rel=1e-3, abs=1e-3)
    assert seen >= 3


def attraction(rng, n, m):
    """Edges that attract, most of them between variables that are off by themselves."""
    edges = [rng.choice(n, 2, replace=False) for _ in range(m)]
    unaries = np.column_stack([np.zeros(n), rng.normal(-2.0, 2.0, n)])
    weights = rng.exponential(0.5, m)
    return FactorGraph(
        unaries, edges, np.array([[0.0, 0.0], [0.0, 1.0]]), edge_weights=weights
    )


@pytest.mark.slow
def test_binary_gdmm_does_not_stop_before_the_relaxation_is_solved():
    """By default, as long as the bound falls: it was up to a third too high."""
    shares, statuses = [], set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 30))
        graph = (
            attraction(rng, n, 6 * n)
            if seed % 3 == 0
            else random_graph(
                rng, n, 3 * n, states=(2, 2), integers=seed % 3 == 1, weights=True
            )
        )
        lp = HiGHS(relaxed=True).solve(graph, random_state=0).bound
        result = MAPBinaryGDMM().solve(graph, random_state=0)
        statuses.add(str(result.status))
        shares.append((result.bound - lp) / max(1.0, abs(lp)))
    assert min(shares) >= -1e-6
    # a few of the augmented Lagrangian's spirals are longer than the patience
    assert np.quantile(shares, 0.9) <= 1e-4
    assert max(shares) <= 2e-3
    assert {"optimal", "fractional"} <= statuses


def test_edges_that_are_left_out_need_not_weigh_on_the_bound():
    """Their ends lose by being on, and pay for what the edge attracts."""
    n = 40
    edges = [(i, j) for i in range(n) for j in range(i)]
    unaries = np.column_stack([np.zeros(n), np.full(n, -3.0)])
    graph = FactorGraph(unaries, edges, np.array([[0.0, 0.0], [0.0, 0.1]]))
    # 780 edges of 0.1, of which 32 can be active so far
    early = MAPBinaryGDMM(max_iter=4).solve(graph, random_state=0)
    assert 0.0 <= early.bound < 5.0
    result = MAPBinaryGDMM().solve(graph, random_state=0)
    assert result.status == "optimal"
    assert result.bound == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("solver", [TRWS(search=False), MPLP(search=False)], ids=name)
def test_bounds_never_rise(solver):
    for seed in range(5):
        graph = random_graph(np.random.default_rng(seed), n=10, m=20, states=(2, 6))
        trace = solver.solve(graph, random_state=0).trace
        assert (np.diff(trace["bound"]) <= 0).all()
        assert (np.diff(trace["score"]) >= 0).all()
        assert (np.diff(trace["seconds"]) >= 0).all()


@pytest.mark.parametrize("more", [{}, {"factors": 6}, {"factors": 3, "logic": 3}])
def test_sweeps_never_raise_the_bound(more):
    """The kernels themselves, without the running minimum of the trace."""
    from sksstruct.inference.map.core._reduce import Reduced
    from sksstruct.inference.map.core.problem import MAPProblem
    from sksstruct.inference.map.message_passing.sweeps import (
        MaxProductLP,
        TreeReweighted,
    )

    for seed in range(5):
        edges = 8 if more else 20
        rng = np.random.default_rng(seed)
        reduced = Reduced(random_graph(rng, n=10, m=edges, states=(2, 6), **more))
        graph = reduced.graph
        problem = MAPProblem(graph, reduced.penalty)
        lp = HiGHS(relaxed=True).solve(graph).bound - graph.offset
        for messages in (TreeReweighted(problem), MaxProductLP(problem)):
            bounds = []
            for k in range(30):
                alternate = isinstance(messages, TreeReweighted)
                messages.sweep(k % 2 == 1)
                bounds.append(messages.bound)
                if alternate:
                    found = problem.labeling_score(messages.labeling)
                    assert messages.score == pytest.approx(found)
            scale = max(1.0, np.abs(bounds).max(), -reduced.penalty)
            assert (np.diff(bounds) <= 1e-9 * scale).all()
            assert bounds[-1] >= lp - 1e-6


def test_of_equal_states_sweeps_choose_the_first():
    from sksstruct.inference.map.core.problem import MAPProblem
    from sksstruct.inference.map.message_passing.sweeps import TreeReweighted

    graph = FactorGraph([[0, 1, 1.0]] * 3, [(0, 1), (1, 2)], Potts(3))
    messages = TreeReweighted(MAPProblem(graph))
    for backward in (False, True):
        messages.sweep(backward)
        assert messages.labeling.tolist() == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize("condition", Logic.conditions)
def test_conditions_match_their_tables(condition, negated):
    """The closed forms of max-marginals against the condition written out."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 6))
        flip = rng.random(n) < 0.5 if negated else np.zeros(n, dtype=bool)
        limit = int(rng.integers(n + 2)) if condition == "budget" else None
        table = Logic(condition, n, flip, limit)
        unaries = rng.integers(-2, 3, (n, 2)) if seed % 2 else rng.normal(size=(n, 2))
        scope = rng.permutation(n)
        graph = FactorGraph(unaries, factors=[(scope, table)])
        dense = FactorGraph(unaries, factors=[(scope, table.dense())])
        optimum = best_score(dense)
        for g in (graph, dense):
            for solver in (TRWS(), MPLP(max_iter=200), MAPGDMM()):
                result = solver.solve(g, random_state=0)
                assert result.score == pytest.approx(optimum)
                # one factor: the relaxation is exact
                assert result.bound == pytest.approx(optimum, abs=1e-5)
        lp = HiGHS(relaxed=True).solve(graph)
        assert lp.bound == pytest.approx(optimum, abs=1e-6)


def test_infeasible_graphs():
    never = FactorGraph(
        np.zeros((2, 2)), [(0, 1)], np.full((2, 2), -np.inf), evidence=None
    )
    for solver in (Auto(), TRWS(), HiGHS(relaxed=True), Enumeration()):
        result = solver.solve(never)
        assert result.status in ("infeasible", "not_found")
        assert result.score == -np.inf
    shut = FactorGraph([[0.0, -np.inf]], evidence={0: 1})
    result = Auto().solve(shut)
    assert result.status == "infeasible"
    assert result.bound == -np.inf
    assert result.labeling.tolist() == [1]


@pytest.mark.parametrize("solver", GENERAL, ids=name)
def test_allowed_states_that_score_less(solver):
    """A negative weight makes the lowest score of the highest entry."""
    table = np.array([[5, 5], [5, 4], [0, 0.0]])
    graph = FactorGraph(
        [[0, 0, -np.inf], [0, 0.0]], [(0, 1)], table, edge_weights=[-2.0]
    )
    assert check(solver, graph, -8.0).score == -8.0


def test_no_variables():
    result = Auto().solve(FactorGraph([], offset=2.0))
    assert result.status == "optimal"
    assert result.score == result.bound == 2.0


def test_same_seed_same_result():
    graph = random_graph(np.random.default_rng(0), n=30, m=90, states=(2, 5))
    for solver in (Auto(), TRWS(), MAPGDMM(max_iter=50)):
        first = solver.solve(graph, random_state=3)
        again = solver.solve(graph, random_state=3)
        np.testing.assert_array_equal(first.labeling, again.labeling)
        assert first.score == again.score
        assert first.bound == again.bound


@pytest.mark.slow
def test_limits_and_callbacks(capsys):
    graph = random_graph(np.random.default_rng(0), n=60, m=200, states=(3, 5))
    seen = []
    result = TRWS().solve(
        graph, callback=lambda *now: seen.append(now) or len(seen) == 3
    )
    assert len(seen) == 3
    assert seen[-1][0] == 3
    assert seen[-1][1] <= seen[-1][2]
    assert result.n_iter == 3
    # too large to be proved in so short a time
    graph = random_graph(np.random.default_rng(0), n=300, m=1500, states=(3, 5))
    result = Auto(effort=1e9).solve(graph, max_seconds=0.3, random_state=0)
    assert result.status == "time_limit"
    assert result.trace["seconds"][-1] < 5.0
    assert TRWS(max_iter=2).solve(graph).status == "max_iter"
    TRWS(max_iter=2).solve(graph, verbose=1)
    assert "bound" in capsys.readouterr().out


def test_refusals():
    cube = FactorGraph(np.zeros((3, 2)), factors=[((0, 1, 2), np.zeros((2, 2, 2)))])
    for solver in (MAPBinaryGDMM(),):
        with pytest.raises(ValueError, match="1 of three or more"):
            solver.solve(cube)
    # evidence cuts it down
    assert TRWS().solve(cube.with_evidence({0: 1})).status == "optimal"
    three = FactorGraph(np.zeros((2, 3)), [(0, 1)], Potts(3))
    with pytest.raises(ValueError, match="two states"):
        MAPBinaryGDMM().solve(three)
    with pytest.raises(ValueError, match="labelings"):
        Enumeration(max_iter=8).solve(three)
    with pytest.raises(ValueError, match="FactorGraph"):
        TRWS().solve([1, 2])
    with pytest.raises(ValueError, match="max_seconds"):
        TRWS().solve(three, max_seconds=0)
    with pytest.raises(ValueError, match="max_iter"):
        TRWS(max_iter=0).solve(three)
    with pytest.raises(ValueError, match="solver must be"):
        resolve_map_solver("simplex")
    assert all(resolve_map_solver(s, tol=0.1).tol == 0.1 for s in MAP_SOLVERS)


@pytest.mark.parametrize("solver", GENERAL, ids=name)
def test_conditions_of_two_variables(solver):
    for condition in Logic.conditions:
        limit = 1 if condition == "budget" else None
        table = Logic(condition, 2, [False, True], limit)
        graph = FactorGraph(
            [[0, 1.0], [0, 2.0], [0.5, 0]], factors=[((0, 1), table), ((1, 2), table)]
        )
        check(solver, graph, best_score(graph))
    with pytest.raises(ValueError, match="must be positive"):
        FactorGraph(np.zeros((2, 2)), [(0, 1)], Logic("xor", 2), edge_weights=[0.0])


@pytest.mark.parametrize("solver", GENERAL, ids=name)
def test_evidence_that_forbids_everything(solver):
    never, eye = np.array([[-np.inf, -np.inf], [0, 0]]), np.eye(2)
    row = FactorGraph(np.zeros((3, 2)), [(0, 1), (1, 2)], [never, eye], evidence={0: 0})
    both = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)], [never, eye], evidence={0: 0, 1: 1}
    )
    # one state of a neighbor is left, which leaves none of the next
    chain = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)],
        [np.array([[0.0, -np.inf], [0, 0]]), never], evidence={0: 0},
    )  # fmt: skip
    for graph in (row, both, chain):
        result = solver.solve(graph)
        assert result.status == "infeasible"
        assert result.bound == -np.inf


def test_auto_stops_when_told():
    full = [(u, v) for u in range(40) for v in range(u)]
    rng = np.random.default_rng(0)
    graph = FactorGraph(
        rng.normal(size=(40, 3)), full, rng.normal(size=(len(full), 3, 3))
    )
    calls = []
    result = Auto().solve(graph, callback=lambda *now: calls.append(now) or True)
    assert len(calls) == 1
    assert result.status == "stopped"


def test_many_edges_are_searched(monkeypatch):
    import sksstruct.inference.map.auto as auto

    full = [(u, v) for u in range(24) for v in range(u)]
    rng = np.random.default_rng(1)
    graph = FactorGraph(
        rng.normal(size=(24, 2)), full, rng.normal(size=(len(full), 2, 2))
    )
    usual = Auto().solve(graph, random_state=0)
    monkeypatch.setattr(auto, "_MANY_EDGES", 100)
    many = Auto().solve(graph, random_state=0)
    assert many.score == pytest.approx(usual.score)
    assert many.plan_[0].startswith("GDMM of binary variables")
    assert many.bound >= many.score


def test_long_chains_are_eliminated_at_once():
    rng = np.random.default_rng(0)
    n = 20_000
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    graph = FactorGraph(rng.normal(size=(n, 5)), edges, rng.normal(size=(5, 5)))
    result = Auto().solve(graph)
    assert result.status == "optimal"
    assert result.n_iter == 1
    assert TRWS(search=False).solve(graph).score == pytest.approx(result.score)


def test_evidence_beside_tables_that_are_not_written_out():
    n = 9000
    graph = FactorGraph(
        [np.zeros(n), np.arange(n) / n, np.zeros(n)], [(0, 1), (1, 2)],
        Potts(n, 0.5), evidence={0: 5},
    )  # fmt: skip
    result = TRWS().solve(graph)
    assert result.status == "optimal"
    assert result.score == pytest.approx((n - 1) / n + 0.5)


def test_scores_of_very_different_sizes():
    """Penalties are beyond rounding; what cannot be told apart is refused."""
    graph = FactorGraph(
        [[0, 1e12, -np.inf], [0, 1, 2.0]], [(0, 1)],
        np.array([[0, 0, 0], [-np.inf] * 3, [0, 0, 0]]),
    )  # fmt: skip
    for solver in (Auto(), TRWS(), HiGHS()):
        assert solver.solve(graph).score == pytest.approx(2.0)


@pytest.mark.parametrize(
    "unary, table, weight",
    [
        ([[0.0, 1e308], [0, -1e308]], [[0.0, -np.inf], [0.0, 0.0]], 1.0),
        ([[1e308, 1e308], [1e308, 0.0]], np.zeros((2, 2)), 1.0),
        (np.zeros((2, 2)), [[0.0, -1e308], [0.0, 0.0]], 1.0),
        (np.zeros((2, 2)), [[0.0, 1e200], [0.0, 0.0]], -1e200),
    ],
)
@pytest.mark.parametrize("solver", [Auto(), TRWS(), BranchAndBound()])
def test_sums_that_overflow(unary, table, weight, solver):
    graph = FactorGraph(unary, [(0, 1)], table, edge_weights=[weight])
    with pytest.raises(ValueError, match="too large"):
        solver.solve(graph)


@pytest.mark.parametrize("solver", [Auto(), TRWS(), BeliefPropagation()])
def test_forced_sums_that_overflow(solver):
    """They are not the -inf of labelings that are not allowed."""
    with pytest.raises(ValueError, match="too large"):
        solver.solve(FactorGraph([[-1e308], [-1e308]]))
