"""Messages of every kind of table, against all pairs written out."""

import numpy as np
import pytest

from sksstruct.factor_graphs import (
    FactorGraph,
    Potts,
    TruncatedLinear,
    TruncatedQuadratic,
)
from sksstruct.inference.map.core.problem import MAPProblem

WIDTHS = [1, 2, 3, 7, 8, 9, 21, 31, 33, 47, 48, 49, 65, 100]


def check(table, weight, rng, peaked):
    dense = table if isinstance(table, np.ndarray) else table.dense()
    rows, cols = dense.shape
    # five edges, so that symmetric tables are looked for
    graph = FactorGraph(
        [np.zeros(rows), np.zeros(cols)], [(0, 1)] * 5, table, edge_weights=[weight] * 5
    )
    problem = MAPProblem(graph)
    for backward in (False, True):
        scores = weight * (dense.T if backward else dense)
        a = rng.normal(size=scores.shape[0]) * (10.0 if peaked else 0.1)
        found = problem.max_product(0, a, backward)
        np.testing.assert_allclose(found, (a[:, None] + scores).max(axis=0), atol=1e-11)


@pytest.mark.parametrize("peaked", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0, -2.0])
@pytest.mark.parametrize("cols", WIDTHS)
def test_dense(cols, weight, peaked):
    rng = np.random.default_rng(cols)
    for rows in (1, 5, 48, 70):
        check(rng.normal(size=(rows, cols)), weight, rng, peaked)
    square = rng.integers(0, 2, (cols, cols)).astype(float)
    check(square + square.T, weight, rng, peaked)


@pytest.mark.parametrize("weight", [1.0, 0.3, 0.0, -2.0])
@pytest.mark.parametrize("size", WIDTHS)
def test_parametric(size, weight):
    rng = np.random.default_rng(size)
    for table in (
        Potts(size, 1.0, 0.0),
        Potts(size, -1.0, 0.5),
        Potts(size).dense(),
        TruncatedLinear(size, 0.3),
        TruncatedLinear(size, 0.3, 1.0),
        TruncatedLinear(size, 0.0, 1.0),
        TruncatedQuadratic(size, 0.2),
        TruncatedQuadratic(size, 0.2, 2.0),
        TruncatedQuadratic(size, 0.0),
        TruncatedQuadratic(size, 1e-3, 0.0),
    ):
        for peaked in (False, True):
            check(table, weight, rng, peaked)


def test_ties_and_constant_messages():
    rng = np.random.default_rng(0)
    for size in (3, 60):
        graph = FactorGraph(
            np.zeros((2, size)), [(0, 1)], rng.integers(0, 2, (size, size))
        )
        problem = MAPProblem(graph)
        found = problem.max_product(0, np.zeros(size))
        np.testing.assert_array_equal(found, graph.tables[0].dense().max(axis=0))


def test_values_are_checked():
    problem = MAPProblem(FactorGraph(np.zeros((2, 3)), [(0, 1)], Potts(3)))
    with pytest.raises(ValueError, match="an entry for each state"):
        problem.max_product(0, np.zeros(2))
