"""Belief propagation against sums over all labelings."""

import itertools
import signal
import time

import numpy as np
import pytest
from map_graphs import enumerate_labelings, random_graph
from scipy.special import gammaln, logsumexp

from sksstruct.factor_graphs import FactorGraph, Logic, Potts, TruncatedLinear
from sksstruct.inference.map import TRWS, BeliefPropagation
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.sum_product._forests import draw_forest

KINDS = ["bethe", "trw"]


def exact(graph):
    """log Z, marginals of variables, and those of edges and factors."""
    labelings, scores = enumerate_labelings(graph)
    if scores.max() == -np.inf:
        return -np.inf, None, None
    log_partition = logsumexp(scores)
    p = np.exp(scores - log_partition)
    rows = [
        np.bincount(labelings[:, v], p, minlength=n)
        for v, n in enumerate(graph.n_states)
    ]
    joint = []
    for scope in [*graph.edges, *graph.factor_scopes]:
        table = np.zeros(tuple(graph.n_states[scope]))
        np.add.at(table, tuple(labelings[:, v] for v in scope), p)
        joint.append(table)
    return log_partition, rows, joint


def check_exact(graph, solver, tol=1e-10):
    log_partition, rows, joint = exact(graph)
    result = solver.solve(graph, random_state=0)
    if rows is None:
        assert result.status == "infeasible"
        assert result.log_partition == -np.inf
        assert not result.converged
        return
    assert result.converged
    assert result.status == "settled"
    scale = max(1.0, abs(log_partition))
    assert result.log_partition == pytest.approx(log_partition, abs=tol * scale)
    if solver.kind == "trw":
        assert result.bound == result.log_partition
    else:
        assert result.bound == np.inf
    for found, wanted in zip(result.marginals, rows, strict=True):
        np.testing.assert_allclose(found, wanted, atol=tol)
    for found, wanted in zip(result.factor_marginals, joint, strict=True):
        np.testing.assert_allclose(found, wanted, atol=tol)


def random_tree(rng, scale=1.0, infinite=0.0, weights=False):
    """Edges and larger factors without a cycle."""
    sizes = rng.integers(1, 4, 8)

    def scores(shape):
        values = scale * rng.normal(size=shape)
        return np.where(rng.random(shape) < infinite, -np.inf, values)

    edges, tables, factors, n = [], [], [], 1
    while n < 8:
        new = list(range(n, min(8, n + int(rng.integers(1, 4)))))
        scope = rng.permutation([int(rng.integers(n)), *new])
        if len(scope) == 2:
            edges.append(scope)
            tables.append(scores(tuple(sizes[scope])))
        else:
            factors.append((scope, scores(tuple(sizes[scope]))))
        n += len(new)
    return FactorGraph(
        [scores(k) for k in sizes], edges, tables, factors=factors, offset=rng.normal(),
        edge_weights=rng.uniform(0.1, 2.0, len(edges)) if weights else None,
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "case", [{}, {"infinite": 0.15}, {"weights": True}, {"scale": 1e3}], ids=str
)
def test_trees_are_exact(kind, case):
    solver = BeliefPropagation(kind, tol=1e-12, factors=True)
    for seed in range(12):
        graph = random_tree(np.random.default_rng(seed), **case)
        if seed % 3 == 2:
            # the factors of observed variables are cut down, and put back
            graph = graph.with_evidence({seed % 8: 0, 5: graph.n_states[5] - 1})
        check_exact(graph, solver)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", Logic.conditions)
def test_conditions_match_their_tables(kind, condition):
    solver = BeliefPropagation(kind, tol=1e-12, factors=True)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 6))
        limit = int(rng.integers(n + 2)) if condition == "budget" else None
        table = Logic(condition, n, rng.random(n) < 0.4, limit)
        unaries = (1.0, 1e3)[seed % 2] * rng.normal(size=(n, 2))
        check_exact(FactorGraph(unaries, factors=[(rng.permutation(n), table)]), solver)


@pytest.mark.parametrize("kind", KINDS)
def test_tables_that_are_not_written_out(kind):
    rng = np.random.default_rng(0)
    tables = [Potts(3, 0.7), TruncatedLinear(3, 0.4, 1.0), Potts(3, -2.0)]
    graph = FactorGraph(
        rng.normal(size=(4, 3)), [(0, 1), (2, 1), (1, 3)], tables,
        edge_weights=[1.0, -0.5, 2.0],
    )  # fmt: skip
    check_exact(graph, BeliefPropagation(kind, tol=1e-12, factors=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        {"m": 12, "weights": True, "parametric": True},
        {"m": 4, "factors": 5},
        {"m": 4, "factors": 2, "logic": 3},
        {"m": 8, "infinite": 0.15, "evidence": 1},
    ],
    ids=str,
)
def test_bounds_hold_at_any_time(case):
    """After one sweep as after many; and the estimate is close where it settles."""
    gaps, errors = [], []
    for seed in range(50):
        graph = random_graph(np.random.default_rng(seed), states=(1, 3), **case)
        log_partition, rows, _ = exact(graph)
        for max_iter in (1, 4, 200):
            result = BeliefPropagation("trw", max_iter).solve(graph, random_state=seed)
            slack = 1e-9 * max(1.0, abs(log_partition)) if rows else 0.0
            assert result.bound >= log_partition - slack
            bounds = result.trace["bound"]
            assert (bounds[1:] <= bounds[:-1]).all()
        if rows is None:
            continue
        gaps.append(result.bound - log_partition)
        result = BeliefPropagation().solve(graph)
        if result.converged:
            errors.append(
                max(abs(a - b).max() for a, b in zip(rows, result.marginals, strict=1))
            )
    assert np.median(gaps) < (1.5 if "logic" in case else 0.5)
    assert np.median(errors) < 0.1


def test_reweighted_fixed_points_are_the_bound():
    """Where messages are fixed, the free energy is what the forests have."""
    for seed in range(5):
        graph = random_graph(np.random.default_rng(seed), m=9, factors=2, states=(2, 3))
        results = [
            BeliefPropagation(
                "trw", 5000, tol=1e-10, damping=damping, factors=True
            ).solve(graph, random_state=0)
            for damping in (0.0, 0.3)
        ]
        assert all(result.converged for result in results)
        # one fixed point: the free energy is concave
        assert results[0].bound == pytest.approx(results[1].bound, abs=1e-7)
        for a, b in zip(results[0].marginals, results[1].marginals, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        # factors agree with their variables there
        scopes = [*graph.edges, *graph.factor_scopes]
        for scope, table in zip(scopes, results[0].factor_marginals, strict=True):
            for axis, v in enumerate(scope):
                others = tuple(k for k in range(len(scope)) if k != axis)
                np.testing.assert_allclose(
                    table.sum(axis=others), results[0].marginals[v], atol=1e-6
                )


def test_damping_rises_where_it_must():
    """Messages of reweighted triples go back and forth without."""
    rng = np.random.default_rng(0)
    triples = [
        (rng.choice(40, 3, replace=False), rng.normal(size=(3, 3, 3)))
        for _ in range(60)
    ]
    graph = FactorGraph(rng.normal(size=(40, 3)), factors=triples)
    without = BeliefPropagation("trw", damping=0.0).solve(graph, random_state=0)
    assert without.status == "max_iter"
    found = BeliefPropagation("trw").solve(graph, random_state=0)
    assert found.converged
    assert found.bound < without.bound


def test_a_ring_by_hand():
    """Loops of attraction: beliefs of the plain kind are too sure, bounds hold."""
    ring = FactorGraph(np.zeros((4, 2)), [(0, 1), (1, 2), (2, 3), (3, 0)], Potts(2, 1))
    # the trace of the fourth power of [[e, 1], [1, e]]
    log_partition = np.log((np.e + 1) ** 4 + (np.e - 1) ** 4)
    plain = BeliefPropagation(tol=1e-12).solve(ring)
    assert plain.log_partition == pytest.approx(4 * np.log(np.e + 1))
    reweighted = BeliefPropagation("trw", tol=1e-12).solve(ring, random_state=0)
    assert reweighted.converged
    assert log_partition < reweighted.bound < log_partition + 0.5


def test_forests():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, n=9, m=9, factors=4, logic=seed % 2, states=(2, 2))
        problem = MAPProblem(graph)
        scopes = [*graph.edges.tolist(), *(s.tolist() for s in graph.factor_scopes)]
        factors, parents = draw_forest(problem, rng.permutation(len(scopes)))
        # each factor adds all of its variables but the parent, from the roots on
        below = set()
        for f, place in zip(factors[::-1], parents[::-1], strict=True):
            others = scopes[f][:place] + scopes[f][place + 1 :]
            assert not below & set(others)
            below |= set(others)
        # no other factor could be added
        parts = [{v} for v in range(9)]
        for f in factors:
            parts = [
                *(p for p in parts if not p & set(scopes[f])),
                set().union(*(p for p in parts if p & set(scopes[f]))),
            ]
        for f in set(range(len(scopes))) - set(factors.tolist()):
            assert any(len(p & set(scopes[f])) > 1 for p in parts)


def test_nothing_to_sum():
    assert BeliefPropagation("trw").solve(FactorGraph([], offset=2.0)).bound == 2.0
    alone = FactorGraph([[0.0, 1.0]], evidence={0: 1})
    for kind in KINDS:
        result = BeliefPropagation(kind).solve(alone)
        assert result.log_partition == pytest.approx(1.0)
        assert result.marginals[0].tolist() == [0.0, 1.0]
    shut = FactorGraph([[0.0, -np.inf]], evidence={0: 1})
    assert BeliefPropagation().solve(shut).status == "infeasible"
    # one of three that must all be off
    never = FactorGraph(
        [[0.0, -np.inf]] * 3, factors=[((0, 1, 2), Logic("xor", 3))], offset=7.0
    )
    assert BeliefPropagation("trw").solve(never).status == "infeasible"
    result = BeliefPropagation().solve(never)
    assert result.status == "not_found"
    assert result.log_partition == -np.inf
    # an odd cycle has no labeling either, which the relaxation does not know
    odd = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2), (2, 0)], [[-np.inf, 0], [0, -np.inf]]
    )
    assert BeliefPropagation("trw").solve(odd).bound > -np.inf


def test_limits_and_callbacks():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, n=60, m=200, factors=9, states=(3, 5))
    if hasattr(signal, "setitimer"):
        _check_interrupts(graph)
    for kind in KINDS:
        late = BeliefPropagation(kind).solve(graph, max_seconds=1e-9, random_state=0)
        assert late.status == "time_limit"
        assert late.n_iter == 1
        # before any sweep: the bound holds, and there is one
        if kind == "trw":
            best = TRWS().solve(graph, random_state=0).score
            assert best <= late.bound < np.inf
        seen = []
        result = BeliefPropagation(kind).solve(
            graph, callback=lambda *now, seen=seen: seen.append(now) or len(seen) == 3
        )
        assert result.status == "stopped"
        assert [now[0] for now in seen] == [1, 2, 3]
        if kind == "trw":
            # from the first messages, and once more from the last
            assert result.bound < seen[0][2] < np.inf
        assert BeliefPropagation(kind, 2).solve(graph).status == "max_iter"
    with pytest.raises(ValueError, match="kind"):
        BeliefPropagation("mean_field").solve(graph)
    with pytest.raises(ValueError, match="damping"):
        BeliefPropagation(damping=1.0).solve(graph)
    with pytest.raises(ValueError, match="FactorGraph"):
        BeliefPropagation().solve([graph])
    with pytest.raises(ValueError, match="max_seconds"):
        BeliefPropagation().solve(graph, max_seconds=0)
    many = FactorGraph(np.zeros((21, 2)), factors=[(range(21), Logic("xor", 21))])
    assert BeliefPropagation().solve(many).converged
    with pytest.raises(ValueError, match="factor 0 of the graph has 21"):
        BeliefPropagation(factors=True).solve(many)


def _check_interrupts(graph):
    """A sweep that has begun does not keep Ctrl-C waiting."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            BeliefPropagation("trw", 10**9, tol=0.0).solve(graph, random_state=0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("error")
def test_no_marginals_of_what_is_forbidden():
    """None of the states of a variable, or of the entries of a table, is left."""
    barred = np.array([[1e4, 1e4], [-np.inf, -np.inf], [-np.inf, -np.inf]])
    graph = FactorGraph(
        [[-np.inf, 0, 0], [0, 0.0]], [(0, 1), (0, 1)],
        [barred, np.array([[1e3, 1e3], [0, 0], [0, 0.0]])],
    )  # fmt: skip
    empty = FactorGraph(np.zeros((2, 2)), [(0, 1)], np.full((2, 2), -np.inf))
    assert BeliefPropagation("trw", 1).solve(empty).status == "infeasible"
    for kind, g in itertools.product(KINDS, (graph, empty)):
        result = BeliefPropagation(kind, factors=True).solve(g, random_state=0)
        assert result.status in ("infeasible", "not_found")
        assert result.marginals is result.factor_marginals is None
    statuses = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        case = {"n": 5, "m": 5, "factors": 1, "states": (1, 3)}
        g = random_graph(rng, infinite=(0.2, 0.5)[seed % 2], **case)
        for kind, max_iter in itertools.product(KINDS, (1, 50)):
            result = BeliefPropagation(kind, max_iter, factors=True).solve(g)
            statuses.add(str(result.status))
            if result.status in ("infeasible", "not_found"):
                assert result.marginals is result.factor_marginals is None
                continue
            for part in [*result.marginals, *result.factor_marginals]:
                assert part.sum() == pytest.approx(1.0)
    assert {"infeasible", "settled"} < statuses


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver, n", [(BeliefPropagation(max_iter=2), 2000), (TRWS(max_iter=2), 4000)]
)
def test_large_budgets(solver, n):
    """Not the square of the limit for each variable, nor that of the variables."""
    # gains that are in the wrong order have to be sorted
    gains = np.linspace(0.0, 1e-9, n)
    graph = FactorGraph(
        np.stack([0.0 * gains, gains], axis=1),
        factors=[(range(n), Logic("budget", n, None, n // 2))],
    )
    started = time.process_time()
    result = solver.solve(graph)
    assert time.process_time() - started < 8.0
    if isinstance(solver, TRWS):
        assert result.score == pytest.approx(gains[n // 2 :].sum())
        return
    # half of all labelings, and half of those that use it up
    log_all, log_full = n * np.log(2.0), gammaln(n + 1) - 2 * gammaln(n // 2 + 1)
    wanted = np.logaddexp(log_all, log_full) - np.log(2.0)
    assert result.log_partition == pytest.approx(wanted, abs=1e-5)
