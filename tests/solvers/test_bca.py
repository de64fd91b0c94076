"""Block-coordinate ascent over label sets: optimum, certificate, first pairs."""

import numpy as np
import pytest

from sksstruct.estimators._train import prepare
from sksstruct.models.roles import factor_model
from sksstruct.solvers import BCA, GDMM
from sksstruct.solvers.dual_decomposition.label_ascent import LabelAscent
from tests.solvers.test_gdmm import label_sets, structured, written_out


def classifier(alpha=0.05, **parameters):
    parameters = {"solver": BCA(2000, 1e-6), "random_state": 0, **parameters}
    return structured(alpha, inference="lp", **parameters)


def crowd(seed=0, n=40, n_labels=8):
    """Labels that come in groups, and some that exclude each other."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n, 4))
    base = X @ rng.standard_normal((4, 3)) + 0.7 * rng.standard_normal((n, 3))
    Y = (base[:, rng.randint(3, size=n_labels)] > 0.3).astype(int)
    Y[rng.uniform(size=Y.shape) < 0.1] = 1
    Y[Y[:, 0] == 1, 1] = 0
    return X, Y


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.003, 0.05, 1.0])
@pytest.mark.parametrize(("make", "scaling"), [(label_sets, 3.0), (crowd, 1.0)])
def test_the_optimum_with_a_certificate(alpha, make, scaling):
    X, Y = make(n=20)
    # weights that all samples share converge slowly where alpha is small; the last
    # digits take 600 or 9,000 passes, as rounding has it
    tol = {0.003: 2e-3, 0.05: 1e-5, 1.0: 1e-6}[alpha]
    fitted = classifier(alpha, interaction_scaling=scaling, solver=BCA(2000, tol)).fit(
        X, Y
    )
    assert fitted.dual_gap_ <= tol * Y.shape[1]
    written = written_out(fitted, X, Y, scaling)
    assert fitted.objective_ == pytest.approx(written, rel=1e-9)
    other = classifier(
        alpha, interaction_scaling=scaling, solver=GDMM(5000, 1e-4), random_state=1
    ).fit(X, Y)
    # either is above the lower bound of the other
    assert fitted.objective_ <= other.objective_ + fitted.dual_gap_
    assert other.objective_ - other.dual_gap_ <= fitted.objective_


@pytest.mark.parametrize("passes_alone", [0, 3])
def test_the_dual_never_falls(passes_alone):
    X, Y = crowd()
    alpha = 0.01
    model = prepare(classifier(), X, Y).model
    factors = factor_model(model)
    factors.start()
    state = LabelAscent(factors, alpha)
    order = np.arange(len(Y))
    for _ in range(passes_alone):
        state.visit_alone(order)
    if passes_alone:
        state.begin_pairs()

    def dual():
        weights = factors.weights()
        return state.expected_loss() - alpha / 2 * weights @ weights

    values, hinge = [dual()], np.empty(len(Y))
    for _ in range(15):
        for i in order:
            # the gap at the present weights is that of the objective and the dual
            state.gap = 0.0
            state.visit(order[i : i + 1])
            values.append(dual())
            assert state.gap >= -1e-12
        state.load()
    assert np.diff(values).min() >= -1e-12
    assert values[-1] > values[0] + 0.1
    state.hinge(0, len(Y), hinge)
    weights = factors.weights()
    primal = factors.example_weights @ hinge + alpha / 2 * weights @ weights
    assert values[-1] <= primal
    # gaps of the examples, at weights that nothing changes, sum to the gap
    state.gap, state.ignore = 0.0, np.inf
    state.visit(order)
    assert state.gap == pytest.approx(primal - values[-1], rel=1e-9)


def test_weights_belong_to_the_dual():
    """The weights kept up to date are those of the q and s, from the beginning."""
    X, Y = crowd()
    alpha = 0.01
    model = prepare(classifier(fit_intercept=False), X, Y).model
    factors = factor_model(model)
    factors.start()
    state = LabelAscent(factors, alpha)
    order = np.arange(len(Y))
    state.visit_alone(order)
    state.begin_pairs()
    for _ in range(3):
        state.visit(order)
        q, s = state.probabilities(), state.pair_probabilities()
        first, second = factors.pairs.T
        assert (s <= np.minimum(q[:, first], q[:, second]) + 1e-9).all()
        assert (s >= np.maximum(0, q[:, first] + q[:, second] - 1) - 1e-9).all()
        views = factors.views(factors.weights())
        C = factors.example_weights / alpha
        np.testing.assert_allclose(
            views["coef"], (C[:, None] * (Y - q)).T @ X, atol=1e-8
        )
        both = Y[:, first] * Y[:, second]
        np.testing.assert_allclose(views["pair_coef"], C @ (both - s), atol=1e-8)


def test_without_features_pairs_or_weight():
    # labels without features go all the way; samples without weight stay out of it
    X, Y = np.zeros((6, 2)), np.array([[1, 0, 1]] * 5 + [[0, 1, 1]])
    fitted = classifier(fit_intercept=False).fit(X, Y)
    assert fitted.dual_gap_ <= 1e-5
    X, Y = label_sets()
    alone = classifier(pairs=np.empty((0, 2), dtype=int)).fit(X, Y)
    assert alone.dual_gap_ <= 3e-6
    weight = np.arange(len(Y)) % 2
    some = classifier().fit(X, Y, sample_weight=weight)
    kept = classifier().fit(X[weight > 0], Y[weight > 0])
    np.testing.assert_allclose(some.coef_, kept.coef_, atol=1e-12)


@pytest.mark.slow
def test_threads_and_the_first_report():
    X, Y = crowd(n=200)
    one, two = (classifier(n_jobs=k, max_iter=1000).fit(X, Y) for k in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    first = one.history_["primal"][1]
    # the first report is a model without pairs
    assert one.history_["dual"][1] == 0.0
    assert one.objective_ < first < one.history_["primal"][0]


def test_interrupted_at_once_it_is_a_model():
    X, Y = crowd(n=200)
    every = []

    def interrupt(*_):
        every.append(1)
        if len(every) == 3:
            raise KeyboardInterrupt

    model = prepare(classifier(), X, Y).model
    result = BCA(tol=0.0).solve(model, 0.05, random_state=0, callback=interrupt)
    assert result.status == "interrupted"
    assert result.n_iter == 3
    assert result.objective - result.dual_gap <= result.objective < Y.shape[1]


def test_it_is_for_label_sets_only():
    X, Y = label_sets()
    fitted = structured(0.05, inference="lp", random_state=0).fit(X, Y)
    assert isinstance(fitted.solver_, BCA)
    with pytest.raises(ValueError, match="label_sets"):
        structured(0.05, loss="hinge", solver="bca").fit(X, Y)
