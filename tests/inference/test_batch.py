import itertools

import numpy as np
import pytest

from sksstruct.inference import (
    Exhaustive,
    _batch,
    batch,
    forward_backward,
    matching,
    max_product,
    min_cut,
    viterbi,
    viterbi_topk,
)
from sksstruct.inference._batch import group_bounds


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 3])
def test_results_do_not_depend_on_threads(n_jobs):
    rng = np.random.RandomState(0)
    table = rng.normal(size=(4, 4))
    problems = [(rng.normal(size=(rng.randint(1, 9), 4)), table) for _ in range(50)]
    for oracle, options in (
        (viterbi, {}),
        (viterbi_topk, {"k": 3}),
        (forward_backward, {}),
    ):
        found = batch(oracle, problems, n_jobs=n_jobs, **options)
        for problem, results in zip(problems, found, strict=True):
            for a, b in zip(results, oracle(*problem, **options), strict=True):
                np.testing.assert_array_equal(a, b)


def test_other_oracles():
    problems = [(np.eye(2) * k, [(0, 1)], np.eye(2)) for k in range(5)]
    for oracle in (max_product, min_cut):
        found = batch(oracle, problems, n_jobs=2)
        assert [score for _, score in found] == [oracle(*p)[1] for p in problems]


def small_problems(kind, seed, n_states=2):
    """Trees or grids of few variables, with ties, some without edges or forbidden."""
    rng = np.random.RandomState(seed)
    problems = []
    for k in range(40):
        n = rng.randint(1, 7)
        unary = rng.randint(-2, 3, size=(n, n_states)).astype(float)
        edges = [(rng.randint(v), v) for v in range(1, n) if rng.rand() < 0.8]
        if kind == "trees":
            unary[rng.rand(*unary.shape) < 0.1] = -np.inf
            edges = [edge[:: rng.choice([-1, 1])] for edge in edges]
            tables = rng.randint(-2, 3, size=(len(edges), n_states, n_states))
        else:
            edges += edges[:1]
            agree = rng.randint(0, 3, size=len(edges))
            tables = agree[:, None, None] * np.eye(2)
        shared = k % 3 == 0 and len(edges)
        problems.append((unary, edges, 1.0 * (tables[0] if shared else tables)))
    return problems


@pytest.mark.parametrize(
    ("oracle", "kind", "n_states"),
    [
        (max_product, "trees", 3),
        (max_product, "trees", 1),
        (min_cut, "graphs", 2),
    ],
)
def test_groups_of_small_problems(oracle, kind, n_states):
    # more than a group, and one that is not full
    problems = [p for seed in range(8) for p in small_problems(kind, seed, n_states)]
    found = batch(oracle, problems, n_jobs=2)
    for (unary, edges, tables), (labels, score) in zip(problems, found, strict=True):
        alone = oracle(unary, edges, tables)
        best = Exhaustive(unary, edges, tables if len(edges) else None)
        assert score == alone[1] == pytest.approx(best.max_product()[1])
        if score > -np.inf:
            np.testing.assert_array_equal(labels, alone[0])


@pytest.mark.parametrize("n_states", [1, 3, 9])
def test_groups_of_short_chains(n_states):
    rng = np.random.RandomState(n_states)
    shared = rng.randint(-2, 3, size=(n_states, n_states)).astype(float)
    shared[rng.rand(*shared.shape) < 0.2] = -np.inf
    problems = []
    for k in range(600):
        size = rng.randint(1, 5)
        unary = rng.randint(-2, 3, size=(size, n_states))
        if k % 3 == 0:
            unary = unary.astype(np.float32)
            unary[rng.rand(*unary.shape) < 0.1] = -np.inf
        own = rng.randint(-2, 3, size=(size - 1, n_states, n_states))
        problems.append((unary, own if k % 2 else shared))
    found = batch(viterbi, problems, n_jobs=2)
    for problem, (labels, score) in zip(problems, found, strict=True):
        alone = viterbi(*problem)
        assert score == alone[1]
        np.testing.assert_array_equal(labels, alone[0])
        assert labels.dtype == alone[0].dtype
    # of one position all: there is no table
    alone = [(unary[:1], own[:0]) for unary, own in problems[1::2]]
    for (unary, _), (labels, score) in zip(alone, batch(viterbi, alone), strict=True):
        assert (labels[0], score) == (unary.argmax(), unary.max())


def test_groups_of_small_matchings():
    rng = np.random.RandomState(0)
    problems = []
    for k in range(600):
        scores = rng.randint(-2, 3, size=(rng.randint(1, 5), rng.randint(1, 5)))
        if k % 2:
            scores = scores + 0.1 * rng.normal(size=scores.shape)
            scores[rng.rand(*scores.shape) < 0.3] = -np.inf
        alone = [(), (None,), (-0.5,), (rng.normal(size=len(scores)),)][k % 4]
        problems.append((scores, *alone))
    found = batch(matching, problems, n_jobs=2)
    forbidden = 0
    for problem, result in zip(problems, found, strict=True):
        alone = matching(*problem)
        assert result.score == alone.score
        forbidden += alone.score == -np.inf
        for a, b in zip(result, alone, strict=True):
            np.testing.assert_array_equal(a, b)
        assert result.labeling.dtype == alone.labeling.dtype
    assert 0 < forbidden < 200


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((np.zeros((2, 0)),), "at least one row and column"),
        ((np.zeros(2),), "2-D"),
        ((np.full((2, 2), np.nan),), "got nan"),
        ((np.full((2, 2), 1e300),), "too large"),
        ((np.zeros((2, 2)), np.zeros(3)), "unassigned must be a number"),
    ],
)
def test_a_bad_matching_of_a_group_is_named(problem, message):
    good = [(np.eye(2),)] * 5
    with pytest.raises(ValueError, match=rf"problems\[5\]: .*{message}"):
        batch(matching, [*good, problem, *good])


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((np.zeros((2, 3)), np.zeros((2, 2))), "pairwise must have shape"),
        ((np.zeros((2, 3)), np.zeros((3, 3))), None),
        ((np.zeros((2, 2)), np.zeros((2, 2, 2))), "pairwise must have shape"),
        ((np.full((2, 2), np.nan), np.zeros((2, 2))), r"unary\[0, 0\] must be finite"),
        (
            (np.zeros((2, 2)), np.full((2, 2), np.inf)),
            r"pairwise\[0, 0\] must be finite",
        ),
        ((np.full((2, 2), 1e300), np.zeros((2, 2))), "too large"),
        ((np.zeros((2, 2)),), None),
    ],
)
def test_a_bad_chain_of_a_group_is_named(problem, message):
    good = [(np.zeros((3, 2)), np.eye(2))] * 5
    if len(problem) == 1:
        with pytest.raises(TypeError):
            batch(viterbi, [*good, problem, *good])
    elif message is None:
        # other labels are no mistake
        assert len(batch(viterbi, [*good, problem, *good])[5][0]) == 2
    else:
        with pytest.raises(ValueError, match=rf"problems\[5\]: .*{message}"):
            batch(viterbi, [*good, problem, *good])


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ((np.zeros((2, 2)), [(0, 2)], np.eye(2)), r"\[40\]: edges\[0\] is \(0, 2\)"),
        ((np.zeros((2, 3)), [(0, 1)], np.eye(2)), r"\[40\]: "),
        ((np.zeros((2, 2)), [(0, 1)], np.zeros((2, 2, 2))), r"\[40\]: pairwise"),
        ((np.full((2, 2), np.nan), [(0, 1)], np.eye(2)), r"\[40\]: unary"),
        ((np.zeros((2, 2)), [(0, -1)], np.eye(2)), r"\[40\]: edges\[0\] is \(0, -1\)"),
        ((np.zeros((2, 2)), [(0.0, 1.0)], np.eye(2)), r"\[40\]: edges must be pairs"),
        ((np.zeros((2, 2)), [(False, True)], np.eye(2)), r"\[40\]: edges must be"),
        ((np.zeros((0, 2)), [], np.eye(2)), r"\[40\]: "),
    ],
)
@pytest.mark.parametrize("oracle", [max_product, min_cut])
def test_a_bad_problem_of_a_group_is_named(oracle, problem, message):
    problems = small_problems("graphs", 0)
    if oracle is max_product:
        problems = [(u, e[:-1] if len(e) else e, np.eye(2)) for u, e, _ in problems]
        problems = [(u, sorted(set(e)), t) for u, e, t in problems]
    with pytest.raises(ValueError, match=r"problems" + message):
        # between others, whose variables it must not take for its own
        batch(oracle, [*problems, problem, *problems])


@pytest.mark.parametrize("oracle", [max_product, min_cut])
def test_tables_of_other_problems_are_not_taken(oracle):
    one, two = ([(0, 1)], np.zeros((2, 2, 2))), ([(0, 1), (1, 2)], np.zeros((1, 2, 2)))
    for problems in ([two, one], [one, two]):
        with pytest.raises(ValueError, match=r"problems\[0\]: pairwise"):
            batch(oracle, [(np.zeros((3, 2)), *problem) for problem in problems])


def test_forbidden_pairs_of_cuts_leave_the_others_their_digits():
    # what is never worth paying would be more than all scores of the group
    small = np.array([[0.0, -np.inf], [1e-6, 3e-6]])
    problems = [
        (np.zeros((2, 2)), [(0, 1)], small),
        (np.full((2, 2), 1e12), [(0, 1)], np.eye(2)),
    ]
    labels, score = batch(min_cut, problems)[0]
    assert labels.tolist() == [1, 1] and score == 3e-6


def mapped(array, path):
    """The same array on disk."""
    file = np.memmap(path, dtype=array.dtype, mode="w+", shape=array.shape)
    file[...] = array
    return file


def test_small_problems_are_solved_together(monkeypatch, tmp_path):
    def refuse(*problem):
        raise AssertionError("was called")

    scores, table = np.array([[0, 3], [2, 0], [1, 0]]), 3.0 * np.eye(2)
    on_disk = mapped(scores, tmp_path / "scores")
    for oracle, together in _batch.TOGETHER:
        pairs = [[(0, 1), (1, 2)]] if oracle in (max_product, min_cut) else []
        rest = [*pairs, table] if oracle is not matching else []
        unsigned = [np.array(edges, np.uint64) for edges in pairs]
        problems = [(scores, *rest), (scores.astype("f"), *rest), (on_disk, *rest)]
        problems.append((scores, *unsigned, *rest[len(pairs) :]))
        monkeypatch.setattr(_batch, "TOGETHER", [(refuse, together)])
        for found in batch(refuse, problems):
            for a, b in zip(found, oracle(scores, *rest), strict=True):
                np.testing.assert_array_equal(a, b)


def test_options_are_not_left_out():
    problems = [(np.array([[-3.0, -2.0]]),)] * 2
    assert [each.score for each in batch(matching, problems)] == [-2.0] * 2
    found = batch(matching, problems, unassigned=-1.0)
    assert [each.score for each in found] == [-1.0] * 2


def test_empty_and_bad_problems():
    assert batch(viterbi, []) == []
    problems = [([[0.0, 1.0]], np.eye(2)), ([[0.0]], np.eye(2))]
    with pytest.raises(ValueError, match=r"problems\[1\]: pairwise must have shape"):
        batch(viterbi, problems)


@pytest.mark.parametrize("oracle", [max_product, min_cut])
@pytest.mark.parametrize(
    "edges", [np.array([[0, 2, 4, 6], [1, 3, 5, 7]]), [0, 1, 2, 3], [("a", "b")]]
)
def test_odd_edges_are_refused_in_a_group(oracle, edges):
    # both alike: together they would have a shape that is right
    problems = [(np.zeros((8, 2)), edges, np.zeros((2, 2)))] * 2
    with pytest.raises(ValueError, match=r"problems\[0\]: edges must be pairs"):
        batch(oracle, problems)


@pytest.mark.parametrize("table", [np.zeros((1, 1)), np.zeros((1, 1, 2))])
def test_odd_tables_are_refused_in_a_group(table):
    good = (np.zeros((8, 2)), [[0, 1]], np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"problems\[1\]"):
        batch(min_cut, [good, (np.zeros((8, 2)), [[0, 1]], table)])


def test_only_small_problems_are_grouped():
    sizes = [10] * 300 + [201, 10, 150] + [100] * 60
    problems = [(np.zeros((size, 2)), [], np.zeros((2, 2))) for size in sizes]
    bounds = group_bounds(problems)
    groups = [sizes[a:b] for a, b in itertools.pairwise(bounds)]
    assert list(itertools.chain.from_iterable(groups)) == sizes
    assert [201] in groups
    assert max(map(len, groups)) == 256 and max(map(sum, groups)) <= 4000
    # what has no size yet is left to the oracle
    assert group_bounds([([[0.0]], [], None)] * 3) == [0, 1, 2, 3]
    assert batch(Unhashable(), [(1,), (2,)]) == [1, 2]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of matrices
@pytest.mark.parametrize("oracle", [viterbi, max_product, min_cut, matching])
@pytest.mark.parametrize(
    "kind", [np.matrix, np.ma.array, np.longdouble, np.asfortranarray, np.float16]
)
def test_arrays_of_any_kind(oracle, kind):
    edges = [[(0, 1), (1, 2)]] if oracle in (max_product, min_cut) else []
    tables = [] if oracle is matching else [kind(3.0 * np.eye(2))]
    scores = np.array([[0, 3], [2, 0], [1, 0]])
    problems = [(kind(scores * k), *edges, *tables) for k in (1, 2)] * 2
    for found, problem in zip(batch(oracle, problems), problems, strict=True):
        for a, b in zip(found, oracle(*problem), strict=True):
            np.testing.assert_array_equal(a, b)


def test_wide_problems_are_not_copied_together():
    scores, table = np.zeros((5, 80)), np.zeros((80, 80))
    assert group_bounds([(scores,)] * 4) == [0, 4]
    assert group_bounds([(np.zeros((5, 800)),)] * 4) == [0, 1, 2, 3, 4]
    # the first has its table to itself; the others share it with their neighbors
    assert group_bounds([(scores, table)] * 4) == [0, 1, 4]
    assert group_bounds([(scores, table.copy()) for _ in range(3)]) == [0, 1, 2, 3]


class Unhashable:
    __hash__ = None

    def __call__(self, value):
        return value


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64, np.int16])
def test_edges_of_any_integers(dtype):
    edges = np.array([[0, 1], [1, 2]], dtype=dtype)
    scores = np.random.RandomState(0).normal(size=(3, 2))
    expected = max_product(scores, edges.astype(int), np.eye(2))
    found = max_product(scores, edges, np.eye(2))
    assert np.array_equal(found[0], expected[0]) and found[1] == expected[1]
    with pytest.raises(ValueError, match=r"edges\[1\] is \(1, 2\)"):
        max_product(scores[:2], edges, np.eye(2))
