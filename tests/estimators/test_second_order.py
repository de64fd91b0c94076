"""Chains of second order: oracles, gradients, optima, and the estimator."""

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    TripleChain,
    best_by_tie_rule,
    enumerate_chain,
    flat_weights,
    in_order,
    smooth_objective,
)
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sksstruct import ChainCRF, make_tagger
from sksstruct.losses import SmoothedHinge
from sksstruct.models import ELUScore
from sksstruct.models.chain.chain import ChainModel
from sksstruct.models.chain.fitted import FittedChain
from sksstruct.models.roles import smooth_loss
from sksstruct.solvers import BCFW, LBFGS, SDCA
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences

LOSSES = {
    "log": ("entropy", 1.0, 1),
    "entropy": ("entropy", 0.3, 1),
    # where scores are divided by so little, sums are of logarithms
    "entropy, in logarithms": ("entropy", 1e-3, 1),
    "l2": ("l2", 0.7, 4),
    "l2, all labelings": ("l2", 0.7, 1000),
}
COLUMNS = [0, 2]
LOSS_NAMES = ["hinge", "log", "smoothed_hinge"]


def problem(seed=0, n=7):
    """Sequences of one to five positions, with three labels."""
    rng = np.random.RandomState(seed)
    sizes = [1, 2, *rng.randint(3, 6, size=n - 2)]
    X = [rng.normal(size=(size, 4)).round(1) for size in sizes]
    y = [rng.randint(3, size=size) for size in sizes]
    y[2][:3] = 0, 1, 2
    return X, y


def bound(X, y, name, **options):
    """The smooth loss of a chain of second order, and its model."""
    loss = "log" if name == "log" else SmoothedHinge(*LOSSES[name])
    spec = ChainModel(loss=loss, order=2, **options)
    spec.check()
    model = spec._bind(spec._read(X, y, None, None))
    return smooth_loss(model, SmoothedHinge(*LOSSES[name])), model


class TestGradient:
    """Values against enumeration, gradients against finite differences."""

    def check(self, smooth, model, chain, name, **options):
        given, w = flat_weights(model, np.random.RandomState(1))
        gradient = np.full(model.n_weights, np.nan)
        value = smooth.value_and_gradient(given, gradient)
        options["augmented"] = name != "log"

        def reference(w):
            return smooth_objective(chain, w, LOSSES[name], **options)

        assert value == pytest.approx(reference(w), rel=1e-11)
        found = [np.ravel(block) for block in model.views(gradient).values()]
        np.testing.assert_allclose(
            np.concatenate(found), approx_fprime(w, reference, 1e-6), atol=2e-5
        )
        # what no weight stands for
        for block in model.views(gradient).values():
            block[...] = 0.0
        assert not gradient.any()
        threads = np.empty(model.n_weights)
        assert smooth.value_and_gradient(given, threads, n_jobs=2) == value

    @pytest.mark.slow
    @pytest.mark.parametrize("name", LOSSES)
    @pytest.mark.parametrize("columns", [None, COLUMNS], ids=["plain", "paired"])
    @pytest.mark.parametrize("every", [False, True], ids=["seen", "all"])
    def test_of_every_loss(self, name, columns, every):
        X, y = problem()
        options = {"transition_features": columns, "all_possible_triples": every}
        smooth, model = bound(X, y, name, **options)
        triples = list(np.ndindex(3, 3, 3)) if every else None
        chain = TripleChain(X, y, 3, columns or [], triples)
        assert model.n_triples == len(chain.seen) and (model.n_triples < 27) != every
        self.check(smooth, model, chain, name)

    @pytest.mark.parametrize("name", LOSSES)
    def test_with_forbidden_transitions(self, name):
        X, y = problem(n=12)
        keep = [
            i
            for i, row in enumerate(y)
            if (1, 1) not in zip(row, row[1:], strict=False)
        ]
        X, y = [X[i] for i in keep], [y[i] for i in keep]
        smooth, model = bound(X, y, name, forbidden_transitions=[(1, 1)])

        def allowed(labelings):
            ones = labelings == 1
            return ~(ones[:, :-1] & ones[:, 1:]).any(axis=1)

        self.check(smooth, model, TripleChain(X, y, 3), name, allowed=allowed)

    @pytest.mark.parametrize("columns", [None, COLUMNS], ids=["plain", "paired"])
    def test_of_observed_labels(self, columns):
        X, y = problem(n=9)
        rng = np.random.RandomState(4)
        known = [rng.rand(len(row)) < 0.8 for row in y]
        for row in known:
            row[rng.randint(len(row))] = True
        given = [
            [label if seen else None for label, seen in zip(*rows, strict=True)]
            for rows in zip(y, known, strict=True)
        ]
        smooth, model = bound(X, given, "log", transition_features=columns)
        support = model.triple_support.coef(np.ones(model.n_triples)).tocoo()
        seen = zip(support.row, *np.divmod(support.col, 3), strict=True)
        chain = TripleChain(X, y, 3, [], [tuple(map(int, triple)) for triple in seen])
        assert 0 < len(chain.seen) < len(TripleChain(X, y, 3).seen)
        if columns:
            pairs = model.pair_support.coef(np.ones(model.n_pair_weights)).tocoo()
            keys = zip(pairs.row, *np.divmod(pairs.col, 3), strict=True)
            chain.triples = [tuple(map(int, key)) for key in keys]
        self.check(smooth, model, chain, "log", known=known)

    @pytest.mark.parametrize("scale", [10.0, 100.0, 3000.0])
    def test_of_extreme_scores(self, scale):
        """Sums of scaled messages, and of logarithms; no digits are lost."""
        X, y = problem()
        smooth, model = bound(X, y, "log")
        given, w = flat_weights(model, np.random.RandomState(1))
        chain, gradient = TripleChain(X, y, 3), np.empty(model.n_weights)
        value = smooth.value_and_gradient(given * scale, gradient)
        expected = smooth_objective(chain, w * scale, LOSSES["log"], augmented=False)
        assert value == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize(("triples", "intercept"), [(-60.0, 20.0), (-600.0, 0.0)])
    def test_of_triples_that_are_nearly_forbidden(self, triples, intercept):
        """Where all likely triples score very little, the others are what counts."""
        X, y = [np.zeros((4, 1))], [[0, 1, 0, 1]]
        smooth, model = bound(X, y, "log")
        w = np.zeros(model.n_weights)
        model.views(w)["triples"][...] = triples
        model.views(w)["intercept"][...] = intercept
        chain = TripleChain(X, np.array(y), 2)
        flat = np.concatenate([np.ravel(block) for block in model.views(w).values()])
        expected = smooth_objective(chain, flat, LOSSES["log"], augmented=False)
        value = smooth.value_and_gradient(w, np.empty_like(w))
        assert value == pytest.approx(expected, rel=1e-13)


@st.composite
def fitted_chains(draw):
    """A sequence, weights with ties, and constraints."""
    size, n_labels, n_features = (draw(st.integers(1, n)) for n in (5, 3, 2))
    rng = np.random.RandomState(draw(st.integers(0, 10**6)))
    X = rng.randint(-1, 2, size=(size, n_features)).astype(float)
    vector = (n_labels,)
    shapes = [(n_labels, n_features), vector, vector, vector, (n_labels, n_labels)]
    shapes += [(n_features, n_labels**2), (n_labels, n_labels**2)]
    weights = [rng.randint(-2, 3, size=shape).astype(float) for shape in shapes]
    for part, shares in ((-2, [0.0, 0.5]), (-1, [0.0, 0.3, 1.0])):
        share = draw(st.sampled_from(shares))
        weights[part] *= rng.uniform(size=weights[part].shape) < share
    if draw(st.booleans()):
        weights = [weight * 300.0 for weight in weights]
    forbidden = draw(
        st.lists(st.tuples(*2 * [st.integers(0, n_labels - 1)]), max_size=2)
    )
    excluded = None
    if draw(st.booleans()):
        excluded = [[rng.choice(n_labels, size=1) for _ in range(size)]]
    return X, weights, forbidden, excluded


@pytest.mark.slow
@settings(max_examples=200)
@given(chain=fitted_chains())
def test_oracles_equal_enumeration(chain):
    """Max, top-K and marginals: with ties, few positions and labels, and -inf."""
    X, weights, forbidden, excluded = chain
    coef, bias, start, end, transitions, pairs, triples = weights
    n_labels, size = len(coef), len(X)
    unary = X @ coef.T + bias
    unary[0] += start
    unary[-1] += end
    tables = transitions + (X[1:] @ pairs).reshape(-1, n_labels, n_labels)
    for a, b in forbidden:
        tables[:, a, b] = -np.inf
    for t in range(size if excluded else 0):
        unary[t, excluded[0][t]] = -np.inf
    labelings, scores = enumerate_chain(unary, tables)
    table = triples.reshape(3 * [n_labels])
    for t in range(size - 2):
        scores += table[tuple(labelings[:, t : t + 3].T)]
    classes = np.arange(n_labels)
    fitted = FittedChain(
        PackedSequences(X, [0, size]),
        classes,
        *weights[:-2],
        forbidden,
        excluded=excluded,
        dense=True,
        transition_coef=sparse.csr_array(pairs),
        triples=sparse.csr_array(triples),
    )
    if not np.isfinite(scores).any():
        for method in (fitted.decode, fitted.marginals, lambda: fitted.topk(3)):
            with pytest.raises(ValueError, match="leave no labeling"):
                method()
        return
    labels, value = fitted.decode()
    np.testing.assert_array_equal(labels, best_by_tie_rule(labelings, scores))
    assert value[0] == scores.max()
    expected, best = in_order(labelings, scores)
    for k in (2, 7, 1000):
        rows, values = fitted.topk(k)
        np.testing.assert_array_equal(values[0], best[:k])
        np.testing.assert_array_equal(rows[0], expected[:k])
    shares = softmax(scores)
    nodes = np.array(
        [[shares[labelings[:, t] == k].sum() for k in classes] for t in range(size)]
    )
    np.testing.assert_allclose(fitted.marginals(), nodes, atol=1e-12)


@cache
def optimum_of_the_hinge(columns, alpha):
    """The chain of a problem, and the minimum of its objective."""
    chain = TripleChain(*problem(n=6), 3, columns)
    return chain, chain.optimum(alpha)


class TestOptimum:
    """Every solver reaches what a general solver finds."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "solver", ["bcfw", "cutting_plane", "bmrm", "fw", "ssg", "casimir"]
    )
    @pytest.mark.parametrize("columns", [None, [1]], ids=["plain", "paired"])
    def test_of_the_hinge(self, solver, columns):
        (X, y), alpha = problem(n=6), 0.5
        chain, best = optimum_of_the_hinge(tuple(columns or ()), alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ChainCRF(
                alpha, solver=solver, tol=1e-3, max_iter=2000, random_state=0,
                order=2, transition_features=columns,
            ).fit(X, y)  # fmt: skip
        w = chain.flatten(model)
        assert model.objective_ == pytest.approx(chain.primal(w, alpha), abs=1e-9)
        assert -1e-6 <= model.objective_ - best <= max(model.dual_gap_, 2e-3) + 1e-6

    @pytest.mark.parametrize("loss", ["log", "smoothed_hinge"])
    @pytest.mark.parametrize("columns", [None, COLUMNS], ids=["plain", "paired"])
    def test_of_losses_with_a_gradient(self, loss, columns):
        X, y = problem(n=8)
        options = {"order": 2, "transition_features": columns, "random_state": 0}
        best = ChainCRF(0.3, loss=loss, solver=LBFGS(tol=1e-9), **options).fit(X, y)
        chain = TripleChain(X, y, 3, columns or [])
        default = SmoothedHinge()
        kind = default.smoothing, default.mu, default.k
        kind = LOSSES["log"] if loss == "log" else kind
        w = chain.flatten(best)
        exact = smooth_objective(chain, w, kind, augmented=loss != "log")
        assert best.objective_ == pytest.approx(exact + 0.15 * (w @ w), rel=1e-9)
        for solver in (SDCA(tol=1e-6, max_iter=3000), "sgd", "svrg"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = ChainCRF(0.3, loss=loss, solver=solver, **options).fit(X, y)
            gap = model.objective_ - best.objective_
            assert -1e-8 <= gap <= 0.01 * best.objective_

    @pytest.mark.parametrize(
        "options",
        [
            {"step": "pairwise", "cache": True, "inner_steps": 10},
            {"step": "away", "inner_steps": 3},
            {"step": "pairwise", "averaging": False},
            {"step": "fw"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("length", [5, 60])
    def test_certificate_is_that_of_numpy(self, options, length):
        """Also where sequences are too long for a Gram matrix."""
        rng = np.random.RandomState(0)
        X = [rng.normal(size=(length, 3)).round(1) for _ in range(3)]
        y = [rng.randint(3, size=length) for _ in range(3)]
        alpha, chain = 5.0, TripleChain(X, y, 3)
        model = ChainCRF(
            alpha, order=2, random_state=0,
            solver=BCFW.as_published(**options, max_iter=9000, tol=0.1),
        ).fit(X, y)  # fmt: skip
        w = chain.flatten(model)
        if length == 5:
            exact = chain.primal(w, alpha)
            assert model.objective_ == pytest.approx(exact, abs=1e-9)
        dual = model.dual_loss_ - alpha / 2 * (w @ w)
        assert model.objective_ - model.dual_gap_ == pytest.approx(dual, abs=1e-9)
        assert -1e-9 <= model.dual_gap_ <= 0.1


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_without_triples_it_is_first_order(loss):
    X = [x[:2] for x in problem()[0]]
    y = [row[:2] for row in problem()[1]]
    first, second = (
        ChainCRF(0.1, loss=loss, order=order, random_state=0).fit(X, y)
        for order in (1, 2)
    )
    assert second.triples_.shape == (3, 9) and second.triples_.nnz == 0
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.objective_ == second.objective_
    longer = problem()[0]
    for one, two in zip(first.predict(longer), second.predict(longer), strict=True):
        np.testing.assert_array_equal(one, two)


def rhythm(n, seed=0):
    """Labels 0, 0, 1 over and over: which one comes next, two labels say."""
    rng = np.random.RandomState(seed)
    X, y = [], []
    for _ in range(n):
        labels = (np.arange(rng.randint(4, 12)) + rng.randint(3)) % 3 // 2
        x = np.zeros((len(labels), 3))
        x[:, 2] = 1.0
        x[:2, :2] = np.eye(2)[labels[:2]]
        X.append(x)
        y.append(labels)
    return X, y


class TestEstimator:
    @pytest.mark.parametrize("loss", LOSS_NAMES)
    def test_learns_what_two_labels_tell(self, loss):
        (X, y), (X_test, y_test) = rhythm(60), rhythm(60, seed=1)
        plain = ChainCRF(0.01, loss=loss, random_state=0)
        second = clone(plain).set_params(order=2).fit(X, y)
        assert plain.fit(X, y).score(X_test, y_test) < 0.8
        assert second.score(X_test, y_test) == 1.0
        # one triple for each place in the rhythm
        assert set(second.triple_features_) == {(0, 0, 1), (0, 1, 0), (1, 0, 0)}

    @pytest.mark.parametrize("loss", LOSS_NAMES)
    def test_labels_are_completed(self, loss):
        X, y = rhythm(80)
        rng = np.random.RandomState(0)
        y = [[k if rng.uniform() < 0.8 else None for k in row] for row in y]
        y = [row if any(k is not None for k in row) else [0] * len(row) for row in y]
        model = ChainCRF(0.01, loss=loss, order=2, random_state=0).fit(X, y)
        assert model.score(*rhythm(60, seed=1)) > 0.95

    def test_predictions_agree_with_each_other(self):
        X, y = problem(n=9)
        model = ChainCRF(0.05, loss="log", order=2).fit(X, y)
        labels, scores = model.predict_topk(X, 2)
        for row, best in zip(model.predict(X), labels, strict=True):
            np.testing.assert_array_equal(row, best[0])
        first = [score[0] for score in scores]
        np.testing.assert_allclose(model.decision_function(X), first, rtol=1e-12)
        known = [[None, *row[1:]] for row in y]
        for row, labels in zip(model.predict(X, known=known), y, strict=True):
            np.testing.assert_array_equal(row[1:], labels[1:])
        for share, row in zip(model.predict_proba(X, known=known), y, strict=True):
            np.testing.assert_allclose(share[range(1, len(row)), row[1:]], 1.0)

    @pytest.mark.parametrize("loss", ["hinge", "log"])
    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_contract(self, check, loss):
        check(ChainCRF(0.1, loss=loss, order=2))

    def test_saved_and_cast(self):
        X, y = problem(n=8)
        model = ChainCRF(0.1, loss="log", order=2).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        assert again.triple_features_ == model.triple_features_
        pairs = zip(model.predict_proba(X), again.predict_proba(X), strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
        for form in (again.cast(np.float32), again.sparsify()):
            assert form.score(X, y) == model.score(X, y)

    def test_grid_search_and_tagger(self):
        X, y = rhythm(30)
        grid = {"order": [1, 2], "all_possible_triples": [False, True]}
        search = GridSearchCV(ChainCRF(0.01, random_state=0), grid, cv=3).fit(X, y)
        assert search.best_params_["order"] == 2
        tagger = make_tagger(order=2).fit([[["a"], ["b"], ["a"]]], [["A", "B", "A"]])
        assert set(tagger.triple_features_) == {("A", "B", "A")}

    def test_first_order_has_none(self):
        model = ChainCRF().fit(*problem())
        assert not hasattr(model, "triples_")
        with pytest.raises(AttributeError, match="order=1"):
            model.triple_features_  # noqa: B018

    @pytest.mark.parametrize("solver", ["gdmm", "soft_bcfw", "pragam"])
    def test_solvers_made_of_pairs_are_refused(self, solver):
        with pytest.raises(ValueError, match="oracle") as caught:
            ChainCRF(solver=solver, order=2).fit(*problem())
        assert "use order=1" in "".join(caught.value.__notes__)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"order": 3}, "order"),
            ({"order": 2, "score_function": ELUScore(2)}, "order=2 cannot be used"),
        ],
    )
    def test_wrong(self, options, message):
        with pytest.raises(ValueError, match=message):
            ChainCRF(**options).fit(*problem())

    @pytest.mark.parametrize(
        "options", [{"loss": "log", "solver": "sdca"}, {}], ids=str
    )
    def test_warm_start(self, options):
        X, y = problem(n=12)
        model = ChainCRF(
            0.5, **options, order=2, tol=1e-3, warm_start=True, random_state=0
        ).fit(X, y)
        cold = clone(model).set_params(alpha=0.51, warm_start=False).fit(X, y)
        assert model.set_params(alpha=0.51).fit(X, y).n_iter_ < cold.n_iter_
        model.set_params(order=1)
        with pytest.warns(UserWarning, match="warm_start"):
            model.fit(X, y)
        assert not hasattr(model, "triples_")

    def test_triples_come_with_the_batches(self):
        X, y = rhythm(120)
        model = ChainCRF(0.01, order=2, random_state=0)
        model.partial_fit([x[:3] for x in X[:1]], [row[:3] for row in y[:1]], [0, 1])
        assert model.triples_.nnz == 1
        for start in range(0, 120, 10):
            model.partial_fit(X[start : start + 10], y[start : start + 10])
        assert model.triples_.nnz == 3
        assert model.score(*rhythm(60, seed=1)) > 0.95


def test_answers_of_a_fitted_tagger(tmp_path):
    X, codes = rhythm(30)
    y = [[("O", "B-x")[code] for code in row] for row in codes]
    tagger = ChainCRF(order=2, loss="log", random_state=0).fit(X, y)
    labelings, (scores,) = tagger.predict_topk(X[:1], 10**6)
    shares = softmax(scores)
    found = tagger.log_proba(X[:1] * 3, labelings[0][[0, 1, -1]])
    np.testing.assert_allclose(np.exp(found), shares[[0, 1, -1]], atol=1e-10)
    # a distribution of first order is no longer what it is
    for method in (tagger.entropy, tagger.predict_entities):
        with pytest.raises(ValueError, match="is for order=1"):
            method(X[:1])
    assert len(tagger.entropy(X[:1], positions=True)[0]) == len(X[0])
    for t in range(len(X[0])):
        explained = tagger.explain(X[0], t)
        gain = explained.score - explained.other_score
        assert explained.table["contribution"].sum() == pytest.approx(gain)
    tagger.to_json(tmp_path / "model.json")
    read = ChainCRF.from_json(tmp_path / "model.json")
    for row, expected in zip(
        read.predict_proba(X), tagger.predict_proba(X), strict=True
    ):
        np.testing.assert_array_equal(row, expected)
    named = make_tagger(order=2, random_state=0).fit(
        [[{"a": 1.0}] * 4, [{"b": 1.0}] * 4],
        [["x", "y", "y", "x"], ["y", "x", "x", "y"]],
    )
    with pytest.raises(ValueError, match="use order=1"):
        named.to_crfsuite(tmp_path / "model")
