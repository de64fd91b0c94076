"""Dependency trees: labelings, marginals, learning, and errors."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from sksstruct import SSVMClassifier
from sksstruct.feature_extraction import ArcVectorizer
from sksstruct.inference import dependency_marginals, dependency_tree
from sksstruct.metrics import token_accuracy_score
from sksstruct.models import DependencyModel, check_model
from sksstruct.models.spec import FACTOR_OF_SQUARE
from sksstruct.utils.entries import Entries

KINDS = list(itertools.product([True, False], repeat=2))


def sentences(n_sentences, projective, single_root, seed=0, longest=8):
    """Trees that are best for scores of arcs, which are features with noise."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n_sentences):
        n = rng.randint(1, longest + 1)
        scores = rng.normal(size=(n + 1, n))
        kind = {"projective": projective, "single_root": single_root}
        y.append(dependency_tree(scores, **kind)[0])
        X.append(scores.reshape(-1, 1) + 0.4 * rng.normal(size=(scores.size, 3)))
    return X, y


def is_allowed(heads, projective, single_root):
    """By reachability from the root, and by pairs of arcs that cross."""
    n = len(heads)
    if single_root and sum(h == 0 for h in heads) != 1:
        return False
    reached = {0}
    for _ in range(n):
        reached |= {m for m, h in enumerate(heads, 1) if h in reached}
    if len(reached) <= n:
        return False
    arcs = [tuple(sorted(arc)) for arc in enumerate(heads, 1)]
    crossing = any(a < c < b < d for (a, b), (c, d) in itertools.permutations(arcs, 2))
    return not (projective and crossing)


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_labelings(projective, single_root):
    """Of all records of small integers, those are accepted that are trees."""
    model = DependencyModel(projective, single_root)
    for n in range(1, 5):
        X, y = [np.ones(((n + 1) * n, 1))], [np.arange(n)]
        expected = {
            heads
            for heads in itertools.product(range(-1, n + 2), repeat=n)
            if is_allowed(heads, projective, single_root)
        }
        assert {tuple(each.tolist()) for each in model.labelings(X[0])} == expected
        model.prepare(X, y)
        bound = model._bound(X, [model._output(X[0], y[0], "y")], None)
        accepted = set()
        for record in itertools.product(range(-1, n + 2), repeat=n):
            keys = np.array(record, dtype=np.int32)
            try:
                bound.check_labelings(
                    Entries({}, "state"), np.ones(1, dtype=np.intp), keys
                )
            except ValueError:
                continue
            accepted.add(record)
        assert accepted == expected


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_trees_are_learned(projective, single_root):
    X, y = sentences(60, projective, single_root)
    test, true = sentences(60, projective, single_root, seed=1)
    model = DependencyModel(projective, single_root)
    for loss in ("hinge", "log"):
        fitted = SSVMClassifier(model, alpha=0.01, loss=loss, random_state=0)
        assert token_accuracy_score(true, fitted.fit(X, y).predict(test)) > 0.8
        assert fitted.coef_.shape == (3,)


@pytest.mark.slow
@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_by_enumeration(projective, single_root):
    X, y = sentences(8, projective, single_root, longest=4)
    model = DependencyModel(projective, single_root, loss_normalization=None)
    check_model(model, X, y, enumerate_outputs=True, random_state=0)


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_marginals_and_best(projective, single_root):
    X, y = sentences(12, projective, single_root, longest=4)
    fitted = SSVMClassifier(DependencyModel(projective, single_root), loss="log")
    fitted.fit(X, y)
    marginals, found = fitted.predict_marginals(X), fitted.predict_topk(X, 3)
    for x, share, best in zip(X, marginals, found[0], strict=True):
        outputs = np.array(list(fitted.model_.labelings(x)))
        n = outputs.shape[1]
        scores = (x @ fitted.coef_).reshape(n + 1, n)
        totals = scores[outputs, np.arange(n)].sum(axis=1)
        p = np.exp(totals - totals.max())
        p /= p.sum()
        expected = np.zeros((n + 1, n))
        for heads, each in zip(outputs, p, strict=True):
            expected[heads, np.arange(n)] += each
        np.testing.assert_allclose(share, expected, atol=1e-12)
        order = np.argsort(-totals)[:3]
        assert [each.tolist() for each in best] == outputs[order].tolist()


def test_probabilities_are_those_of_inference():
    X, y = sentences(20, True, True, longest=30)
    fitted = SSVMClassifier("dependencies", loss="log", alpha=0.1).fit(X, y)
    for x, n, share in zip(X, map(len, y), fitted.predict_marginals(X), strict=True):
        scores = (x @ fitted.coef_).reshape(n + 1, n)
        np.testing.assert_allclose(share, dependency_marginals(scores)[1], atol=1e-12)


def test_forms_of_inputs():
    """Arrays, CSR, what a function returns, and rows that are ignored."""
    X, y = sentences(20, True, True)
    fits = [
        SSVMClassifier(model, alpha=0.1, random_state=0).fit(inputs, y)
        for model, inputs in (
            (DependencyModel(), X),
            (DependencyModel(), [sparse.csr_array(x) for x in X]),
            (DependencyModel(arc_features=lambda pair: pair[1]), list(enumerate(X))),
            (DependencyModel(), [without_loops(x) for x in X]),
        )
    ]
    for each in fits[1:]:
        np.testing.assert_allclose(each.weights_, fits[0].weights_, rtol=1e-9)
    assert fits[2].predict([(0, X[0])])[0].tolist() == fits[0].predict(X)[0].tolist()


def without_loops(x):
    """Other features of arcs from a word to itself."""
    out, n = x.copy(), int(len(x) ** 0.5)
    out[[h * n + h - 1 for h in range(1, n + 1)]] = 7.0
    return out


BAD = {
    r"X\[1\] has 5 rows": ([np.ones((6, 1)), np.ones((5, 1))], [[0, 1], [0, 1]]),
    "X has no words: every sentence is empty": ([np.ones((0, 1))], [[]]),
    r"X has arcs of \[1, 2\] features": (
        [np.ones((6, 1)), np.ones((6, 2))],
        [[0, 1], [0, 1]],
    ),
    r"y\[1\] must be integers of shape \(2,\)": ([np.ones((6, 1))] * 2, [[0, 1], [0]]),
    r"y\[0\] has head 3 for word 2": ([np.ones((6, 1))], [[0, 3]]),
    r"y\[0\] has head -1 for word 1": ([np.ones((6, 1))], [[-1, 0]]),
    r"y\[0\] has a cycle: following heads from word 2": (
        [np.ones((12, 1))],
        [[0, 3, 2]],
    ),
    r"y\[1\] has a second root, word 2: pass single_root=False": (
        [np.ones((6, 1))] * 2,
        [[0, 1], [0, 0]],
    ),
    r"y\[0\] is not projective: the arc from 0 to word 2 .*projective=False": (
        [np.ones((20, 1))],
        [[3, 0, 4, 2]],
    ),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_data(text):
    X, y = BAD[text]
    with pytest.raises(ValueError, match=text):
        SSVMClassifier("dependencies").fit(X, y)


def test_large_heads_are_out_of_range():
    with pytest.raises(ValueError, match=r"y\[0\] has head"):
        SSVMClassifier("dependencies").fit([np.ones((6, 1))], [[0, 2**32 + 1]])


def test_weights_count_sentences():
    """The mean length, by which errors are divided, is that of repeated sentences."""
    X, y = sentences(12, True, True)
    weight = np.array([3 if len(heads) > 4 else k % 2 for k, heads in enumerate(y)])
    options = {"alpha": 0.1, "tol": 1e-8, "max_iter": 5000, "random_state": 0}
    weighted = SSVMClassifier("dependencies", **options).fit(X, y, weight)
    rows = np.repeat(np.arange(12), weight)
    many = SSVMClassifier("dependencies", **options)
    many.fit([X[i] for i in rows], [y[i] for i in rows])
    sizes = list(map(len, y))
    mean = np.average(sizes, weights=weight)
    assert weighted.model_.mean_size_ == pytest.approx(mean)
    assert mean != pytest.approx(np.mean(sizes), rel=0.05)
    np.testing.assert_allclose(weighted.weights_, many.weights_, atol=1e-3)
    assert weighted.objective_ == pytest.approx(many.objective_, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"]
)
@pytest.mark.parametrize(
    "model",
    [
        DependencyModel(),
        DependencyModel(False, False, loss_normalization="example"),
    ],
    ids=str,
)
def test_sentences_without_words(model, form, loss):
    """Training leaves them out, and they have one tree, which is empty."""
    rng = np.random.RandomState(0)
    y = [np.array(heads) for heads in ([2, 0, 2], [0], [0, 1])]
    X = [form(rng.normal(size=((len(z) + 1) * len(z), 2))) for z in y]
    weight = np.array([1.0, 2.0, 3.0])
    alone = SSVMClassifier(model, loss=loss, random_state=0).fit(X, y, weight)
    empty = form(np.zeros((0, 2)))
    mixed, labels = [empty, *X[:2], [], X[2]], [[], *y[:2], np.zeros(0), y[2]]
    weights = np.array([5.0, 1.0, 2.0, 7.0, 3.0])
    classifier = SSVMClassifier(model, loss=loss, random_state=0)
    classifier.fit(mixed, labels, weights)
    assert weights.tolist() == [5, 1, 2, 7, 3]
    np.testing.assert_array_equal(classifier.coef_, alone.coef_)
    assert classifier.score(mixed, labels, weights) == alone.score(X, y, weight)
    for some, found in ((mixed, [0, 3, 1, 0, 2]), ([empty, []], [0, 0])):
        predicted = classifier.predict(some)
        assert [len(heads) for heads in predicted] == found
        if loss == "log":
            shapes = [each.shape for each in classifier.predict_marginals(some)]
            assert shapes == [(n + 1, n) for n in found]
    best, scores = classifier.predict_topk([[]], 3)
    assert [len(heads) for heads in best[0]] == [0] and scores[0].tolist() == [0.0]
    with pytest.raises(ValueError, match="X has no words: every sentence is empty"):
        classifier.fit([empty, []], [[], []])
    with pytest.raises(ValueError, match=r"y\[0\] must be integers of shape \(0,\)"):
        classifier.fit([[], *X], [[1], *y])


def test_arcs_of_no_words():
    X, y = [[("a", "D"), ("cat", "N")], []], [[2, 0], []]
    arcs = ArcVectorizer().fit(X, y).transform(X)
    assert [part.shape[0] for part in arcs] == [6, 0]
    parser = SSVMClassifier("dependencies", random_state=0).fit(arcs, y)
    assert [heads.tolist() for heads in parser.predict(arcs)] == [[2, 0], []]


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_auto_alpha_follows_the_features_of_the_trees(loss):
    X, y = sentences(30, True, True, seed=3)
    rng = np.random.RandomState(0)
    # what other arcs have does not count
    for x, heads in zip(X, y, strict=True):
        others = np.ones(len(x), dtype=bool)
        others[heads * len(heads) + np.arange(len(heads))] = False
        x[others] *= 0.5
    arcs = [x[h * len(h) + np.arange(len(h))] for x, h in zip(X, y, strict=True)]
    square = np.concatenate(arcs).var(axis=0).sum()
    constant = 0.02 if loss == "hinge" else 2 * 0.9 / len(X)

    def fitted(X, y, sample_weight=None):
        parser = SSVMClassifier("dependencies", alpha="auto", loss=loss, random_state=0)
        return parser.fit(X, y, sample_weight)

    plain = fitted(X, y)
    assert plain.alpha_ == pytest.approx(constant * FACTOR_OF_SQUARE * square)
    assert plain.model_.mean_square_ == pytest.approx(square)
    # units of the features, sparse features, sentences without words, and weights
    more = fitted([*X, []], [*y, []])
    assert more.alpha_ == pytest.approx(plain.alpha_)
    assert fitted(list(map(sparse.csr_array, X)), y).alpha_ == pytest.approx(
        plain.alpha_
    )
    # a power of two, so that rounding is the same
    large = fitted([1024 * x for x in X], y)
    assert large.alpha_ == pytest.approx(2.0**20 * plain.alpha_)
    new = [rng.normal(size=(x.shape)) for x in X]
    for a, b in zip(
        plain.predict(new), large.predict([1024 * x for x in new]), strict=True
    ):
        assert a.tolist() == b.tolist()
    twice = fitted([*X, *X[:10]], [*y, *y[:10]])
    weights = np.where(np.arange(len(X)) < 10, 2.0, 1.0)
    assert fitted(X, y, weights).alpha_ == pytest.approx(twice.alpha_)
