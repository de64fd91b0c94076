"""Whole scores, whose bounds are rounded down."""

import numpy as np
import pytest
from map_graphs import best_score, random_graph

from sksstruct.factor_graphs import FactorGraph, Logic, Potts, TruncatedLinear
from sksstruct.inference.map import TRWS, Auto, BranchAndBound, auto
from sksstruct.inference.map.core._reduce import Reduced
from sksstruct.inference.map.core._whole import whole_error

SQUARE = np.array([[1.0, 0.0], [0.0, 2.0]])


def error_of(graph):
    return whole_error(Reduced(graph))


@pytest.mark.parametrize(
    ("graph", "whole"),
    [
        (FactorGraph([[0.0, 3.0], [1.0, -2.0]], [(0, 1)], SQUARE), True),
        (FactorGraph([[0.0, 0.5], [1.0, -2.0]], [(0, 1)], SQUARE), False),
        (FactorGraph([[0.0, 3.0], [1.0, -2.0]], [(0, 1)], SQUARE / 4.0), False),
        (FactorGraph([[0.0, -np.inf], [1.0, 2.0]], [(0, 1)], -SQUARE), True),
        (FactorGraph([[0.0, 1.0]] * 2, [(0, 1)], Potts(2, 1.0, -2.0)), True),
        (FactorGraph([[0.0, 1.0]] * 2, [(0, 1)], Potts(2, 1.0, -2.5)), False),
        (FactorGraph([[0.0, 1.0]] * 2, [(0, 1)], TruncatedLinear(2, 1.5)), False),
        (FactorGraph([[0.0, 1.0]] * 2, [(0, 1)], TruncatedLinear(2)), True),
        (FactorGraph([[0.0, 1.0]] * 3, factors=[((0, 1, 2), Logic("or", 3))]), True),
        # rounding errors of sums of such numbers may be larger than 1
        (FactorGraph([[0.0, 1e12]] * 2, [(0, 1)], SQUARE), False),
    ],
)
def test_which_scores_are_whole(graph, whole):
    error = error_of(graph)
    assert (error is not None) == whole
    if whole:
        assert 0.0 < error < 1e-6


def test_weights_of_edges_count():
    for weight, whole in ((2.0, True), (0.5, False)):
        graph = FactorGraph([[0.0, 1.0]] * 2, [(0, 1)], SQUARE, edge_weights=[weight])
        assert (error_of(graph) is not None) == whole


def test_one_of_many_tables():
    n = 2500
    edges = [(v, v + 1) for v in range(n)]
    tables = np.tile(SQUARE, (n, 1, 1))
    assert error_of(FactorGraph([[0.0, 1.0]] * (n + 1), edges, tables)) is not None
    tables[2300, 1, 1] += 0.25
    assert error_of(FactorGraph([[0.0, 1.0]] * (n + 1), edges, tables)) is None


@pytest.mark.parametrize("solver", [Auto(effort=0), BranchAndBound(max_iter=1)])
def test_bounds_are_whole_and_above_the_optimum(solver, monkeypatch):
    monkeypatch.setattr(auto, "_ELIMINATE", 0.0)
    rounded = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        drawn = random_graph(rng, n=8, m=20, states=(2, 4))
        tables = [np.round(3 * drawn.tables[t].dense()) for t in drawn.edge_tables]
        unaries = [np.round(drawn.unary(v)) for v in range(8)]
        if seed % 3 == 0:
            unaries[3][0] = tables[0][0, 0] = -np.inf
        graph = FactorGraph(unaries, drawn.edges, tables)
        # a short run, before the graph is solved
        result = solver.solve(graph, random_state=0, callback=lambda *_: True)
        best = best_score(graph)
        assert result.bound >= best >= result.score
        if result.bound > result.score:
            assert result.bound == np.round(result.bound)
            rounded += 1
        assert solver.solve(graph, random_state=0).score == best
    assert rounded


def test_rounding_proves_what_the_relaxation_leaves_open(monkeypatch):
    # the relaxation of the odd ring is 5.5, 0.5 above the best labeling
    monkeypatch.setattr(auto, "_ELIMINATE", 0.0)
    n = 5
    unaries = np.zeros((n, 2))
    unaries[0, 0] = 1.0
    edges = [(v, (v + 1) % n) for v in range(n)]
    ring = FactorGraph(unaries, edges, Potts(2, 0.0, 1.0))
    assert TRWS().solve(ring, random_state=0).bound == pytest.approx(5.5)
    result = Auto().solve(ring, random_state=0)
    assert result.plan_ == ["TRW-S"]
    assert result.bound == result.score == best_score(ring) == 5.0
    assert result.status == "optimal"
    assert set(result.trace["part"]) == {"TRW-S"}
