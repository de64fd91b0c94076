"""Cuts of the labels that bounds leave open, beside the LP and all labelings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual
from tests.inference.test_roof_dual import (
    by_enumeration,
    by_linear_program,
    problems,
    reduced,
    score,
)


@given(problems(), st.integers(0, 31))
def test_it_is_the_value_of_the_linear_program(problem, start):
    n, pairs, unary, pairwise = problem
    solver = reduced(pairs, n, pairwise)
    whole = by_linear_program(n, pairs, unary, pairwise)[1]
    best = by_enumeration(n, pairs, unary, pairwise)
    every = np.array(np.meshgrid(*[[0, 1]] * n, indexing="ij")).reshape(n, -1).T
    for first in ((start >> np.arange(n)) & 1, None):
        y, value = solver.solve(unary, first)
        assert np.isin(y, (0, 0.5, 1)).all()
        assert value == pytest.approx(whole)
        if not (y == 0.5).any():
            assert score(y, pairs, unary, pairwise) == pytest.approx(best)
        # some best labeling agrees with what is not one half
        fixed = every[(every == y)[:, y != 0.5].all(axis=1)]
        assert max(score(y_, pairs, unary, pairwise) for y_ in fixed) == pytest.approx(
            best
        )
    np.testing.assert_array_equal(
        solver.solve_all(unary[None])[0] / 2, solver.solve(unary)[0]
    )


@pytest.mark.parametrize("size", [0.1, 0.3, 1.5, 3.0])
def test_it_is_the_point_of_the_linear_program_where_that_is_unique(size):
    rng = np.random.RandomState(0)
    n = 30
    pairs = np.column_stack(np.triu_indices(n, 1))
    pairs = pairs[rng.uniform(size=len(pairs)) < 0.5]
    solver, halves = None, 0
    for _ in range(30):
        unary = rng.standard_normal(n)
        pairwise = size * rng.standard_normal(len(pairs)) / 3
        pairwise[rng.uniform(size=len(pairs)) < 0.2] = 0.0
        # the same graph with other scores each time
        solver = solver or reduced(pairs, n, pairwise)
        solver.graph.set_scores(pairwise)
        y, value = solver.solve(unary, rng.randint(2, size=n))
        expected = by_linear_program(n, pairs, unary, pairwise)
        np.testing.assert_allclose(y, expected[0], atol=1e-7)
        assert value == pytest.approx(expected[1])
        halves += (y == 0.5).any()
    # with weak pairs bounds fix nearly all labels, with strong ones cuts are needed
    assert (solver.n_cut < 30 * n / 5) == (size < 0.5)
    assert (halves > 0) == (size > 0.5)


def test_labels_that_only_flip_together():
    # none gains alone, all three do
    pairs = [(0, 1), (1, 2), (0, 2)]
    solver = reduced(pairs, 4, [1.0, 1.0, 1.0])
    y, value = solver.solve([-0.9, -0.9, -0.9, 0.0], [0, 0, 0, 0])
    assert y.tolist() == [1, 1, 1, 0]
    assert value == pytest.approx(0.3)
    assert solver.n_cut == 3
    # and back
    y, value = solver.solve([-1.1, -1.1, -1.1, -1.0], [1, 1, 1, 0])
    assert y.tolist() == [0, 0, 0, 0]
    assert value == 0.0


def test_ties_leave_the_labeling_whole():
    solver = reduced([(0, 1)], 2, [2.0])
    y, value = solver.solve([-1.0, -1.0], [0, 0])
    assert y.tolist() == [0, 0]
    assert value == 0.0
    assert solver.solve([0.0, 0.0], [0, 0])[1] == 2.0


def test_bad_problems():
    graph = LabelPairs([(0, 1)], 2)
    with pytest.raises(ValueError, match="pairwise must have shape"):
        graph.set_scores([1.0, 2.0])
    with pytest.raises(
        ValueError, match=r"pairwise\[0\] must be finite or -inf, got inf"
    ):
        graph.set_scores([np.inf])
    with pytest.raises(ValueError, match="scores must be finite"):
        graph.set_scores([-np.inf])
    solver = ReducedRoofDual(graph)
    with pytest.raises(ValueError, match="unary must have shape"):
        solver.solve([1.0])
    with pytest.raises(ValueError, match="scores must be finite"):
        solver.solve([1.0, -np.inf])
    with pytest.raises(ValueError, match="2 columns, got 3"):
        solver.solve_all(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="scores must be finite"):
        solver.solve_all(np.full((1, 2), -np.inf))
    # no pairs at all, and no rows
    assert ReducedRoofDual(LabelPairs([], 2)).solve([1.0, -1.0])[0].tolist() == [1, 0]
    assert solver.solve_all(np.zeros((0, 2))).shape == (0, 2)
