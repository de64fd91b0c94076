"""Half-integral solutions against the linear program and all labelings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from sksstruct.inference.cuts._reduced_roof import LabelPairs, ReducedRoofDual

SCORES = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])


@st.composite
def problems(draw):
    n = draw(st.integers(1, 5))
    every = [(j, k) for j in range(n) for k in range(j)]
    pairs = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    unary = np.array([draw(SCORES) for _ in range(n)])
    return n, pairs, unary, np.array([draw(SCORES) for _ in pairs])


def score(y, pairs, unary, pairwise):
    both = np.array([y[j] * y[k] for j, k in pairs])
    return float(np.dot(unary, y) + np.dot(pairwise, both))


def by_enumeration(n, pairs, unary, pairwise):
    return max(score(y, pairs, unary, pairwise) for y in product((0, 1), repeat=n))


def reduced(pairs, n, pairwise):
    graph = LabelPairs(pairs, n)
    graph.set_scores(pairwise)
    return ReducedRoofDual(graph)


def by_linear_program(n, pairs, unary, pairwise):
    """The best point, and its value."""
    rows, limits = [], []
    for e, (j, k) in enumerate(pairs):
        for ends, sign, limit in (((j,), 1, 0), ((k,), 1, 0), ((j, k), -1, 1)):
            row = np.zeros(n + len(pairs))
            row[n + e] = sign
            for v in ends:
                row[v] = -sign
            rows.append(row)
            limits.append(limit)
    result = linprog(
        -np.concatenate([unary, pairwise]), rows or None, limits or None,
        bounds=(0, 1),
    )  # fmt: skip
    return result.x[:n], -result.fun


@given(problems())
def test_the_relaxation_is_solved(problem):
    n, pairs, unary, pairwise = problem
    solver = reduced(pairs, n, pairwise)
    for _ in range(2):  # nothing is left of an earlier problem
        y, value = solver.solve(unary)
        assert np.isin(y, (0, 0.5, 1)).all()
        assert value == pytest.approx(by_linear_program(n, pairs, unary, pairwise)[1])
        best = by_enumeration(n, pairs, unary, pairwise)
        assert value >= best - 1e-9
        if not (y == 0.5).any() or (pairwise >= 0).all():
            assert value == pytest.approx(best)
        if not (y == 0.5).any():
            assert score(y, pairs, unary, pairwise) == pytest.approx(best)
        # persistency: some best labeling agrees with what is not one half
        fixed = [y_ for y_ in product((0, 1), repeat=n)
                 if (np.array(y_)[y != 0.5] == y[y != 0.5]).all()]  # fmt: skip
        assert max(score(y_, pairs, unary, pairwise) for y_ in fixed) == pytest.approx(
            best
        )
        exact = solver.graph.best_labels(unary, pairwise)
        assert score(exact, pairs, unary, pairwise) == pytest.approx(best)


def test_bad_problems():
    graph = LabelPairs([(0, 1)], 2)
    with pytest.raises(ValueError, match="unary must have shape"):
        graph.best_labels([0.0], [1.0])
    with pytest.raises(ValueError, match="pairwise must have shape"):
        graph.best_labels([0.0, 0.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="finite"):
        graph.best_labels([0.0, -np.inf], [1.0])
    with pytest.raises(ValueError, match="too many"):
        LabelPairs([], 30).best_labels(np.zeros(30), [])
    with pytest.raises(ValueError):
        LabelPairs([(0, 2)], 2)
