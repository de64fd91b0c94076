"""Sparse and dense features in one row: the same taggers as from one CSR matrix."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

from sksstruct import ChainCRF, SegmentCRF, SSVMPathCV
from sksstruct.models import ELUScore
from sksstruct.models.chain import chain as chain_module
from sksstruct.solvers import BCFW, SGD, Partitioned
from sksstruct.utils.packed import PackedSequences

DENSE = [3, 4, 5]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(n=14, longest=7, n_labels=4, seed=0, dtype=np.float32):
    """Rows in both forms: three sparse columns, three dense ones, four sparse ones."""
    rng = np.random.RandomState(seed)
    offsets = np.cumsum([0, *rng.randint(1, longest, n)])
    words = rng.standard_normal((offsets[-1], 7))
    words *= rng.random_sample(words.shape) < 0.3
    vectors = rng.standard_normal((offsets[-1], 3)).astype(dtype)
    parts = [sparse.csr_array(words[:, :3]), vectors, sparse.csr_array(words[:, 3:])]
    mixed = PackedSequences.hstack([PackedSequences(part, offsets) for part in parts])
    assert mixed.is_mixed and mixed.values.columns.tolist() == DENSE
    assert not np.isin(mixed.values.sparse.indices, DENSE).any()
    flat = rng.randint(n_labels, size=offsets[-1])
    y = [flat[a:b].tolist() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
    return mixed, PackedSequences(sparse.hstack(parts, format="csr"), offsets), y


def fits(tagger, mixed, csr, y):
    fitted = []
    for X in (mixed, csr):
        tagger = type(tagger)(**tagger.get_params(deep=False))
        fitted.append(tagger.fit(X, y))
    return fitted


# After a pass from equal scores, rounding decides where block-coordinate Frank-Wolfe
# goes on: its taggers are compared after one pass, and at the optimum.
TAGGERS = {
    "hinge": ChainCRF(max_iter=1),
    "no average": ChainCRF(solver=BCFW(averaging=False, max_iter=1)),
    "weights": ChainCRF(max_iter=1, intercept_scaling=0.3, alpha=0.1),
    "log": ChainCRF(loss="log", max_iter=5),
    "lbfgs": ChainCRF(loss="log", solver="lbfgs", max_iter=5),
    "l1": ChainCRF(loss="log", l1_ratio=0.5, alpha=0.01, max_iter=5),
    "sgd": ChainCRF(loss="log", solver=SGD(max_iter=3)),
    "svrg": ChainCRF(loss="log", solver="svrg", max_iter=3),
    "gdmm": ChainCRF(solver="gdmm", max_iter=3),
    "pragam": ChainCRF(solver="pragam", max_iter=5, alpha=0.1),
    "ssg": ChainCRF(solver="ssg", max_iter=3),
    "parts": ChainCRF(solver=Partitioned(blocks=2, max_iter=1)),
    "pairs": ChainCRF(transition_features=[1, 4, 6], max_iter=1),
    "pairs, log": ChainCRF(transition_features=[4, 6], loss="log", max_iter=4),
    "seen": ChainCRF(all_possible_states=False, loss="log", max_iter=4),
    "network": ChainCRF(score_function=ELUScore(3), max_iter=2),
    "stopped": ChainCRF(loss="log", early_stopping=True, max_iter=4),
}


@pytest.mark.parametrize("name", TAGGERS)
@pytest.mark.parametrize("longest", [7, 60])
def test_fits_are_the_same(name, longest):
    # long sequences have no Gram matrix
    mixed, csr, y = problem(longest=longest, dtype=np.float64 if longest == 7 else "f")
    tagger = TAGGERS[name].set_params(random_state=0)
    one, other = fits(tagger, mixed, csr, y)
    assert one.alpha_ == pytest.approx(other.alpha_, rel=1e-9)
    for attribute in ("coef_", "transitions_", "intercept_", "transition_coef_"):
        found, expected = (getattr(each, attribute, None) for each in (one, other))
        if sparse.issparse(expected):
            found, expected = found.toarray(), expected.toarray()
        if expected is not None:
            # directions of L-BFGS are in single precision
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert one.score(mixed, y) == one.score(csr, y)
    scores = one.decision_function(csr)
    np.testing.assert_allclose(one.decision_function(mixed), scores, rtol=1e-9)


@pytest.mark.parametrize("many_labels", [False, True])
@pytest.mark.parametrize("longest", [7, 30])
def test_the_optimum_is_the_same(many_labels, longest, monkeypatch):
    monkeypatch.setattr(chain_module, "sparse_pays", lambda *numbers: many_labels)
    mixed, csr, y = problem(longest=longest)
    tagger = ChainCRF(alpha=1.0, tol=1e-3, max_iter=3000, random_state=0)
    one, other = fits(tagger, mixed, csr, y)
    assert sparse.issparse(one.transitions_) == many_labels
    assert one.objective_ == pytest.approx(other.objective_, rel=1.5e-3)
    scores = [one.decision_function(X) for X in (mixed, csr)]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_predictions():
    mixed, csr, y = problem()
    tagger = ChainCRF(loss="log", random_state=0).fit(csr, y)
    for one, other in zip(
        tagger.predict_proba(mixed), tagger.predict_proba(csr), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)
    topk = [tagger.predict_topk(X, 3)[1] for X in (mixed, csr)]
    np.testing.assert_allclose(*map(np.concatenate, topk))
    expected = tagger.decision_function(csr)
    for change in (tagger.sparsify, tagger.densify, lambda: tagger.cast("float32")):
        change()
        found = tagger.decision_function(mixed)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    # one sequence, and a model of one sequence after the other
    alone = tagger.decision_function(mixed[3:4])
    np.testing.assert_allclose(alone, expected[3:4], rtol=1e-5)
    again = pickle.loads(pickle.dumps(mixed))
    np.testing.assert_array_equal(again.values.dense, mixed.values.dense)
    assert again.is_mixed and repr(again) == repr(mixed)


@pytest.mark.slow
def test_other_estimators():
    mixed, csr, y = problem()
    tags = [["BIO"[k % 3] + ("-x" if k % 3 < 2 else "") for k in row] for row in y]
    # plain steps: others are chosen among labelings that tie but for rounding, and
    # dense columns are scaled in single precision
    solver = BCFW.as_published(max_iter=4)
    segments = SegmentCRF(solver=solver, random_state=0)
    one, other = fits(segments, mixed, csr, tags)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
    assert [*map(list, one.predict(mixed))] == [*map(list, one.predict(csr))]
    streams = [ChainCRF(random_state=0) for _ in range(2)]
    for stream, X in zip(streams, (mixed, csr), strict=True):
        for part in (slice(0, 6), slice(6, 14)):
            stream.partial_fit(X[part], y[part], classes=range(4))
    np.testing.assert_allclose(*(each.coef_ for each in streams), atol=1e-8)
    scores = [cross_val_score(ChainCRF(random_state=0), X, y) for X in (mixed, csr)]
    np.testing.assert_allclose(*scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        paths = [
            SSVMPathCV(ChainCRF(random_state=0, max_iter=20), cv=3).fit(X, y)
            for X in (mixed, csr)
        ]
    assert paths[0].alpha_ == pytest.approx(paths[1].alpha_, rel=1e-3)


def test_what_is_wrong_is_named():
    mixed, _, y = problem()
    bad = PackedSequences(mixed.values, mixed.offsets)
    bad.values.dense[mixed.offsets[3], 0] = np.nan
    with pytest.raises(ValueError, match=r"X\[3\] contains NaN .* position 0"):
        ChainCRF().fit(bad, y)
    state = mixed.__getstate__()
    for change, message in (
        ({"columns": np.array([3, 5, 4])}, "must ascend"),
        ({"columns": np.array([3, 4, 10])}, "among 10 features"),
        ({"columns": np.array([-1, 4, 5])}, "among 10 features"),
        ({"columns": np.array([3, 4])}, r"has shape \(\d+, 3\), expected \(\d+, 2\)"),
        ({"dense": state["dense"][1:]}, "has shape"),
        ({"columns": np.array([0, 4, 5])}, "entries in dense columns"),
    ):
        with pytest.raises(ValueError, match=message):
            PackedSequences([[0.0]], [0, 1]).__setstate__({**state, **change})


def test_forms_of_parts():
    offsets = [0, 2, 3]
    words = PackedSequences(sparse.csr_array(np.eye(3)), offsets)
    vectors = PackedSequences(np.arange(1.0, 7.0, dtype="f").reshape(3, 2), offsets)
    zeros = PackedSequences(np.eye(3)[:, :1] * 0.0, offsets)
    rows = PackedSequences.hstack([words, vectors])
    # nothing is copied
    assert np.shares_memory(rows.values.dense, vectors.values)
    assert np.shares_memory(rows.values.sparse.data, words.values.data)
    # what is mostly zero is sparse
    assert PackedSequences.hstack([words, zeros]).is_sparse
    assert PackedSequences.hstack([vectors, vectors]).values.shape == (3, 4)
    twice = PackedSequences.hstack([vectors, zeros, rows, rows])
    expected = [*vectors.values.T, np.zeros(3), *np.tile(rows.values.toarray(), 2).T]
    np.testing.assert_array_equal(twice.values.toarray().T, expected)
    assert twice.values.columns.tolist() == [0, 1, 6, 7, 11, 12]
    assert repr(twice).endswith("13 features, CSR float64 + 6 dense float32)")
    np.testing.assert_array_equal(twice[1].toarray(), twice.values.toarray()[2:])
    for some in (slice(None, None, 2), slice(2, None, -1), [2, 0], slice(1, 3)):
        part = twice.values[some]
        assert part.shape == part.toarray().shape
        np.testing.assert_array_equal(part.toarray(), twice.values.toarray()[some])
    found = twice.take([1, 0]).values.toarray()
    np.testing.assert_array_equal(found, twice.values.toarray()[[2, 0, 1]])
