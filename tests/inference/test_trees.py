import numpy as np
import pytest
from graphs import forests
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sksstruct.inference import (
    Exhaustive,
    forward_backward,
    max_marginals,
    max_product,
    max_product_topk,
    sum_product,
    viterbi,
    viterbi_topk,
)

WILD = st.sampled_from([-np.inf, -2000.0, -400.0, 0.0, 1.0, 1e5])


def score_of(labeling, unary, edges, pairwise):
    total = sum(row[a] for row, a in zip(unary, labeling, strict=True))
    for e, (u, v) in enumerate(edges):
        table = pairwise[e] if isinstance(pairwise, list) else pairwise
        total += table[labeling[u], labeling[v]]
    return total


@settings(max_examples=120)
@given(forests())
def test_max_product(forest):
    labeling, score = max_product(*forest)
    assert score == Exhaustive(*forest).scores.max()
    if score > -np.inf:
        assert score_of(labeling, *forest) == score
    assert len(labeling) == len(forest[0])


@settings(max_examples=120)
@given(forests(), st.integers(1, 40))
def test_topk(forest, k):
    labelings, scores = max_product_topk(*forest, k)
    _, expected = Exhaustive(*forest).topk(k)
    np.testing.assert_array_equal(scores, expected)
    assert len({tuple(row) for row in labelings.tolist()}) == len(labelings)
    for labeling, score in zip(labelings, scores, strict=True):
        assert score_of(labeling, *forest) == score


def all_lists(unary, edges, pairwise, k):
    """Algorithm 8 with whole lists, cut off at k: the order of ties is its own."""
    above = {}
    order = list(range(len(unary)))[::-1]
    neighbors = {v: [] for v in order}
    for e, (u, v) in enumerate(edges):
        table = pairwise[e] if isinstance(pairwise, list) else pairwise
        neighbors[u].append((v, table.T))
        neighbors[v].append((u, table))

    def below(v, a):
        # sums of list and message by score, then row, then column
        found = [(unary[v][a], {v: a})] if unary[v][a] > -np.inf else []
        for c, table in [n for n in neighbors[v] if n[0] != above[v]][::-1]:
            found = together(found, message(c, table[:, a]))
        return found

    def message(c, pair_scores):
        merged = [
            (s + pair_scores[a], labels)
            for a in range(len(unary[c]))
            for s, labels in below(c, a)
            if s + pair_scores[a] > -np.inf
        ]
        return sorted(merged, key=lambda entry: -entry[0])[:k]

    def together(found, more):
        sums = [(s + t, {**x, **y}) for s, x in found for t, y in more]
        return sorted(sums, key=lambda entry: -entry[0])[:k]

    roots = []
    for v in order:
        if v not in above:
            roots.append(v)
            above[v], queue = -1, [v]
            for u in queue:
                for c, _ in neighbors[u]:
                    if c not in above:
                        above[c] = u
                        queue.append(c)
    # trees are put together like children, the one with the lowest root first
    found = [(0.0, {})]
    for v in roots[::-1]:
        found = together(found, message(v, np.zeros(len(unary[v]))))
    return [[labels[v] for v in range(len(unary))] for _, labels in found]


@settings(max_examples=100)
@given(forests(), st.integers(1, 40))
def test_order_of_ties(forest, k):
    labelings = max_product_topk(*forest, k)[0]
    assert labelings.tolist() == all_lists(*forest, k)


def test_topk_of_long_and_wide_trees():
    """Lists are asked for without recursion; rows of many states go by vectors."""
    unary = np.zeros((50_000, 2))
    unary[:, 1] = -np.arange(50_000)
    edges = np.column_stack([np.arange(49_999), np.arange(1, 50_000)])
    labelings, scores = max_product_topk(unary, edges, np.zeros((2, 2)), 4)
    assert scores.tolist() == [0, 0, -1, -1]
    assert labelings[:, :3].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    rng = np.random.RandomState(0)
    unary, table = rng.normal(size=(3, 40)), rng.normal(size=(40, 40))
    found, scores = max_product_topk(unary, [(1, 0), (1, 2)], table, 300)
    total = unary[0][:, None, None] + unary[1][:, None] + unary[2]
    total = total + table.T[:, :, None] + table
    best = np.sort(total, axis=None)[::-1][:300]
    np.testing.assert_allclose(scores, best)
    np.testing.assert_allclose(total[tuple(found.T)], best)


def test_topk_of_one():
    """One variable, one state, and more labelings than there are."""
    unary = [[1.0, -np.inf, 3.0, 1.0]]
    labelings, scores = max_product_topk(unary, [], [], 9)
    assert labelings.tolist() == [[2], [0], [3]] and scores.tolist() == [3, 1, 1]
    labelings, scores = max_product_topk(np.ones((3, 1)), [(0, 1)], [[2.0]], 9)
    assert labelings.tolist() == [[0, 0, 0]] and scores.tolist() == [5]
    assert len(max_product_topk([[-np.inf], [0.0]], [], [], 2)[0]) == 0


@pytest.mark.slow
@settings(max_examples=120)
@given(st.one_of(forests(), forests(WILD)))
def test_sum_product(forest):
    everything = Exhaustive(*forest)
    if everything.scores.max() == -np.inf:
        with pytest.raises(ValueError, match="every labeling is forbidden"):
            sum_product(*forest)
        with pytest.raises(ValueError, match="every labeling is forbidden"):
            everything.sum_product()
        return
    log_partition, nodes, edges = sum_product(*forest)
    expected, expected_nodes, expected_edges = everything.sum_product()
    assert log_partition == pytest.approx(expected, rel=1e-12, abs=1e-12)
    for found, true in zip(nodes + edges, expected_nodes + expected_edges, strict=True):
        np.testing.assert_allclose(found, true, atol=1e-9)


@settings(max_examples=120)
@given(forests())
def test_max_marginals(forest):
    expected = Exhaustive(*forest).max_marginals()
    for found, true in zip(max_marginals(*forest), expected, strict=True):
        np.testing.assert_array_equal(found, true)


@pytest.mark.parametrize("n_states", [1, 4, 5, 22, 40])
def test_a_chain_is_a_tree(n_states):
    """Labelings, ties included, as the chain's own oracles give them."""
    rng = np.random.RandomState(0)
    for draw in (rng.normal, lambda size: rng.randint(3, size=size).astype(float)):
        unary, pairwise = draw(size=(6, n_states)), draw(size=(n_states, n_states))
        edges = [(t, t + 1) for t in range(5)]
        labeling, score = max_product(unary, edges, pairwise)
        expected, expected_score = viterbi(unary, pairwise)
        np.testing.assert_array_equal(labeling, expected)
        assert score == pytest.approx(expected_score, rel=1e-14)
        # the other way round
        turned, _ = max_product(unary, [e[::-1] for e in edges], pairwise.T)
        np.testing.assert_array_equal(turned, expected)
        _, scores = max_product_topk(unary, edges, pairwise, 7)
        np.testing.assert_allclose(scores, viterbi_topk(unary, pairwise, 7)[1])
        log_partition, nodes, pairs = sum_product(unary, edges, pairwise)
        chain = forward_backward(unary, pairwise)
        assert log_partition == pytest.approx(chain[0])
        np.testing.assert_allclose(nodes, chain[1], atol=1e-12)
        np.testing.assert_allclose(pairs, chain[2], atol=1e-12)


@pytest.mark.slow
def test_large_star_and_deep_chain():
    """Neither many children nor great depth is a problem."""
    n = 20_000
    unary = np.tile([0.0, 1.0], (n, 1))
    table = np.array([[0.0, 0.0], [0.0, -3.0]])
    for edges in (
        [(0, v) for v in range(1, n)],
        [(v, v + 1) for v in range(n - 1)],
    ):
        labeling, score = max_product(unary, edges, table)
        assert score == labeling.sum() - 3 * sum(
            labeling[u] * labeling[v] for u, v in edges
        )
        marginals = max_marginals(unary, edges, table)
        assert max(marginals[5]) == score
        assert len(max_product_topk(unary, edges, table, 3)[0]) == 3
        assert sum_product(unary, edges, table)[1][7].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(30))
def test_finds_cycles_wherever_they_are(seed):
    rng = np.random.RandomState(seed)
    n, count = 7, rng.randint(1, 8)
    edges = np.array([rng.choice(n, 2, replace=False) for _ in range(count)])
    # a forest has as many parts as edges leave
    graph = sparse.coo_array((np.ones(count), edges.T), shape=(n, n))
    is_forest = connected_components(graph, directed=False)[0] == n - count
    unary, table = rng.randint(3, size=(n, 2)), rng.randint(3, size=(2, 2))
    if is_forest:
        best = Exhaustive(unary, edges, table).max_product()[1]
        assert max_product(unary, edges, table)[1] == best
    else:
        with pytest.raises(ValueError, match="closes a cycle"):
            max_product(unary, edges, table)


def test_shared_tables_are_stored_once():
    """Two thousand edges with one large table each way, not two thousand copies."""
    from sksstruct.inference.trees._forest import Forest

    table = np.zeros((50, 50))
    edges = [(v, v + 1) if v % 2 else (v + 1, v) for v in range(1999)]
    for pairwise in (table, [table] * 1999):
        forest = Forest(np.zeros((2000, 50)), edges, pairwise, both=True)
        assert forest.table_entries < 3 * 50 * 56


@pytest.mark.parametrize(
    ("unary", "edges", "pairwise", "message"),
    [
        ([], [], None, "unary is empty"),
        (np.zeros((2, 2)), None, np.zeros((2, 2)), "edges must be pairs"),
        (np.zeros((2, 2)), 5, np.zeros((2, 2)), "edges must be pairs"),
        (np.zeros((2, 2)), [(0, 1)], None, "pairwise is missing"),
        (np.zeros((2, 2)), [(0, 1)], [[]], r"pairwise\[0\] has shape"),
        (np.full((2, 2), 1e308), [(0, 1)], np.zeros((2, 2)), "too large"),
        ([[0.0], []], [], None, r"unary\[1\] is empty"),
        ("ab", [], None, "unary must be a list"),
        ([[0.0], 1.0], [], None, r"unary\[1\] must be 1-D"),
        ([[0.0], [np.nan]], [], None, r"unary\[1\]\[0\] must be finite or -inf"),
        (np.zeros(3), [], None, "unary must be 2-D"),
        (np.zeros((3, 2)), [(0, 3)], np.zeros((2, 2)), r"edges\[0\] is \(0, 3\)"),
        (np.zeros((3, 2)), [(1, 1)], np.zeros((2, 2)), r"edges\[0\] is \(1, 1\)"),
        (np.zeros((3, 2)), [(0, 1, 2)], np.zeros((2, 2)), "edges must be pairs"),
        (np.zeros((3, 2)), [(0, 1.5)], np.zeros((2, 2)), "edges must be pairs"),
        (
            np.zeros((3, 2)),
            [(0, 1), (1, 2), (2, 0)],
            np.zeros((2, 2)),
            r"edges\[2\], \(2, 0\), closes a cycle",
        ),
        (np.zeros((2, 2)), [(0, 1), (1, 0)], np.zeros((2, 2)), "closes a cycle"),
        (np.zeros((2, 2)), [(0, 1)], [np.zeros((2, 3))], r"pairwise\[0\] has shape"),
        (np.zeros((3, 2)), [(0, 1), (1, 2)], [np.zeros((2, 2))], "has 1 tables"),
        (
            np.zeros((2, 2)),
            [(0, 1)],
            [[[0, np.inf], [0, 0]]],
            r"pairwise\[0\]\[0, 1\] must be",
        ),
    ],
)
@pytest.mark.parametrize(
    "oracle", [max_product, max_marginals, sum_product], ids=lambda f: f.__name__
)
def test_bad_input(unary, edges, pairwise, message, oracle):
    with pytest.raises(ValueError, match=message):
        oracle(unary, edges, pairwise)


class TestExhaustive:
    def test_by_hand(self):
        everything = Exhaustive([[0, 1], [2, 0]], [(1, 0)], [[0, 5], [1, 0]])
        # labelings 00 01 10 11; the table's rows belong to variable 1
        assert everything.labelings.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
        assert everything.scores.tolist() == [2.0, 1.0, 8.0, 1.0]
        assert everything.max_product()[0].tolist() == [1, 0]
        labelings, scores = everything.topk(3)
        assert labelings.tolist() == [[1, 0], [0, 0], [0, 1]]
        assert scores.tolist() == [8.0, 2.0, 1.0]
        assert [row.tolist() for row in everything.max_marginals()] == [[2, 8], [8, 1]]
        weights = np.exp([2.0, 1.0, 8.0, 1.0])
        log_partition, nodes, edges = everything.sum_product()
        assert log_partition == pytest.approx(np.log(weights.sum()))
        weights /= weights.sum()
        np.testing.assert_allclose(nodes[0], [weights[:2].sum(), weights[2:].sum()])
        np.testing.assert_allclose(edges[0], weights.reshape(2, 2).T)

    def test_score_of_the_whole_labeling(self):
        everything = Exhaustive(
            np.zeros((3, 2)), score=lambda y: -np.inf if y.sum() == 3 else y.sum()
        )
        assert everything.max_product()[1] == 2.0
        assert len(everything.topk(10)[0]) == 7

    def test_many_variables_of_one_state(self):
        assert Exhaustive(np.zeros((100, 1))).topk(2)[0].tolist() == [[0] * 100]

    def test_scores_that_are_none(self):
        with pytest.raises(ValueError, match="score returned NaN"):
            Exhaustive(np.zeros((2, 2)), score=lambda y: np.nan)

    def test_sums_that_overflow(self):
        with pytest.raises(ValueError, match="too large"):
            Exhaustive(np.full((2, 2), 1e308))

    def test_refuses_what_is_too_large(self):
        with pytest.raises(ValueError, match="1024 labelings"):
            Exhaustive(np.zeros((10, 2)), max_labelings=1000)
