"""Parts with types of springs: the best positions and types, by enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from placements import placements

from sksstruct.inference import max_marginals, max_product, parts_max_product
from sksstruct.inference.parts._parts import PartsTree
from sksstruct.inference.parts._topk import BestPlacements

NUMBERS = {
    "offsets": [-2.0, -0.5, 0.0, 1.0],
    "quadratic": [0.0, 0.25, 1.0, 2.0],
    "linear": [-1.0, 0.0, 0.5],
}


@st.composite
def typed_placements(draw, max_parts=3, max_side=2, max_types=3):
    """Parts on a forest, with dyadic numbers, so that all sums are exact."""
    unary, edges, *_ = draw(placements(max_parts, max_side))
    n_types, (_, height, width) = draw(st.integers(1, max_types)), unary.shape
    shape = (len(edges), n_types)
    springs = [
        draw(hnp.arrays(np.float64, (*shape, 2), elements=st.sampled_from(values)))
        for values in NUMBERS.values()
    ]
    scores = st.sampled_from([-np.inf, -1.0, 0.0, 0.5])
    bias = draw(hnp.arrays(np.float64, shape, elements=scores))
    ends = None
    if draw(st.booleans()):
        shape = (*shape, 2, height, width)
        ends = draw(hnp.arrays(np.float64, shape, elements=scores))
    return unary, np.array(edges, dtype=int).reshape(-1, 2), *springs, bias, ends


def as_tables(unary, edges, offsets, quadratic, linear, bias, ends):
    """Scores of pairs of positions for each edge and type."""
    p, height, width = unary.shape
    at = np.indices((height, width)).reshape(2, -1).T
    tables = np.empty((*bias.shape, len(at), len(at)))
    for e, t in np.ndindex(bias.shape):
        d = at[None, :] - at[:, None] - offsets[e, t]
        tables[e, t] = (linear[e, t] * d - quadratic[e, t] * d**2).sum(axis=2)
        tables[e, t] += bias[e, t]
        if ends is not None:
            first, second = ends[e, t].reshape(2, -1)
            tables[e, t] += first[:, None] + second
    return unary.reshape(p, -1), tables


def score_of(unary, edges, tables, cells, types):
    value = sum(row[cell] for row, cell in zip(unary, cells, strict=True))
    pairs = zip(edges, types, strict=True)
    return value + sum(tables[e, t][cells[u], cells[v]] for e, ((u, v), t) in
                       enumerate(pairs))  # fmt: skip


@settings(max_examples=120)
@given(typed_placements())
def test_equals_enumeration(problem):
    unary, tables = as_tables(*problem)
    edges, bias = problem[1], problem[5]
    positions, types, score = PartsTree(*problem).max_product()
    best = max(
        score_of(unary, edges, tables, cells, chosen)
        for cells in itertools.product(range(unary.shape[1]), repeat=len(unary))
        for chosen in itertools.product(range(bias.shape[1]), repeat=len(edges))
    )
    assert score == best
    if best > -np.inf:
        cells = positions[:, 0] * problem[0].shape[2] + positions[:, 1]
        assert score_of(unary, edges, tables, cells, types) == best


@settings(max_examples=100)
@given(typed_placements(), st.sampled_from([1, 2, 5, 30, 10**6]), st.booleans())
def test_k_best(problem, k, with_types):
    """Labelings with types, or placements that have their best types."""
    unary, tables = as_tables(*problem)
    p, n_edges, scores = len(unary), len(problem[1]), {}
    for cells in itertools.product(range(unary.shape[1]), repeat=p):
        for types in itertools.product(range(problem[5].shape[1]), repeat=n_edges):
            score = score_of(unary, problem[1], tables, cells, types)
            key = cells + types if with_types else cells
            scores[key] = max(score, scores.get(key, -np.inf))
    expected = sorted((s for s in scores.values() if s > -np.inf), reverse=True)[:k]
    found = list(map(tuple, BestPlacements(*problem).find(k, with_types).tolist()))
    assert len(set(found)) == len(found)
    assert [scores[each] for each in found] == expected


@settings(max_examples=60)
@given(typed_placements())
def test_max_marginals(problem):
    unary, tables = as_tables(*problem)
    if not len(problem[1]):
        tables = np.zeros((0, 1, unary.shape[1], unary.shape[1]))
    found = PartsTree(*problem).max_marginals()
    expected = max_marginals(list(unary), problem[1], tables.max(axis=1))
    np.testing.assert_array_equal(found.reshape(unary.shape), expected)


@settings(max_examples=60)
@given(typed_placements(max_parts=5, max_side=4, max_types=4))
def test_larger_trees(problem):
    """The best types of every pair of positions, in tables."""
    unary, tables = as_tables(*problem)
    if not len(problem[1]):
        tables = np.zeros((0, 1, unary.shape[1], unary.shape[1]))
    _, _, score = PartsTree(*problem).max_product()
    assert score == max_product(list(unary), problem[1], tables.max(axis=1))[1]


def test_one_type_is_none():
    rng = np.random.RandomState(0)
    unary, edges = rng.normal(size=(4, 9, 7)), np.array([(0, 1), (2, 1), (1, 3)])
    offsets, linear = rng.normal(size=(2, 3, 1, 2))
    quadratic = rng.uniform(size=(3, 1, 2))
    positions, types, score = PartsTree(
        unary, edges, offsets, quadratic, linear, np.zeros((3, 1))
    ).max_product()
    plain = parts_max_product(
        unary, edges, offsets[:, 0], quadratic[:, 0], linear[:, 0]
    )
    np.testing.assert_array_equal(positions, plain.labeling)
    assert score == pytest.approx(plain.score, rel=1e-14)
    assert (types == 0).all()


def test_ties_go_to_the_first_type():
    unary = np.zeros((2, 3, 3))
    springs = np.zeros((1, 3, 2)), np.ones((1, 3, 2)), np.zeros((1, 3, 2))
    tree = PartsTree(unary, np.array([(1, 0)]), *springs, np.zeros((1, 3)))
    assert tree.max_product()[1].tolist() == [0]
    tree = PartsTree(unary, np.array([(1, 0)]), *springs, np.array([[-1.0, 0.5, 0.5]]))
    assert tree.max_product()[1].tolist() == [1]
