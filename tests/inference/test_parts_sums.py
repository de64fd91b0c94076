"""Sum-product on parts against enumeration and against tables on trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from placements import as_tables, placements

from sksstruct.inference import (
    Exhaustive,
    parts_max_product,
    parts_sum_product,
    sum_product,
)


def expected(problem, sums):
    """The result from probabilities of all pairs of positions."""
    (n_parts, *shape), offsets = problem[0].shape, problem[2]
    log_partition, nodes, edges = sums
    at = np.indices(shape).reshape(2, -1).T
    moves = at[None, :] - at[:, None]
    powers = [
        np.array([(p[:, :, None] * (moves - o) ** k).sum((0, 1)) for p, o in pairs])
        for k in (1, 2)
        for pairs in [list(zip(edges, offsets, strict=True))]
    ]
    return (
        log_partition,
        np.array(nodes).reshape(n_parts, *shape),
        *(power.reshape(-1, 2) for power in powers),
    )


def assert_equal(problem, sums):
    found = parts_sum_product(*problem)
    for name, value, true in zip(
        found._fields, found, expected(problem, sums), strict=True
    ):
        np.testing.assert_allclose(value, true, rtol=1e-9, atol=1e-9, err_msg=name)
    return found


@settings(max_examples=120)
@given(placements())
def test_equals_enumeration(problem):
    everything = Exhaustive(*as_tables(*problem))
    if everything.scores.max() == -np.inf:
        with pytest.raises(ValueError, match="unary must allow at least one placement"):
            parts_sum_product(*problem)
        return
    found = assert_equal(problem, everything.sum_product())
    np.testing.assert_allclose(found.marginals.sum((1, 2)), 1.0, rtol=1e-12)


@pytest.mark.parametrize("seed", range(100))
def test_scores_of_any_size(seed):
    """From the flattest to scores whose exponentials vanish, with -inf between them."""
    rng = np.random.RandomState(seed)
    n_parts, height, width = rng.randint(1, 6), *rng.randint(1, 10, size=2)
    unary = 10.0 ** rng.uniform(-1, 4) * rng.normal(size=(n_parts, height, width))
    unary[rng.rand(*unary.shape) < 0.2] = -np.inf
    unary[:, 0, 0] = np.where(np.isinf(unary.max(axis=(1, 2))), 0.0, unary[:, 0, 0])
    edges = [(rng.randint(v), v) for v in range(1, n_parts) if rng.rand() < 0.9]
    edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
    shape = len(edges), 2
    problem = (
        unary,
        edges,
        2 * rng.normal(size=shape),
        10.0 ** rng.uniform(-5, 3, size=shape) * (rng.rand(*shape) < 0.8),
        10.0 ** rng.uniform(-2, 2) * rng.normal(size=shape),
    )
    assert_equal(problem, sum_product(*as_tables(*problem)))


def test_a_placement_far_below_the_best_of_each_part():
    """Steep springs hold parts where their own scores are hopeless."""
    unary = np.full((2, 1, 40), -np.inf)
    unary[0, 0, [0, 39]] = 0.0, -5000.0
    unary[1, 0, [0, 39]] = -5000.0, 0.0
    # 39^2 springs cost more than either score: both parts are at one end or the other
    problem = unary, [(0, 1)], np.zeros((1, 2)), np.full((1, 2), 1e4), np.zeros((1, 2))
    found = assert_equal(problem, sum_product(*as_tables(*problem)))
    assert found.log_partition == pytest.approx(-5000 + np.log(2))
    np.testing.assert_allclose(found.marginals[0, 0, [0, 39]], 0.5)


def test_cold_distributions_are_the_best_placement():
    rng = np.random.RandomState(0)
    unary = rng.normal(size=(4, 6, 5))
    edges = [(0, 1), (1, 2), (3, 1)]
    best = parts_max_product(unary, edges, 1.0, 0.3, 0.1)
    cold = parts_sum_product(1e5 * unary, edges, 1.0, 0.3e5, 0.1e5)
    assert cold.log_partition == pytest.approx(1e5 * best.score, rel=1e-12)
    rows, columns = best.labeling.T
    assert (cold.marginals[range(4), rows, columns] > 1 - 1e-9).all()
    moves = best.labeling[[1, 2, 1]] - best.labeling[[0, 1, 3]] - 1.0
    np.testing.assert_allclose(cold.displacements, moves, atol=1e-9)
    np.testing.assert_allclose(cold.squares, moves**2, atol=1e-9)


def test_derivatives_of_the_log_partition():
    """Expected features are the slopes, on a grid that tables would not fit."""
    rng = np.random.RandomState(1)
    unary = rng.normal(size=(3, 30, 41))
    edges, shape = [(0, 1), (2, 1)], (2, 2)
    offsets, quadratic, linear = rng.uniform(size=(3, *shape))
    found = parts_sum_product(unary, edges, offsets, quadratic, linear)
    steps = [rng.normal(size=a.shape) for a in (unary, quadratic, linear)]
    slope = (
        (found.marginals * steps[0]).sum()
        - (found.squares * steps[1]).sum()
        + (found.displacements * steps[2]).sum()
    )

    def at(t):
        moved = [
            a + t * d for a, d in zip((unary, quadratic, linear), steps, strict=True)
        ]
        return parts_sum_product(
            moved[0], edges, offsets, moved[1], moved[2]
        ).log_partition

    assert (at(1e-5) - at(-1e-5)) / 2e-5 == pytest.approx(slope, rel=1e-7)


def test_numbers_for_all_edges_and_no_edges():
    rng = np.random.RandomState(0)
    unary = rng.normal(size=(3, 4, 5))
    one = parts_sum_product(unary, [(0, 1), (1, 2)], 1.0, 0.5, 0.25)
    full = [np.full((2, 2), number) for number in (1.0, 0.5, 0.25)]
    many = parts_sum_product(unary, [(0, 1), (1, 2)], *full)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_array_equal(a, b)
    alone = parts_sum_product(unary, [], 0.0, 1.0)
    assert alone.displacements.shape == alone.squares.shape == (0, 2)
    sums = np.exp(unary).sum((1, 2))
    assert alone.log_partition == pytest.approx(np.log(sums).sum())
    with pytest.raises(ValueError, match="quadratic\\[0\\]"):
        parts_sum_product(unary, [(0, 1)], 0.0, -1.0)
