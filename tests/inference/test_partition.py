"""The k best labelings by a solver for the best one."""

import numpy as np
import pytest
from graphs import forests
from hypothesis import given, settings
from hypothesis import strategies as st

from sksstruct.inference import Exhaustive
from sksstruct.inference.search._partition import topk_by_partition


def solver(everything, slack=0.0):
    """Best allowed labeling by enumeration, with a bound that is this much too high."""

    def solve(allowed):
        fits = np.all(
            [mask[everything.labelings[:, v]] for v, mask in enumerate(allowed)],
            axis=0,
        )
        scores = np.where(fits, everything.scores, -np.inf)
        best = int(scores.argmax())
        return everything.labelings[best], scores[best], scores[best] + slack

    return solve


@settings(max_examples=120)
@given(forests(max_variables=4), st.integers(1, 12))
def test_equals_enumeration(forest, k):
    everything = Exhaustive(*forest)
    sizes = [len(row) for row in forest[0]]
    result = topk_by_partition(solver(everything), sizes, k)
    np.testing.assert_array_equal(result.scores, everything.topk(k)[1])
    rows = [tuple(row) for row in result.labelings]
    assert len(set(rows)) == len(rows)
    score_of = dict(
        zip(map(tuple, everything.labelings), everything.scores, strict=True)
    )
    assert [score_of[row] for row in rows] == result.scores.tolist()
    assert result.complete
    assert result.n_visited <= 1 + (k - 1) * len(sizes) * (k > 1)


def test_bounds_that_prove_nothing():
    everything = Exhaustive([[0.0, 1.0], [0.0, 0.5], [0.0, 0.25]])
    assert not topk_by_partition(solver(everything, 0.3), [2] * 3, 3).complete
    result = topk_by_partition(solver(everything, 0.3), [2] * 3, 8)
    # all labelings there are, but their order was not proven
    assert len(result.scores) == 8 and not result.complete
    assert topk_by_partition(solver(everything), [2] * 3, 9).complete


def test_labelings_that_a_solver_does_not_find():
    """What is found is in order, and not said to be all."""
    everything = Exhaustive([[0.0, 1.0], [0.0, 0.5]])
    exact = solver(everything)

    def solve(allowed):
        labeling, score, bound = exact(allowed)
        if labeling.tolist() == [1, 0]:
            return labeling, -np.inf, bound
        return labeling, score, bound

    result = topk_by_partition(solve, [2, 2], 4)
    assert not result.complete and result.scores[0] == 1.5
    assert (np.diff(result.scores) <= 0).all()
    # a worse labeling first: sorted in the end
    calls = []

    def late(allowed):
        calls.append(1)
        if len(calls) == 1:
            return np.array([0, 0]), 0.0, 1.5
        return exact(allowed)

    result = topk_by_partition(late, [2, 2], 4)
    assert result.scores.tolist() == [1.5, 1.0, 0.5, 0.0] and not result.complete
    assert result.scores[0] == pytest.approx(everything.scores.max())
