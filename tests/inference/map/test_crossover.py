"""Crossover: cells are what they should be, and the best choice of them is found."""

import itertools

import numpy as np
import pytest
from map_graphs import best_score, random_graph

from sksstruct.factor_graphs import FactorGraph, Logic
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core.problem import MAPProblem
from sksstruct.inference.map.core.run import MAPRun
from sksstruct.inference.map.local_search import _crossover
from sksstruct.inference.map.local_search._crossover import combined
from sksstruct.inference.map.local_search._rounds import RoundSearch
from sksstruct.inference.map.local_search.cells import Cells
from sksstruct.inference.map.local_search.search import LocalSearch


def problem_of(seed, n=9, m=11, **options):
    rng = np.random.default_rng(seed)
    graph = random_graph(
        rng, n=n, m=m, weights=seed % 2, parametric=True, factors=3 * (seed % 3 == 0),
        logic=2 * (seed % 4 == 1), infinite=0.1 * (seed % 5 == 0),
        integers=seed % 7 == 0, **options,
    )  # fmt: skip
    reduced = Reduced(graph)
    if not reduced.feasible:
        return None
    return rng, reduced, MAPProblem(reduced.graph, reduced.penalty)


def slow_cells(graph, labelings):
    """Cells as sets of variables, by the definition."""
    scopes = [*graph.edges.tolist(), *(s.tolist() for s in graph.factor_scopes)]
    alike = [
        [[a == b for a in column] for b in column] for column in labelings.T.tolist()
    ]
    differ = {v for v, rows in enumerate(alike) if not all(map(all, rows))}
    cells = []
    while differ:
        cell, front = set(), [min(differ)]
        while front:
            v = front.pop()
            cell.add(v)
            for scope in scopes:
                if v in scope:
                    front += [
                        u for u in scope if alike[u] == alike[v] and u not in cell
                    ]
        differ -= cell
        cells.append(sorted(cell))
    return cells


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("n_labelings", [2, 3, 5])
def test_the_best_choice_of_all(seed, n_labelings):
    found = problem_of(seed)
    if found is None:
        pytest.skip("infeasible")
    rng, reduced, problem = found
    graph = reduced.graph
    labelings = rng.integers(graph.n_states, size=(n_labelings, graph.n_variables))
    # alike in places, so that cells have more than one variable
    same = rng.random(labelings.shape) < 0.4
    labelings[1:][same[1:]] = np.broadcast_to(labelings[0], labelings.shape)[1:][
        same[1:]
    ]
    cells = slow_cells(graph, labelings)
    kernel = Cells(problem, labelings)
    assert kernel.n_cells == len(cells)
    for k, cell in enumerate(cells):
        assert np.flatnonzero(kernel.cell == k).tolist() == cell
        assert kernel.labeling[kernel.first[k]] == 0
        states = {tuple(x) for x in labelings[:, cell].tolist()}
        assert kernel.first[k + 1] - kernel.first[k] == len(states)
    best = -np.inf
    for choice in itertools.product(range(n_labelings), repeat=len(cells)):
        x = labelings[0].copy()
        for k, cell in zip(choice, cells, strict=True):
            x[cell] = labelings[k][cell]
        best = max(best, problem.labeling_score(x))
        if n_labelings ** len(cells) > 3000:
            break
    child, n_cells = combined(problem, labelings, seed)
    assert n_cells == len(cells)
    score = problem.labeling_score(child)
    scale = 1e-9 * max(1.0, -problem.penalty)
    if n_labelings ** len(cells) > 3000:
        best = max(problem.labeling_score(x) for x in labelings)
        assert score >= best - scale
    else:
        assert score == pytest.approx(best, abs=scale)
    again, _ = combined(problem, labelings, seed)
    np.testing.assert_array_equal(child, again)


@pytest.mark.parametrize("seed", range(8))
def test_all_labelings_where_every_variable_is_a_cell(seed):
    found = problem_of(seed, n=6, m=8, states=(3, 3))
    if found is None:
        pytest.skip("infeasible")
    rng, reduced, problem = found
    graph = reduced.graph
    # Latin squares of the states of each variable, and no two of them alike
    shifts = rng.permutation(5**graph.n_variables)[: 3 * graph.n_variables]
    labelings = np.array(
        [[(s // 5**v) % k for v, k in enumerate(graph.n_states)] for s in shifts]
    )
    assert all(len(cell) == 1 for cell in slow_cells(graph, labelings))
    child, _ = combined(problem, labelings, 0)
    score = problem.labeling_score(child) + reduced.offset
    best = best_score(reduced.given)
    if best > -np.inf:
        assert score == pytest.approx(best, abs=1e-9)
    else:
        assert score < reduced.lowest


def test_one_variable_and_nothing_to_choose():
    problem = MAPProblem(FactorGraph([[0.0, 2.0, 1.0]]))
    child, n_cells = combined(problem, np.array([[0], [2], [1], [1]]), 0)
    assert (child.tolist(), n_cells) == ([1], 1)
    child, n_cells = combined(problem, np.array([[2], [2]]), 0)
    assert (child.tolist(), n_cells) == ([2], 0)
    # ties: the first labeling is as good as any
    problem = MAPProblem(FactorGraph(np.zeros((4, 2)), [(0, 1), (2, 3)], np.eye(2)))
    child, n_cells = combined(problem, np.array([[0, 0, 1, 1], [1, 1, 0, 0]]), 0)
    assert problem.labeling_score(child) == 2.0 and n_cells == 2


def test_conditions_of_too_many_cells():
    n = 40
    graph = FactorGraph(
        np.random.default_rng(0).normal(size=(n, 2)),
        factors=[(np.arange(n), Logic("xor", n))],
    )
    reduced = Reduced(graph)
    problem = MAPProblem(reduced.graph, reduced.penalty)
    labelings = np.eye(n, dtype=np.int32)[:20]
    child, n_cells = combined(problem, labelings, 0)
    assert child is None and n_cells == 20
    # of two labelings no factor is in more than one
    child, n_cells = combined(problem, labelings[:2], 0)
    assert n_cells == 1
    scores = [problem.labeling_score(x) for x in labelings[:2]]
    assert problem.labeling_score(child) == max(scores)


def spin_glass(shape, seed=0):
    rng = np.random.default_rng(seed)
    place = np.arange(shape[0] * shape[1]).reshape(shape)
    edges = np.concatenate([
        np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], 1),
        np.stack([place[:-1].ravel(), place[1:].ravel()], 1),
    ])  # fmt: skip
    fields = rng.uniform(-1, 1, (place.size, 1)) * [1.0, -1.0]
    coupling = rng.uniform(-10, 10, (len(edges), 1, 1))
    return FactorGraph(fields, edges, coupling * [[1.0, -1.0], [-1.0, 1.0]])


def after_rounds(problem, seed, n_rounds):
    """The score after some rounds."""
    left = iter([False] * (n_rounds - 1))
    run = MAPRun(
        problem, 1e-12, 10**9, None, np.random.RandomState(seed),
        callback=lambda *_: next(left, True),
    )  # fmt: skip
    run.offer(np.zeros(problem.n_variables, dtype=np.int32))
    RoundSearch(run).search(1e9)
    assert run.score == pytest.approx(problem.labeling_score(run.labeling))
    return run.score


@pytest.mark.slow
def test_rounds_find_the_ground_state():
    problem = MAPProblem(spin_glass((5, 400)))
    exact = LocalSearch(problem, np.zeros(problem.n_variables, dtype=np.int32), 0)
    assert exact.solve(1e7)
    best = problem.labeling_score(exact.labeling)
    assert after_rounds(problem, 0, 5) == pytest.approx(best, rel=1e-12)


@pytest.mark.slow
def test_rounds_are_better_with_crossover(monkeypatch):
    problem = MAPProblem(spin_glass((30, 30)))
    scores = [after_rounds(problem, seed, 8) for seed in range(3)]
    assert after_rounds(problem, 0, 8) == scores[0]
    monkeypatch.setattr(_crossover.Crossover, "combine", lambda self, x: None)
    without = [after_rounds(problem, seed, 8) for seed in range(3)]
    assert np.mean(scores) > np.mean(without) + 10.0
