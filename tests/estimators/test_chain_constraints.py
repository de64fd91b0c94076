"""Constrained decoding and probabilities, against enumeration and CRFsuite."""

from itertools import product

import numpy as np
import pytest
from reference import Chain

from sksstruct import ChainCRF
from sksstruct.datasets import make_chain
from sksstruct.inference import scheme_transitions
from sksstruct.losses import SmoothedHinge
from sksstruct.metrics import convert_labels

NAMES = ["B-X", "I-X", "O"]


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    y = []
    for _ in range(30):
        row = ["O"]
        for _ in range(rng.randint(1, 5)):
            row.append(rng.choice(["O", "B-X"] + ["I-X"] * 2 * (row[-1] != "O")))
        y.append(row[rng.randint(2) if row[1] != "I-X" else 0 :])
    codes = [[NAMES.index(label) for label in row] for row in y]
    X = [np.eye(3)[row] + 1.5 * rng.normal(size=(len(row), 3)) for row in codes]
    return X, y, codes


def enumerate_allowed(model, X, i, allowed):
    """Allowed labelings of one sequence, in codes, and their scores."""
    chain = Chain([X[i]], [np.zeros(len(X[i]), dtype=int)], 3)
    unary, pairwise = chain.potentials(0, chain.flatten(model))
    labelings = [y for y in product(range(3), repeat=len(X[i])) if allowed(y)]
    scores = [
        sum(unary[t, a] for t, a in enumerate(y))
        + sum(pairwise[a, b] for a, b in zip(y[:-1], y[1:], strict=True))
        for y in labelings
    ]
    return np.array(labelings), np.array(scores)


def follows_bio(y):
    return y[0] != 1 and all(
        b != 1 or a != 2 for a, b in zip(y[:-1], y[1:], strict=True)
    )


@pytest.mark.parametrize("where", ["fit", "predict"])
def test_predictions_given_constraints(data, where):
    X, y, _ = data
    rng = np.random.RandomState(1)
    bio = scheme_transitions(NAMES)
    at_fit = "bio" if where == "fit" else None
    model = ChainCRF(0.1, loss="log", forbidden_transitions=at_fit).fit(X, y)
    arguments = {} if where == "fit" else {"forbidden_transitions": bio}
    known, excluded, allowed = [], [], []
    for x in X:
        fixed = [None] * len(x)
        out = [set() for _ in x]
        if rng.rand() < 0.7:
            fixed[rng.randint(len(x))] = rng.choice(["O", "B-X"])
        for labels in out:
            if rng.rand() < 0.3:
                labels.add(str(rng.choice(["I-X", "B-X"])))
        # never all three: the excluded ones give way to the known
        out = [o - {k} for o, k in zip(out, fixed, strict=True)]

        def fits(z, fixed=fixed, out=out):
            names = [NAMES[a] for a in z]
            return follows_bio(z) and all(
                (k is None or k == name) and name not in o
                for name, k, o in zip(names, fixed, out, strict=True)
            )

        known.append(fixed if any(fixed) else None)
        excluded.append(out if any(out) else None)
        allowed.append(fits)
    arguments |= {"known": known, "excluded": excluded}
    predicted = model.predict(X, **arguments)
    best, best_scores = model.predict_topk(X, 4, **arguments)
    probabilities = model.predict_proba(X, **arguments)
    differs = 0
    for i in range(len(X)):
        labelings, scores = enumerate_allowed(model, X, i, allowed[i])
        order = np.argsort(-scores)
        names = np.array(NAMES)[labelings[order]]
        assert predicted[i].tolist() == names[0].tolist()
        n = min(4, len(order))
        np.testing.assert_array_equal(best[i], names[:n])
        np.testing.assert_allclose(best_scores[i], scores[order][:n])
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        expected = np.zeros((len(X[i]), 3))
        for labels, weight in zip(labelings, weights, strict=True):
            expected[np.arange(len(labels)), labels] += weight
        np.testing.assert_allclose(probabilities[i], expected, atol=1e-12)
        differs += predicted[i].tolist() != model.predict([X[i]])[0].tolist()
    assert differs > 3
    marginals = model.predict_marginals(X, **arguments)
    assert marginals[2][0] == dict(zip(NAMES, probabilities[2][0], strict=True))


@pytest.mark.parametrize("loss", ["hinge", "log", "smoothed_hinge"])
def test_forbidden_transitions_in_training(data, loss):
    """The objective at the fitted weights, over allowed labelings only."""
    X, y, codes = data
    model = ChainCRF(
        0.05, loss=loss, forbidden_transitions="bio", tol=1e-3, random_state=0
    ).fit(X, y)
    total = 0.025 * sum(
        (block**2).sum()
        for block in (
            model.coef_,
            model.intercept_,
            model.start_,
            model.end_,
            model.transitions_,
        )
    )
    strength = 0.0
    for i, row in enumerate(codes):
        labelings, scores = enumerate_allowed(model, X, i, follows_bio)
        true = scores[(labelings == row).all(axis=1)][0]
        if loss == "log":
            values = scores
            smooth = np.log(np.exp(values - true).sum())
        else:
            wrong = (labelings != row).sum(axis=1)
            values = scores - true + wrong / np.mean([len(c) for c in codes])
            smooth = values.max()
            # the entropy of all labelings is the most that smoothing adds
            strength = max(strength, 0.1 * np.log(len(labelings)))
        total += smooth / len(X)
    slack = 1e-9 if loss != "smoothed_hinge" else strength
    assert total - 1e-9 <= model.objective_ <= total + slack
    assert all(follows_bio([NAMES.index(a) for a in row]) for row in model.predict(X))
    free = ChainCRF(0.05, loss=loss, tol=1e-3, random_state=0).fit(X, y)
    assert not np.allclose(free.coef_, model.coef_)


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "IOBES", "BILOU"])
def test_rules_of_the_scheme_of_the_labels(data, scheme):
    """ "auto" finds it in y, and predictions and all further training keep to it."""
    X, y, _ = data
    # of two kinds, some of which adjoin
    y = [[*row, "B-Y", "B-X", "I-X", "B-X"] for row in y]
    X = [np.concatenate([x, np.eye(3)[[0, 0, 1, 0]]]) for x in X]
    y = convert_labels(y, to=scheme)
    model = ChainCRF(0.1, forbidden_transitions="auto", random_state=0).fit(X, y)
    rules = scheme_transitions(model.classes_.tolist(), scheme)
    assert rules and model.forbidden_transitions_ == rules
    for predicted in (model.predict(X), model.partial_fit(X, y).predict(X)):
        assert convert_labels(predicted, to=scheme) == [a.tolist() for a in predicted]
    assert model.forbidden_transitions_ == rules
    free = ChainCRF(0.1, random_state=0).fit(X, y)
    some = free.predict(X, forbidden_transitions=scheme.lower())
    assert convert_labels(some, to=scheme) == [a.tolist() for a in some]
    # what is not known proves nothing, here that I- begins a chunk
    y[0], y[1] = [None, *y[0][1:]], [*y[1][:-2], None, y[1][-1]]
    model = ChainCRF(0.1, loss="log", forbidden_transitions="auto").fit(X, y)
    assert model.forbidden_transitions_ == rules


def test_rules_of_labels_that_are_not_of_one_scheme():
    X, model = [np.ones((2, 1))] * 2, ChainCRF(forbidden_transitions="auto")
    with pytest.raises(ValueError, match=r"'auto': .* label 'PER', which is of no sch"):
        model.fit(X, [["PER", "O"], ["O", "O"]])
    with pytest.raises(ValueError, match=r"label 'S-X', .* IOBES, but .* 'L-X', which"):
        model.fit(X, [["B-X", "L-X"], ["O", "S-X"]])
    with pytest.raises(
        ValueError, match=r"y\[1\] starts .*='auto' rules out. .*convert"
    ):
        model.fit(X, [["B-X", "O"], ["I-X", "I-X"]])
    # B- after the same kind in another sequence is not IOB1's
    with pytest.raises(ValueError, match=r"y\[0\] starts with 'I-X' at position 0"):
        model.fit(X, [["I-X", "I-X"], ["B-X", "O"]])
    # without data, B- and I- are BIO's
    with pytest.raises(ValueError, match=r"y\[0\] starts with 'I-X' at position 0"):
        model.partial_fit(X, [["I-X", "B-X"]] * 2, classes=NAMES)
    model.set_params(forbidden_transitions="iob1")
    model.partial_fit(X, [["I-X", "B-X"]] * 2, classes=NAMES)
    with pytest.raises(ValueError, match="as a string must be 'auto', 'BIO', 'IOB1', "):
        ChainCRF(forbidden_transitions="ioe").fit(X, [["B-X", "O"]] * 2)


def test_partial_fit_keeps_the_constraints(data):
    X, y, _ = data
    model = ChainCRF(0.1, forbidden_transitions="bio", random_state=0)
    model.partial_fit(X, y, classes=NAMES)
    assert all(follows_bio([NAMES.index(a) for a in row]) for row in model.predict(X))
    with pytest.raises(ValueError, match=r"y\[0\] starts with 'I-X'"):
        model.partial_fit(X[:1], [["I-X"] * len(X[0])])


def test_start_and_end_can_be_forbidden(data):
    X, y, _ = data
    model = ChainCRF(0.1, loss="log").fit(X, y)
    rules = [(None, "O"), ("O", None), ("B-X", None)]
    for row in model.predict(X, forbidden_transitions=rules):
        assert row[0] != "O" and row[-1] == "I-X"


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["I-X", "O"], r"y\[1\] starts with 'I-X' at position 0"),
        (["O", "I-X"], r"y\[1\] has the forbidden transition from 'O' to 'I-X' at"),
    ],
)
def test_training_labels_that_break_the_rules(labels, message):
    X = [np.ones((2, 1))] * 2
    with pytest.raises(ValueError, match=message):
        ChainCRF(forbidden_transitions="bio").fit(X, [["B-X", "O"], labels])


def test_labels_that_end_where_they_must_not():
    X = [np.ones((2, 1))] * 2
    with pytest.raises(ValueError, match=r"y\[0\] ends with 1 at position 1"):
        ChainCRF(forbidden_transitions=[(1, None)]).fit(X, [[0, 1], [1, 0]])


def test_unknown_labels_of_rules_are_ignored_in_fit_only():
    data = make_chain(10, random_state=0)
    model = ChainCRF(forbidden_transitions=[(7, 8), (0, 7)]).fit(data.X, data.y)
    with pytest.raises(ValueError, match="has the label 7, which was not seen in fit"):
        model.predict(data.X, forbidden_transitions=[(0, 7)])


def test_partly_labeled_and_forbidden(data):
    """Unknown labels are completed within the rules, or refused."""
    X, y, _ = data
    partial = [[None if t % 2 else c for t, c in enumerate(row)] for row in y]
    for loss in ("hinge", "log"):
        model = ChainCRF(0.1, loss=loss, forbidden_transitions="bio", random_state=0)
        assert model.fit(X, partial).score(X, y) > 0.5
        rows = [np.ones((2, 1)), np.ones((2, 1))]
        rules = [(None, 1), (0, 1)]
        with pytest.raises(ValueError, match=r"y\[1\]"):
            model.set_params(forbidden_transitions=rules).fit(rows, [[0, 0], [None, 1]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"known": "x"}, TypeError, "known must be a list"),
        ({"known": []}, ValueError, "known has 0 entries, but X has 2 sequences"),
        ({"known": [None, "ab"]}, TypeError, r"known\[1\] must be None or a list"),
        ({"known": [[0], None]}, ValueError, r"known\[0\] has 1 entries, but X\[0\]"),
        ({"known": [[0, 5, None], None]}, ValueError, r"known\[0\] has the label 5"),
        ({"excluded": [[0, 0, 0], None]}, TypeError, r"excluded\[0\]\[0\] must be"),
        ({"excluded": [[[9], None, None], None]}, ValueError, "label 9"),
        (
            {"excluded": [[[0, 1, 2], None, None], None]},
            ValueError,
            r"X\[0\]: the constraints leave no labeling",
        ),
        ({"forbidden_transitions": 3}, TypeError, "forbidden_transitions must be"),
        ({"forbidden_transitions": iter([(0, 1)])}, TypeError, "must be a list of"),
        ({"forbidden_transitions": [([1], 2)]}, TypeError, "not hashable"),
        (
            {"forbidden_transitions": "bio"},
            ValueError,
            "label 0, which is of no scheme",
        ),
    ],
)
@pytest.mark.parametrize("method", ["predict", "predict_topk", "predict_proba"])
def test_bad_constraints(arguments, error, message, method):
    data = make_chain(30, random_state=0)
    X = [data.X[0][:1].repeat(3, axis=0), data.X[1]]
    model = ChainCRF(loss="log", tol=0.1).fit(data.X, data.y)
    positional = (X, 2) if method == "predict_topk" else (X,)
    with pytest.raises(error, match=message):
        getattr(model, method)(*positional, **arguments)


def test_what_was_fitted_counts():
    """Parameters that are changed later do not change a fitted tagger."""
    data = make_chain(20, random_state=0)
    model = ChainCRF(tol=0.1, random_state=0).fit(data.X, data.y)
    before = model.predict(data.X)
    model.set_params(loss="log", forbidden_transitions=[(0, 1), (None, 0)])
    assert not hasattr(model, "predict_proba")
    for a, b in zip(before, model.predict(data.X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert model.forbidden_transitions_ == []


def test_a_large_k_costs_nothing():
    data = make_chain(5, random_state=0)
    model = ChainCRF(tol=0.1, random_state=0).fit(data.X, data.y)
    labelings, _ = model.predict_topk([data.X[0][:2]], 10**11)
    assert len(labelings[0]) == 9


def test_scores_that_overflow():
    data = make_chain(10, random_state=0)
    model = ChainCRF(loss="log").fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"X\[0\]: its scores are too large"):
        model.predict_proba([1e308 * np.sign(data.X[0] + 10)])


def test_partial_fit_forgets_the_certificate():
    data = make_chain(10, random_state=0)
    model = ChainCRF(loss=SmoothedHinge("l2")).fit(data.X, data.y)
    model.set_params(loss="hinge").partial_fit(data.X, data.y)
    assert not hasattr(model, "topk_exact_") and not hasattr(model, "dual_gap_")


def test_partial_fit_is_for_the_hinge():
    data = make_chain(10, random_state=0)
    with pytest.raises(ValueError, match="loss='log' cannot be trained on mini-batch"):
        ChainCRF(loss="log").partial_fit(data.X, data.y, classes=[0, 1, 2])


def test_probabilities_need_the_likelihood():
    data = make_chain(10, random_state=0)
    model = ChainCRF(tol=0.1, random_state=0).fit(data.X, data.y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_marginals")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(data.X)
    assert len(model.predict_topk(data.X, 3)[0]) == 10


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_bad_k(k):
    data = make_chain(10, random_state=0)
    model = ChainCRF(tol=0.1, random_state=0).fit(data.X, data.y)
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        model.predict_topk(data.X, k)


def test_threads_give_the_same_bits():
    data = make_chain(50, random_state=0)
    model = ChainCRF(loss="log").fit(data.X, data.y)
    one = model.predict_topk(data.X, 3), model.predict_proba(data.X)
    model.set_params(n_jobs=3)
    many = model.predict_topk(data.X, 3), model.predict_proba(data.X)
    for a, b in zip(one[0] + (one[1],), many[0] + (many[1],), strict=True):
        for first, second in zip(a, b, strict=True):
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("all_possible", [False, True])
def test_agrees_with_crfsuite(data, tmp_path, all_possible):
    """The same objective, and the same marginals at CRFsuite's weights."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.RandomState(0)
    _, y, _ = data
    words = [
        [[f"w{w}", f"v{v}"] for w, v in rng.randint(6, size=(len(r), 2))] for r in y
    ]
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params(
        {
            "c2": 0.7,
            "feature.possible_states": all_possible,
            "feature.possible_transitions": all_possible,
            "epsilon": 1e-9,
            "delta": 1e-12,
        }
    )
    for row, labels in zip(words, y, strict=True):
        trainer.append(row, labels)
    trainer.train(str(tmp_path / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    names = sorted({f for row in words for t in row for f in t})
    X = [np.array([[f in t for f in names] for t in row], dtype=float) for row in words]
    model = ChainCRF(
        2 * 0.7 / len(X),
        loss="log",
        fit_intercept=False,
        boundary=False,
        all_possible_states=all_possible,
        all_possible_transitions=all_possible,
        tol=1e-9,
    ).fit(X, y)
    info = tagger.info()
    coef = [[info.state_features.get((f, c), 0.0) for f in names] for c in NAMES]
    theirs = np.array(coef)
    transitions = [[info.transitions.get((a, b), 0.0) for b in NAMES] for a in NAMES]
    np.testing.assert_allclose(model.coef_, theirs, atol=2e-3)
    np.testing.assert_allclose(model.transitions_, transitions, atol=2e-3)
    model.coef_, model.transitions_ = theirs, np.array(transitions)
    marginals = model.predict_marginals(X)
    assert model.classes_.tolist() == NAMES
    for row, ours in zip(words, marginals, strict=True):
        tagger.set(row)
        for t, probabilities in enumerate(ours):
            for name in NAMES:
                theirs = tagger.marginal(name, t)
                assert probabilities[name] == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("solver", ["auto", "bcfw", "fw", "gdmm"])
def test_constraints_that_leave_the_observed_labelings_only(solver):
    """Every loss is zero, but for rounding errors: so are objective and weights."""
    tagger = ChainCRF(
        alpha=0.1, solver=solver, random_state=0,
        forbidden_transitions=[(0, 0), (1, None), (None, 1)],
    ).fit([[[0.4], [1.0], [0.2]]], [[0, 1, 0]])  # fmt: skip
    assert abs(tagger.objective_) < 1e-12
    assert tagger.n_iter_ < 20
    assert abs(tagger.coef_).max() < 1e-12


def test_a_scheme_for_predictions_has_a_name():
    """Labels alone do not tell IOB1 from BIO, whose rules are others."""
    X, y = [np.eye(3)], [["I-X", "B-X", "O"]]
    model = ChainCRF(0.1, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="is for training, whose labels show"):
        model.predict(X, forbidden_transitions="auto")
    assert len(model.predict(X, forbidden_transitions="iob1")[0]) == 3
