"""Dependency trees against enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from reference import SCORES
from scipy.special import logsumexp

from sksstruct.inference import dependency_marginals, dependency_topk, dependency_tree

KINDS = [(p, s) for p in (True, False) for s in (True, False)]
WILD = st.sampled_from([-np.inf, -2e4, -1e4, -800.0, -30.0, 0.0, 1.0, 1e4])


def is_tree(heads):
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def is_nested(heads):
    """No two arcs cross; the root is to the left of all words."""
    arcs = [tuple(sorted((head, word))) for word, head in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


TREES = {
    n: [heads for heads in product(range(n + 1), repeat=n) if is_tree(heads)]
    for n in range(1, 6)
}


def all_trees(scores, projective, single_root):
    """All trees of a kind that are allowed, and their scores."""
    n = scores.shape[1]
    trees = [
        heads
        for heads in TREES[n]
        if (heads.count(0) == 1 or not single_root)
        and (is_nested(heads) or not projective)
    ]
    values = scores[np.array(trees), np.arange(n)].sum(axis=1)
    allowed = values > -np.inf
    return np.array(trees)[allowed], values[allowed]


def expected_sums(scores, projective, single_root):
    trees, values = all_trees(scores, projective, single_root)
    marginals = np.zeros(scores.shape)
    if not len(trees):
        return -np.inf, marginals
    log_partition = logsumexp(values)
    for heads, value in zip(trees, values, strict=True):
        marginals[heads, np.arange(len(heads))] += np.exp(value - log_partition)
    return log_partition, marginals


@st.composite
def arcs(draw, elements=SCORES):
    n = draw(st.integers(1, 5))
    return draw(hnp.arrays(np.float64, (n + 1, n), elements=elements))


def options(kind):
    return {"projective": kind[0], "single_root": kind[1]}


@settings(max_examples=100, deadline=None)
@given(st.one_of(arcs(), arcs(WILD)), st.sampled_from(KINDS))
def test_tree_equals_enumeration(scores, kind):
    _, values = all_trees(scores, *kind)
    heads, score = dependency_tree(scores, **options(kind))
    assert score == values.max(initial=-np.inf)
    if score > -np.inf:
        assert scores[heads, np.arange(len(heads))].sum() == score
        assert is_tree(heads) and (is_nested(heads) or not kind[0])
        assert (heads == 0).sum() == 1 or not kind[1]
    else:
        assert not heads.any()


@settings(max_examples=120, deadline=None)
@given(st.one_of(arcs(), arcs(WILD)), st.sampled_from(KINDS), st.integers(1, 40))
def test_topk_equals_enumeration(scores, kind, k):
    trees, values = all_trees(scores, *kind)
    heads, found = dependency_topk(scores, k, **options(kind))
    np.testing.assert_array_equal(found, np.sort(values)[::-1][:k])
    assert len({tuple(row) for row in heads.tolist()}) == len(heads)
    assert {tuple(row) for row in heads} <= {tuple(row) for row in trees}
    n = scores.shape[1]
    np.testing.assert_array_equal(scores[heads, np.arange(n)].sum(axis=1), found)


@pytest.mark.parametrize("kind", KINDS)
def test_all_trees_in_order(kind):
    """Numbers whose sums are rounded, and a k larger than the number of trees."""
    rng = np.random.RandomState(0)
    for n in (1, 3, 5):
        for scores in (rng.normal(size=(n + 1, n)), rng.choice([0.1, 0.7], (n + 1, n))):
            trees, values = all_trees(scores, *kind)
            heads, found = dependency_topk(scores, 10**4, **options(kind))
            assert {tuple(row) for row in heads} == {tuple(row) for row in trees}
            np.testing.assert_allclose(found, np.sort(values)[::-1], atol=1e-12)
            assert (np.diff(found) <= 0).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_topk_of_longer_sentences(n, seed, kind):
    rng = np.random.RandomState(seed)
    scores = rng.normal(size=(n + 1, n))
    heads, found = dependency_topk(scores, 10, **options(kind))
    assert (np.diff(found) <= 0).all()
    assert found[0] == dependency_tree(scores, **options(kind))[1]
    assert len({tuple(row) for row in heads}) == len(heads)
    # the second best differs from the best somewhere: in the arc that is forbidden
    best = -np.inf
    for word in range(n):
        other = scores.copy()
        other[heads[0, word], word] = -np.inf
        best = max(best, dependency_tree(other, **options(kind))[1])
    assert best == pytest.approx(found[1] if len(found) > 1 else -np.inf, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.one_of(arcs(), arcs(WILD)), st.sampled_from(KINDS))
def test_sums_equal_enumeration(scores, kind):
    log_partition, marginals = dependency_marginals(scores, **options(kind))
    expected, means = expected_sums(scores, *kind)
    # large scores that cancel take digits with them
    size = np.abs(scores[scores > -np.inf]).max(initial=1.0)
    error = max(1e-12, 1e-15 * size)
    assert log_partition == pytest.approx(expected, rel=1e-12, abs=error)
    np.testing.assert_allclose(marginals, means, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", [1, 2, 3, 4])
def test_a_word_that_only_the_root_may_head(word, kind):
    """With a single root, all other words are below this one."""
    scores = np.random.RandomState(word).normal(size=(5, 4))
    scores[1:, word - 1] = -np.inf
    log_partition, marginals = dependency_marginals(scores, **options(kind))
    expected, means = expected_sums(scores, *kind)
    assert log_partition == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(marginals, means, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_that_no_tree_has_cost_no_digits(kind):
    """A word whose other heads are bad hangs from the root."""
    scores = np.zeros((4, 3))
    scores[1:, 1] = -2e4
    log_partition, _ = dependency_marginals(scores, **options(kind))
    expected, _ = expected_sums(scores, *kind)
    assert log_partition == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 30])
def test_derivatives_of_the_log_partition(kind, n):
    rng = np.random.RandomState(n)
    scores, step = rng.normal(size=(2, n + 1, n)) * 2.0
    marginals = dependency_marginals(scores, scale=0.7, **options(kind))[1]
    ends = [
        dependency_marginals(scores + t * step, scale=0.7, **options(kind))[0]
        for t in (-1e-5, 1e-5)
    ]
    slope = 0.7 * (marginals * step).sum()
    assert (ends[1] - ends[0]) / 2e-5 == pytest.approx(slope, rel=1e-6, abs=1e-8)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 25), st.integers(0, 2**32 - 1), st.floats(-1, 4), st.booleans())
def test_sums_and_trees_of_longer_sentences(n, seed, size, single_root):
    """From flat scores to those whose exponentials vanish."""
    rng = np.random.RandomState(seed)
    scores = 10.0**size * rng.normal(size=(n + 1, n))
    best = []
    for projective in (True, False):
        kind = options((projective, single_root))
        heads, score = dependency_tree(scores, **kind)
        assert score == pytest.approx(scores[heads, np.arange(n)].sum(), rel=1e-12)
        log_partition, marginals = dependency_marginals(scores, **kind)
        np.testing.assert_allclose(marginals.sum(axis=0), 1.0, rtol=1e-11)
        assert log_partition >= score - 1e-9 * abs(score)
        if single_root:
            assert marginals[0].sum() == pytest.approx(1.0, rel=1e-9)
        cold, means = dependency_marginals(scores, scale=1e7, **kind)
        assert cold == pytest.approx(1e7 * score, rel=1e-6)
        np.testing.assert_allclose(means[heads, np.arange(n)], 1.0, atol=1e-6)
        best.append(score)
    assert best[0] <= best[1] + 1e-9 * abs(best[1])


def test_an_ill_conditioned_laplacian():
    """Words that prefer each other to the root, by far more than rounding allows."""
    for gap in (20.0, 50.0, 300.0, 5000.0):
        scores = np.array([[-gap, -gap], [0.0, 0.0], [0.0, 0.0]])
        for single_root in (True, False):
            log_partition, marginals = dependency_marginals(
                scores, projective=False, single_root=single_root
            )
            forest = np.exp(-gap) * (not single_root)
            assert log_partition == pytest.approx(-gap + np.log(2.0 + forest))
            np.testing.assert_allclose(marginals[1, 1], 1 / (2 + forest), rtol=1e-12)


@pytest.mark.parametrize("single_root", [True, False])
def test_determinants(single_root):
    """Against Koo et al.'s matrices, where these are well-conditioned."""
    rng = np.random.RandomState(0)
    for n in (3, 12, 40):
        scores = rng.normal(size=(n + 1, n))
        weights = np.exp(scores)
        np.fill_diagonal(weights[1:], 0.0)
        matrix = -weights[1:]
        np.fill_diagonal(matrix, weights[(0 if not single_root else 1) :].sum(axis=0))
        if single_root:
            matrix[0] = weights[0]
        kind = options((False, single_root))
        found = dependency_marginals(scores, **kind)[0]
        assert found == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_k_costs_nothing(kind):
    """Room for the trees that can be, not for those that were asked for."""
    scores = np.full((61, 60), -np.inf)
    scores[range(60), range(60)] = 1.0
    scores[0, 1] = 0.5
    heads, values = dependency_topk(scores, 10**9, **options(kind))
    assert values.tolist() == ([60.0] if kind[1] else [60.0, 59.5])
    assert heads[0].tolist() == list(range(60))
    scores[:, 3] = -np.inf
    assert dependency_topk(scores, 10**9, **options(kind))[0].shape == (0, 60)


@pytest.mark.parametrize("function", [dependency_tree, dependency_marginals])
def test_bad_scores(function):
    for bad in (np.zeros((2, 2)), np.zeros((1, 0)), np.zeros((3, 3))):
        with pytest.raises(ValueError, match=r"shape \(n \+ 1, n\)"):
            function(bad)
    with pytest.raises(ValueError, match="scores must be 2-D"):
        function(np.zeros(3))
    with pytest.raises(ValueError, match=r"scores\[0, 0\] must be finite"):
        function([[np.nan], [0.0]])
    with pytest.raises(ValueError, match="too large"):
        function([[1e300], [0.0]])
    with pytest.raises(ValueError, match="scale must be positive"):
        dependency_marginals([[0.0], [0.0]], scale=0.0)
    with pytest.raises(ValueError, match="k must be"):
        dependency_topk([[0.0], [0.0]], 0)
