"""Each instruction set that the machine has gives what the plain loops give."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, FactorGraph, LPMAPPredictor
from sksstruct.estimators._train import prepare
from sksstruct.inference import forward_backward, viterbi
from sksstruct.solvers import BCFW, SDCA
from sksstruct.utils import _simd

# rows of four, of less and more than a vector, and of more than a block
N_LABELS = [3, 8, 13, 45]


@pytest.fixture(params=_simd.available())
def level(request):
    before = _simd.current()
    _simd.choose(request.param)
    yield request.param
    _simd.choose(before)


def potentials(n_labels, size=7):
    rng = np.random.default_rng(n_labels)
    return rng.normal(size=(size, n_labels)), rng.normal(size=(n_labels, n_labels))


@pytest.mark.parametrize("n_labels", N_LABELS)
def test_max_product(level, n_labels):
    unary, pairwise = potentials(n_labels)
    best = unary[0]
    for row in unary[1:]:
        best = row + (best[:, None] + pairwise).max(axis=0)
    labeling, score = viterbi(unary, pairwise)
    assert score == pytest.approx(best.max(), abs=1e-12)
    total = unary[np.arange(7), labeling].sum()
    total += pairwise[labeling[:-1], labeling[1:]].sum()
    assert total == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("n_labels", N_LABELS)
@pytest.mark.parametrize("scale", [1.0, 1000.0])  # sums of exponentials, logarithms
def test_sum_product(level, n_labels, scale):
    unary, pairwise = (scale * table for table in potentials(n_labels))
    forward = unary[0]
    for row in unary[1:]:
        forward = row + logsumexp(forward[:, None] + pairwise, axis=0)
    log_partition, nodes, _ = forward_backward(unary, pairwise)
    assert log_partition == pytest.approx(logsumexp(forward), rel=1e-12)
    last = np.exp(forward - logsumexp(forward))
    np.testing.assert_allclose(nodes[-1], last, atol=1e-9)


def data(dtype, n_labels, sparse):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 19)).astype(dtype) for _ in range(12)]
    if sparse:
        X = [csr_array(np.where(x > 0.5, x, dtype(0))) for x in X]
    return X, [rng.integers(n_labels, size=6) for _ in X]


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_labels", N_LABELS)
def test_features(level, n_labels, dtype, sparse):
    """Scores of features, steps back into weights and Gram matrices."""
    X, y = data(dtype, n_labels, sparse)
    model = ChainCRF(0.1, tol=1e-3, max_iter=1000, random_state=0).fit(X, y)
    smooth = ChainCRF(0.1, loss="log", tol=1e-8).fit(X, y)
    # the same weights, other kernels
    probabilities = smooth.predict_proba(X)
    predicted = model.predict(X)
    _simd.choose("baseline")
    for one, other in zip(probabilities, smooth.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    for one, other in zip(predicted, model.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    # rounding chooses among steps, and certificates hold for all of them
    plain = ChainCRF(0.1, tol=1e-3, max_iter=1000, random_state=0).fit(X, y)
    assert model.objective_ - plain.objective_ <= model.dual_gap_
    assert plain.objective_ - model.objective_ <= plain.dual_gap_
    plain = ChainCRF(0.1, loss="log", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(smooth.coef_, plain.coef_, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_labels", [*N_LABELS, 23])
def test_dense_rows_together(level, n_labels, dtype):
    """Several dense rows at once give what each row gives, read as a sparse one."""
    rng = np.random.default_rng(n_labels)
    # more features and positions than are taken at once, and rests of both
    lengths = [1, 2, 3, 5, 16, 17, 41]
    X = [rng.normal(size=(n, 67)).astype(dtype) for n in lengths]
    y = [rng.integers(n_labels, size=n) for n in lengths]
    y[-1][:n_labels] = np.arange(n_labels)[:41]
    for loss, solver in (
        ("hinge", BCFW.as_published(max_iter=4, tol=0.0)),
        ("log", SDCA(max_iter=3, tol=0.0)),
    ):
        tagger = ChainCRF(
            0.1, loss=loss, solver=solver, intercept_scaling=2.0, random_state=0
        )
        with pytest.warns(ConvergenceWarning):
            together = tagger.fit(X, y).coef_
        with pytest.warns(ConvergenceWarning):
            alone = clone(tagger).fit([csr_array(x) for x in X], y).coef_
        np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-11)


def test_dense_rows_make_visits_of_known_labelings_cost_as_much_as_the_oracle():
    def cost(X):
        return prepare(ChainCRF(0.1), X, [[0, 1, 2, 1]]).model.oracle_cost

    X = np.random.default_rng(0).normal(size=(4, 400))
    assert 1.0 < cost([X]) < 1.02
    assert cost([csr_array(X)]) == 2.0
    assert cost([X[:, :4]]) == 1.75
    assert cost([X[:, :1]]) == 2.0


@pytest.mark.parametrize("n_labels", N_LABELS)
def test_tables(level, n_labels):
    """Messages through users' tables, which are not padded."""
    unary, pairwise = potentials(n_labels, 5)
    graph = FactorGraph(list(unary), [(t, t + 1) for t in range(4)], [pairwise] * 4)
    labeling, _ = viterbi(unary, pairwise)
    found = LPMAPPredictor().predict([graph])[0]
    np.testing.assert_array_equal(found, labeling)


@pytest.mark.slow
def test_choice_by_environment():
    code = "from sksstruct.utils import _simd; print(_simd.current())"

    def run(name):
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SKSSTRUCT_SIMD": name},
            capture_output=True,
            text=True,
        )

    assert run("baseline").stdout.strip() == "baseline"
    refused = run("avx1024")
    assert refused.returncode
    assert "SKSSTRUCT_SIMD='avx1024'" in refused.stderr
    assert ", ".join(_simd.available()) in refused.stderr
