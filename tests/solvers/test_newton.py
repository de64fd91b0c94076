"""Newton's method for labels given the others."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.models.multilabel import conditional
from sksstruct.models.multilabel.conditional import ConditionalModel
from sksstruct.models.multilabel.curvature import LabelBlocks, LabelGroup, PairedLabels
from sksstruct.solvers import DCD, LBFGS, Newton

LOSSES = ["log", "squared_hinge"]


def data(n=70, n_labels=9, seed=0, is_sparse=False):
    """One label is on everywhere and one nowhere; a column has no entries."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 6)) * (rng.uniform(size=(n, 6)) < 0.7)
    X[:, 4] = 0.0
    Y = X @ rng.standard_normal((6, n_labels)) + rng.standard_normal(n_labels) > 0.5
    Y = Y.astype(np.int32)
    Y[:, 0], Y[:, -1] = 1, 0
    return sparse.csr_array(X) if is_sparse else X, Y


def bound(loss, *, is_sparse=False, free_bias=True, pairs=(), scaling=0.0):
    X, Y = data(is_sparse=is_sparse)
    rng = np.random.RandomState(1)
    ones = np.ones((len(Y), 1))
    X = (
        sparse.csr_array(sparse.hstack([X, ones]))
        if is_sparse
        else np.hstack([X, ones])
    )
    weight, costs = (
        rng.uniform(0.2, 1.0, len(Y)),
        rng.uniform(0.5, 2.0, (2, Y.shape[1])),
    )
    pairs = np.array(pairs, dtype=int).reshape(-1, 2)
    return ConditionalModel(
        X, Y, pairs, costs, weight / weight.sum(), scaling, loss, free_bias=free_bias
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("free_bias", [False, True])
def test_slopes_and_curvature(loss, is_sparse, free_bias):
    """Against differences of the objective that the model itself has."""
    alpha, model = 0.3, bound(loss, is_sparse=is_sparse, free_bias=free_bias)
    problem = LabelBlocks(model, alpha)
    # a free bias is one that some examples need to be positive, and some negative
    assert problem.free.sum() == (model.rows.n_labels - 2 if free_bias else 0)
    labels = np.array([1, 4, 0, 6])
    rng = np.random.RandomState(0)
    coef = rng.standard_normal((len(problem.used), len(labels)))
    group = LabelGroup(problem, labels, coef)

    def primal(x, j):
        others = coef.copy()
        others[:, j] = x
        return LabelGroup(problem, labels, others).primal[j]

    def slope(x, j):
        others = coef.copy()
        others[:, j] = x
        return LabelGroup(problem, labels, others).gradient[:, j]

    direction = rng.standard_normal(coef.shape)
    image, changes = group.product(direction, np.arange(4), group.curvature)
    np.testing.assert_allclose(changes, problem.X @ direction)
    for j in range(len(labels)):
        numeric = approx_fprime(coef[:, j], primal, 1e-7, j)
        np.testing.assert_allclose(group.gradient[:, j], numeric, atol=1e-5)
        step = 1e-7 * direction[:, j]
        change = (slope(coef[:, j] + step, j) - slope(coef[:, j] - step, j)) / 2e-7
        np.testing.assert_allclose(image[:, j], change, atol=1e-5)
    # all labels together have the objective of the model
    w = np.zeros(model.n_weights)
    everything = np.arange(model.rows.n_labels)
    coef = rng.standard_normal((len(problem.used), len(everything)))
    whole = LabelGroup(problem, everything, coef)
    problem.put(everything, whole, w)
    assert whole.primal.sum() == pytest.approx(model.loss(w) + model.penalty(w, alpha))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_slopes_and_curvature_with_pairs(loss, is_sparse):
    alpha = 0.3
    pairs = [[0, 1], [3, 1], [2, 6], [4, 5]]
    model = bound(loss, is_sparse=is_sparse, pairs=pairs, scaling=0.7)
    problem, rng = LabelBlocks(model, alpha), np.random.RandomState(0)
    w = np.zeros(model.n_weights)
    views = model.views(w)
    views["coef"][:, problem.used] = rng.standard_normal(
        (model.rows.n_labels, len(problem.used))
    )
    views["pair_coef"][:] = rng.standard_normal(len(pairs))
    group = problem.group(np.arange(1), w)
    # the loss of the model, which another program computes
    assert group.primal[0] == pytest.approx(model.loss(w) + model.penalty(w, alpha))
    x = group.weights[:, 0]
    numeric = approx_fprime(
        x, lambda x: PairedLabels(problem, x[:, None]).primal[0], 1e-7
    )
    np.testing.assert_allclose(group.gradient[:, 0], numeric, atol=1e-5)
    direction = rng.standard_normal((len(x), 1))
    image, changes = group.product(direction, np.arange(1), group.curvature)
    near = [
        PairedLabels(problem, group.weights + step * direction)
        for step in (1e-7, -1e-7)
    ]
    change = (near[0].gradient - near[1].gradient) / 2e-7
    np.testing.assert_allclose(image, change, atol=1e-5)
    change = (near[0].scores - near[1].scores) / 2e-7
    np.testing.assert_allclose(changes, change, atol=1e-6)
    # the weights come back as they were
    again = np.zeros_like(w)
    problem.put(np.arange(1), group, again)
    np.testing.assert_array_equal(again, w)


@pytest.mark.parametrize("loss", LOSSES)
def test_with_pairs_it_finds_what_others_find(loss):
    model = bound(loss, pairs=[[0, 1], [3, 1], [2, 6], [4, 5]], scaling=0.7)
    found = Newton(tol=1e-10).solve(model, 0.02)
    other = (LBFGS if loss == "log" else DCD)(10**5, tol=1e-10).solve(model, 0.02)
    assert found.status == other.status == "converged"
    assert found.objective == pytest.approx(other.objective, rel=1e-9)
    np.testing.assert_allclose(found.weights, other.weights, atol=1e-4)
    early = Newton(max_iter=2, tol=1e-10).solve(model, 0.02)
    assert early.objective - early.dual_gap <= other.objective < early.objective


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("free_bias", [False, True])
def test_bounds_are_below_the_optimum(loss, free_bias):
    alpha, model = 0.05, bound(loss, free_bias=free_bias)
    best = Newton(tol=1e-12).solve(model, alpha)
    problem = LabelBlocks(model, alpha)
    rng = np.random.RandomState(0)
    everything = np.arange(model.rows.n_labels)
    optimum = problem.group(everything, best.weights)
    assert best.dual_gap <= 1e-10
    near = []
    for scale in (0.0, 1e-3, 1e-2, 0.3, 3.0):
        noise = scale * rng.standard_normal(optimum.weights.shape)
        group = LabelGroup(problem, everything, optimum.weights + noise)
        assert (group.dual() <= optimum.primal + 1e-12).all()
        near.append((optimum.primal - group.dual()).max())
    # bounds that say something
    assert near[0] < 1e-8 < near[1] < 1e-2 < near[-1]


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_the_optimum_is_that_of_scikit_learn(is_sparse, fit_intercept):
    X, Y = data(is_sparse=is_sparse)
    peers = {
        "log": lambda C: LogisticRegression(
            C=C, tol=1e-12, max_iter=10**4, fit_intercept=fit_intercept
        ),
        "squared_hinge": lambda C: LinearSVC(
            C=C, tol=1e-12, max_iter=10**6, fit_intercept=fit_intercept, dual=False
        ),
    }
    for loss, peer in peers.items():
        classifier = MultilabelPairwise(
            0.02, loss=loss, interaction_scaling=0, solver=Newton(tol=1e-12),
            fit_intercept=fit_intercept, target="subset",
        ).fit(X, Y)  # fmt: skip
        assert classifier.dual_gap_ <= 1e-10
        for j in range(1, Y.shape[1] - 1):
            other = peer(1 / (0.02 * len(Y))).fit(X, Y[:, j])
            np.testing.assert_allclose(classifier.coef_[j], other.coef_[0], atol=1e-4)
            if fit_intercept:
                found = classifier.intercept_[j]
                assert found == pytest.approx(other.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_together_or_one_by_one(loss):
    """Labels do not know of each other, however many are seen at once."""
    model = bound(loss)
    fits = [
        Newton(tol=1e-10, n_together=n).solve(model, 0.01, n_jobs=n_jobs)
        for n, n_jobs in ((1, None), (4, None), (4, 2), (64, None))
    ]
    for each in fits:
        assert each.status == "converged"
        np.testing.assert_allclose(each.weights, fits[0].weights, atol=1e-4)
    # threads change nothing at all
    np.testing.assert_array_equal(fits[1].weights, fits[2].weights)
    assert fits[0].history["gap"][-1] <= 1e-10 * fits[0].objective
    assert (np.diff(fits[3].history["dual"]) >= 0.0).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_it_goes_on_from_earlier_weights(loss):
    model = bound(loss)
    cold = Newton(tol=1e-8).solve(model, 0.01)
    warm = Newton(tol=1e-8).solve(model, 0.01, dual_state=cold.dual_state)
    assert warm.n_iter == 0 < cold.n_iter
    np.testing.assert_allclose(warm.weights, cold.weights, atol=1e-6)
    early = Newton(max_iter=1, tol=1e-8).solve(model, 0.01)
    assert early.status == "max_iter"
    assert early.n_iter == 1
    # its certificate is valid, and more than the trivial one
    assert cold.objective <= early.objective
    assert 0.0 <= early.objective - early.dual_gap <= cold.objective


def test_problems_that_are_hard_for_newton():
    """Columns of very different size, and separable labels with hardly a penalty."""
    rng = np.random.RandomState(0)
    X = rng.standard_normal((60, 8)) * 10.0 ** np.arange(-4, 4)
    Y = (X[:, 2:5] / X[:, 2:5].std(axis=0) > 0.3).astype(int)
    for loss in LOSSES:
        classifier = MultilabelPairwise(
            1e-7, loss=loss, interaction_scaling=0, solver="newton", tol=1e-4,
            target="subset",
        ).fit(X, Y)  # fmt: skip
        assert classifier.dual_gap_ <= 1e-4 * classifier.objective_
        assert classifier.score(X, Y) == 1.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_columns_of_very_different_size(loss, scaling):
    """Conjugate gradients in weights that are scaled."""
    rng = np.random.RandomState(0)
    Z = rng.standard_normal((300, 20))
    Y = (Z @ rng.standard_normal((20, 4)) + rng.standard_normal((300, 4)) > 2.0) * 1
    fitted = MultilabelPairwise(
        1e-4, loss=loss, interaction_scaling=scaling, solver="newton", target="hamming"
    ).fit(Z * 10.0 ** np.linspace(-4, 4, 20), Y)
    assert fitted.dual_gap_ <= 5e-4 * fitted.objective_
    assert fitted.n_iter_ < 40
    model = bound(loss, pairs=[[0, 1], [3, 2]] if scaling else (), scaling=scaling)
    problem = LabelBlocks(model, 1e-9)
    rng_w = rng.standard_normal(model.n_weights)
    group = problem.group(np.arange(1 if scaling else 3), rng_w)
    assert group.diagonal().size == 1
    # whether it is divided out or not, it is the diagonal of the Hessian
    problem.squares = np.asarray(model.features)[:, problem.used].T ** 2
    diagonal = group.diagonal()
    for place in range(len(diagonal)):
        direction = np.zeros_like(diagonal)
        direction[place] = 1.0
        image = group.product(direction, np.arange(diagonal.shape[1]), group.curvature)[
            0
        ]
        np.testing.assert_allclose(image[place], diagonal[place], atol=1e-8)


@pytest.mark.parametrize("where", ["step", "put"])
def test_an_interrupt_leaves_the_weights_so_far(monkeypatch, where):
    """Before a group moves, or when its weights are written and nothing else."""
    model, calls = bound("log"), []
    owner = LabelGroup if where == "step" else LabelBlocks
    real = getattr(owner, where)

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 5 and where == "step":
            raise KeyboardInterrupt
        done = real(self, *arguments)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(owner, where, interrupted)
    found = Newton(tol=1e-10, n_together=3).solve(model, 0.01)
    assert found.status == "interrupted"
    # three groups in the first pass, and the second one of the second pass
    assert found.n_iter == 1
    loss, penalty = model.loss(found.weights), model.penalty(found.weights, 0.01)
    assert found.objective == pytest.approx(loss + penalty)
    assert 0.0 < found.dual_gap < np.inf


def test_much_memory_is_avoided(monkeypatch):
    """Scores of all labels at once, and dual variables of all labels."""
    X, Y = data(is_sparse=True)
    monkeypatch.setattr(conditional, "FEW_SCORES", Y.size - 1)
    options = {"interaction_scaling": 0.5, "target": "subset"}
    paired = MultilabelPairwise(0.1, loss="log", **options).fit(X, Y)
    assert type(paired.solver_).__name__ == "LBFGS"
    monkeypatch.setattr(conditional, "MANY_DUALS", Y.size - 1)
    options["interaction_scaling"] = 0
    many = MultilabelPairwise(0.1, **options).fit(X, Y)
    assert type(many.solver_).__name__ == "Newton"


def test_where_it_is_chosen():
    X, Y = data()
    sparse_X = sparse.csr_array(X)
    assert sparse_X.nnz < 0.6 * X.size
    for given, loss, scaling, name in (
        (X, "log", 0, "Newton"),
        (X, "log", 0.5, "Newton"),
        (sparse_X, "log", 0, "Newton"),
        (X, "squared_hinge", 0, "Newton"),
        (sparse_X, "squared_hinge", 0, "DCD"),
        # a sparse matrix without zeros is dense
        (sparse.csr_array(X + 0.1), "squared_hinge", 0, "Newton"),
        (X, "squared_hinge", 0.5, "DCD"),
        (X, "hinge", 0, "DCD"),
    ):
        classifier = MultilabelPairwise(
            0.1, loss=loss, interaction_scaling=scaling, target="subset"
        ).fit(given, Y)
        assert type(classifier.solver_).__name__ == name
    with pytest.raises(ValueError, match="Newton needs the oracle curvature"):
        MultilabelPairwise(0.1, loss="hinge", solver="newton").fit(X, Y)
    # without regularization there is no dual
    with pytest.raises(ValueError, match="Newton needs alpha > 0"):
        MultilabelPairwise(0.0, solver="newton", interaction_scaling=0).fit(X, Y)


def test_labels_that_have_converged_are_left_out(monkeypatch):
    """They take no part in the steps of the others."""
    visited, group = [], LabelBlocks.group

    def noted(self, blocks, w):
        visited.append(list(blocks))
        return group(self, blocks, w)

    monkeypatch.setattr(LabelBlocks, "group", noted)
    model = bound("squared_hinge")
    Newton(tol=1e-6).solve(model, 0.1)
    sizes = list(map(len, visited))
    assert sizes[0] == sizes[1] == model.rows.n_labels
    assert 0 < sizes[-2] < sizes[0] and sizes[1:-1] == sorted(sizes[1:-1])[::-1]
