"""A* search against all paths, for bounds that are tight, loose and inconsistent."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sksstruct import SSVMClassifier
from sksstruct.inference import best_first, viterbi_topk
from sksstruct.models import StructuredModel, check_model

STEP = st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 0.0, 1.0])


@st.composite
def graphs(draw):
    """Steps from each node to later ones; nodes without any are goals, or not."""
    n = draw(st.integers(1, 7))
    steps = {
        u: {v: draw(STEP) for v in range(u + 1, n) if draw(st.booleans())}
        for u in range(n)
    }
    return steps, {u for u in range(n) if draw(st.integers(0, 3)) == 0}


def all_paths(steps, goals, path=(0,), score=0.0):
    """Paths to goals that steps of finite score make, and their scores."""
    if path[-1] in goals:
        return {path: score} if score > -np.inf else {}
    found = {}
    for v, step in steps[path[-1]].items():
        found.update(all_paths(steps, goals, (*path, v), score + step))
    return found


def best_rest(steps, goals, u):
    return max(all_paths(steps, goals, (u,)).values(), default=-np.inf)


SLACK = st.lists(st.sampled_from([0.0, 1.0, 3.0, np.inf]), min_size=7, max_size=7)


@settings(max_examples=150, deadline=None)
@given(
    graphs(),
    st.integers(1, 3) | st.integers(1, 30),
    st.just([0.0] * 7) | SLACK,
    st.booleans(),
)
def test_k_best_paths(graph, k, slack, dead):
    """Slack of its own at each node makes bounds inconsistent."""
    steps, goals = graph

    def bound(u):
        rest = best_rest(steps, goals, u)
        # dead ends are not always known to be some
        return (rest if dead or rest > -np.inf else 0.0) + (
            slack[u] if rest > -np.inf else 0.0
        )

    result = best_first(0, lambda u: steps[u].items(), goals.__contains__, bound, k)
    every = all_paths(steps, goals)
    assert result.scores.tolist() == sorted(every.values(), reverse=True)[:k]
    paths = [tuple(path) for path in result.labelings]
    assert len(set(paths)) == len(paths) and result.complete
    assert [every[path] for path in paths] == result.scores.tolist()


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_tight_bounds_go_straight_to_the_best(graph):
    steps, goals = graph
    result = best_first(
        0,
        lambda u: steps[u].items(),
        goals.__contains__,
        lambda u: best_rest(steps, goals, u),
    )
    assert result.n_visited == sum(map(len, result.labelings))


def test_inconsistent_bounds_reopen_states():
    """The better path to "b" is found when the worse one has been continued."""
    steps = {
        "s": {"a": 1.0, "b": 0.0},
        "a": {"b": 1.0},
        "b": {"c": 0.0},
        "c": {"goal": -1.0},
    }
    bounds = {"s": 9.0, "a": 0.0, "b": 9.0, "c": 9.0}
    result = best_first("s", lambda u: steps[u].items(), "goal".__eq__, bounds.get)
    assert result.labelings == [["s", "a", "b", "c", "goal"]]
    assert result.scores.tolist() == [1.0]
    # with the better path known first, the worse one, of bound 9, is not continued
    bounds["a"] = 99.0
    result = best_first("s", lambda u: steps[u].items(), "goal".__eq__, bounds.get)
    assert result.scores.tolist() == [1.0] and result.n_visited == 5


def test_scores_do_not_increase_where_bounds_are_rounded():
    steps = {0: {1: 1.0, 2: 0.5}, 2: {3: 0.5 + 1e-12}}
    result = best_first(
        0,
        lambda u: steps[u].items(),
        {1, 3}.__contains__,
        {0: 1.0, 2: 0.5 - 1e-12}.get,
        2,
    )
    assert result.scores.tolist() == [1.0 + 1e-12, 1.0]
    assert result.labelings == [[0, 2, 3], [0, 1]]


def test_plateaus_are_searched_in_depth():
    def successors(bits):
        return [((*bits, 0), 0.0), ((*bits, 1), 0.0)]

    result = best_first((), successors, lambda b: len(b) == 16, lambda b: 0.0)
    assert result.n_visited == 17


def test_steps_that_lead_back():
    """Loops that cost 1 each."""
    steps = {0: [(1, 0.5)], 1: [(0, -1.5), (2, 0.0)]}
    result = best_first(0, steps.get, (2).__eq__, lambda u: 0.5 * (u == 0), 4)
    assert result.scores.tolist() == [0.5, -0.5, -1.5, -2.5]
    assert result.labelings[1] == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_chains(seed):
    """The k best labelings of a trellis, whose paths meet in K states."""
    rng = np.random.RandomState(seed)
    unary, pairwise = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    rest = np.append(np.cumsum(unary.max(axis=1)[::-1])[::-1], 0.0)

    def successors(state):
        t, label = state
        scores = unary[t] + (0.0 if t == 0 else pairwise[label])
        return [((t + 1, b), score) for b, score in enumerate(scores)]

    def bound(state):
        return rest[state[0]] + (6 - state[0]) * pairwise.max()

    result = best_first((0, 0), successors, lambda s: s[0] == 6, bound, 20)
    labelings, scores = viterbi_topk(unary, pairwise, 20)
    np.testing.assert_allclose(result.scores, scores, rtol=1e-12)
    found = [[label for _, label in path[1:]] for path in result.labelings]
    assert found == labelings.tolist()
    assert result.n_visited < 3**6


def test_giving_up_and_nothing_to_find():
    def count(n):
        return [(n + 1, 0.0)]

    result = best_first(0, count, lambda n: False, lambda n: 0.0, max_nodes=7)
    assert not result.complete and result.n_visited == 7 and not result.labelings
    result = best_first(5, count, (5).__eq__, lambda n: np.nan, 3)
    assert result.labelings == [[5]] and result.scores.tolist() == [0.0]
    assert result.complete
    result = best_first(0, count, (5).__eq__, lambda n: -np.inf)
    assert result.complete and result.n_visited == 0 and result.scores.shape == (0,)
    result = best_first(0, lambda n: [(5, -np.inf)], (5).__eq__, lambda n: 0.0)
    assert result.complete and result.labelings == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be an integer"),
        ({"max_nodes": 0}, "max_nodes must be an integer"),
        ({"bound": lambda n: np.nan}, r"bound\(0\) is NaN"),
        ({"successors": lambda n: [(1, np.nan)]}, "the step to 1 is nan"),
        ({"successors": lambda n: [(1, np.inf)]}, "the step to 1 is inf"),
    ],
)
def test_bad_numbers(options, message):
    given = {
        "successors": lambda n: [(n + 1, 0.0)],
        "is_goal": lambda n: n == 3,
        "bound": lambda n: 0.0,
    }
    with pytest.raises(ValueError, match=message):
        best_first(0, **{**given, **options})


class Alternating(StructuredModel):
    """Labels 0, 1, 2 of positions, of which no two neighbors are the same."""

    def joint_feature(self, x, y):
        return np.concatenate([x[np.equal(y, a)].sum(axis=0) for a in range(3)])

    def loss(self, y, y_hat):
        return float(np.mean(np.not_equal(y, y_hat)))

    def _best(self, x, w, k, y=None):
        scores = x @ w.reshape(3, -1).T
        if y is not None:
            scores = scores + np.not_equal.outer(y, range(3)) / len(y)
        rest = np.append(np.cumsum(scores.max(axis=1)[::-1])[::-1], 0.0)

        def successors(labels):
            row = scores[len(labels)]
            return [((*labels, a), row[a]) for a in range(3) if labels[-1:] != (a,)]

        paths = best_first(
            (), successors, lambda y: len(y) == len(x), lambda y: rest[len(y)], k
        )
        return [path[-1] for path in paths.labelings]

    def decode(self, x, w):
        return self._best(x, w, 1)[0]

    def decode_topk(self, x, w, k):
        return self._best(x, w, k)

    def loss_augmented_decode(self, x, y, w):
        return self._best(x, w, 1, y)[0]

    def labelings(self, x):
        return (
            y
            for y in product(range(3), repeat=len(x))
            if all(a != b for a, b in zip(y, y[1:], strict=False))
        )


def test_a_model_whose_oracles_are_searches():
    rng = np.random.RandomState(0)
    X, y = [], []
    for n in (2, 3, 4, 3, 4, 2):
        labels = [rng.randint(3)]
        for _ in range(n - 1):
            labels.append((labels[-1] + rng.randint(1, 3)) % 3)
        X.append(np.eye(3)[labels] + 0.2 * rng.normal(size=(n, 3)))
        y.append(tuple(int(a) for a in labels))
    check_model(Alternating(), X, y, enumerate_outputs=True, random_state=0)
    classifier = SSVMClassifier(Alternating(), alpha=1e-3, tol=1e-2).fit(X, y)
    assert classifier.score(X, y) == 1.0
    outputs, _ = classifier.predict_topk(X, 3)
    assert [some[0] for some in outputs] == classifier.predict(X)
