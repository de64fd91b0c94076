"""Sets of labels of which one was observed, in the training data of chains."""

from functools import partial

import numpy as np
import pytest
from reference import enumerate_chain

from sksstruct import ChainCRF

LABELS = ["a", "b", "c"]


def sentences(n, seed=0):
    """Labels that one feature each makes likely, and likely to stay."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        states = [rng.randint(3)]
        for _ in range(rng.randint(3, 7)):
            states.append(states[-1] if rng.rand() < 0.6 else rng.randint(3))
        X.append(np.eye(3)[states] + 0.7 * rng.normal(size=(len(states), 3)))
        y.append([LABELS[k] for k in states])
    return X, y


def vague(y, seed=0, share=0.6):
    """Some labels with another one in a set."""
    rng = np.random.RandomState(seed)
    return [
        [
            {label, LABELS[rng.randint(3)]} if rng.rand() < share else label
            for label in row
        ]
        for row in y
    ]


def negative_log_likelihood(tagger, x, row):
    """-log of the probability of the labelings that agree with a row of sets."""
    unary = x @ tagger.coef_.T + tagger.intercept_
    unary[0] += tagger.start_
    unary[-1] += tagger.end_
    labelings, scores = enumerate_chain(unary, tagger.transitions_)
    sets = [s if isinstance(s, set) else {s} for s in row]
    allowed = np.array([[label in s for label in LABELS] for s in sets])
    agree = allowed[np.arange(len(x)), labelings].all(axis=1)
    return np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[agree])


@pytest.mark.parametrize("forbidden", [None, [("a", "b")]])
def test_likelihood_by_enumeration(forbidden):
    X, y = sentences(25)
    if forbidden:
        # a label follows "a" that may
        y = [["c" if k == "b" else k for k in row] for row in y]
    sets = [
        [k | {"c"} if forbidden and isinstance(k, set) else k for k in row]
        for row in vague(y)
    ]
    tagger = ChainCRF(
        0.05, loss="log", tol=1e-6, random_state=0, forbidden_transitions=forbidden
    )
    tagger.fit(X, sets)
    assert tagger.classes_.tolist() == LABELS
    if forbidden:
        tagger.transitions_[0, 1] = -np.inf
    names = ("coef_", "intercept_", "start_", "end_", "transitions_")
    square = sum(
        np.square(v[np.isfinite(v)]).sum() for v in (vars(tagger)[n] for n in names)
    )
    losses = [
        negative_log_likelihood(tagger, x, row) for x, row in zip(X, sets, strict=True)
    ]
    expected = np.mean(losses) + 0.5 * tagger.alpha_ * square
    assert tagger.objective_ == pytest.approx(expected, rel=1e-9)
    # no step along a weight is better: the gradient is that of the same sets
    for value in (tagger.coef_, tagger.transitions_[1:]):
        for at in ((0, 0), (1, 2)):
            for step in (1e-4, -1e-4):
                before = value[at]
                value[at] = before + step
                moved = [
                    negative_log_likelihood(tagger, x, row)
                    for x, row in zip(X, sets, strict=True)
                ]
                more = 0.5 * tagger.alpha_ * (square - before**2 + value[at] ** 2)
                assert np.mean(moved) + more > expected - 1e-7
                value[at] = before


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_between_known_and_missing(loss):
    X, y = sentences(30)
    one = [[{label} for label in row] for row in y]
    options = {"alpha": 0.05, "loss": loss, "random_state": 0}
    known = ChainCRF(**options).fit(X, y)
    np.testing.assert_array_equal(known.coef_, ChainCRF(**options).fit(X, one).coef_)
    every = [
        [set(LABELS) if t % 3 else label for t, label in enumerate(row)] for row in y
    ]
    missing = [[None if isinstance(k, set) else k for k in row] for row in every]
    fits = [ChainCRF(**options).fit(X, each) for each in (every, missing)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_sets_tell_more_than_nothing(loss):
    """Of three positions in four, one wrong label is excluded, or nothing is known."""
    rng = np.random.RandomState(3)
    (X, y), (test, true) = sentences(20), sentences(300, seed=1)
    X, test = (
        [np.hstack([x, rng.normal(size=(len(x), 10))]) for x in each]
        for each in (X, test)
    )
    sets = [
        [s if t % 4 else k for t, (s, k) in enumerate(zip(*rows, strict=True))]
        for rows in zip(vague(y, share=1.0), y, strict=True)
    ]
    nothing = [[None if t % 4 else k for t, k in enumerate(row)] for row in y]
    tagger = ChainCRF(0.1, loss=loss, random_state=0)
    scores = [tagger.fit(X, each).score(test, true) for each in (y, sets, nothing)]
    # 0.69, 0.69, 0.56 and 0.75, 0.71, 0.60
    assert scores[1] > scores[2] + 0.06 and scores[1] > scores[0] - 0.06


def test_weights_of_zero_and_empty_sequences():
    X, y = sentences(20)
    y = vague(y)
    tagger = ChainCRF(0.05, loss="log", random_state=0)
    weight = np.ones(22)
    weight[20] = 0.0
    more = [*X, X[0], X[0][:0]], [*y, [{"a", "b"}] * len(X[0]), []]
    found = ChainCRF(0.05, loss="log", random_state=0).fit(*more, weight)
    np.testing.assert_allclose(found.coef_, tagger.fit(X, y).coef_, atol=1e-9)


def test_many_labels():
    """Transitions that are kept where they have a weight: labels are completed, too."""
    rng = np.random.RandomState(0)
    states = [rng.randint(120, size=6) for _ in range(150)]
    X = [np.eye(120)[each] for each in states]
    y = [
        [{k, (k + 1) % 120} if t % 2 else k for t, k in enumerate(each.tolist())]
        for each in states
    ]
    tagger = ChainCRF(0.001, random_state=0).fit(X, y)
    # positions that are known tell which labels of the sets are right
    assert tagger.score(X, [each.tolist() for each in states]) > 0.9


def test_sets_in_any_order():
    """The result does not depend on how a set is iterated."""
    X, y = sentences(20)
    sets = vague(y)
    again = [
        [{*reversed(sorted(s))} if isinstance(s, set) else s for s in r] for r in sets
    ]
    fits = [
        ChainCRF(0.1, loss="log", random_state=0).fit(X, each) for each in (sets, again)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


BAD = {
    r"y\[1\] has the set set\(\)": set(),
    r"y\[1\] has the set .*None": {"a", None},
}


@pytest.mark.parametrize("text", BAD)
def test_bad_sets(text):
    X = [np.ones((2, 1))] * 2
    with pytest.raises(ValueError, match=text):
        ChainCRF().fit(X, [["a", "b"], [BAD[text], "a"]])
    with pytest.raises(ValueError, match="loss='log'"):
        ChainCRF(score_function=None, solver="sdca", loss="log").fit(
            X, [["a", "b"], [{"a", "b"}, "a"]]
        )


def test_hinge_needs_a_label():
    X, y = sentences(10)
    sets = [[{"a", "b"} for _ in row] for row in y]
    for train in (ChainCRF().fit, partial(ChainCRF().partial_fit, classes=["a", "b"])):
        with pytest.raises(ValueError, match="no position with a single label"):
            train(X, sets)
