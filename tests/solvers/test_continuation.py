"""Smoothing with continuation: certificate, choice by "auto", and the dual bundle."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, SegmentCRF, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.models import GraphModel, MulticlassModel
from sksstruct.solvers import BCFW, Continuation
from sksstruct.solvers.bundle.dual_bundle import DualBundle


def long_series(n=3, size=200, n_labels=3, random_state=0):
    """Series with runs of ten equal labels, and overlapping measurements."""
    rng = np.random.default_rng(random_state)
    y = [np.repeat(rng.integers(n_labels, size=size // 10), 10) for _ in range(n)]
    centers = rng.normal(size=(n_labels, 4))
    return [centers[each] + rng.normal(size=(size, 4)) for each in y], y


def paths(X, y):
    edges = [np.c_[np.arange(len(x) - 1), np.arange(1, len(x))] for x in X]
    return SSVMClassifier(model=GraphModel()), list(zip(X, edges, strict=True)), y


def rare_words():
    rng = np.random.default_rng(1)
    y = [rng.integers(4, size=60) for _ in range(4)]
    words = [5 * each + rng.integers(8, size=60) for each in y]
    X = [sparse.csr_array(np.eye(30)[each]) for each in words]
    return ChainCRF(), X, y


def classes():
    rng = np.random.default_rng(2)
    y = rng.integers(3, size=40)
    X = rng.normal(size=(3, 5))[y] + rng.normal(size=(40, 5))
    return SSVMClassifier(model=MulticlassModel()), X, y


PROBLEMS = {
    "chain": lambda: (ChainCRF(), *long_series(size=60)),
    "one series": lambda: (ChainCRF(), *long_series(n=1, size=80)),
    "second order": lambda: (ChainCRF(order=2), *long_series(size=50)),
    "rare words": rare_words,
    "paths": lambda: paths(*long_series(size=60)),
    "segments": lambda: (SegmentCRF(max_length=60), *long_series(size=60)),
    "classes": classes,
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_optimum(problem):
    """Every certificate is true, and the last one is as small as asked for."""
    estimator, X, y = PROBLEMS[problem]()
    estimator.set_params(alpha=0.1, solver=Continuation(tol=1e-3))
    estimator.fit(X, y)
    assert estimator.dual_gap_ <= 1e-3
    assert type(estimator.dual_gap_) is float
    reference = estimator.set_params(solver=BCFW(tol=1e-4, max_iter=20000)).fit
    history, objective = estimator.history_, estimator.objective_
    best = reference(X, y)
    low, high = best.objective_ - best.dual_gap_, best.objective_
    assert np.max(history["dual"]) <= high + 1e-9
    # the observed labelings are dual variables, whose value is zero
    assert np.min(history["dual"]) >= 0.0
    assert np.min(history["primal"]) >= low - 1e-9
    assert objective <= high + 1e-3


def test_the_gap_can_be_tiny():
    X, y = long_series(n=2, size=100)
    tagger = ChainCRF(alpha=1.0, solver=Continuation(tol=1e-6, max_iter=3000))
    tagger.fit(X, y)
    assert tagger.dual_gap_ <= 1e-6


@pytest.mark.parametrize(
    ("n", "size", "name"),
    [(1, 200, "Continuation"), (3, 200, "Continuation"), (60, 10, "BCFW")],
)
def test_choice(n, size, name):
    X, y = long_series(n, size)
    tagger = ChainCRF(random_state=0).fit(X, y)
    assert type(tagger.solver_).__name__ == name


def test_few_texts_with_many_weights_are_no_reason():
    rng = np.random.default_rng(0)
    X = [sparse.random_array((40, 3000), density=0.01, rng=rng) for _ in range(2)]
    y = [rng.integers(3, size=40) for _ in X]
    tagger = ChainCRF(random_state=0).fit([x.tocsr() for x in X], y)
    assert isinstance(tagger.solver_, BCFW)


def test_missing_labels():
    X, y = long_series()
    partial = [each.astype(object) for each in y]
    partial[0][5:9] = None
    scores = [
        ChainCRF(random_state=0).fit(X, each).score(X, y) for each in (y, partial)
    ]
    assert scores[1] > scores[0] - 0.02


def test_warm_start():
    X, y = long_series()
    tagger = ChainCRF(alpha=0.1, solver="continuation", warm_start=True).fit(X, y)
    iterations = tagger.n_iter_
    tagger.fit(X, y)
    assert tagger.dual_gap_ <= 3e-3
    assert tagger.n_iter_ < iterations


def test_jobs_change_no_bit():
    data = make_chain(200, n_classes=3, random_state=0)
    fits = [
        ChainCRF(alpha=0.1, solver="continuation", n_jobs=n).fit(data.X, data.y)
        for n in (1, 3)
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)


def test_bundle():
    """No combination is above the truth, and the best one is found."""
    rng = np.random.default_rng(0)
    points, alpha = rng.normal(size=(6, 50)), 0.3
    losses, entropies = rng.uniform(size=(2, 6))
    bundle = DualBundle(6, 50, alpha)
    for gradient, loss, entropy in zip(points, losses, entropies, strict=True):
        bundle.add(gradient, loss, entropy)
    for mu in (0.0, 0.7):
        linear = losses + mu * entropies

        def value(shares, linear=linear):
            combined = shares @ points
            return shares @ linear - combined @ combined / (2 * alpha)

        found = bundle.bound(mu)
        best = max(value(each) for each in rng.dirichlet(np.ones(6), size=20000))
        assert found > best - 1e-6
        assert found <= value(bundle._shares) + 1e-12


def test_a_full_bundle_drops_what_counts_least():
    rng = np.random.default_rng(0)
    good = rng.normal(size=(2, 8))
    bundle = DualBundle(3, 8, 1.0)
    for gradient in (*good, 100.0 * good[0]):
        bundle.add(gradient, 1.0, 0.0)
    before = bundle.bound(0.0)
    # in place of the long one, and of itself then
    for scale in (50.0, 70.0, 90.0):
        bundle.add(scale * good[1], 1.0, 0.0)
        assert bundle.bound(0.0) == pytest.approx(before, rel=1e-12)


def test_rounded_gradients_give_no_higher_bound():
    """The bound is below that of the gradients in double precision."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        gradient = 1.0 + 1e-8 * rng.uniform(size=30)
        bundle = DualBundle(2, 30, 1e-3)
        bundle.add(gradient, 2e4, 0.0)
        assert bundle.bound(0.0) <= 2e4 - gradient @ gradient / 2e-3
